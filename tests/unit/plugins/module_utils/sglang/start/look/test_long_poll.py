# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The long poll: when it ends, and what it costs while it lasts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.long_poll import (
    DECISIVE_LINGER_SECONDS,
    ENDING_LINGER_SECONDS,
    STAGE_LINGER_SECONDS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.samples import MOST_SAMPLES
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    INVOCATION,
    PIN,
    READY,
    SHOW,
    UNIT,
    FakeLines,
    FakeNode,
    record,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import GUARD


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def said(node: FakeNode, *messages: str) -> str:
    """Says it before the wait; the cursor behind it."""
    node.say(*messages)
    cursor: str = node.look()["cursor"]
    node.streams.clear()
    node.asked = 0
    return cursor


def once(node: FakeNode, *messages: str) -> None:
    """Says it as soon as one waits."""

    def say() -> None:
        node.on_wait = lambda: None
        node.say(*messages)

    node.on_wait = say


def test_wait_ends_after_its_time_if_there_is_no_news(node: FakeNode) -> None:
    cursor = said(node, "old news")
    found = node.look(wait_seconds=2, cursor=cursor)
    assert (node.at, found["lines"], found["more"]) == (2.0, 0, False)


def test_wait_is_one_journalctl_and_few_questions_to_systemd(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.on_wait = lambda: node.say("chatter")
    found = node.look(wait_seconds=30, cursor=cursor)
    assert [("--follow" in command) for command in node.streams] == [True]
    assert node.asked == 1 + 6
    # What is said in the very moment in which the wait ends comes with the next look.
    assert found["lines"] + node.look(cursor=found["cursor"])["lines"] == 60


def test_a_settled_log_is_not_read_again(node: FakeNode) -> None:
    cursor = said(node, "old news")
    once(node, "chatter")
    node.look(wait_seconds=10, cursor=cursor)
    assert [("--follow" in command) for command in node.streams] == [True]


def test_wait_ends_with_an_event_and_takes_along_what_follows_closely(node: FakeNode) -> None:
    cursor = said(node, "old news")
    once(node, PIN, PIN.replace("TP1", "TP0"))
    found = node.look(wait_seconds=10, cursor=cursor)
    assert len(found["events"]) == 2
    assert node.at == pytest.approx(0.5 + STAGE_LINGER_SECONDS)


def test_news_of_stages_that_follow_one_another_come_with_one_look(node: FakeNode) -> None:
    cursor = said(node, "old news")
    lines = iter((PIN, "chatter", PIN.replace("TP1", "TP0")))

    def say() -> None:
        line = next(lines, None)
        if line is not None:
            node.say(line)

    node.on_wait = say
    found = node.look(wait_seconds=10, cursor=cursor)
    assert [event["rank"] for event in found["events"]] == ["TP1", "TP0"]
    # Further news do not put off its end.
    assert node.at == pytest.approx(0.5 + STAGE_LINGER_SECONDS)


def test_readiness_right_after_news_of_a_stage_comes_with_the_same_look(node: FakeNode) -> None:
    cursor = said(node, "old news")
    lines = iter((PIN, READY))
    node.on_wait = lambda: node.say(next(lines))
    found = node.look(wait_seconds=10, cursor=cursor)
    assert ([event["kind"] for event in found["events"]], node.at) == (["stage_begin", "ready"], 1.0)


def test_look_that_sees_the_warm_up_begin_waits_on_for_readiness(node: FakeNode) -> None:
    cursor = said(node, "old news")
    warm_up = "[2026-11-29 14:20:17] INFO:     Started server process [11280]"
    lines = iter((PIN, "chatter", warm_up))

    def say() -> None:
        line = next(lines, None)
        if line is not None:
            node.say(line)

    node.on_wait = say
    found = node.look(wait_seconds=10, cursor=cursor)
    assert [event["stage"] for event in found["events"]] == ["host_pool", "warm_up"]
    assert node.at == pytest.approx(1.5 + ENDING_LINGER_SECONDS)


@pytest.mark.parametrize("before", [(), (PIN,)])
def test_failure_ends_the_wait_at_once(node: FakeNode, before: tuple[str, ...]) -> None:
    cursor = said(node, "old news")
    lines = iter((*before, "[2026-11-29 14:20:17 TP1] Scheduler hit an exception: Traceback (most recent call last):"))

    def say() -> None:
        line = next(lines, None)
        if line is not None:
            node.say(line)

    node.on_wait = say
    found = node.look(wait_seconds=10, cursor=cursor)
    assert found["events"][-1]["kind"] == "consequence"
    assert node.at == pytest.approx(0.5 * (len(before) + 1) + DECISIVE_LINGER_SECONDS)


class GrowingNode(FakeNode):
    """Its ranks hold more by the time at which the log is read."""

    def stream(self, command: list[str]) -> FakeLines:
        self.ranks(3000, 3000)
        return super().stream(command)


def test_bytes_are_read_again_where_the_log_read_last_says_that_all_are_there(tmp_path: Path) -> None:
    node = GrowingNode(tmp_path)
    node.ranks(1000, 1000)
    node.say(READY)
    found = node.look()
    assert found["events"][-1]["kind"] == "ready"
    assert [one["pinned_bytes"] for one in found["ranks"]] == [3_072_000, 3_072_000]
    assert found["samples"][-1]["rank_bytes"] == {"TP0": 3_072_000, "TP1": 3_072_000}


def test_wait_ends_at_once_when_the_server_is_ready(node: FakeNode) -> None:
    cursor = said(node, "old news")
    once(node, READY)
    found = node.look(wait_seconds=10, cursor=cursor)
    assert (found["events"][-1]["kind"], node.at) == ("ready", 0.5)


def test_what_was_said_before_the_wait_ends_it(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.say(PIN)
    assert len(node.look(wait_seconds=10, cursor=cursor)["events"]) == 1
    assert node.at == pytest.approx(STAGE_LINGER_SECONDS)


def test_wait_does_not_end_with_a_line_that_means_nothing(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.on_wait = lambda: node.say("chatter")
    found = node.look(wait_seconds=2, cursor=cursor)
    assert node.at == 2.0
    assert found["lines"] + node.look(cursor=found["cursor"])["lines"] == 4


def test_wait_does_not_end_with_a_line_that_only_tells_a_size(node: FakeNode) -> None:
    cursor = said(node, "old news")
    pool = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192, K size: 1.00 GB, V size: 1.00 GB"
    once(node, f"[2026-11-29 14:20:10 TP0] {pool}")
    found = node.look(wait_seconds=2, cursor=cursor)
    assert ([event["kind"] for event in found["events"]], node.at) == (["progress"], 2.0)


def test_wait_samples_the_meter(node: FakeNode) -> None:
    node.ranks(0, 0)
    cursor = said(node, "old news")
    grown = {"kib": 0}

    def grow() -> None:
        grown["kib"] += 1000
        node.process(201, "sglang::scheduler_TP0", grown["kib"])

    node.on_wait = grow
    found = node.look(wait_seconds=2, cursor=cursor)
    assert [one["rank_bytes"]["TP0"] for one in found["samples"]] == [n * 1_024_000 for n in range(5)]
    times = [one["at"] for one in found["samples"]]
    assert [round(later - earlier, 3) for earlier, later in zip(times, times[1:])] == [0.5] * 4
    assert found["read_at"] == times[-1]
    many = node.look(wait_seconds=30, cursor=found["cursor"])
    assert MOST_SAMPLES // 2 < len(many["samples"]) <= MOST_SAMPLES
    assert many["samples"][-1]["rank_bytes"]["TP0"] == many["ranks"][0]["pinned_bytes"]


def test_wait_ends_when_systemd_speaks_of_a_change(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.shows = [SHOW, SHOW.replace("SubState=running", "SubState=stop-sigterm")]

    def stopping() -> None:
        node.on_wait = lambda: None
        node.say("Stopping SGLang...", _PID="1", _SYSTEMD_INVOCATION_ID="", INVOCATION_ID=INVOCATION)

    node.on_wait = stopping
    found = node.look(wait_seconds=30, cursor=cursor)
    assert found["unit"]["sub_state"] == "stop-sigterm"
    assert node.at < 2


def test_change_that_nothing_hints_at_is_seen_after_a_few_seconds(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.shows = [SHOW, SHOW.replace("SubState=running", "SubState=stop-sigterm")]
    found = node.look(wait_seconds=30, cursor=cursor)
    assert (found["unit"]["sub_state"], node.at < 6) == ("stop-sigterm", True)


def test_wait_ends_when_the_main_process_is_gone(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.shows = [SHOW, SHOW.replace("ActiveState=active", "ActiveState=failed")]
    node.on_wait = lambda: node.vanish(100) if (node.root / "proc/100").exists() else None
    found = node.look(wait_seconds=30, cursor=cursor)
    assert (found["unit"]["active_state"], node.at) == ("failed", 0.5)


def test_last_words_are_read_to_their_end_when_the_start_is_over(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.shows = [SHOW, SHOW.replace("ActiveState=active", "ActiveState=failed")]

    def die() -> None:
        node.on_wait = lambda: None
        node.vanish(100)
        node.say("last words")

    node.on_wait = die
    found = node.look(wait_seconds=30, cursor=cursor)
    assert found["tail"] == ["last words"]
    # The third asks for what journald could not attribute.
    assert [("--follow" in command) for command in node.streams] == [True, False, False]
    assert f"_SYSTEMD_UNIT={UNIT}" in node.streams[2]


def test_words_of_which_a_process_died_before_journald_knew_its_invocation_are_read(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.shows = [SHOW.replace("ActiveState=active", "ActiveState=failed")]
    line = json.loads(record(node.said, GUARD, _SYSTEMD_UNIT=UNIT))
    del line["_SYSTEMD_INVOCATION_ID"]
    node.journal.append(json.dumps(line))
    other = {"_SYSTEMD_UNIT": UNIT, "_SYSTEMD_INVOCATION_ID": "0" * 32}
    node.journal.append(record(node.said + 1, "of another start", **other))
    found = node.look(cursor=cursor)
    assert [one["label"] for one in found["events"]] == ["host_memory_guard"]
    assert found["tail"] == [GUARD]


def test_wait_ends_when_a_rank_is_lost(node: FakeNode) -> None:
    node.ranks()
    cursor = said(node, "old news")
    known = node.look(cursor=cursor)["ranks"]
    node.on_wait = lambda: node.vanish(202) if (node.root / "proc/202").exists() else None
    found = node.look(wait_seconds=10, known_ranks=known, cursor=cursor)
    assert (node.at, found["ranks"][1]["alive"]) == (0.5, False)
    node.on_wait = lambda: None
    node.look(wait_seconds=2, known_ranks=found["ranks"], cursor=cursor)
    assert node.at == 2.5


def test_rank_that_came_and_went_within_one_wait_is_missed(node: FakeNode) -> None:
    cursor = said(node, "old news")
    steps = iter((node.ranks, lambda: node.vanish(202)))

    def step() -> None:
        following = next(steps, None)
        if following is not None:
            following()

    node.on_wait = step
    found = node.look(wait_seconds=10, cursor=cursor)
    assert [(rank["rank"], rank["alive"]) for rank in found["ranks"]] == [("TP0", True), ("TP1", False)]


def test_wait_does_not_begin_for_a_unit_that_ended(node: FakeNode) -> None:
    node.shows = [SHOW.replace("ActiveState=active", "ActiveState=failed")]
    node.look(wait_seconds=10)
    assert node.at == 0.0


def test_first_look_may_wait_as_well(node: FakeNode) -> None:
    once(node, PIN)
    found = node.look(wait_seconds=10)
    assert ([event["stage"] for event in found["events"]], found["more"]) == (["host_pool"], False)


def test_journalctl_that_dies_in_mid_wait_is_begun_again(node: FakeNode) -> None:
    cursor = said(node, "old news")
    node.journalctl_dies = True
    node.on_wait = lambda: node.say("chatter")
    found = node.look(wait_seconds=5, cursor=cursor)
    follows = [command for command in node.streams if "--follow" in command]
    assert 2 <= len(follows) <= 6
    assert (found["lines"], found["log"]["gap"]) == (len(node.journal) - 1, False)


def test_oom_killer_ends_the_wait(node: FakeNode) -> None:
    node.ranks()
    cursor = said(node, "old news")
    killed = (
        "Memory cgroup out of memory: Killed process 202 (sglang::schedul) total-vm:61440kB, anon-rss:1024kB, "
        "file-rss:0kB, shmem-rss:2048kB, UID:0 pgtables:100kB oom_score_adj:0"
    )

    def kill() -> None:
        node.on_wait = lambda: None
        node.kernel(killed)

    node.on_wait = kill
    found = node.look(wait_seconds=30, cursor=cursor)
    assert [(event["label"], event["rank"]) for event in found["events"]] == [("oom_killer", "TP1")]
    assert node.at < 1


# Asking the server


def test_server_is_asked_without_making_it_generate(node: FakeNode) -> None:
    url = "http://127.0.0.1:30000"
    node.answers[f"{url}/ready"] = 200
    assert node.look(ready_url=f"{url}/")["serves"] is True
    assert node.asked_urls == [f"{url}/ready"]
    node.answers[f"{url}/ready"] = 503
    assert node.look(ready_url=url)["serves"] is False
    assert node.look()["serves"] is None


def test_wait_ends_when_the_server_says_it_is_ready(node: FakeNode) -> None:
    cursor = said(node, "old news")
    url = "http://127.0.0.1:30000"
    node.on_wait = lambda: node.answers.update({f"{url}/ready": 200}) if node.at >= 4 else None
    found = node.look(ready_url=url, wait_seconds=30, cursor=cursor)
    assert (found["serves"], node.at <= 6.5, len(node.asked_urls) <= 4) == (True, True, True)


def test_server_is_not_asked_once_its_log_has_told(node: FakeNode) -> None:
    cursor = said(node, "old news")
    once(node, READY)
    found = node.look(ready_url="http://127.0.0.1:30000", sglang_version="0.5.9", wait_seconds=10, cursor=cursor)
    assert (found["events"][-1]["kind"], found["serves"], node.asked_urls) == ("ready", None, [])


def test_older_server_is_made_to_generate_only_where_its_log_cannot_tell(node: FakeNode) -> None:
    url = "http://127.0.0.1:30000"
    node.say("a line")
    node.answers.update({f"{url}/model_info": 200, f"{url}/health": 200})
    assert node.look(ready_url=url, sglang_version="0.5.9")["serves"] is None
    assert node.asked_urls == [f"{url}/model_info"]
    node.journal_code = 1
    node.asked_urls.clear()
    assert node.look(ready_url=url, sglang_version="0.5.9")["serves"] is True
    assert node.asked_urls == [f"{url}/model_info", f"{url}/health"]
    node.answers.clear()
    node.asked_urls.clear()
    assert node.look(ready_url=url, sglang_version="0.5.9")["serves"] is False
    assert node.asked_urls == [f"{url}/model_info"]
