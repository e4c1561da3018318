# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.conftest import Once


@pytest.fixture(name="compiler", scope="session")
def _compiler() -> str:
    """What the NVML stand-in is built with; nvidia-ml-py, which speaks to it, has to be there as well."""
    if importlib.util.find_spec("pynvml") is None:
        pytest.fail("nvidia-ml-py is not installed: install tests/unit/requirements.txt (make setup does).")
    found = machine_tree.compiler()
    if found is None:
        pytest.fail("No C compiler to build the NVML stand-in: install gcc and libc6-dev (make setup does).")
    return found


@pytest.fixture(name="library", scope="session")
def _library(once: Once, compiler: str) -> Path:
    """The stand-in, compiled once; which machine it speaks of is told through the environment."""
    return once("standin", lambda folder: machine_tree.build_library(folder, compiler)) / machine_tree.LIBRARY
