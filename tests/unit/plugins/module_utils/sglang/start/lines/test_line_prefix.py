# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.prefix import (
    is_head,
    pipeline_stage,
    rank_from_title,
    split_prefix,
    without_colours,
)

END = "Memory pool end. avail mem=18.06 GB"


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[2026-11-29 14:20:15]", None),
        ("[2026-11-29 14:20:15 TP1]", "TP1"),
        ("[2026-11-29 14:20:15 DP0 TP3 EP1 PP2]", "DP0 TP3 EP1 PP2"),
        ("[2026-11-29 14:20:15.123 DP0 PP1 ATTN_CP2 MOE_DP0 TP3 EP4]", "DP0 PP1 ATTN_CP2 MOE_DP0 TP3 EP4"),
        # Before 0.4, and shortened by hand.
        ("[14:39:21 TP0]", "TP0"),
        ("[22:18:22]", None),
        ("[gpu=3]", "TP3"),
        ("[gpu_id=0]", "TP0"),
        ("[rank=1]", "TP1"),
        ("[TP2]", "TP2"),
        ("[DP1 TP2]", "DP1 TP2"),
        # What runs a container, or gathers the logs of several, writes its own words before it.
        ("2026-11-29T14:20:15.831330512Z [2026-11-29 14:20:15 TP1]", "TP1"),
        ("2026-11-29T14:20:15.8+01:00 stderr F [2026-11-29 14:20:15 TP1]", "TP1"),
        ("sglang-1  | [2026-11-29 14:20:15 TP1]", "TP1"),
        ("[pod/sglang-0/server] [2026-11-29 14:20:15 TP1]", "TP1"),
        ("(SchedulerActor pid=4321, ip=10.0.0.3) [2026-11-29 14:20:15 TP1]", "TP1"),
        ("Nov 29 14:20:15 gpu-01 sglang[4321]: [2026-11-29 14:20:15 TP1]", "TP1"),
        (
            "Capturing batches (bs=1 avail_mem=9.04 GB):  88%|####| 7/8 [00:02<00:00, 3it/s][2026-11-29 14:20:15 TP1]",
            "TP1",
        ),
    ],
)
def test_rank_of_a_prefix(prefix: str, rank: str | None) -> None:
    assert split_prefix(f"{prefix} {END}") == (True, rank, END)


@pytest.mark.parametrize(
    "line",
    [
        END,
        f"[] {END}",
        f"[Rank 0] {END}",
        f"He wrote: [2026-11-29 14:20:15 TP1] {END}",
        f"[2026-11-29 14:20:15 XX1] {END}",
        f"{{'text': '[2026-11-29 14:20:15 TP1] {END}'}}",
    ],
)
def test_no_prefix(line: str) -> None:
    assert split_prefix(line) == (False, None, line)


@pytest.mark.parametrize(
    "head",
    [
        "",
        "2026-08-31T18:05:32.831330Z  INFO memory_pool_host.__init__: ",
        "2026-08-31 18:05:32.831 | INFO     | sglang.srt.mem_cache.memory_pool:__init__:123 - ",
        "2026-08-31 18:05:32,831 - sglang.srt.model_executor - INFO - ",
        "INFO:sglang.srt.model_executor.model_runner:",
        '{"asctime": "2026-08-31 18:05:32", "levelname": "INFO", "message": "',
        '{"level":"info","msg":"',
        "sglang-1  | ",
        "[rank0]: ",
    ],
)
def test_head_of_another_logging_configuration(head: str) -> None:
    assert is_head(head)
    event = parse_line(head + END, "0.5.23")
    assert event is not None
    assert event.kind == "stage_end"


@pytest.mark.parametrize(
    "quoted",
    [
        "He said: ",
        "Note: ",
        "the log has ",
        '127.0.0.1:36800 - "POST /generate ',
        "ValueError: ",
        "{'text': '",
        '{"prompt": "INFO: ',
        '{"model": "x", "text": "',
        "x" * 500 + " INFO: ",
        "INFO: a request for ",
    ],
)
def test_quotation_is_no_line_of_the_server(quoted: str) -> None:
    assert not is_head(quoted)
    for words in (END, "The server is fired up and ready to roll!"):
        event = parse_line(quoted + words, "0.5.23")
        assert event is None or event.kind == "exception"


def test_line_that_follows_in_a_record_of_the_server_is_quoted_as_well() -> None:
    record = "[2026-11-29 14:20:15] Receive: text=Say this:\nThe server is fired up and ready to roll!\nThanks"
    assert parse_line(record, "0.5.23") is None


def test_colours_of_a_terminal() -> None:
    line = "[2026-11-29 14:20:18] \x1b[32mINFO\x1b[0m:     Started server process [\x1b[36m11280\x1b[0m]"
    assert without_colours(line) == "[2026-11-29 14:20:18] INFO:     Started server process [11280]"
    event = parse_line(line, "0.5.23")
    assert event is not None
    assert event.stage == "warm_up"


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        ("sglang::scheduler", "TP0"),
        ("sglang::scheduler_TP1", "TP1"),
        ("sglang::scheduler_DP0_TP12", "DP0 TP12"),
        ("sglang::scheduler_DP0_TP3_EP1_PP2", "DP0 TP3 EP1 PP2"),
        ("sglang::scheduler_ATTN_CP0_MOE_DP1_TP2_EP3", "ATTN_CP0 MOE_DP1 TP2 EP3"),
        ("sglang::detokenizer", None),
        ("sglang::data_parallel_controller", None),
        ("sglang::scheduler_helper", None),
        ("sgl_diffusion::scheduler_TP0", None),
        ("/opt/sglang/0.5.23/bin/python -m sglang.launch_server", None),
        ("", None),
    ],
)
def test_rank_of_a_process_title(title: str, rank: str | None) -> None:
    assert rank_from_title(title) == rank


def test_stage_of_a_pipeline() -> None:
    assert [pipeline_stage(rank) for rank in ("PP1 TP0", "DP0 TP3 EP1 PP2", "TP7")] == [1, 2, 0]
