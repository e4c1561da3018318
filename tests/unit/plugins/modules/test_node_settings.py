# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as a whole on nodes in a folder: forth, again, and back, and killed at every single write."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import State
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.modules import node_settings
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import write
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.tuning.nodes import snapshot, values

MACHINES = Path(machine_tree.__file__).resolve().parent / "machines"
RECORD = "var/lib/gpufleet/node_tuning.json"
EVERYTHING: dict[str, Any] = {
    "cpu_governor": "performance",
    "swap": "off",
    "shm_bytes": 64 << 30,
    "hugepages": [{"size": "2MB", "numa_node": 0, "pages": 512}, {"size": "1GB", "numa_node": 1, "pages": 4}],
    "unit_limits": [{"unit": "docker.service", "memlock": "infinity"}],
    "transparent_hugepage": {"shmem_enabled": "advise"},
}
PAGES = "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"


class Killed(BaseException):
    """Nothing that anybody catches, as a kill is."""


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here, and the disk is slow."""

    def at_once(handle: int) -> None:
        assert handle >= 0

    monkeypatch.setattr("os.fsync", at_once)


def run_here(capsys: pytest.CaptureFixture[str], root: Path, **options: Any) -> dict[str, Any]:
    with patch_module_args({"root": str(root), **options}), pytest.raises(SystemExit):
        node_settings.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def tree(snapshot_of: Mapping[str, Any]) -> dict[str, Any]:
    """A snapshot without the record, whose order of entries may differ after an interruption."""
    return {name: content for name, content in snapshot_of.items() if name != RECORD}


def test_there_again_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    done = run_here(capsys, tmp_path, **EVERYTHING)
    assert done["changed"] is True and done["recorded"] > 20 and done["reboot_required"] is False
    after = snapshot(tmp_path)
    assert after[f"{PAGES}"][1] == b"512\n"
    assert after["sys/kernel/mm/transparent_hugepage/enabled"][1] == b"always [madvise] never\n"
    assert after[RECORD][0] == 0o600
    assert (
        after["etc/systemd/system/sysinit.target.wants/gpufleet-huge-pages.service"] == "../gpufleet-huge-pages.service"
    )
    again = run_here(capsys, tmp_path, **EVERYTHING)
    assert (again["changed"], again["changes"], snapshot(tmp_path)) == (False, [], after)
    back = run_here(capsys, tmp_path, state="absent")
    assert (back["changed"], back["recorded"]) == (True, 0)
    assert snapshot(tmp_path) == before
    assert run_here(capsys, tmp_path, state="absent")["changed"] is False
    assert snapshot(tmp_path) == before


def test_check_mode_tells_the_same_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    told = run_here(capsys, tmp_path, _ansible_check_mode=True, _ansible_diff=True, **EVERYTHING)
    assert snapshot(tmp_path) == before
    done = run_here(capsys, tmp_path, _ansible_diff=True, **EVERYTHING)
    assert (told["changed"], told["changes"], told["diff"]) == (True, done["changes"], done["diff"])
    in_force = next(part for part in done["diff"] if part["before_header"] == "in force")
    assert "/proc/sys/vm/swappiness = 60\n" in in_force["before"]
    assert "/proc/sys/vm/swappiness = 10\n" in in_force["after"]
    ahead = run_here(capsys, tmp_path, state="absent", _ansible_check_mode=True)
    back = run_here(capsys, tmp_path, state="absent")
    assert ahead["changes"] == back["changes"] and snapshot(tmp_path) == before


def test_what_is_not_asked_for_any_more_goes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    run_here(capsys, tmp_path, **EVERYTHING)
    run_here(capsys, tmp_path, shm_bytes=64 << 30)
    assert "swap sw 0 0" in (tmp_path / "etc/fstab").read_text()
    assert "size=67108864k" in (tmp_path / "etc/fstab").read_text()
    assert "gpufleet" not in (tmp_path / "etc/fstab").read_text()
    assert (tmp_path / PAGES).read_text() == "0\n"
    assert (tmp_path / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor").read_text() == "schedutil\n"
    assert not (tmp_path / "etc/systemd/system/docker.service.d").exists()
    assert not (tmp_path / "etc/systemd/system/gpufleet-huge-pages.service").exists()
    run_here(capsys, tmp_path, state="absent")
    assert snapshot(tmp_path) == before


def test_only_the_first_former_state_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    for value in (1, 5, 3):
        run_here(capsys, tmp_path, sysctl={"vm.swappiness": value})
        assert (tmp_path / "proc/sys/vm/swappiness").read_text() == f"{value}\n"
    run_here(capsys, tmp_path, state="absent")
    assert snapshot(tmp_path) == before


def killed_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """The process dies in the midst of the write with this number: the new file is there and not in its place."""
    counter = itertools.count()
    genuine = Node.write

    def die(*_paths: Path) -> None:
        raise Killed

    def write_or_die(self: Node, kind: str, target: str, state: State) -> None:
        if next(counter) == writes:
            if kind == "file" and state is not None:
                monkeypatch.setattr("pathlib.Path.replace", die)
                genuine(self, kind, target, state)
            raise Killed
        genuine(self, kind, target, state)

    monkeypatch.setattr(Node, "write", write_or_die)


def interrupted(root: Path, writes: int, **options: Any) -> bool:
    """Whether the run came to so many writes at all."""
    with pytest.MonkeyPatch.context() as patch:
        killed_after(patch, writes)
        try:
            with patch_module_args({"root": str(root), **options}):
                node_settings.main()
        except Killed:
            return True
        except SystemExit:
            return False
    return False


def test_killed_at_any_write_it_goes_on_or_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tmp_path / "whole"
    before = snapshot(values(whole))
    run_here(capsys, whole, **EVERYTHING)
    goal = tree(snapshot(whole))
    kills = 0
    for writes in itertools.count():
        on, back = tmp_path / f"on{writes}", tmp_path / f"back{writes}"
        for root in (on, back):
            values(root)
            died = interrupted(root, writes, **EVERYTHING)
            capsys.readouterr()
        if not died:
            break
        kills += 1
        run_here(capsys, on, **EVERYTHING)
        assert tree(snapshot(on)) == goal, writes
        run_here(capsys, on, state="absent")
        run_here(capsys, back, state="absent")
        for root in (on, back):
            assert snapshot(root) == before, writes
    # Each value, file, link and folder was interrupted once, and the record twice.
    assert kills > 30


def test_killed_while_giving_back_it_gives_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path / "before"))
    kills = 0
    for writes in itertools.count():
        root = values(tmp_path / str(writes))
        run_here(capsys, root, **EVERYTHING)
        died = interrupted(root, writes, state="absent")
        capsys.readouterr()
        if not died:
            break
        kills += 1
        run_here(capsys, root, state="absent")
        assert snapshot(root) == before, writes
    assert kills > 30


def test_a_person_who_changed_a_value_since_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    run_here(capsys, tmp_path)
    (tmp_path / "proc/sys/vm/swappiness").write_text("33\n")
    back = run_here(capsys, tmp_path, state="absent")
    assert [problem["code"] for problem in back["problems"]] == ["tuning_changed_since"]
    assert "was 10 by this role, is 33 now, and becomes 60 again" in back["problems"][0]["message"]
    assert snapshot(tmp_path) == before


def test_a_persons_lines_in_fstab_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values(tmp_path)
    fstab = tmp_path / "etc/fstab"
    before = fstab.read_text()
    run_here(capsys, tmp_path, swap="off", shm_bytes=64 << 30)
    fstab.write_text(fstab.read_text() + "nfs:/models /srv/models nfs ro 0 0\n")
    assert run_here(capsys, tmp_path, swap="off", shm_bytes=64 << 30)["changed"] is False
    run_here(capsys, tmp_path, state="absent")
    assert fstab.read_text() == before + "nfs:/models /srv/models nfs ro 0 0\n"


def test_lines_that_somebody_changed_are_not_guessed_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values(tmp_path)
    fstab = tmp_path / "etc/fstab"
    run_here(capsys, tmp_path, swap="off")
    fstab.write_text(fstab.read_text().replace("none swap sw", "none swap pri=5"))
    before = snapshot(tmp_path)
    back = run_here(capsys, tmp_path, state="absent")
    assert (back["failed"], back["failure"]["code"]) == (True, "tuning_file_changed")
    assert snapshot(tmp_path) == before


def test_a_processor_that_is_gone_is_no_obstacle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values(tmp_path)
    run_here(capsys, tmp_path, cpu_governor="performance")
    governor = tmp_path / "sys/devices/system/cpu/cpufreq/policy1/scaling_governor"
    governor.unlink()
    back = run_here(capsys, tmp_path, state="absent")
    assert [problem["code"] for problem in back["problems"]] == ["tuning_value_gone"]
    assert not governor.exists() and not (tmp_path / RECORD).exists()


def test_a_folder_that_somebody_else_uses_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values(tmp_path)
    run_here(capsys, tmp_path, **EVERYTHING)
    mine = tmp_path / "etc/systemd/system/docker.service.d/10-mine.conf"
    mine.write_text("[Service]\n")
    run_here(capsys, tmp_path, state="absent")
    assert sorted(path.name for path in mine.parent.iterdir()) == ["10-mine.conf"]


def test_pages_that_do_not_come_are_told_with_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    values(tmp_path, {"proc/sys/vm/compact_memory": "0\n"})
    genuine = Node.write
    asked: list[tuple[str, State]] = []

    def scarce(self: Node, kind: str, target: str, state: State) -> None:
        """A kernel that finds 100 pages, and 300 after it has compacted its memory."""
        if kind == "value":
            asked.append((target, state))
        if target == f"/{PAGES}":
            compacted = any(path == "/proc/sys/vm/compact_memory" for path, _state in asked)
            state = "300" if compacted else "100"
        genuine(self, kind, target, state)

    monkeypatch.setattr(Node, "write", scarce)
    done = run_here(capsys, tmp_path, hugepages=[{"size": "2MB", "numa_node": 0, "pages": 512}])
    assert done["reboot_required"] is True
    assert done["short"][0].startswith(
        "NUMA node 0: 300 of 512 huge pages of 2MB could be reserved (0.63 GB of 1.07 GB)"
    )
    assert [state for path, state in asked if path == f"/{PAGES}"] == ["512", "512"]


def test_a_value_that_the_kernel_does_not_take_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(values(tmp_path))
    genuine = Node.write

    def stubborn(self: Node, kind: str, target: str, state: State) -> None:
        genuine(self, kind, target, "60" if target.endswith("swappiness") else state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Node, "write", stubborn)
        done = run_here(capsys, tmp_path)
    assert (done["failed"], done["failure"]["code"]) == (True, "tuning_value_not_taken")
    assert "swappiness was to become 10, and is 60" in done["msg"]
    run_here(capsys, tmp_path, state="absent")
    assert snapshot(tmp_path) == before


def test_a_broken_record_stops_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(write(values(tmp_path), {RECORD: "{"}))
    for state in ("present", "absent"):
        done = run_here(capsys, tmp_path, state=state)
        assert (done["failed"], done["failure"]["code"]) == (True, "tuning_record_broken")
    assert snapshot(tmp_path) == before


def test_a_refusal_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(values(tmp_path))
    done = run_here(capsys, tmp_path, swap="off", hugepages=[{"size": "1GB", "numa_node": 0, "pages": 255}])
    assert (done["failed"], done["failure"]["code"]) == (True, "hugepages_too_many")
    assert snapshot(tmp_path) == before


def test_something_else_in_a_files_place_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values(tmp_path)
    (tmp_path / "etc/sysctl.d/99-gpufleet-node-tuning.conf").mkdir(parents=True)
    assert run_here(capsys, tmp_path)["failure"]["code"] == "tuning_no_file"


@pytest.mark.parametrize("profile", ["l40s-one-socket", "founding", "gb200-nvl4-node", "kvm-guest", "no-gpu"])
def test_machines_are_tuned_and_given_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], profile: str) -> None:
    machine_tree.build_tree(machine_tree.load_profile(MACHINES / f"{profile}.yml"), tmp_path)
    write(tmp_path, {"usr/bin/setpci": "", "var/lib/x": ""})
    before = snapshot(tmp_path)
    done = run_here(capsys, tmp_path, cpu_governor="performance", clear_acs=profile != "kvm-guest")
    assert "failed" not in done
    ports = [change["target"] for change in done["changes"] if change["kind"] == "acs"]
    assert bool(ports) == (profile == "l40s-one-socket")
    assert run_here(capsys, tmp_path, cpu_governor="performance", clear_acs=bool(ports))["changed"] is False
    run_here(capsys, tmp_path, state="absent")
    assert snapshot(tmp_path) == before


def test_acs_cannot_be_seen_without_rights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine_tree.build_tree(machine_tree.load_profile(MACHINES / "l40s-one-socket.yml"), tmp_path)
    for config in (tmp_path / "sys/devices").rglob("config"):
        config.write_bytes(config.read_bytes()[:64])
    done = run_here(capsys, tmp_path, clear_acs=True)
    assert (done["failed"], done["failure"]["code"]) == (True, "acs_not_seen")
