# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Reading below a root: never out of it, never more than asked for, and denials are remembered."""

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import (
    Tree,
    assignments,
    drop_ins,
    first_text,
    shown,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import link, write


def test_an_absolute_link_stays_inside_the_root(tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"etc/hostname": "recorded", "usr/lib/os-release": "ID=recorded"})
    link(root, "etc/name", "/etc/hostname")
    link(root, "etc/os-release", "../usr/lib/os-release")
    tree = Tree(root)
    assert tree.text("etc/name") == "recorded"
    assert tree.text("etc/os-release") == "ID=recorded"
    assert tree.resolved("etc/name") == "etc/hostname"


def test_no_number_of_dots_leads_out(tmp_path: Path) -> None:
    write(tmp_path, {"secret": "outside", "root/etc/here": "inside"})
    root = tmp_path / "root"
    link(root, "etc/up", "../../../../secret")
    tree = Tree(root)
    assert tree.text("etc/up") is None
    assert tree.text("../secret") is None
    assert tree.text("etc/../etc/here") == "inside"


def test_links_to_folders_on_the_way_are_followed_inside(tmp_path: Path) -> None:
    root = write(tmp_path, {"usr/lib/modules/6.8/modules.dep": "x"})
    link(root, "lib", "/usr/lib")
    assert Tree(root).names("lib/modules") == ["6.8"]
    assert Tree(root).is_folder("lib/modules/6.8")


def test_links_in_a_circle_give_nothing(tmp_path: Path) -> None:
    link(tmp_path, "a", "b")
    link(tmp_path, "b", "a")
    tree = Tree(tmp_path)
    assert (tree.text("a"), tree.names("a"), tree.is_file("a"), tree.resolved("a")) == (None, [], False, None)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    tree = Tree(tmp_path)
    assert (tree.text("pipe"), tree.text("folder"), tree.is_file("pipe")) == (None, None, False)


def test_no_more_is_read_than_the_limit(tmp_path: Path) -> None:
    write(tmp_path, {"long": "x" * 5000})
    assert Tree(tmp_path).text("long", 100) == "x" * 100
    assert Tree(tmp_path).data("long", 3) == b"xxx"


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    write(tmp_path, {"odd": b"a\xff\xfeb"})
    assert Tree(tmp_path).text("odd") == "a\ufffd\ufffdb"


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "absent/" * 30])
def test_a_path_that_cannot_be_gives_nothing(tmp_path: Path, path: str) -> None:
    tree = Tree(tmp_path)
    assert (tree.text(path), tree.names(path), tree.status(path), tree.link(path)) == (None, [], None, None)
    assert tree.denied == set()


def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "lib/modules/6.8").mkdir(parents=True)
    (tmp_path / "lib/modules" / os.fsdecode(b"6.\xff")).mkdir()
    link(tmp_path, "odd", os.fsdecode(b"lib/\xff"))
    tree = Tree(tmp_path)
    assert tree.names("lib/modules") == ["6.8"]
    assert tree.resolved("odd") is None


def test_what_may_not_be_read_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"boot/grub/grub.cfg": "x", "etc/open": "y"})
    real = os.open

    def guarded(path: Any, *more: Any) -> int:
        if str(path).endswith("grub.cfg"):
            raise PermissionError(13, "Permission denied")
        return real(path, *more)

    monkeypatch.setattr(os, "open", guarded)
    tree = Tree(tmp_path)
    assert (tree.text("boot/grub/grub.cfg"), tree.text("etc/open"), tree.text("etc/absent")) == (None, "y", None)
    assert tree.denied == {"boot/grub/grub.cfg"}


def test_this_machine_is_read_as_it_is() -> None:
    tree = Tree(Path("/"))
    assert tree.live
    assert tree.text("proc/sys/kernel/osrelease") == os.uname().release
    assert tree.text("proc/self/limits") is not None


def test_the_first_file_that_is_there_counts(tmp_path: Path) -> None:
    write(tmp_path, {"b": "second", "c": "third"})
    assert first_text(Tree(tmp_path), "a", "b", "c") == "second"
    assert first_text(Tree(tmp_path), "a") is None


def test_shown() -> None:
    assert (shown("etc/x"), shown("/etc/x"), shown(None)) == ("/etc/x", "/etc/x", None)


def test_assignments() -> None:
    text = '# A=1\nID=debian\nNAME="Debian GNU/Linux"\nQ=\'single\'\nno assignment\nEMPTY=\nX = "y"\n=z\n'
    assert assignments(text) == {
        "ID": "debian",
        "NAME": "Debian GNU/Linux",
        "Q": "single",
        "EMPTY": "",
        "X": "y",
    }
    assert assignments(None) == {}


def test_drop_ins_are_ordered_by_name_and_etc_hides_the_vendors(tmp_path: Path) -> None:
    write(tmp_path, {"etc/x.d/50-a.conf": "", "usr/x.d/50-a.conf": "", "usr/x.d/10-b.conf": "", "etc/x.d/README": ""})
    assert drop_ins(Tree(tmp_path), ("etc/x.d", "usr/x.d")) == ["usr/x.d/10-b.conf", "etc/x.d/50-a.conf"]


def test_a_line_is_one_short_line_without_control_characters(tmp_path: Path) -> None:
    tree = Tree(write(tmp_path, {"name": "\x1b[31m6.8\x07\nmore", "empty": " ", "long": "x" * 5000}))
    assert tree.line("name") == "[31m6.8"
    assert tree.line("empty") is None
    assert tree.line("absent") is None
    assert len(tree.line("long") or "") == 256
