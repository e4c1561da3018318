# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every line of the starts that others published: the events it gives hold exactly the numbers that were read of it.

The releases reach from 0.2 to 0.5; some logs were shortened by hand, some are of another program around SGLang, and of
many the release is not known. Whole logs of the real 0.5.23 are read as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import split_prefix
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data

pytestmark = needs_recorded_data
PATH = DATA / "sglang" / "startup-logs.json"
LOGS = DATA / "sglang" / "real-logs"
RECORDS: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8")) if PATH.is_file() else []
_RELEASE = re.compile(r"^(\d+\.\d+\.\d+(?:\.post\d+)?)(?: |$)")
# A line that tells something of a start, wherever it stands: each has to become an event.
_TELLS = re.compile(
    r"Load weight (?:begin|end)\.|KV Cache is allocated\.|Mamba Cache is allocated\.|Memory pool end\.|Capture .* end\."
    r"|max_total_num_tokens=\d+, |Allocating [\d.]+ GB host memory|Use sliding window memory pool\."
)


def release_of(record: dict[str, Any]) -> str | None:
    match = _RELEASE.match(str(record["sglang_version"] or ""))
    return match.group(1) if match else None


def events_of(record: dict[str, Any]) -> list[LogEvent]:
    found = [parse_line(line, release_of(record)) for line in record["raw"] or []]
    return [event for event in found if event is not None]


def sizes(events: list[LogEvent], unit: int, **wanted: Any) -> list[float]:
    """The sizes of the events whose fields are as wanted."""
    held = [one for one in events if all(getattr(one, name) == value for name, value in wanted.items())]
    return [one.bytes / unit for one in held if one.bytes is not None]


def available(events: list[LogEvent], kind: str, stage: str | None) -> list[float]:
    held = [one.value("available_bytes") for one in events if (one.kind, one.stage) == (kind, stage)]
    return [size / GIB for size in held if size is not None]


def comparisons(record: dict[str, Any], events: list[LogEvent]) -> Iterator[tuple[str, float, list[float], str]]:
    """(field, what was read of it, what the events hold, words of a line in which SGLang says it)."""
    for name, kind, stage, words in (
        ("avail_before_weights_gib", "stage_begin", "load", r"Load weight begin\. avail mem={} GB"),
        ("avail_after_weights_gib", "stage_end", "load", r"Load weight end\..*avail mem={} GB"),
        ("avail_after_pool_gib", "stage_end", "device_pool", r"Memory pool end\. avail mem={} GB"),
        ("avail_end_gib", "capacity", None, r"available_gpu_mem={} GB"),
        ("avail_end_gib", "stage_end", "capture", r"Capture .* end\..*avail mem={} GB"),
    ):
        if record[name] is not None:
            yield name, record[name], available(events, kind, stage), words.format(rf"{record[name]:.2f}")
    for name, label, words in (("weight_mem_gib", None, "mem usage={} GB"), ("kv_mla_gib", "kv", ", KV size: {} GB")):
        stage = "load" if label is None else "device_pool"
        if record[name] is not None:
            yield name, record[name], sizes(events, GIB, stage=stage, label=label), words.format(f"{record[name]:.2f}")
    if record["kv_tokens"] is not None:
        tokens = [float(one.tokens) for one in events if one.tokens is not None]
        yield "kv_tokens", record["kv_tokens"], tokens, rf"(?:#tokens: |_tokens=){record['kv_tokens']}\b"
    swa, mamba = record["swa"] or {}, record["mamba"] or {}
    for name, key, value in (
        ("kv_k_gib", record["kv_k_gib"], record["kv_v_gib"]),
        ("swa_k_gib", swa.get("swa_k_gib"), swa.get("swa_v_gib")),
    ):
        if key is not None and value is not None:
            words = rf"K size: {key:.2f} GB, V size: {value:.2f} GB"
            yield name, key + value, sizes(events, GIB, stage="device_pool", label="kv"), words
    for name in ("full_layer_tokens", "swa_layer_tokens"):
        if name in swa:
            tokens = [float(one.tokens) for one in events if one.tokens is not None]
            tokens += [float(one.value("swa_tokens")) for one in events if one.value("swa_tokens") is not None]
            yield name, swa[name], tokens, rf"\D{swa[name]}\b"
    if "slots" in mamba:
        slots = [float(one.value("slots_count")) for one in events if one.value("slots_count") is not None]
        yield "mamba_slots", mamba["slots"], slots, rf"max_mamba_cache_size: {mamba['slots']},"
        total = sum(size for name, size in mamba.items() if name.endswith("_gib"))
        words = rf"allocated\..*conv_state size: {mamba['conv_gib']:.2f}GB"
        yield "mamba_gib", total, sizes(events, GIB, label="mamba"), words
    host = record["host_alloc_gb_per_rank"]
    if host is not None:
        yield (
            "host_gb",
            host,
            sizes(events, GB, stage="host_pool", label="kv"),
            rf"Allocating {host:.2f} GB host memory",
        )
    for name, size in (record["host_alloc_extra_gb_per_rank"] or {}).items():
        label = "indexer" if name == "dsa_indexer" else "kv"
        words = rf"Allocating {size:.2f} GB host memory"
        yield f"host_{name}_gb", size, sizes(events, GB, stage="host_pool", label=label), words


def equal_fields(record: dict[str, Any]) -> Counter[str]:
    """The fields that a line of the record tells, each found among its events; any other fails."""
    equal: Counter[str] = Counter()
    events = events_of(record)
    for name, read, held, words in comparisons(record, events):
        if any(re.search(words, line) for line in record["raw"] or []):
            assert any(abs(read - one) < 0.006 for one in held), (name, read, held, record["raw"])
            equal[name] += 1
    return equal


@pytest.mark.parametrize("record", RECORDS, ids=[str(record["id"]) for record in RECORDS])
def test_events_of_a_recorded_start_hold_what_was_read_of_it(record: dict[str, Any]) -> None:
    equal_fields(record)
    for line in record["raw"] or []:
        event = parse_line(line, release_of(record))
        assert (event is not None) == (_TELLS.search(line) is not None), line
        if event is not None:
            # Whatever it holds is written in the line, and the rank is the one that the line names.
            rest = event.text
            assert rest in line
            assert event.tokens is None or re.search(rf"\b{event.tokens}\b", rest)
            named = re.match(r"\[[^\]]*?((?:(?:ATTN_CP|DP|TP|EP|PP)\d+ ?)+)\]", line)
            assert event.rank == (named.group(1) if named else "TP0" if line.startswith("[gpu") else None)


def test_most_fields_are_told_by_a_line_of_sglang() -> None:
    equal: Counter[str] = Counter()
    for record in RECORDS:
        equal += equal_fields(record)
    lines = [line for record in RECORDS for line in record["raw"] or []]
    print(f"{len(RECORDS)} logs, {len(lines)} lines, {equal.total()} fields equal: {dict(equal)}")
    assert len(RECORDS) == 44
    assert equal.total() >= 186


def test_a_release_that_is_not_known_reads_the_same_as_its_own() -> None:
    known = [record for record in RECORDS if release_of(record) is not None]
    assert len(known) >= 10
    for record in known:
        for line in record["raw"] or []:
            assert parse_line(line, None) == parse_line(line, release_of(record))


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_whole_log_of_the_real_server_holds_no_line_that_is_misread(path: Any) -> None:
    """Its own words, behind its own prefix, in the release's own form; nothing of any other logger."""
    read: Counter[str] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        event = parse_line(line, "0.5.23")
        prefixed = split_prefix(line)[0]
        if event is None:
            assert not (prefixed and _TELLS.search(line)), line
            continue
        if event.kind not in ("failure", "exception", "consequence"):
            assert prefixed or event.value("total_count") is not None, line
        read[event.kind] += 1
    print(f"{path.name}: {dict(read)}")
    assert read["settings"] == (0 if path.stem == "badargs" else 1)
