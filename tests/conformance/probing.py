# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Surveys of machines that a test has described, through the real nvidia-ml-py and the NVML stand-in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.conformance import probe_machines


def surveys_of(base: Path) -> dict[str, dict[str, Any]]:
    """The survey of each folder below C(base)/machines by the folder's name, in the order of the names."""
    compiler = machine_tree.compiler()
    assert compiler is not None, "No C compiler to build the NVML stand-in: install gcc and libc6-dev."
    machine_tree.build_library(base, compiler)
    done = subprocess.run(
        [sys.executable, "-m", probe_machines.__name__, str(base / machine_tree.LIBRARY), str(base / "machines")],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GPUFLEET_NVML_MACHINE": str(base / "machine.nvml"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["machine"]: line["survey"] for line in lines}
