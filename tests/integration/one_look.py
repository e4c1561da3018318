# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at this machine itself, as C(startup_status_info) would take it: one_look.py OPTIONS_AS_JSON."""

from __future__ import annotations

import json
import subprocess
import sys

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.look import look
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import http_status
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Child

DEFAULTS = {"sglang_version": "0.5.23", "wait_seconds": 0, "max_lines": 20}


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


if __name__ == "__main__":
    print(json.dumps(look(Node(run, Child, http_status), {**DEFAULTS, **json.loads(sys.argv[1])})))
