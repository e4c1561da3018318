# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Loading all filters, as each process of a task does that uses one of them, loads next to nothing of the core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins import filter as filters

FOLDER = Path(next(iter(filters.__path__)))
LOAD = """
import importlib, json, sys
package = "ansible_collections.gpufleet.sglang.plugins"
loaded = [importlib.import_module(f"{package}.filter.{module}") for module in sys.argv[1:]]
core = f"{package}.module_utils."
made = [name for one in loaded for name in one.FilterModule().filters()]
print(json.dumps([made, sorted(name.removeprefix(core) for name in sys.modules if core in name)]))
"""
# Small, and itself without the rest.
LIGHT = {"problems", "plain", "printable", "readable"}


def test_no_filter_loads_the_core_before_it_is_used() -> None:
    modules = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *modules],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made, core = json.loads(done.stdout)
    assert sorted(made) == modules
    assert len(modules) > 20
    assert set(core) <= LIGHT
