# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import (
    Member,
    declared,
    members_text,
    normal_url,
    put_back,
    read_members,
    taken_out,
)

ONE, TWO, THREE = (f"http://10.0.0.{number}:30000" for number in (1, 2, 3))
FLEET = (Member(ONE), Member(TWO), Member(THREE))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://10.0.0.1:30000", "http://10.0.0.1:30000"),
        (" http://10.0.0.1:30000/ ", "http://10.0.0.1:30000"),
        ("https://Node-1.example:443", "https://node-1.example:443"),
        ("http://[fd00::1]:30000", "http://[fd00::1]:30000"),
    ],
)
def test_a_worker_has_one_address_however_it_is_written(given: str, expected: str) -> None:
    assert normal_url(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "",
        "10.0.0.1:30000",
        "http://10.0.0.1",
        "http://:30000",
        "http://10.0.0.1:x",
        "http://u:p@10.0.0.1:1",
        "http://a:1/b",
    ],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(Refusal) as refused:
        normal_url(given)
    assert refused.value.code == "worker_url_malformed"


def test_members_are_read_as_they_were_written() -> None:
    members = (Member(TWO, "prefill", 8998), Member(ONE, held_by="operator", reason="a fan"))
    assert read_members(members_text(members)) == (members[1], members[0])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 2, "workers": []}', '{"schema": 1, "workers": [1]}', "null"]
)
def test_what_is_no_list_of_members_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_members(text)
    assert refused.value.code == "members_unreadable"


def test_who_is_out_stays_out_until_the_holder_puts_it_back() -> None:
    out = taken_out(FLEET, [TWO], "gpufleet", "a restart")
    assert [one.held_by for one in out] == [None, "gpufleet", None]
    assert put_back(out, [TWO], "operator") == out
    assert put_back(out, [TWO], "gpufleet") == FLEET


def test_who_is_held_by_another_stays_theirs() -> None:
    theirs = taken_out(FLEET, [ONE], "operator", "a fan is replaced")
    ours = taken_out(theirs, [ONE], "gpufleet", "a restart")
    assert ours == theirs
    assert put_back(ours, [ONE], "gpufleet") == theirs


def test_an_inventory_adds_and_removes_and_lets_who_is_out_be_out() -> None:
    out = taken_out(FLEET, [TWO], "operator", "a fan")
    assert declared(out, [Member(TWO, "decode"), Member("http://10.0.0.4:30000")]) == (
        Member(TWO, "decode", held_by="operator", reason="a fan"),
        Member("http://10.0.0.4:30000"),
    )


def test_who_is_no_member_is_named_with_those_that_are() -> None:
    with pytest.raises(Refusal) as refused:
        taken_out(FLEET[:1], [TWO], "gpufleet", "")
    assert str(refused.value).startswith(f"This router has no member {TWO}; its members are: {ONE}.")


def test_a_list_holds_what_a_person_wants_to_see() -> None:
    rows = json.loads(members_text([replace(FLEET[0], held_by="operator", reason="a fan")]))["workers"]
    assert rows == [{"url": ONE, "kind": "regular", "bootstrap_port": None, "held_by": "operator", "reason": "a fan"}]
