# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role's own pruning of a folder of pages, run as the unit runs it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "sglang" / "files" / "prune_storage.py"


@pytest.fixture(name="prune", scope="module")
def _prune() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prune_storage", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(folder: Path, name: str, written: float, size: int = 1000) -> None:
    (folder / name).write_bytes(b"x" * size)
    os.utime(folder / name, (written, written))


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def run(prune: ModuleType, folder: Path, max_bytes: int, min_free_bytes: int = 0) -> None:
    assert prune.main([f"--folder={folder}", f"--max-bytes={max_bytes}", f"--min-free-bytes={min_free_bytes}"]) == 0


def test_the_oldest_go_until_nine_tenths_of_the_cap(
    prune: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(12):
        page(tmp_path, f"{number}.bin", written=1000 + number)
    run(prune, tmp_path, max_bytes=10_000)
    assert names(tmp_path) == {f"{number}.bin" for number in range(3, 12)}
    assert "removed 3 of 12 pages (3000 of 12000 B)" in capsys.readouterr().out


def test_below_the_cap_nothing_goes_and_nothing_is_said(
    prune: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(10):
        page(tmp_path, f"{number}.bin", written=1000 + number)
    run(prune, tmp_path, max_bytes=10_000)
    assert len(names(tmp_path)) == 10
    assert capsys.readouterr().out == ""


def test_a_floor_that_the_file_system_is_below_takes_pages(prune: ModuleType) -> None:
    pages = [prune.Page(float(number), f"{number}.bin", 1000, 4096) for number in range(10)]
    gone = prune.too_many(pages, max_bytes=1_000_000, min_free_bytes=10_000, free_bytes=2_000)
    assert [one.name for one in gone] == ["0.bin", "1.bin"]
    assert prune.too_many(pages, max_bytes=1_000_000, min_free_bytes=2_000, free_bytes=2_000) == []
    # Others fill it: all that the role may remove is removed, and no more.
    assert len(prune.too_many(pages, max_bytes=1_000_000, min_free_bytes=10**12, free_bytes=0)) == 10


def test_only_pages_and_halves_that_nobody_writes_are_removed(prune: ModuleType, tmp_path: Path) -> None:
    page(tmp_path, "old.tmp", written=1000)
    (tmp_path / "new.tmp").write_bytes(b"x")
    page(tmp_path, "other.txt", written=1000, size=50_000)
    page(tmp_path, "kept.bin", written=2000)
    run(prune, tmp_path, max_bytes=1000)
    assert names(tmp_path) == {"new.tmp", "other.txt", "kept.bin"}
