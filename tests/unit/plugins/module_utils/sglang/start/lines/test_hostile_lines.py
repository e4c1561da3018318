# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Lines that nobody would write but that somebody may send: never an error, and never more than a bounded part read."""

import json
import time

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import (
    LINE_CHARACTERS,
    MESSAGE_CHARACTERS,
    MESSAGE_LINES,
    parse_line,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import event_of, row

P = "[2026-11-29 14:20:47] "
MANY = 100_000
HOSTILE = {
    "one character": "a" * MANY,
    "dots": "a." * (MANY // 2),
    "digits": "9" * MANY,
    "brackets": "[" * MANY,
    "spaces": " " * MANY,
    "kind of an exception": "FileNotFoundError: " * (MANY // 19),
    "exceptions": "aError." * (MANY // 7),
    "size": f"{P}Allocating {'9' * MANY} GB host memory for hierarchical KV cache.",
    "tokens": f"{P}KV Cache is allocated. #tokens: {'9' * MANY}, K size: 1.00 GB, V size: 1.00 GB",
    "bar": "Capturing batches (bs=1 avail_mem=1.00 GB): 50%|" + "|" * MANY,
    "head": "a: " * (MANY // 3) + "Load weight begin.",
    "levels": "INFO: " * (MANY // 6) + "Load weight begin.",
    "many lines": "Load weight x\n" * (MANY // 14),
    "line feeds": "\n" * MANY,
    "available": f"{P}Load weight end." + " avail mem=" * (MANY // 11),
    "capture": f"{P}Capture {'a ' * (MANY // 2)}begin.",
    "tree cache": f"{P}Tree cache initialized: source=" + " impl=x" * (MANY // 7),
    "json": '{"message": "' * (MANY // 13),
    "colours": "\x1b[" * (MANY // 2),
    "arguments": f"{P}server_args={{'tp_size': " * (MANY // 40),
    "usage": "x" * (MANY // 2) + ": error: " + "y" * (MANY // 2),
    "not text": "\x00\ud800\u2028" * (MANY // 3),
}


@pytest.mark.parametrize("version", ["0.4.7", "0.5.23", None])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_line_is_read_in_part_and_without_an_error(name: str, version: str | None) -> None:
    began = time.process_time()
    event = parse_line(HOSTILE[name], version)
    print(f"{name}: {len(HOSTILE[name])} characters in {time.process_time() - began:.4f} s of CPU")
    if event is not None:
        assert len(event.text) <= LINE_CHARACTERS
        json.dumps(event.as_dict())


def test_what_lies_beyond_the_bound_of_a_line_is_not_read() -> None:
    line = f"{P}Load weight end." + " " * LINE_CHARACTERS + "avail mem=1.00 GB"
    event = parse_line(line, "0.5.23")
    assert event is not None
    assert event.value("available_bytes") is None


def test_of_a_long_record_the_beginning_and_the_end_are_read() -> None:
    cause = "ValueError: Not enough host memory available. Requesting 8.00 GB but only have 1.00 GB free. Please reduce"
    for filler in ("  File x, line 1, in y\n" * MESSAGE_LINES * 2, "x" * (MESSAGE_CHARACTERS * 2) + "\n"):
        event = parse_line(f"{P}Scheduler hit an exception: Traceback:\n{filler}{cause}", "0.5.23")
        assert event is not None
        assert (event.kind, event.value("requested_bytes")) == ("failure", 8_000_000_000)


def test_numbers_that_none_could_hold_are_no_numbers() -> None:
    assert parse_line(HOSTILE["size"], "0.5.9") is None
    assert parse_line(HOSTILE["tokens"], "0.5.9") is None


@pytest.mark.parametrize("digits", [400, 4000, 6000])
def test_number_too_large_to_hold_leaves_its_field_out(digits: int) -> None:
    form = row("progress", r"(?P<size>\d+) (?P<free_gb>\d+) (?P<x_count>\d+) (?P<tokens>\d+) (?P<seconds>\d+)")
    text = " ".join(["9" * digits] * 5)
    match = form.pattern.match(text)
    assert match is not None
    event = event_of(form, match, None, "")
    assert (event.bytes, event.tokens, event.seconds, event.values) == (None, None, None, ())
    json.dumps(event.as_dict())
