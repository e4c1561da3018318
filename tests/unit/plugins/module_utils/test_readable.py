# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.readable import Entry, User, permits, unreadable

SGLANG = User("sglang", 990, frozenset({990, 44}))
ROOT = User("root", 0, frozenset({0}))
FOLDER, FILE = 0o040000, 0o100000


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "allowed"),
    [
        (0o644, 0, 0, True),
        (0o640, 0, 0, False),
        (0o640, 0, 44, True),
        (0o640, 990, 0, True),
        (0o604, 0, 44, False),  # the group's bits apply to its members, and they have none
        (0o044, 990, 0, False),  # the owner's bits apply to the owner
    ],
)
def test_one_class_of_bits_applies(mode: int, uid: int, gid: int, allowed: bool) -> None:
    assert permits(SGLANG, Entry("/f", FILE | mode, uid, gid), read=True, enter=False) is allowed


def test_root_reads_everything() -> None:
    assert permits(ROOT, Entry("/f", FILE, 990, 990), read=True, enter=True)


def test_the_way_the_folder_and_the_files_all_count() -> None:
    found = unreadable(
        SGLANG,
        [Entry("/", FOLDER | 0o755, 0, 0), Entry("/root", FOLDER | 0o700, 0, 0)],
        Entry("/root/model", FOLDER | 0o711, 0, 0),
        [
            Entry("/root/model/config.json", FILE | 0o644, 0, 0),
            Entry("/root/model/model.safetensors", FILE | 0o600, 0, 0),
            Entry("/root/model/figures", FOLDER | 0o744, 0, 0),
        ],
    )
    assert found == ["/root", "/root/model", "/root/model/model.safetensors", "/root/model/figures"]


def test_a_parent_needs_no_read_right() -> None:
    assert unreadable(SGLANG, [Entry("/srv", FOLDER | 0o711, 0, 0)], Entry("/srv/m", FOLDER | 0o755, 0, 0), []) == []
