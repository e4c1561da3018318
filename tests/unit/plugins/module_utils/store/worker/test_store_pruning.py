# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses what of a store, and what goes, on a machine that a test has made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.usage import Use
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.pruning import candidates, leftovers, prune
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.using import Finds, Scope, look
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    job_for,
    make_model,
    work,
)


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Path:
    """Three revisions of one model, the newest in use."""
    for seed, revision in enumerate(("one", "two", "three")):
        model = make_model(tmp_path / "source", 1, 50_000, seed)
        work(job_for(tmp_path / "store", Source("folder", (str(model),)), revision=revision))
        os.utime(tmp_path / "store" / "tiny" / revision / ".manifest.json", (seed, seed))
    return tmp_path / "store"


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    machine = tmp_path / "machine"
    (machine / "proc").mkdir(parents=True)
    return machine


def seen(store: Path, machine: Path) -> Finds:
    return look(Scope(store, (), machine))


def put(machine: Path, path: str, text: str) -> None:
    target = machine / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def removed(store: Path, machine: Path, **options: Any) -> list[str]:
    given = {"keep": 0, "only": (), "partial_days": None, "dry": True, **options}
    told = prune(store, look=lambda: seen(store, machine), **given)
    return [one["revision"] for one in told["removed"]]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/systemd/system/sglang-main.service", "[Service]\nExecStart=/x --model-path {}/tiny/one\n"),
        ("usr/lib/systemd/system/a.service.d/b.conf", "[Service]\nEnvironment='M={}/tiny/one/config.json'\n"),
        ("etc/containers/systemd/m.container", "[Container]\nVolume={}/tiny/one:/model:ro\n"),
        ("etc/sglang/main.yaml", "model-path: {}/tiny/one\n"),
        ("etc/sglang/rollback/3/main.yaml", "model-path: {}/tiny/one\n"),
        ("var/lib/sglang/main/ledger.json", '{{"plan": {{"arguments": {{"model-path": "{}/tiny/one"}}}}}}'),
        ("etc/default/sglang", "MODEL={}/tiny/one\n"),
    ],
)
def test_who_names_a_revision_keeps_it(store: Path, machine: Path, path: str, text: str) -> None:
    assert removed(store, machine) == ["one", "two"]
    put(machine, path, text.format(store))
    assert removed(store, machine) == ["two"]


def test_a_file_that_a_unit_names_is_read_wherever_it_lies(store: Path, machine: Path) -> None:
    put(machine, "etc/systemd/system/a.service", "[Service]\nExecStart=/x --config /srv/my/config.yaml\n")
    put(machine, "srv/my/config.yaml", f"model-path: {store}/tiny/one\n")
    assert removed(store, machine) == ["two"]


def test_a_way_through_links_is_followed(store: Path, machine: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(store / "tiny" / "one")
    put(machine, "etc/sglang/main.yaml", f"model-path: {tmp_path}/alias\n")
    assert removed(store, machine) == ["two"]


def test_a_unit_that_needs_the_mount_of_the_store_uses_no_model(store: Path, machine: Path) -> None:
    put(
        machine,
        "etc/systemd/system/a.service",
        f"[Unit]\nRequiresMountsFor={store}\n[Service]\nReadOnlyPaths=-{store}/\n",
    )
    assert removed(store, machine) == ["one", "two"]
    put(machine, "etc/systemd/system/b.service", f"[Service]\nExecStart=docker run -v {store}:/models x\n")
    assert removed(store, machine) == []


def test_what_cannot_be_read_keeps_everything(store: Path, machine: Path) -> None:
    told = prune(store, 0, (), None, lambda: Finds([], ["process 1 (init)"]), True)
    assert told["removed"] == []
    assert told["not_looked_at"] == ["process 1 (init)"]


@pytest.mark.parametrize("how", ["open", "mapped", "folder"])
def test_a_process_that_holds_a_revision_keeps_it(store: Path, how: str) -> None:
    """A real process, seen through the real /proc; that of a folder works in it and has no file open."""
    path = store / "tiny" / "one" / "config.json"
    programs = {
        "open": f"f = open({str(path)!r})",
        "mapped": f"import mmap; f = open({str(path)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); f.close()",
        "folder": f"import os; os.chdir({str(path.parent)!r})",
    }
    # Out of the environment, under a name that is no path, so that only what it holds gives it away.
    encoded = f"{programs[how]}; print(1, flush=True); import time; time.sleep(600)".encode().hex()
    command = [sys.executable, "-c", f"exec(bytes.fromhex('{encoded}'))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") as process:
        assert process.stdout
        process.stdout.readline()
        try:
            finds = look(Scope(store, (), Path("/")))
        finally:
            process.kill()
    held = [use.path for use in finds.uses if use.who.startswith(f"process {process.pid} ")]
    assert any(path.startswith("tiny/one") for path in held)
    assert not any(path.startswith(("tiny/two", "tiny/three")) for path in held)


def test_blocks_that_revisions_share_are_not_counted_as_freed(store: Path, tmp_path: Path) -> None:
    before = {one.revision: one.size_bytes for one in candidates(store)}
    work(job_for(store, Source("folder", (str(tmp_path / "source"),)), revision="again"))
    shared = {one.revision: one.size_bytes for one in candidates(store)}
    assert shared["one"] == before["one"] > 50_000
    # The copy comes out of the folder, whose sums are not known beforehand, so that nothing was shared.
    (store / "tiny" / "again" / "config.json").unlink()
    os.link(store / "tiny" / "three" / "config.json", store / "tiny" / "again" / "config.json")
    assert {one.revision: one.size_bytes for one in candidates(store)}["three"] < shared["three"]


def test_pruning_removes_what_it_said_and_a_second_run_nothing(store: Path, machine: Path) -> None:
    assert removed(store, machine, keep=2) == ["one"]
    assert (store / "tiny" / "one").exists()
    assert removed(store, machine, keep=2, dry=False) == ["one"]
    assert sorted(path.name for path in (store / "tiny").iterdir()) == ["current", "three", "two"]
    assert removed(store, machine, keep=2, dry=False) == []


def test_a_server_that_starts_meanwhile_keeps_its_revision(store: Path) -> None:
    looks = []

    def look_around() -> Finds:
        looks.append(1)
        return Finds([Use("process 7 (python)", "tiny/.trash/one/config.json")] if len(looks) > 1 else [])

    told = prune(store, 0, (), None, look_around, False)
    assert [one["revision"] for one in told["removed"]] == ["two"]
    assert (store / "tiny" / "one" / "config.json").exists()
    assert not (store / "tiny" / ".trash").exists()


def test_what_a_killed_run_had_moved_aside_comes_back(store: Path, machine: Path) -> None:
    (store / "tiny" / ".trash").mkdir()
    (store / "tiny" / "one").rename(store / "tiny" / ".trash" / "one")
    assert removed(store, machine, keep=3, dry=False) == []
    assert (store / "tiny" / "one" / "config.json").exists()


def test_old_partial_downloads_go_and_young_ones_stay(store: Path, machine: Path) -> None:
    for name, age in (("old", 0), ("young", None)):
        folder = store / "tiny" / ".partial" / name
        folder.mkdir(parents=True)
        (folder / "x.part").write_text("x")
        if age is not None:
            os.utime(folder / "x.part", (age, age))
    told = prune(store, 9, (), 7.0, lambda: seen(store, machine), False)
    assert [Path(one["path"]).name for one in told["removed_partial"]] == ["old"]
    assert [Path(one.path).name for one in leftovers(store)] == ["young"]


def test_a_store_that_is_not_there_has_nothing_to_prune(tmp_path: Path, machine: Path) -> None:
    assert removed(tmp_path / "none", machine, dry=False) == []
