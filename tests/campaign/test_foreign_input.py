# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytes from outside (journal, log lines, headers, configurations, /proc, /metrics) end in a value or a refusal."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.effective import read_ledger
from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import parse_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import (
    HeaderError,
    header_length,
    parse_header,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import machine_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import (
    parse_cgroup_procs,
    parse_stat,
    parse_status,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.metrics import parse_metrics
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.sockets import listening, unit_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import parse_show

TRIES = 200
STRANGE = ["\x00", "\n", "9" * 30, "-1", "é", "\ud800", "{", '"', "%s", "[]"]
LINE = (
    "[2026-11-29 16:49:44 TP1] Allocating kv hierarchical KV host pool: 262145 tokens, 0.54 GB host memory. "
    "max_total_num_tokens=8192, available_gpu_mem=1.5 GB KV Cache is allocated. #tokens: 8192, K size: 0.01 GB, "
    "V size: 0.01 GB Not enough host memory available. Requesting 9.5 GB but only have 1.2 GB free."
)
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_size": 512,
}
HEADER = {"w": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}, "__metadata__": {"format": "pt"}}
RECORD = {"MESSAGE": LINE, "__CURSOR": "s=1;i=2;t=5f", "__REALTIME_TIMESTAMP": "1764400000000000", "_PID": "224"}
TCP = "head\n   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 40011 1 0\n"
METRICS = '# TYPE a gauge\nsglang:hicache_host_total_tokens{engine_type="x",tp_rank="0"} 262145.0\n'
SHOW = "Id=x.service\nMainPID=12\nInvocationID=ab\nNRestarts=0\nActiveState=active\n"


def broken(dice: random.Random, text: str) -> str:
    """The text with a few characters cut, doubled or replaced."""
    characters = list(text)
    for _change in range(dice.randint(1, 8)):
        place = dice.randrange(len(characters) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            del characters[place : place + dice.randint(1, 12)]
        elif kind == 1:
            characters[place:place] = characters[place : place + dice.randint(1, 40)]
        else:
            characters[place : place + 1] = dice.choice(
                ["\x00", "\n", "9" * 30, "-1", "é", "\ud800", "{", '"', "%s", "[]"]
            )
    return "".join(characters)


def odd(dice: random.Random, value: Any) -> Any:
    """The value with one part of it replaced by something of another kind."""
    strange = [None, [], {}, "", "x", -1, 0, 10**30, 1.5, True, float("nan"), ["x"], {"a": 1}]
    if isinstance(value, dict) and value and dice.random() < 0.9:
        key = dice.choice(sorted(value))
        return {**value, key: odd(dice, value[key])}
    if isinstance(value, list) and value and dice.random() < 0.7:
        place = dice.randrange(len(value))
        return [*value[:place], odd(dice, value[place]), *value[place + 1 :]]
    return dice.choice(strange)


TEXTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "journal record": (parse_record, json.dumps(RECORD)),
    "log line 0.5.23": (lambda text: parse_line(text, "0.5.23"), LINE),
    "log line 0.5.9": (lambda text: parse_line(text, "0.5.9"), LINE),
    "log line of an unknown release": (lambda text: parse_line(text, "0.9.0"), LINE),
    "safetensors header": (lambda text: parse_header(text.encode("utf-8", "surrogatepass")), json.dumps(HEADER)),
    "safetensors length": (lambda text: header_length(text.encode("utf-8", "surrogatepass")[:8], 1 << 20), "\x10" * 8),
    "process status": (parse_status, "Name:\tx\nRssShmem:\t  524288 kB\nVmLck:\t 0 kB\n"),
    "process stat": (parse_stat, "224 (sglang::sched) S 1 224 224 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 2 3"),
    "cgroup members": (parse_cgroup_procs, "224\n225\n"),
    "unit state": (lambda text: parse_show(text, "x.service"), SHOW),
    "socket table": (lambda text: list(listening(text, 30000)), TCP),
    "process cgroup": (unit_of, "0::/system.slice/sglang-main.service\n"),
    "metrics": (parse_metrics, METRICS),
    "ledger": (read_ledger, json.dumps({"schema": 1, "plan": {}})),
}
VALUES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "configuration": (attention_from_config, CONFIG),
    "topology": (
        machine_facts,
        {"gpus": [{"index": 0, "numa_node": 0}], "numa_nodes": [{"id": 0}], "host": {"memory_available_bytes": 1}},
    ),
    "safetensors entry": (lambda value: parse_header(json.dumps(value).encode()), HEADER),
    "journal fields": (lambda value: parse_record(json.dumps(value)), RECORD),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_broken_text_ends_in_a_value_or_a_refusal(dice: random.Random, kind: str) -> None:
    parse, text = TEXTS[kind]
    for _try in range(TRIES):
        with contextlib.suppress(Refusal, HeaderError):
            parse(broken(dice, text))


@pytest.mark.parametrize("kind", VALUES)
def test_odd_values_end_in_a_value_or_a_refusal(dice: random.Random, kind: str) -> None:
    parse, value = VALUES[kind]
    for _try in range(TRIES):
        changed = odd(dice, value)
        if isinstance(value, dict) and not isinstance(changed, dict):
            continue
        with contextlib.suppress(Refusal, HeaderError):
            parse(changed)
