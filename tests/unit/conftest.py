# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(name="once", scope="session")
def _once(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Once:
    """Has a folder of this name filled by a function, once in a run of pytest.

    ansible-test runs each test in a process forked for it, several at a time: whatever fixtures of a wider scope make
    is gone with the process, and made anew for each test. Only files outlive it.
    """
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        # The folder of a worker of pytest-xdist is below that of the run.
        folder = folder.parent

    def once(name: str, fill: Callable[[Path], object]) -> Path:
        made = folder / f"once-{name}"
        with (folder / f"once-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            whole = made / ".whole"
            if not whole.exists():
                made.mkdir(exist_ok=True)
                fill(made)
                whole.touch()
        return made

    return once
