# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import MOST_RECORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import (
    observation_from_result,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    GROUP,
    INVOCATION,
    PIN,
    READY,
    SHOW,
    STARTED_AT,
    UNIT,
    FakeNode,
)


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def test_one_look_at_two_ranks_that_pin(node: FakeNode) -> None:
    node.ranks(400_004, 100_000)
    node.write("proc/100/environ", "HOME=/var/lib/sglang\0GPUFLEET_GENERATION=abc\0")
    node.write("proc/sys/kernel/random/boot_id", "439987ce-2392-484d-81ae-371a0c830c5a\n")
    node.say("hello", PIN)
    found = node.look()
    assert json.loads(json.dumps(found)) == found
    assert [(rank["rank"], rank["pinned_bytes"], rank["alive"]) for rank in found["ranks"]] == [
        ("TP0", 409_604_096, True),
        ("TP1", 102_400_000, True),
    ]
    assert found["pinned_bytes"] == 512_004_096
    assert [one["rank_bytes"] for one in found["samples"]] == [{"TP0": 409_604_096, "TP1": 102_400_000}]
    assert found["host"]["memory_available_bytes"] == 18_944_000_000
    # Two ranks and the detokenizer; of the main process nothing can be read here.
    assert found["activity"]["resident_bytes"] == (400_704 + 100_700 + 705) * 1024
    assert found["activity"]["read_bytes"] == 3 * 4096
    assert (found["unit"]["generation"], found["unit"]["main_pid"]) == ("abc", 100)
    assert found["unit"]["started_at"] == STARTED_AT
    assert [(event["stage"], event["rank"], event["pid"]) for event in found["events"]] == [("host_pool", "TP1", 202)]
    assert found["events"][0]["timestamp"] == 1_795_962_016.000001
    assert (found["lines"], found["tail"]) == (2, ["hello", PIN])
    assert (found["meter"], found["serves"], found["problems"]) == ("shmem", None, [])
    assert found["log"] == {"source": "journal", "readable": True, "suppressed": 0, "gap": False}
    assert found["boot_id"] == "439987ce-2392-484d-81ae-371a0c830c5a"


def test_the_result_is_what_the_watch_reads(node: FakeNode) -> None:
    node.ranks(400_004, 100_000)
    node.say(PIN)
    found = node.look()
    seen = observation_from_result(found, 5.0)
    assert (seen.at, seen.unit.name, len(seen.ranks), len(seen.events), len(seen.samples)) == (5.0, UNIT, 2, 1, 1)
    assert (seen.monotonic, seen.activity.read_bytes) == (101.0, 3 * 4096)


def test_unknown_unit_is_a_state_and_no_failure(node: FakeNode) -> None:
    node.shows = ["LoadState=not-found\nActiveState=inactive\nSubState=dead\n"]
    found = node.look()
    assert (found["unit"]["load_state"], found["unit"]["generation"], found["events"]) == ("not-found", None, [])
    assert (node.streams, found["cursor"]) == ([], None)


def test_lines_of_another_start_are_not_read(node: FakeNode) -> None:
    node.say(READY, _SYSTEMD_INVOCATION_ID="old")
    assert node.look()["events"] == []


def test_lines_of_another_unit_that_claims_this_start_are_not_read(node: FakeNode) -> None:
    node.say(READY, _SYSTEMD_INVOCATION_ID="other", INVOCATION_ID=INVOCATION)
    assert node.look()["events"] == []


def test_reading_goes_on_after_the_cursor(node: FakeNode) -> None:
    node.say("one", PIN)
    first = node.look()
    node.say("two")
    second = node.look(cursor=first["cursor"])
    assert (second["tail"], second["events"], second["log"]["gap"]) == (["two"], [], False)
    assert node.look(cursor=second["cursor"])["cursor"] == second["cursor"]


def test_cursor_of_another_start_is_not_gone_on_from(node: FakeNode) -> None:
    node.say("one")
    first = node.look()
    node.shows = [SHOW.replace(INVOCATION, "next")]
    node.say("two", _SYSTEMD_INVOCATION_ID="next")
    found = node.look(cursor=first["cursor"])
    assert (found["tail"], found["log"]["gap"]) == (["two"], False)


def test_cursor_that_was_vacuumed_away_is_a_gap_and_no_line_after_it_is_lost(node: FakeNode) -> None:
    node.say("one", "two")
    first = node.look()
    node.say("three", "four")
    del node.journal[:3]
    found = node.look(cursor=first["cursor"])
    assert (found["tail"], found["log"]["gap"]) == (["four"], True)


def test_cursor_that_journalctl_refuses_is_replaced_by_its_time(node: FakeNode) -> None:
    node.say("one")
    first = node.look()
    node.journal_code = 1
    found = node.look(cursor=first["cursor"])
    assert [word for command in node.streams[-2:] for word in command if "--since" in word] == ["--since=@0.000001"]
    assert (found["cursor"], found["log"]["gap"], found["log"]["readable"]) == (first["cursor"], True, False)


def test_cursor_that_is_none_begins_anew(node: FakeNode) -> None:
    node.say("one")
    assert node.look(cursor='{"start": 5, "journal": [')["tail"] == ["one"]


def test_without_lines_the_journal_is_left_alone(node: FakeNode) -> None:
    found = node.look(max_lines=0)
    assert node.streams == []
    assert (found["tail"], found["cursor"], found["lines"]) == ([], None, 0)


def test_binary_and_long_messages(node: FakeNode) -> None:
    node.say(list(b"Loading:  50%\rLoading: 100%"), "x" * 5000)
    found = node.look()
    assert found["tail"][0] == "Loading: 100%"
    assert len(found["tail"][1]) == 2000


def test_line_that_journald_broke_is_put_together(node: FakeNode) -> None:
    node.say(PIN[:40], _LINE_BREAK="line-max", _STREAM_ID="a")
    node.say("another stream", _STREAM_ID="b")
    node.say(PIN[40:], _STREAM_ID="a")
    found = node.look()
    assert found["tail"] == ["another stream", PIN]
    assert [event["stage"] for event in found["events"]] == ["host_pool"]


def test_line_that_never_ended_is_taken_as_far_as_it_goes(node: FakeNode) -> None:
    node.say("begun", _LINE_BREAK="line-max", _STREAM_ID="a")
    assert node.look()["tail"] == ["begun"]


def test_arguments_of_the_server_stay_on_the_node(node: FakeNode) -> None:
    node.say("[2026-11-29 14:19:46] server_args={'api_key': 'sk-1'}", "launched with api_key='sk-1' somehow")
    assert node.look()["tail"] == ["launched with api_key='***' somehow"]


def test_access_log_is_no_sign_of_life(node: FakeNode) -> None:
    node.say('[2026-11-29 14:48:22] INFO:     127.0.0.1:46850 - "GET /health HTTP/1.1" 503 Service Unavailable')
    found = node.look()
    assert (found["lines"], found["tail"]) == (0, [])
    assert node.look(cursor=found["cursor"])["log"]["gap"] is False


def test_reading_stops_at_the_line_that_says_ready(node: FakeNode) -> None:
    node.say(READY, "served for days")
    found = node.look()
    assert (found["more"], found["tail"]) == (True, [READY])


def test_one_call_reads_a_bounded_part_and_loses_nothing(node: FakeNode) -> None:
    node.say(*["x"] * MOST_RECORDS, PIN)
    found = node.look()
    assert (found["more"], found["lines"], found["events"]) == (True, MOST_RECORDS, [])
    rest = node.look(cursor=found["cursor"])
    assert (rest["more"], rest["lines"], len(rest["events"])) == (False, 1, 1)


def test_journal_that_cannot_be_read_is_a_problem_and_no_failure(node: FakeNode) -> None:
    node.journal_code = 1
    found = node.look()
    assert [problem["code"] for problem in found["problems"]] == ["journal_unreadable"]
    assert found["log"]["readable"] is False


def test_journal_without_even_systemds_word_of_an_old_start_is_not_readable(node: FakeNode) -> None:
    assert node.look()["log"]["readable"] is False
    node.say("Started SGLang.", _PID="1", _SYSTEMD_INVOCATION_ID="", INVOCATION_ID=INVOCATION)
    assert node.look()["log"]["readable"] is True


def test_messages_that_journald_dropped_are_counted_for_this_start_of_this_unit(node: FakeNode) -> None:
    driver = {
        "MESSAGE_ID": "a596d6fe7bfa4994828e72309e95d61e",
        "_TRANSPORT": "driver",
        "_SYSTEMD_INVOCATION_ID": "of-journald",
    }
    said = f"Suppressed 29725 messages from {UNIT}"
    node.say(said, **driver, N_DROPPED="29725", OBJECT_SYSTEMD_INVOCATION_ID=INVOCATION)
    # As systemd 252 writes it, and as it is once the process that wrote last is gone.
    node.say(said, **driver, N_DROPPED="29725", OBJECT_SYSTEMD_INVOCATION_ID=f"={INVOCATION}")
    node.say(f"Suppressed 5 messages from {UNIT}", **driver)
    # Of an earlier start, of another unit, and by somebody else.
    node.say(said, **driver, N_DROPPED="29725", OBJECT_SYSTEMD_INVOCATION_ID="old")
    node.say("Suppressed 7 messages from other.service", **driver)
    node.say("Suppressed 9 messages from " + UNIT)
    found = node.look()
    assert found["log"]["suppressed"] == 29725 * 2 + 5
    assert found["tail"] == ["Suppressed 9 messages from " + UNIT]


def test_namespace_of_the_journal_is_that_of_the_unit(node: FakeNode) -> None:
    node.shows = [SHOW + "LogNamespace=inference\n"]
    node.look()
    assert "--namespace=+inference" in node.streams[0]
    assert not any(word.startswith("--namespace") for word in node.streams[1])


def test_dead_rank_is_told_with_its_signal_while_it_is_a_zombie(node: FakeNode) -> None:
    node.ranks(100, 100)
    known = node.look()["ranks"]
    node.process(202, "", state="Z", status=9)
    node.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n201\n203\n")
    found = node.look(known_ranks=known)
    assert [(rank["rank"], rank["alive"], rank["exit_code"]) for rank in found["ranks"]] == [
        ("TP0", True, None),
        ("TP1", False, -9),
    ]
    assert found["pinned_bytes"] == 100 * 1024


def test_rank_that_vanished_is_told_without_its_end(node: FakeNode) -> None:
    node.ranks()
    known = node.look()["ranks"]
    node.vanish(202)
    found = node.look(known_ranks=known)
    assert [(rank["rank"], rank["alive"], rank["exit_code"]) for rank in found["ranks"]] == [
        ("TP0", True, None),
        ("TP1", False, None),
    ]
    later = node.look(known_ranks=[{**rank, "exit_code": -9} if not rank["alive"] else rank for rank in found["ranks"]])
    assert later["ranks"][1]["exit_code"] == -9


def test_number_of_a_dead_rank_may_belong_to_another_process_now(node: FakeNode) -> None:
    node.ranks()
    known = node.look()["ranks"]
    node.process(202, "sh", started=999)
    found = node.look(known_ranks=known)
    assert [rank["alive"] for rank in found["ranks"]] == [True, False]


def test_process_that_a_rank_forked_is_not_that_rank(node: FakeNode) -> None:
    node.ranks(100, 100)
    node.process(150, "sglang::scheduler_TP1", 7, started=900)
    node.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n150\n201\n202\n203\n")
    assert [(rank["rank"], rank["pid"]) for rank in node.look()["ranks"]] == [("TP0", 201), ("TP1", 202)]


def test_processes_of_groups_inside_that_of_the_unit_belong_to_it(node: FakeNode) -> None:
    node.ranks(100, 100)
    node.write(f"sys/fs/cgroup{GROUP}/cgroup.procs", "100\n")
    node.write(f"sys/fs/cgroup{GROUP}/libpod-payload-1/cgroup.procs", "201\n202\n")
    assert [rank["pid"] for rank in node.look()["ranks"]] == [201, 202]


def test_process_that_vanishes_between_two_reads_is_left_out(node: FakeNode) -> None:
    node.ranks()
    (node.root / "proc/202/stat").unlink()
    assert [rank["rank"] for rank in node.look()["ranks"]] == ["TP0"]
    node.process(202, "sglang::scheduler_TP1")
    (node.root / "proc/202/status").unlink()
    (node.root / "proc/202/io").unlink()
    assert [rank["pinned_bytes"] for rank in node.look()["ranks"]] == [0, None]


def test_older_releases_are_metered_where_their_memory_shows(node: FakeNode) -> None:
    node.ranks(100, 100)
    found = node.look(sglang_version="0.5.9")
    assert (found["meter"], found["ranks"][0]["pinned_bytes"]) == ("anon", 700 * 1024)
    found = node.look(sglang_version="0.5.4")
    assert (found["meter"], found["pinned_bytes"], found["samples"]) == ("available", None, [])


def test_node_without_systemd(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "run", lambda command: (1, "", "System has not been booted with systemd"))
    with pytest.raises(Refusal, match="has not been booted with systemd"):
        node.look()


def test_version_that_is_none(node: FakeNode) -> None:
    with pytest.raises(Refusal, match="not a version number"):
        node.look(sglang_version="newest")


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"unit": None}, "nothing_to_watch"),
        ({"unit": "*.service"}, "unit_name_malformed"),
        ({"unit": "basic.target"}, "unit_name_malformed"),
        ({"unit": "we ird.service"}, "unit_name_malformed"),
        ({"unit": "sglang@.service"}, "unit_name_malformed"),
        ({"unit": "sglang@"}, "unit_name_malformed"),
        ({"log": {"type": "file"}}, "log_incomplete"),
        ({"log": {"type": "podman"}}, "log_incomplete"),
        ({"wait_seconds": -1}, "wait_too_long"),
        ({"wait_seconds": 31}, "wait_too_long"),
    ],
)
def test_what_is_asked_for_has_to_make_sense(node: FakeNode, params: dict[str, object], code: str) -> None:
    with pytest.raises(Refusal) as caught:
        node.look(**params)
    assert caught.value.code == code


@pytest.mark.parametrize(("invocation", "in_force"), [(INVOCATION, True), ("another", False)])
def test_the_ledger_comes_with_the_look(node: FakeNode, invocation: str, in_force: bool) -> None:
    ledger = {"schema": 2, "plan": {"host": {}}, "invocation_id": invocation}
    node.write("var/lib/sglang/main/ledger.json", json.dumps(ledger))
    result = node.look(ledger_path="/var/lib/sglang/main/ledger.json")
    assert (result["ledger"], result["ledger_in_force"]) == (ledger, in_force)


def test_a_ledger_that_is_not_there_or_not_asked_for_is_empty(node: FakeNode) -> None:
    for params in ({}, {"ledger_path": None}, {"ledger_path": "/var/lib/sglang/main/ledger.json"}):
        result = node.look(**params)
        assert (result["ledger"], result["ledger_in_force"]) == ({}, False)
