# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as a whole, on the boot files of each distribution in a folder: forth, again, and back."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import State
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.modules import kernel_arguments
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import write
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.tuning.nodes import (
    debian,
    rhel,
    snapshot,
    systemd_boot,
    ubuntu,
)

DROP_IN = "etc/default/grub.d/99-gpufleet-node-tuning.cfg"
ENTRY_9 = "boot/loader/entries/0123456789abcdef0123456789abcdef-5.14.0-570.el9.x86_64.conf"
ENTRY_10 = "boot/loader/entries/0123456789abcdef0123456789abcdef-6.12.0-55.el10.x86_64.conf"
RESCUE = "boot/loader/entries/0123456789abcdef0123456789abcdef-0-rescue.conf"
RECORD = "var/lib/gpufleet/node_tuning.json"
WANTED = [
    {"argument": "iommu=pt", "reason": "peer traffic"},
    {"argument": "hugepagesz=1G hugepages=0:4,1:4", "reason": "whole GB"},
]
WORDS = "iommu=pt hugepagesz=1G hugepages=0:4,1:4"

Tree = Callable[[Path], Path]
# Distribution: its files, the loader, and the files that change.
NODES: dict[str, tuple[Tree, str, set[str]]] = {
    "debian12": (debian, "grub_drop_in", {DROP_IN}),
    "debian13": (lambda root: debian(root, "13.2"), "grub_drop_in", {DROP_IN}),
    "ubuntu2204": (lambda root: ubuntu(root, "bookworm/sid"), "grub_drop_in", {DROP_IN}),
    "ubuntu2404": (ubuntu, "grub_drop_in", {DROP_IN}),
    "rhel9": (rhel, "grub_bls", {ENTRY_9, "etc/default/grub", "etc/kernel/cmdline"}),
    "rhel10": (
        lambda root: rhel(root, "6.12.0-55.el10.x86_64", cmdline=False),
        "grub_bls",
        {ENTRY_10, "etc/default/grub"},
    ),
    "rhel9-without-entries": (lambda root: rhel(root, blscfg="false"), "grub_default", {"etc/default/grub"}),
    "systemd-boot": (systemd_boot, "systemd_boot", {"boot/loader/entries/debian-6.conf", "etc/kernel/cmdline"}),
}


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here, and the disk is slow."""

    def at_once(handle: int) -> None:
        assert handle >= 0

    monkeypatch.setattr("os.fsync", at_once)


def run_here(capsys: pytest.CaptureFixture[str], root: Path, **options: Any) -> dict[str, Any]:
    with patch_module_args({"root": str(root), **options}), pytest.raises(SystemExit):
        kernel_arguments.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def made(tmp_path: Path, name: str) -> Path:
    (tmp_path / "var/lib").mkdir(parents=True)
    return NODES[name][0](tmp_path)


def booted_with(root: Path, line: str, boot: str = "2") -> None:
    write(root, {"proc/cmdline": f"root=x ro {line}\n", "proc/sys/kernel/random/boot_id": f"{boot}\n"})


@pytest.mark.parametrize("name", sorted(NODES))
def test_there_again_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    _make, loader, files = NODES[name]
    before = snapshot(made(tmp_path, name))
    told = run_here(capsys, tmp_path, arguments=WANTED, _ansible_check_mode=True, _ansible_diff=True)
    assert snapshot(tmp_path) == before
    done = run_here(capsys, tmp_path, arguments=WANTED, _ansible_diff=True)
    assert (told["changes"], told["diff"]) == (done["changes"], done["diff"])
    assert (done["changed"], done["loader"], done["reboot_required"]) == (True, loader, True)
    assert done["lacking"] == ["iommu=pt", "hugepagesz=1G hugepages=0:4,1:4"]
    assert {change["target"].lstrip("/") for change in done["changes"] if change["kind"] == "file"} == files
    for file in files:
        assert (tmp_path / file).read_text().count(WORDS) == 1
    after = snapshot(tmp_path)
    assert RESCUE not in after or after[RESCUE] == before[RESCUE]
    again = run_here(capsys, tmp_path, arguments=WANTED)
    assert (again["changed"], again["reboot_required"], snapshot(tmp_path)) == (False, True, after)
    back = run_here(capsys, tmp_path, state="absent")
    assert (back["changed"], back["reboot_required"]) == (True, False)
    assert snapshot(tmp_path) == before
    assert run_here(capsys, tmp_path, state="absent")["changed"] is False


@pytest.mark.parametrize("name", sorted(NODES))
def test_after_the_reboot_nothing_is_due(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before = snapshot(made(tmp_path, name))
    run_here(capsys, tmp_path, arguments=WANTED)
    booted_with(tmp_path, WORDS)
    done = run_here(capsys, tmp_path, arguments=WANTED)
    assert (done["changed"], done["lacking"], done["reboot_required"]) == (False, [], False)
    # Given back, the running kernel still has them, until it is booted anew.
    back = run_here(capsys, tmp_path, state="absent")
    assert (back["changed"], back["reboot_required"]) == (True, True)
    assert back["leaving"] == WORDS.split()
    waiting = run_here(capsys, tmp_path, state="absent")
    assert (waiting["changed"], waiting["reboot_required"]) == (False, True)
    booted_with(tmp_path, "quiet", "3")
    gone = run_here(capsys, tmp_path, state="absent")
    assert (gone["changed"], gone["reboot_required"]) == (False, False)
    for file in ("proc/cmdline", "proc/sys/kernel/random/boot_id"):
        before.pop(file, None)
    left = {path: content for path, content in snapshot(tmp_path).items() if path in before or "proc" not in path}
    assert left == before


def test_a_reboot_that_did_not_bring_them_is_no_reason_for_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, "debian12")
    run_here(capsys, tmp_path, arguments=WANTED)
    booted_with(tmp_path, "quiet")
    done = run_here(capsys, tmp_path, arguments=WANTED)
    assert (done["failed"], done["failure"]["code"]) == (True, "kernel_arguments_not_taken")
    assert done["failure"]["evidence"] == {
        "lacking": ["iommu=pt", "hugepagesz=1G hugepages=0:4,1:4"],
        "loader": "grub_drop_in",
    }


@pytest.mark.parametrize(
    ("name", "file", "content", "word"),
    [
        ("debian12", "etc/default/grub", 'GRUB_CMDLINE_LINUX="iommu=off"\n', "iommu=off"),
        ("ubuntu2404", "etc/default/grub.d/70-x.cfg", "GRUB_CMDLINE_LINUX_DEFAULT='amd_iommu=off'\n", "amd_iommu=off"),
        ("rhel9", "etc/kernel/cmdline", "root=x hugepagesz=1G hugepages=9\n", "hugepagesz=1G"),
        ("rhel10", ENTRY_10, "linux /vmlinuz-6.12\ngrub_class x\noptions iommu=soft\n", "iommu=soft"),
        ("systemd-boot", "etc/kernel/cmdline", "intel_iommu=off\n", "intel_iommu=off"),
    ],
)
def test_what_a_person_set_is_refused_by_name_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, file: str, content: str, word: str
) -> None:
    before = snapshot(write(made(tmp_path, name), {file: content}))
    done = run_here(capsys, tmp_path, arguments=WANTED)
    assert (done["failed"], done["failure"]["code"]) == (True, "kernel_argument_conflict")
    assert f"/{file} has the kernel argument {word}" in done["msg"]
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", sorted(NODES))
def test_an_argument_that_a_person_set_stays_a_persons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    made(tmp_path, name)
    for file in ("etc/default/grub", "etc/kernel/cmdline", ENTRY_9, ENTRY_10, "boot/loader/entries/debian-6.conf"):
        path = tmp_path / file
        if path.exists():
            text = (
                path.read_text().replace('LINUX="', 'LINUX="iommu=pt ').replace("options root", "options iommu=pt root")
            )
            path.write_text(
                text.replace("root=UUID=0-1 ro", "iommu=pt root=UUID=0-1 ro", 1) if "cmdline" in file else text
            )
    before = snapshot(tmp_path)
    only = [{"argument": "iommu=pt", "reason": ""}, {"argument": "mitigations=auto", "reason": ""}]
    run_here(capsys, tmp_path, arguments=only)
    run_here(capsys, tmp_path, state="absent")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["rhel9", "systemd-boot"])
def test_words_of_others_that_came_since_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    _make, _loader, files = NODES[name]
    made(tmp_path, name)
    before = {file: (tmp_path / file).read_text() for file in files}
    run_here(capsys, tmp_path, arguments=WANTED)
    for file in files:
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.replace(WORDS, f"{WORDS} nosmt"))
    # Run again, the record takes their words for theirs.
    assert run_here(capsys, tmp_path, arguments=WANTED)["changed"] is False
    run_here(capsys, tmp_path, arguments=WANTED[:1])
    for file in files:
        text = (tmp_path / file).read_text()
        assert "nosmt" in text and "iommu=pt" in text and "hugepages" not in text
    run_here(capsys, tmp_path, state="absent")
    for file in files:
        left = (tmp_path / file).read_text()
        assert left.replace(" nosmt", "") == before[file] and "nosmt" in left


def test_a_kernel_that_was_installed_since_loses_our_words_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, "rhel9")
    run_here(capsys, tmp_path, arguments=WANTED)
    later = tmp_path / ENTRY_9.replace("570", "611")
    # kernel-install makes the entry of a new kernel from /etc/kernel/cmdline; the old kernel is removed.
    later.write_text((tmp_path / ENTRY_9).read_text().replace("570", "611"))
    (tmp_path / ENTRY_9).unlink()
    assert run_here(capsys, tmp_path, arguments=WANTED)["changed"] is False
    run_here(capsys, tmp_path, state="absent")
    assert "iommu" not in later.read_text() and "hugepages" not in later.read_text()
    assert not (tmp_path / ENTRY_9).exists() and not (tmp_path / RECORD).exists()


def test_a_kernel_of_others_settings_gets_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, "rhel10")
    run_here(capsys, tmp_path, arguments=WANTED)
    later = tmp_path / ENTRY_10.replace("-55", "-99")
    later.write_text("title x\nlinux /vmlinuz-6.12.0-99\noptions ro\ngrub_class rhel\n")
    before = later.read_text()
    done = run_here(capsys, tmp_path, arguments=WANTED)
    assert [change["target"] for change in done["changes"]] == [f"/{later.relative_to(tmp_path)}"]
    run_here(capsys, tmp_path, state="absent")
    assert later.read_text() == before


class Killed(BaseException):
    """Nothing that anybody catches, as a kill is."""


@pytest.mark.parametrize("name", ["debian13", "rhel9"])
@pytest.mark.parametrize("first", [[], WANTED[:1]])
def test_killed_at_any_write_it_goes_on_or_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, first: list[dict[str, str]]
) -> None:
    before = snapshot(made(tmp_path / "before", name))
    whole = made(tmp_path / "whole", name)
    run_here(capsys, whole, arguments=WANTED)
    goal = {path: content for path, content in snapshot(whole).items() if path != RECORD}
    kills = 0
    for writes in itertools.count():
        roots = [made(tmp_path / f"{way}{writes}", name) for way in ("on", "back")]
        died = False
        for root in roots:
            run_here(capsys, root, arguments=first)
            died = interrupted(root, writes, arguments=WANTED)
            capsys.readouterr()
        if not died:
            break
        kills += 1
        run_here(capsys, roots[0], arguments=WANTED)
        assert {path: content for path, content in snapshot(roots[0]).items() if path != RECORD} == goal, writes
        for root in roots:
            run_here(capsys, root, state="absent")
            assert snapshot(root) == before, writes
    assert kills >= 3


def interrupted(root: Path, writes: int, **options: Any) -> bool:
    """Whether the run came to so many writes at all."""
    counter = itertools.count()
    genuine = Node.write

    def write_or_die(self: Node, kind: str, target: str, state: State) -> None:
        if next(counter) == writes:
            raise Killed
        genuine(self, kind, target, state)

    with pytest.MonkeyPatch.context() as patch, patch_module_args({"root": str(root), **options}):
        patch.setattr(Node, "write", write_or_die)
        try:
            kernel_arguments.main()
        except Killed:
            return True
        except SystemExit:
            return False
    return False


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"etc/hostname": "x"}, "kernel_loader_unknown"),
        ({"boot/EFI/Linux/debian.efi": "x"}, "kernel_unified_image"),
        ({"etc/debian_version": "13", "etc/default/grub": ""}, "kernel_menu_tool_missing"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], code: str
) -> None:
    before = snapshot(write(tmp_path, files))
    done = run_here(capsys, tmp_path, arguments=WANTED)
    assert (done["failed"], done["failure"]["code"]) == (True, code)
    left = {name: content for name, content in snapshot(tmp_path).items() if name not in ("var", "var/lib")}
    assert left == before


def test_nothing_asked_for_reads_no_loader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_here(capsys, write(tmp_path, {"etc/hostname": "x"}))
    assert (done["changed"], done["loader"], done["reboot_required"]) == (False, None, False)
