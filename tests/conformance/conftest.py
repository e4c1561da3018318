# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.conformance.recordings import tar_named, unpack


@pytest.fixture(scope="session", name="recorded")
def _recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a recording by the beginning of its name, unpacked once for all tests; none may write to it."""
    roots: dict[str, Path] = {}

    def recorded(name: str) -> Path:
        archive = tar_named(name)
        if archive.name not in roots:
            roots[archive.name] = unpack(archive, tmp_path_factory.mktemp("recording"))
        return roots[archive.name]

    return recorded
