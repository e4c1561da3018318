# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules of the model store refuse: sources, secrets, disks, units and other runs that stand in the way."""

from __future__ import annotations

import grp
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import STOPPED
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import locked
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.launching import Seat, start
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.pruning import prune
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.using import Scope, look
from ansible_collections.gpufleet.sglang.plugins.modules import model_prune, model_share, model_snapshot
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    job_for,
    make_model,
    shard_name,
    work,
    write_sums,
)

OWN_GROUP = grp.getgrgid(os.getgid()).gr_name


def failure_of(module: Any, capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] is True, result
    failure: dict[str, Any] = result["failure"]
    assert result["msg"] == f"{failure['message']} {failure['remedy']}"
    return failure


def refusal_of(task: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        task()
    return caught.value


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    return make_model(tmp_path / "source", 2, 5_000)


@pytest.fixture(name="store")
def _store(tmp_path: Path, source: Path) -> Path:
    """Holds one revision."""
    work(job_for(tmp_path / "store", Source("folder", (str(source),)), revision="v1"))
    return tmp_path / "store"


def test_a_source_that_lacks_what_it_lists_is_refused(source: Path, tmp_path: Path) -> None:
    write_sums(source)
    (source / shard_name(2, 2)).unlink()
    refusal = refusal_of(lambda: work(job_for(tmp_path / "store", Source("folder", (str(source),)), revision="v1")))
    assert refusal.code == "store_source_broken"
    assert refusal.message == f"{source / shard_name(2, 2)} cannot be read: No such file or directory."
    assert "another source" in refusal.remedy


def test_a_folder_in_the_place_of_the_link_is_left_there(source: Path, tmp_path: Path) -> None:
    current = tmp_path / "store" / "tiny" / "current"
    current.mkdir(parents=True)
    refusal = refusal_of(lambda: work(job_for(tmp_path / "store", Source("folder", (str(source),)), revision="v1")))
    assert (refusal.code, refusal.message) == ("store_current_taken", f"{current} is no link.")
    assert "Move it away" in refusal.remedy
    assert current.is_dir() and not current.is_symlink()


def snapshot_options(tmp_path: Path, **more: Any) -> dict[str, Any]:
    source = {"folder": str(tmp_path / "source"), "revision": "v1"}
    return {"root": str(tmp_path / "store"), "name": "tiny", "group": OWN_GROUP, **source, **more}


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("options", "code", "message", "remedy"),
    [
        (
            {"group": "no-such-group"},
            "store_owner_unknown",
            "There is no group no-such-group on the node.",
            "Create it first",
        ),
        (
            {"token_file": "/nowhere/token", "_ansible_check_mode": True},
            "store_token_missing",
            "/nowhere/token cannot be read: No such file or directory.",
            "readable by root alone",
        ),
    ],
)
def test_what_a_snapshot_refuses_before_anything_is_fetched(
    options: dict[str, Any],
    code: str,
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failure = failure_of(model_snapshot, capsys, **snapshot_options(tmp_path, **options))
    assert failure["code"] == code
    assert message in failure["message"]
    assert remedy in failure["remedy"]
    assert not (tmp_path / "store").exists()


@pytest.mark.usefixtures("source")
def test_a_worker_that_somebody_stopped_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = Seat(tmp_path / "seat", "gpufleet-model-tiny.service")
    monkeypatch.setattr(model_snapshot, "seat_of", lambda job: seat if job.name == "tiny" else None)
    monkeypatch.setattr(model_snapshot, "start", lambda *_given: "run-1")
    monkeypatch.setattr(model_snapshot, "wait", lambda *_given: {"run_id": "run-1", "end": STOPPED})
    failure = failure_of(model_snapshot, capsys, **snapshot_options(tmp_path))
    assert failure["code"] == "store_worker_stopped"
    assert failure["message"] == "gpufleet-model-tiny.service was stopped on the node."
    assert "goes on with what is there" in failure["remedy"]


def test_a_node_without_systemd_cannot_have_a_worker(source: Path, tmp_path: Path) -> None:
    def no_systemd(command: list[str], **_options: object) -> tuple[int, str, str]:
        return (1, "", f"{command[0]}: System has not been booted\nwith systemd as init system")

    job = job_for(tmp_path / "store", Source("folder", (str(source),)), revision="v1")
    seat = Seat(tmp_path / "runtime" / "tiny", "u.service")
    refusal = refusal_of(lambda: start(job, Secrets(), seat, no_systemd))
    assert refusal.code == "store_systemd_missing"
    assert refusal.message.startswith("systemd-run could not start u.service: systemd-run: System has not been booted")
    assert "become" in refusal.remedy


def test_what_another_run_is_removing_from_is_left_to_it(store: Path, tmp_path: Path) -> None:
    with locked(store / ".prune.lock") as alone:
        assert alone
        refusal = refusal_of(
            lambda: prune(
                store, look=lambda: look(Scope(store, (), tmp_path)), keep=0, only=(), partial_days=None, dry=False
            )
        )
    assert (refusal.code, refusal.message) == ("store_prune_busy", f"Another run is removing revisions of {store}.")
    assert "when that has ended" in refusal.remedy
    assert (store / "tiny" / "v1").is_dir()


def test_a_disk_that_refuses_is_named(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> dict[str, Any]:
        raise OSError(5, "Input/output error", str(store / "tiny"))

    monkeypatch.setattr(model_prune, "pruned", full)
    failure = failure_of(model_prune, capsys, root=str(store))
    assert failure["code"] == "store_disk_failed"
    assert failure["message"] == f"{store / 'tiny'} cannot be removed: Input/output error."
    assert "look at its disks" in failure["remedy"]


def test_what_keeps_a_model_from_being_shared(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"root": str(store), "name": "tiny", "revision": "v1", "address": "192.0.2.1", "port": 8000}
    (tmp_path / "file").touch()
    monkeypatch.setattr(model_share, "RUNTIME", tmp_path / "file")
    failure = failure_of(model_share, capsys, **options)
    assert failure["code"] == "store_share_failed"
    assert failure["message"].startswith(f"{tmp_path / 'file'}")
    assert "cannot be written: Not a directory." in failure["message"]

    monkeypatch.setattr(model_share, "RUNTIME", tmp_path / "runtime")
    monkeypatch.setattr(model_share, "launch_share", lambda *_given: None)
    given = {"max_transfers": 8, "max_bytes_per_second": None, "idle_seconds": 300.0, "token": None, **options}
    refusal = refusal_of(lambda: model_share.running(given, str(store), lambda *_words, **_more: (0, "inactive", "")))
    assert refusal.code == "store_share_failed"
    assert refusal.message.endswith("did not come up: it does not listen on 192.0.2.1 port 8000.")
    assert "whether the address is the node's and the port is free" in refusal.remedy
