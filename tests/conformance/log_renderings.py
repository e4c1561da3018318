# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Recorded templates of lines (oracle/log-lines.json) as the lines that a server prints, with what each number means.

What a number means is told by the words in front of it, not by the grammar. All numbers of a line differ, so that one
taken for another is noticed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, Version

ORACLE: dict[str, Any] = json.loads((Path(__file__).resolve().parent / "oracle" / "log-lines.json").read_text())
_HOLE = re.compile(r"\{(\w*)(![rsa])?(?::([^{}]*))?\}")
# What stands in holes that are words, by the name of the hole; where there are several, each makes a line.
WORDS: dict[str, tuple[str, ...]] = {
    "__name__": ("LlamaForCausalLM",),
    "allocation_label": ("Full", "SWA", "MiniMax MSA-v1 main NVFP4"),
    "capture_bs": ("[1, 2, 4, 8]",),
    "capture_num_tokens": ("[4, 8, 16]",),
    "cuda_graph_timings": ("decode=31.25, prefill=32.5",),
    "decode_backend": ("full",),
    "dtype": ("torch.bfloat16",),
    "enable_hierarchical_cache": ("True", "False"),
    "graph_backend": ("CUDA graph", "cuda graph", "NPU graph"),
    "hicache_attached": ("True", "False"),
    "host": ("127.0.0.1",),
    "is_hybrid_ssm": ("False",),
    "is_hybrid_swa": ("False",),
    "layout": ("page_first",),
    "pool_label": ("kv", "draft_swa"),
    "pool_name": ("c128",),
    "pools_desc": ("KV + MAMBA",),
    "prefill_backend": ("full",),
    "quant_str": ("quant=fp8, fmt=e4m3",),
    "source": ("default",),
    "streaming_wrapped": ("False",),
    "to_host_port_str": ("127.0.0.1:30000",),
}
# The words before a number: the field or value of the event that it is, and the bytes of one if it is a size.
_MEANINGS: tuple[tuple[str, str, int | None], ...] = (
    (r"avail[_ ]mem=|available_gpu_mem=|free memory=", "available_bytes", GIB),
    (r"available_cpu_mem=", "cpu_available_bytes", GIB),
    (r"mem usage=", "usage_bytes", GIB),
    (r"(?:Time elapsed: |elapsed=)|Committed real weights after CUDA graph capture in ", "seconds", None),
    (r"warmup done in | takes |at load: compile ", "seconds", None),
    (r"#tokens: |host pool: |^max_total_num_tokens=|sizing: max_total_num_tokens=", "tokens", None),
    (r"full_layer_tokens=|pool sizes: full=|allocator-only, size=", "tokens", None),
    (r"chunked_prefill_size=", "chunked_prefill_tokens", None),
    (r"max_running_requests=", "running_requests_count", None),
    (r"context_len=", "context_tokens", None),
    (r"swa_layer_tokens=|(?<=, )swa=", "swa_tokens", None),
    (r"(?<=, )c4=", "c4_tokens", None),
    (r"(?<=, )c128=", "c128_tokens", None),
    (r"c4_state=", "c4_state_count", None),
    (r"c128_state=", "c128_state_count", None),
    (r"\b[KV]+ size: |conv_state size: |ssm_state(?:_cache)? size: |window_cache size: ", "bytes", GIB),
    (r"\b(?:d|k|g|rawv|rawk|beta)=", "bytes", GIB),
    (r"checkpoint pool: \d+ slots, ", "bytes", GIB),
    (r"checkpoint pool: |max_mamba_cache_size: |Mamba cache \(", "slots_count", None),
    (r"^Allocating |host pool: \d+ tokens, ", "bytes", GB),
    (r"saving ", "saved_bytes", GB),
    (r"headroom: host ", "host_bytes", GIB),
    (r"cgroup ", "cgroup_bytes", GIB),
    (r"auto-sizing: ratio ", "requested_ratio", None),
    (r" -> ", "ratio", None),
    (r"\d; ", "budget_bytes", GIB),
    (r"\(fraction ", "host_memory_fraction", None),
    (r"\(fraction [\d.]+, ", "ranks_count", None),
    (r"host pools ", "pools_bytes", GIB),
    (r"load_weight=", "load_weight_seconds", None),
    (r"kv_cache_allocation=", "kv_cache_allocation_seconds", None),
    (r"scheduler_e2e=", "scheduler_seconds", None),
    (r"tokenizer_e2e=", "tokenizer_seconds", None),
    (r"begin \(step ", "step_index", None),
)
MEANINGS = tuple((re.compile(rf"(?:{words})$"), name, unit) for words, name, unit in _MEANINGS)


@dataclass(frozen=True)
class Text:
    """A template. C(how): what prints it; C(releases): where it is."""

    template: str
    how: str
    file: str
    releases: tuple[Version, ...]

    @property
    def is_bar(self) -> bool:
        return self.how in ("tqdm", "set_description")


@dataclass(frozen=True)
class Line:
    """C(told): what its numbers mean, sizes in bytes, those of several pools in one line added up."""

    words: str
    told: dict[str, float]


def _releases(spans: list[list[str]]) -> tuple[Version, ...]:
    order = {str(one): one for one in EXAMINED}
    return tuple(one for first, last in spans for one in EXAMINED if order[first] <= one <= order[last])


TEXTS = [Text(template, how, file, _releases(spans)) for template, how, file, spans in ORACLE["templates"]]


def lines_of(text: Text) -> Iterator[Line]:
    """The lines that a template makes; a bar gets the rest of its form behind its words."""
    names = list(dict.fromkeys(found.group(1) for found in _HOLE.finditer(text.template)))
    choices: list[dict[str, str]] = [{}]
    for name in names:
        choices = [{**one, name: word} for one in choices for word in WORDS.get(name, ("",))]
    for chosen in choices:
        line = _line(text.template, chosen)
        if text.is_bar:
            shards = "shards" in line.words or "Streamer" in line.words
            drawn = (
                " Completed | 1/4 [00:01<00:03,  1.10s/it]" if shards else "|##5       | 1/4 [00:01<00:03,  1.10s/it]"
            )
            line = Line(f"{line.words}:  25%{drawn}", {**line.told, "done_count": 1, "total_count": 4})
        yield line


def _line(template: str, chosen: dict[str, str]) -> Line:
    words, told, place, number = "", dict[str, float](), 0, 11
    for hole in _HOLE.finditer(template):
        words += _plain(template[place : hole.start()])
        place = hole.end()
        name, form = hole.group(1), hole.group(3) or ""
        if chosen.get(name):
            words += chosen[name]
            continue
        shown = f"{number}.{number:02}"[: 3 + int(form[-2])] if re.fullmatch(r"\.[1-9]f", form) else str(number)
        for meaning, field, unit in MEANINGS:
            if meaning.search(words):
                told[field] = told.get(field, 0) + float(shown) * (unit or 1)
                break
        words += shown
        number += 7
    return Line(words + _plain(template[place:]), told)


def _plain(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")
