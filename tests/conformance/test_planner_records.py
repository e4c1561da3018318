# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The planner against what SGLang itself resolved, logged and measured; skipped where the records are not at hand."""

import csv
import json
import re
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import Layout, cell_sizes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.fraction_default import fraction_default
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.prefill_graphs import prefill_graph_sizes
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.reserve_parts import (
    PREFILL_TOKENS_WITHOUT_CHUNKS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import Sizing, pool_tokens
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
    plan_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import (
    Attention,
    attention_from_config,
    model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.arguments import resolve_sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.transfer import resolve_transfer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.hicache_versions import COPIES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    DEFAULT_RUNNING_REQUESTS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    EXAMINED,
    OLDEST,
    parse_version,
    version_facts,
)
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data

SGLANG = DATA / "sglang"
GIB = 1 << 30

pytestmark = needs_recorded_data

BFLOAT16 = CacheType("bfloat16", 2, 2)
# Models of the tables of defaults: attention family and KV heads.
FAMILIES = {"llama3-8b": "gqa", "llama3-70b": "gqa", "qwen3-235b": "gqa", "deepseek-v3": "mla", "tinyllama": "gqa"}


def bytes_per_token(attention: Attention, tp: int) -> int:
    return cell_sizes(attention, Layout(tp), BFLOAT16, pool_facts("0.5.9")).allocated


def rows(name: str) -> list[dict[str, str]]:
    with (SGLANG / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load(name: str) -> Any:
    return json.loads((SGLANG / name).read_text(encoding="utf-8"))


def resolution(release: str, row: dict[str, str]) -> dict[str, str]:
    """What the collection computes for one row, under the names of its columns."""
    config = load(f"model-configs/{row['model']}.json")
    attention = attention_from_config(config)
    model = model_facts({"architecture": config["architectures"][0], "attention": attention.as_dict()})
    ranks, eagle = int(row["tp"]), row["variant"] == "eagle"
    server = ServerRequest(
        tensor_parallel_size=ranks, attention_data_parallel_size=ranks if row["variant"] == "dp-attention" else 1
    )
    drafts = SpeculativeRequest("EAGLE", num_steps=3, eagle_topk=1, num_draft_tokens=4) if eagle else None
    io_backend, layout = resolve_transfer(version_facts(release), HiCacheRequest())
    copies = io_backend if row["variant"] == "hicache" else None
    major, minor = row["sm"].split(".")
    card, capability = int(row["nvidia_smi_mib"]), (int(major), int(minor))
    default = fraction_default(release, model, server, card, capability, drafts, copies)
    attending = attention_backend_default(release, model, server, capability, drafts, copies, card)
    found = {
        "mem_fraction_static": f"{default.fraction:g}",
        "chunked_prefill_size": str(default.chunk),
        "max_prefill_tokens": str(PREFILL_TOKENS_WITHOUT_CHUNKS),
        "max_running_requests": str(DEFAULT_RUNNING_REQUESTS) if eagle else "",
        "page_size": str(attending.page_size),
        "attention_backend": attending.backend,
        "kv_cache_dtype": attending.kv_cache_dtype,
        "hicache_io_backend": str(io_backend),
        "hicache_mem_layout": str(layout),
    }
    graph = str(default.decode_graph)
    if release == "0.5.9":
        return {**found, "cuda_graph_max_bs": graph}
    return {
        **found,
        "decode_graph_max_bs": graph,
        "prefill_graph_max_bs": str(default.prefill.tokens),
        "prefill_graph_backend": default.prefill.backend,
        # The table lists the sizes of those that are not captured, too.
        "prefill_graph_n_bs": str(prefill_graph_sizes(default.prefill.tokens)),
    }


ASKED = {"gpu", "nvidia_smi_mib", "sm", "model", "tp", "variant"}


@pytest.mark.parametrize(("release", "least"), [("0.5.23", 615), ("0.5.9", 174)])
def test_every_column_of_every_resolution(release: str, least: int) -> None:
    table = rows(f"defaults-{release}.csv")
    assert len(table) >= least
    wrong = []
    for row in table:
        expected = {column: value for column, value in row.items() if column not in ASKED}
        found = resolution(release, row)
        assert set(found) == set(expected)
        if found != expected:
            wrong.append((row, {name: value for name, value in found.items() if value != expected[name]}))
    assert wrong == []


def test_what_the_server_rewrites_is_refused_and_what_it_keeps_is_not() -> None:
    """Every pair of io backend and layout that was put to the real 0.5.23."""
    facts, seen = version_facts("0.5.23"), 0
    for case in load("hicache-normalisation-0.5.23.json"):
        flags = dict(zip(case["args"][::2], case["args"][1::2]))
        if set(flags) != {"--hicache-io-backend", "--hicache-mem-layout"}:
            continue
        seen += 1
        backend, layout = flags["--hicache-io-backend"], flags["--hicache-mem-layout"]
        kept = (case["hicache_io_backend"], case["hicache_mem_layout"]) == (backend, layout)
        request = HiCacheRequest(io_backend=backend, mem_layout=layout)
        if kept and (backend, layout) in COPIES:
            assert resolve_transfer(facts, request) == (backend, layout)
        elif kept:
            # It starts with the pair and cannot copy with it.
            with pytest.raises(Refusal) as refusal:
                resolve_transfer(facts, request)
            assert refusal.value.code == "hicache_transfer_unsupported"
        else:
            with pytest.raises(Refusal) as refusal:
                resolve_transfer(facts, request)
            assert {case["hicache_io_backend"], case["hicache_mem_layout"]} & set(refusal.value.evidence.values())
    assert seen == 15


def test_sizing_resolves_as_in_the_real_server() -> None:
    facts = version_facts("0.5.23")
    for case in load("hicache-normalisation-0.5.23.json"):
        flags = dict(zip(case["args"][::2], case["args"][1::2]))
        if "hicache_ratio" not in case:
            continue
        if set(flags) == {"--hicache-ratio"}:
            sizing = resolve_sizing(facts, HiCacheRequest(ratio=float(flags["--hicache-ratio"])))
            assert (sizing.ratio, sizing.fraction) == (case["hicache_ratio"], case["hicache_host_memory_fraction"])
        elif set(flags) == {"--hicache-host-memory-fraction"} and "hicache_host_memory_fraction" in case:
            sizing = resolve_sizing(
                facts, HiCacheRequest(host_memory_fraction=float(flags["--hicache-host-memory-fraction"]))
            )
            assert sizing.fraction == case["hicache_host_memory_fraction"]
        elif not flags:
            assert resolve_sizing(facts, HiCacheRequest()).fraction == case["hicache_host_memory_fraction"]
            assert facts.default_ratio == case["hicache_ratio"]


def test_choices_and_defaults_by_release() -> None:
    flags = load("flags.json")["flags"]

    def at(flag: str, key: str, release: str) -> Any:
        value = None
        for step in flags[flag]["history"]:
            if parse_version(step["from"]) <= parse_version(release):
                value = step[key]
        return value

    for version in EXAMINED:
        release, facts = str(version), version_facts(str(version))
        assert set(at("--hicache-mem-layout", "choices", release) or ()) == set(facts.mem_layouts), release
        assert at("--hicache-mem-layout", "default", release) == facts.default_mem_layout, release
        assert set(at("--hicache-io-backend", "choices", release) or ()) == set(facts.io_backends), release
        assert (at("--hicache-io-backend", "default", release) or None) == facts.default_io_backend, release
        assert at("--hicache-write-policy", "default", release) == facts.default_write_policy, release
        assert at("--hicache-storage-prefetch-policy", "default", release) == facts.prefetch_policy, release


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-70b", "qwen3-235b", "deepseek-v3", "tinyllama"])
def test_configurations_give_facts(name: str) -> None:
    attention = attention_from_config(load(f"model-configs/{name}.json"))
    assert attention.family == FAMILIES[name]
    assert bytes_per_token(attention, 1) > 0


# Architectures of logged starts, where the log names the model but not its shape.
SHAPES: dict[str, tuple[Attention, int]] = {
    "llama31-8b-80g-2025-01": (Attention("gqa", 32, 32, 8, 128, 128), 1),
    "llama31-8b-h100-pr4760": (Attention("gqa", 32, 32, 8, 128, 128), 1),
    "kimi-k25-tp8": (Attention("mla", 61, 64, 64, 192, 128, 512, 64), 8),
    "sglang#7495": (Attention("gqa", 28, 16, 8, 128, 128), 1),
    "sglang#6001": (Attention("mla", 61, 128, 128, 192, 128, 512, 64), 8),
    "qwen3-30b-a3b-mi3xx-tp1": (Attention("gqa", 48, 32, 4, 128, 128), 1),
    "qwen3-0.6b-16g": (Attention("gqa", 28, 16, 8, 128, 128), 1),
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_bytes_per_token_of_logged_pools(name: str) -> None:
    """Logged pool size in GiB over logged tokens, within what two decimals of the log leave open."""
    attention, tp = SHAPES[name]
    row = next(row for row in load("startup-logs.json") if row["id"] == name)
    halves = 1 if row["kv_mla_gib"] else 2
    logged = row["kv_mla_gib"] or row["kv_k_gib"] * 2
    per_token = bytes_per_token(attention, tp)
    assert per_token * row["kv_tokens"] / GIB == pytest.approx(logged, abs=0.006 * halves)


def test_budget_formula_on_logged_memory() -> None:
    """Tokens from logged memory before and after the weights, within what two decimals of the log leave open."""
    checked = 0
    for row in load("startup-logs.json"):
        shape = SHAPES.get(row["id"])
        known = (row["avail_before_weights_gib"], row["avail_after_weights_gib"], row["mem_fraction_static"])
        if shape is None or None in known or not row["kv_tokens"]:
            continue
        if row["sglang_version"] and parse_version(row["sglang_version"]) < OLDEST:
            continue
        before, after, fraction = known
        per_token = bytes_per_token(shape[0], shape[1])
        budget = (after - before * (1 - fraction)) * GIB
        # One row is of an AMD branch that then takes a workspace off; it logs what it started from.
        initial = re.search(r"initial available_bytes (\d+)", "\n".join(row["raw"]))
        logged = int(initial.group(1)) if initial else row["kv_tokens"] * per_token
        assert budget == pytest.approx(logged, rel=5e-4), row["id"]
        checked += 1
    assert checked >= 2


# GiB of pool and bytes a token that SGLang's own CI measured, for the shapes that a plan knows.
CI_BYTES_PER_TOKEN = {
    "MLA with 27 layers (DeepSeek-V2-Lite)": 576 * 27 * 2,
    "MLA with 30 layers": 576 * 30 * 2,
    "Llama-3.1-8B, BF16 cache": 131_072,
    "Llama-3.1-8B, FP8 cache": 65_536,
}


def test_capacities_of_the_ci_of_sglang() -> None:
    logged = [row["bytes_per_token"] for row in load("ci-capacities.json")["rows"] if row.get("bytes_per_token")]
    for label, expected in CI_BYTES_PER_TOKEN.items():
        assert any(value == pytest.approx(expected, rel=5e-4) for value in logged), label


def test_pools_of_the_real_server_on_a_cpu() -> None:
    """The real 0.5.23 with two ranks: tokens and bytes of its log are those of a plan."""
    log = (SGLANG / "real-logs" / "tp2-pinned.log").read_text(encoding="utf-8", errors="replace")
    lines = set(re.findall(r"Allocating kv hierarchical KV host pool: (\d+) tokens, ([\d.]+) GB host memory", log))
    assert len(lines) == 1
    tokens, size = lines.pop()
    per_token = round(float(size) * 1e9 / int(tokens))
    attention = {"num_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2, "head_dim": per_token // 2 // 2 // 2}
    arguments = {
        "sglang_version": "0.5.23",
        "model": {"architecture": "LlamaForCausalLM", "dtype": "bfloat16", "attention": attention},
        "topology": {"host": {"memory_available_bytes": 30 * 10**9}},
        "server": {"device": "cpu", "tensor_parallel_size": 2, "max_total_tokens": 400_000},
        "hicache": {"ratio": 4.0, "io_backend": "direct", "mem_layout": "layer_first"},
    }
    planned = plan_as_dict(plan(plan_request(arguments)))
    assert planned["device"]["max_total_num_tokens"] == 400_000
    assert planned["host"]["tokens"] == int(tokens)
    assert f"{planned['host']['bytes_per_rank'] / 1e9:.2f}" == size


def test_fixed_size_of_the_real_server() -> None:
    """--hicache-size 1 on 512 bytes a token: whole GB, and a page more."""
    log = (SGLANG / "real-logs" / "sigterm_idle.log").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"Allocating kv hierarchical KV host pool: (\d+) tokens", log)
    assert found is not None
    facts = version_facts("0.5.23")
    assert pool_tokens(facts, 1_000, 1, 512, Sizing("size", size_gb=1)) == int(found.group(1))
