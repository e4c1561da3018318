# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.modules import kept_generation
from ansible_collections.gpufleet.sglang.plugins.modules.kept_generation import keep, restore

OLD, NEW, NEXT = ("1" * 64, "2" * 64, "3" * 64)


class Killed(BaseException):
    """What a kill looks like from inside: no handler runs."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    put = {"config": tmp_path / "main.yaml", "environment": tmp_path / "main.env"}
    write(put, "old")
    put["environment"].chmod(0o600)
    return put


def write(files: dict[str, Path], word: str) -> None:
    for name, path in files.items():
        path.write_text(f"{name}: {word}\n", encoding="utf-8")


def read(files: dict[str, Path]) -> list[str]:
    return [path.read_text(encoding="utf-8").split()[1] for path in files.values()]


def kept(folder: Path) -> list[str]:
    return [one.digest for one in kept_generation.read_record(folder)]


def test_what_was_kept_comes_back_with_its_modes(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = tmp_path / "kept"
    assert keep(folder, files, OLD, {"plan": {"tokens": 7}}, 2, False)["changed"]
    write(files, "new")
    files["environment"].chmod(0o644)
    found = restore(folder, files, NEW, False)
    assert (found["changed"], found["generation"], found["facts"]) == (True, OLD, {"plan": {"tokens": 7}})
    assert read(files) == ["old", "old"]
    assert files["environment"].stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not restore(folder, files, NEW, False)["changed"]


def test_keeping_the_same_again_changes_nothing(tmp_path: Path, files: dict[str, Path]) -> None:
    keep(tmp_path / "kept", files, OLD, {}, 2, False)
    assert not keep(tmp_path / "kept", files, OLD, {}, 2, False)["changed"]
    assert keep(tmp_path / "kept", files, OLD, {"plan": {}}, 2, False)["changed"]
    write(files, "touched by hand")
    assert keep(tmp_path / "kept", files, OLD, {"plan": {}}, 2, False)["changed"]


def test_the_oldest_goes_with_its_folder(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = tmp_path / "kept"
    for generation in (OLD, NEW, NEXT):
        keep(folder, files, generation, {}, 2, False)
    assert kept(folder) == [NEXT, NEW]
    assert sorted(one.name[:16] for one in folder.iterdir() if one.is_dir()) == [NEW[:16], NEXT[:16]]


def test_check_mode_tells_and_touches_nothing(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = tmp_path / "kept"
    assert keep(folder, files, OLD, {}, 2, True)["changed"]
    assert not folder.exists()
    keep(folder, files, OLD, {}, 2, False)
    write(files, "new")
    found = restore(folder, files, NEW, True)
    assert found["paths"] == [str(path) for path in files.values()]
    assert read(files) == ["new", "new"]
    assert "new" not in found["diff"]["prepared"]


def test_a_lost_file_is_no_reason_to_restore_half(tmp_path: Path, files: dict[str, Path]) -> None:
    folder = tmp_path / "kept"
    keep(folder, files, OLD, {}, 2, False)
    next(folder.glob("*/environment")).unlink()
    write(files, "new")
    with pytest.raises(Refusal, match="lacks environment"):
        restore(folder, files, NEW, False)
    assert read(files) == ["new", "new"]


def test_a_file_that_is_not_there_cannot_be_kept(tmp_path: Path, files: dict[str, Path]) -> None:
    files["config"].unlink()
    with pytest.raises(Refusal, match="There is no .*main.yaml"):
        keep(tmp_path / "kept", files, OLD, {}, 2, False)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("generation", [NEW, OLD], ids=["another", "the same again"])
@pytest.mark.parametrize("steps", range(12))
def test_a_kill_at_any_step_leaves_what_was_kept_whole(
    tmp_path: Path, files: dict[str, Path], steps: int, generation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that changes the disk is the last one once."""
    folder = tmp_path / "kept"
    keep(folder, files, OLD, {"word": "old"}, 2, False)
    write(files, "new")
    done: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if len(done) == steps:
                raise Killed
            done.append(name)
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        for owner, name in ((Path, "replace"), (Path, "mkdir"), (tempfile, "mkdtemp"), (shutil, "rmtree")):
            patch.setattr(owner, name, counted(name, getattr(owner, name)))
        keep(folder, files, generation, {"word": "new"}, 2, False)
    word = "new" if done.count("replace") == len(files) + 2 else "old"
    assert kept(folder)[0] == (generation if word == "new" else OLD)
    write(files, "broken")
    found = restore(folder, files, NEXT, False)
    assert (found["facts"], read(files)) == ({"word": word}, [word] * 2)
    assert keep(folder, files, generation, {"word": "again"}, 2, False)["changed"]
    assert len([one for one in folder.iterdir() if one.is_dir()]) == len(kept(folder))
