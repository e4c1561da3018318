# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""play SCENARIO.json: plays one start. See README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import ScenarioError, scenario_from
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.server import Server


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        scenario = scenario_from(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except ScenarioError as error:
        print(f"{sys.argv[1]}: {error}.", file=sys.stderr)
        return 2
    Server(scenario).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
