# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The grammar of a start against every text that the releases can print, as recorded from their wheels."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, NEWEST, OLDEST
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import START_ROWS, grammar_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import (
    rank_from_title,
    split_prefix,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import Row
from ansible_collections.gpufleet.sglang.tests.conformance.log_renderings import ORACLE, TEXTS, Line, Text, lines_of

PREFIX = "[2026-11-29 14:20:15 TP1] "
# Kinds of lines of which none may be missed.
WANTED = re.compile(
    r"^(?:\{allocation_label\} )?(?:Allocating .* host |(?:KV|Mamba) Cache is allocated|Capture .* (?:begin|end)\b"
    r"|Capture (?:cuda|cpu) graph |Load weight |max_total_num_tokens=.*, |Memory pool end|Memory baseline"
    r"|Init (?:torch distributed|parallel) |Post-capture KV sizing: (?:draft )?KV cache allocated|Attached hybrid"
    r"|Tree cache initialized|Engine startup timings|GDN ReplaySSM ring|int8 mamba checkpoint pool:"
    r"|Gated launch (?!control)"
    r"|Capturing (?:batches|num tokens|prefill shape)|\[BCG\] Capturing|Loading .*(?:shards|Streamer)$|Multi-thread"
    r" loading .*shards$|HiCache (?:auto-sizing|memory headroom)|MLATokenToKVPoolHost dummy|Use [Ss]liding"
    r"|DSV4 pool sizes"
    r"|(?:Starting d|D)ummy health check server (?:at|started)|The server is fired up"
    r"|Entering DeepGEMM JIT Pre-Compile|Try DeepGEMM JIT|DeepGEMM (?:JIT Compiling|warmup$)|PP-parallel DeepGEMM"
    r"|Running FlashInfer autotune|FlashInfer autotune completed|Compiling (?:num tokens|a graph) |Building the PTX"
    r"|DeepSeek V4 MHC (?:prenorm )?prewarm at load|Hugepages? (?:are not|mmap)|Parallel private host)"
)
# What of a wanted line is no news: a tree cache without a host tier.
_NO_TIER = re.compile(r"hierarchical=False|hicache_attached=False")
# Not SGLang's own, so in no wheel of it.
OWN_ROWS = [row for row in START_ROWS if row.source is not None]


def matches(row: Row, line: Line) -> bool:
    return row.pattern.match(line.words) is not None


def name_of(row: Row) -> str:
    return f"{row.kind} {row.regex[:60]}"


@pytest.mark.parametrize("row", OWN_ROWS, ids=[name_of(row) for row in OWN_ROWS])
def test_row_holds_for_exactly_the_releases_that_print_it(row: Row) -> None:
    texts = [text for text in TEXTS if any(matches(row, line) for line in lines_of(text))]
    printed = {release for text in texts for release in text.releases}
    assert sorted(printed) == [release for release in EXAMINED if row.holds(release)]
    if printed:
        newest = [text.file for text in texts if max(printed) in text.releases]
        assert row.source in newest


def numbers(event: LogEvent) -> dict[str, float]:
    """Every number of an event under the name that the renderings use."""
    values = {name: value for name, value in event.values if isinstance(value, (int, float))}
    fields = {"bytes": event.bytes, "tokens": event.tokens, "seconds": event.seconds}
    if event.stage == "load" and event.kind == "stage_end" and event.bytes is not None:
        fields["usage_bytes"] = fields.pop("bytes")
    return {**values, **{name: value for name, value in fields.items() if value is not None}}


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if WANTED.match(text.template)], ids=lambda text: text.template
)
def test_line_that_is_wanted_is_read_with_its_numbers_in_each_release(text: Text) -> None:
    read = 0
    for line in lines_of(text):
        for release in text.releases:
            event = parse_line(PREFIX + line.words, str(release))
            if _NO_TIER.search(line.words):
                assert event is None
                continue
            assert event is not None, (line.words, release)
            assert event.rank == "TP1"
            told = {
                **line.told,
                **(
                    {"cuda_graph_decode_seconds": 31.25, "cuda_graph_prefill_seconds": 32.5}
                    if "cuda_graph_timings" in text.template
                    else {}
                ),
            }
            assert numbers(event) == pytest.approx(told, abs=1), (line.words, release)
            # A release that is not known: the same.
            assert parse_line(PREFIX + line.words, None) == event
            read += 1
    assert read or "False" in str(text)


def test_nothing_else_that_a_release_prints_is_taken_for_a_start() -> None:
    """Of several forms in one line, that of a row; the rest of the texts about a start means nothing."""
    read: Counter[str] = Counter()
    for text in TEXTS:
        for line in lines_of(text):
            event = parse_line(PREFIX + line.words, None)
            if event is None or event.kind in ("failure", "exception", "consequence"):
                read["nothing"] += 1
            elif text.how == "setproctitle":
                raise AssertionError(f"{line.words} is a title")
            else:
                assert (
                    WANTED.match(text.template)
                    or event.stage == "warm_up"
                    or event.kind == "settings"
                    or (event.label in ("resized", "prefetch"))
                ), (line.words, event)
                read[event.kind] += 1
    print(f"{len(TEXTS)} texts of {len(EXAMINED)} releases: {dict(read)}")
    assert read["nothing"] > 300


def test_rows_that_match_a_line_are_among_those_that_are_tried() -> None:
    """Which rows a line is matched against is decided by texts in it; none that would match is left out by that."""
    grammar = grammar_of(None)
    tried = matching = 0
    for text in TEXTS:
        for line in lines_of(text):
            candidates = grammar.candidates(line.words)
            found = [row for row in grammar.rows if row.pattern.search(line.words)]
            assert set(found) <= set(candidates), line.words
            tried, matching = tried + len(candidates), matching + len(found)
    print(f"{len(grammar.rows)} rows on {len(TEXTS)} texts: {tried} tried, {matching} match")
    assert matching > 200


def test_upper_bound_is_no_allocation() -> None:
    told = [line.words for text in TEXTS if "VA upper bound" in text.template for line in lines_of(text)]
    assert len(told) >= 4
    assert [parse_line(PREFIX + words, None) for words in told] == [None] * len(told)


def test_lines_about_host_memory_come_before_it_but_for_one_model() -> None:
    begun = [row for row in OWN_ROWS if row.kind == "stage_begin" and row.stage == "host_pool"]
    assert {row.label for row in begun if row.after_allocating} == {"v4_paged", "v4_state"}
    assert {row.label for row in begun if not row.after_allocating} == {"kv", None, "mamba", "indexer"}


@pytest.mark.parametrize(("parts", "spans"), ORACLE["prefixes"], ids=[parts for parts, spans in ORACLE["prefixes"]])
def test_prefix_and_title_name_the_same_rank_in_the_order_of_the_release(parts: str, spans: list[list[str]]) -> None:
    label = " ".join(f"{part}{number}" for number, part in enumerate(parts.split()))
    for milliseconds in ("", ".123"):
        assert split_prefix(f"[2026-11-29 14:20:15{milliseconds} {label}] Memory pool end.") == (
            True,
            label,
            "Memory pool end.",
        )
    assert rank_from_title(f"sglang::scheduler_{label.replace(' ', '_')}") == label


def test_prefixes_of_all_releases_are_known() -> None:
    spans = [span for parts, held in ORACLE["prefixes"] for span in held]
    assert spans[0][0] == str(OLDEST) and spans[-1][1] == str(NEWEST)


def test_titles_are_those_of_the_wheels() -> None:
    titles = {line.words for text in TEXTS if text.how == "setproctitle" for line in lines_of(text)}
    ranks = {title: rank_from_title(title) for title in titles}
    schedulers = {title for title in titles if title.startswith("sglang::scheduler")}
    # The hole behind it is the prefix, which the test above fills.
    assert len(schedulers) == 1
    assert {rank for title, rank in ranks.items() if title not in schedulers} == {None}
    assert len(titles) >= 5
