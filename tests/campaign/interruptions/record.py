# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes tasks.txt anew, by a provision that nothing interrupts, after roles have changed.

    PYTHONPATH=.build/collections .build/venv/bin/python \\
      -m ansible_collections.gpufleet.sglang.tests.campaign.interruptions.record
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ansible_collections.gpufleet.sglang.tests.campaign.interruptions import chain
from ansible_collections.gpufleet.sglang.tests.campaign.interruptions.points import PARTS, TASKS


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        key_file = Path(folder) / "key.json"
        key_file.touch(mode=0o600)
        key_file.write_text(json.dumps({"sglang_api_key": "recorded-0123456789"}), encoding="utf-8")
        chain.boot()
        run = chain.Provision(key_file, PARTS)
        outcome = run.finish()
    if outcome.status:
        raise SystemExit(outcome.output)
    TASKS.write_text("".join(f"{task}\n" for task in run.tasks()), encoding="utf-8")
    chain.remove()


if __name__ == "__main__":
    main()
