# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.pseudonyms import (
    pseudonyms_of,
    redacted,
    redacted_text,
)

NODES = [
    ("gpu-10.example.org", ["10.1.2.3", "gpu-10"]),
    ("gpu-9.example.org", ["fd00::9"]),
    ("atlas", []),
    ("node", []),
]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu-9.example.org and GPU-10", "node-002 and node-003"),
        ("ssh root@gpu-9.example.org:22, then /srv/atlas/x", "ssh root@node-002:22, then /srv/node-001/x"),
        ("gpu-9-ib0.example.org of atlas.", "node-002-ib0.example.org of node-001."),
        ("rank-gpu-9 of gpu-90", "rank-node-002 of gpu-90"),
        ("NUMA node 0 of node", "NUMA node 0 of node"),
        ("10.1.2.3 and 10.1.2.4, 10.1.2.4", "node-003 and address-1, address-1"),
        ("[fd00::9]:30000 fe80::1%eth0", "[node-002]:30000 address-1"),
        ("127.0.0.1 0.0.0.0 ::1 [::]:30000", "127.0.0.1 0.0.0.0 ::1 [::]:30000"),
        ("at 21:58:16 of 0000:06:00.0", "at 21:58:16 of 0000:06:00.0"),
        ("driver 580.95.05, SGLang 0.5.23.post1", "driver 580.95.05, SGLang 0.5.23.post1"),
        ("aa:bb:cc:dd:ee:0f AA-BB-CC-DD-EE-10", "mac-1 mac-2"),
        ("80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:a5:f0:e0", "mac-1"),
        ("GPU-db3b077d-2399-57db-8e33-ab9c932b13d9", "id-1"),
        ("invocation 25ce7a0c38a94ed09554e8b04503ba28", "invocation id-1"),
        ("sha256 " + "ab" * 32, "sha256 " + "ab" * 32),
    ],
)
def test_texts(text: str, told: str) -> None:
    assert redacted_text(text, pseudonyms_of(NODES)) == told


def test_a_document_keeps_its_form_and_one_word_for_one_thing() -> None:
    whole = {
        "node": "node",
        "serial": "1654422006434",
        "cuda_version": "9.1.0.70",
        "gpu-9.example.org": [1, None, True, {"boot_id": "b", "said": "10.9.9.9"}],
        "uuid": "1654422006434",
        "also": "10.9.9.9",
    }
    assert redacted(whole, pseudonyms_of(NODES)) == {
        "node": "node-004",
        "serial": "id-1",
        "cuda_version": "9.1.0.70",
        "node-002": [1, None, True, {"boot_id": "id-2", "said": "address-1"}],
        "uuid": "id-1",
        "also": "address-1",
    }


def test_numbers_follow_the_names_and_not_the_order_in_which_they_come() -> None:
    assert pseudonyms_of(NODES).names == pseudonyms_of(reversed(NODES)).names


def test_a_host_that_is_called_like_a_part_of_the_document_leaves_its_form_whole() -> None:
    known = pseudonyms_of([("serves", []), ("active", [])])
    whole = {"serves": True, "active_state": "active", "said": "active and serves", "node": "serves"}
    assert redacted(whole, known) == {
        "serves": True,
        "active_state": "active",
        "said": "node-001 and node-002",
        "node": "node-002",
    }
