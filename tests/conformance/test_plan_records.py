# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Every recorded start through the whole planner, with the inputs that its row has and what came out.

    pytest tests/conformance/test_plan_records.py -s

prints the tables. Skipped where the records are not at hand; what lies behind each row is in pool_records.py and here.
"""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_groups import tensor_groups
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_structure import structure_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.conformance.plan_records import (
    Asked,
    allocated_of,
    config_of,
    model_of,
    planned,
    request_of,
)
from ansible_collections.gpufleet.sglang.tests.conformance.pool_records import CAPACITIES, STARTUPS, Start
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.test_pool_records import NOT_FROM_MEMORY, rows
from ansible_collections.gpufleet.sglang.tests.conformance.test_weights_records import NVIDIA
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.model.checkpoints import model_tensors

pytestmark = needs_recorded_data

EAGLE_70B = {"num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle"]}
# What the rows say beside model and ranks; the others say nothing more.
ASKED: dict[str, Asked] = {
    "sglang#4257": Asked(cap=10240),
    # Of 0.4.4, which adds tokens for drafts to the draft's own pool only; later releases add none either.
    "sglang#4351": Asked(
        release="0.5.7",
        speculative={"algorithm": "EAGLE", "num_steps": 3, "eagle_topk": 4, "num_draft_tokens": 16},
        draft=Start("llama-3.3-70b", changed=EAGLE_70B),
    ),
    "sglang#5637": Asked(cap=4096),
    "sglang#6027": Asked(attention_data_parallel=16),
    "sglang#7495": Asked(release="0.4.7"),
    "sglang#7847": Asked(attention_data_parallel=16, expert_parallel=16, cap=131072),
    "kimi-k25-tp8": Asked(release="0.5.9"),
    "dsv3-int8-ktransformers-tp2": Asked(cap=10000),
    "mimo-v2-flash-tp4-swa": Asked(page_size=64),
    "dsr1-fp8-h200-tp8-082": Asked(release="0.5.23"),
    "hicache-glm52-fp8-tp8-size96-mtp": Asked(release="0.5.13", speculative={"algorithm": "NEXTN"}),
    "qwen38-27b-bf16-radixoff": Asked(running_requests=32, flags={"disable-radix-cache": True}),
    "qwen38-27b-nvfp4-gb10": Asked(state_slots=360),
    "ling3-flash-fp8-gb10": Asked(page_size=64, release="0.5.20"),
    "ling3-flash-fin-gb10": Asked(state_slots=117, release="0.5.20"),
    "granite-hybrid-16g": Asked(state_slots=38, release="0.5.9"),
    "lfm2-16g": Asked(state_slots=85292, release="0.5.9"),
    "glm47-flash-ascend-tp2": Asked(release="0.5.9"),
    "dflash-speculative-oom": Asked(state_slots=64, speculative={"algorithm": "DFLASH"}),
}
# Ranks of the whole server where the record of pools counts those of a group.
RANKS = {"sglang#7847": 16, "sglang#6027": 16}


def row_of(name: str) -> dict[str, Any]:
    return next(row for row in rows("startup-logs.json") if row["id"] == name)


def start_of(name: str) -> Start:
    start = STARTUPS[name]
    assert isinstance(start, Start)
    return Start(start.model, RANKS.get(name, start.ranks), start.dtype, start.changed, start.state_dtype)


def logged_pool_gib(row: dict[str, Any]) -> tuple[float, float] | None:
    """(GiB of the KV pools of all kinds, rounding of the log)."""
    window = row.get("swa") or {}
    if window:
        if not window.get("full_k_gib"):
            return None
        return sum(window[key] for key in ("full_k_gib", "full_v_gib", "swa_k_gib", "swa_v_gib")), 0.02
    if row.get("kv_mla_gib"):
        return row["kv_mla_gib"], 0.005
    if row.get("kv_k_gib"):
        return row["kv_k_gib"] + row["kv_v_gib"], 0.01
    return None


def tokens_from_memory(name: str, row: dict[str, Any]) -> tuple[str, float | None]:
    """(words, error of the tokens where available memory before and after loading and the fraction are logged)."""
    before, after, fraction = (
        row.get(key) for key in ("avail_before_weights_gib", "avail_after_weights_gib", "mem_fraction_static")
    )
    lacks = [name for name, value in (("before", before), ("after", after), ("fraction", fraction)) if value is None]
    if lacks:
        return f"no {', '.join(lacks)}", None
    assert before is not None and after is not None and fraction is not None
    observed = {
        "available_before_load_bytes": int(before * GIB),
        "available_after_load_bytes": int(after * GIB),
    }
    found = planned(request_of(start_of(name), ASKED.get(name, Asked()), observed, float(fraction)))
    if isinstance(found, Refusal):
        return f"refused: {found.code}", None
    ours, tokens = found["device"]["max_total_num_tokens"], row.get("kv_tokens")
    if tokens is None:
        pool = logged_pool_gib(row)
        if pool is None:
            return f"{ours:,} tokens, none logged", None
        tokens = int(pool[0] * GIB / found["device"]["bytes_per_token"])
    words = f"{ours:,} of {tokens:,} tokens ({ours / tokens - 1:+.2%})"
    capped = ASKED.get(name, Asked()).cap is not None
    if name in NOT_FROM_MEMORY and not capped:
        return f"{words}; {NOT_FROM_MEMORY[name]}", None
    return words, ours / tokens - 1


def pools_of_tokens(name: str, row: dict[str, Any]) -> tuple[str, bool | None]:
    """(words, whether the pools of the logged tokens take what was logged)."""
    tokens, logged = row.get("kv_tokens"), logged_pool_gib(row)
    if tokens is None or logged is None:
        return "no tokens or no pool", None
    asked = ASKED.get(name, Asked())
    if asked.speculative and asked.speculative["algorithm"] == "DFLASH":
        asked = Asked(state_slots=asked.state_slots)
    slots = (row.get("mamba") or {}).get("slots")
    with_cap = Asked(
        asked.release,
        asked.attention_data_parallel,
        asked.expert_parallel,
        1,
        int(tokens),
        asked.running_requests,
        asked.speculative,
        asked.draft,
        {},
        slots or (8 if model_of(start_of(name))["attention"]["state"] else None),
    )
    found = planned(request_of(start_of(name), with_cap, {"kv_pool_bytes": 4000 * GIB, "mem_fraction_static": 0.9}))
    if isinstance(found, Refusal):
        return f"refused: {found.code}", None
    sizes = {pool["kind"]: pool["bytes_per_slot"] * pool["slots"] for pool in found["device"]["pools"]}
    ours = sum(sizes.get(kind, 0) for kind in ("kv", "swa", "indexer")) / GIB
    words = f"{ours:.2f} of {logged[0]:.2f} GiB"
    right = abs(ours - logged[0]) <= logged[1] + 0.0006 * logged[0]
    states = row.get("mamba") or {}
    if slots:
        state = allocated_of(found, "mamba") / GIB
        words += f", states {state:.2f} of {states['conv_gib'] + states['ssm_gib']:.2f}"
        right = right and abs(state - states["conv_gib"] - states["ssm_gib"]) <= 0.011
    return words, right


def host_of(name: str, row: dict[str, Any]) -> tuple[str, bool | None]:
    """(words, whether the host pools of a rank are those that were logged)."""
    logged, settings = row.get("host_alloc_gb_per_rank"), row.get("hicache") or {}
    if logged is None:
        return "", None
    start = start_of(name)
    asked = ASKED.get(name, Asked(release="0.5.13"))
    size, ratio = settings.get("hicache_size"), settings.get("hicache_ratio")
    # The device pool's tokens, out of its logged size where the row has no number of them.
    tokens = row.get("kv_tokens") or int((row.get("kv_mla_gib") or 33.2) * GIB / ((656 + 132) * 78))
    asked = replace(asked, cap=int(tokens))
    found = planned(
        request_of(
            start,
            asked,
            {"kv_pool_bytes": 4000 * GIB, "mem_fraction_static": 0.9},
            hicache={"size_gb": size} if size else {"ratio": float(ratio or 0)},
        )
    )
    if isinstance(found, Refusal):
        return f"refused: {found.code}", None
    ours = {pool["kind"]: pool["bytes_per_rank"] / 1e9 for pool in found["host"]["pools"]}
    extra = row.get("host_alloc_extra_gb_per_rank") or {}
    expected = {"kv": logged, **{{"dsa_indexer": "indexer"}.get(key, key): value for key, value in extra.items()}}
    right = all(abs(ours[kind] - value) <= max(0.006, 0.0003 * logged) for kind, value in expected.items())
    return "; host " + ", ".join(
        f"{kind} {ours[kind]:.2f} of {value:.2f} GB" for kind, value in expected.items()
    ), right


def bound_of(name: str) -> float:
    return 0.02 if start_of(name).ranks >= 8 else 0.005


@pytest.mark.parametrize("name", sorted(name for name, start in STARTUPS.items() if isinstance(start, Start)))
def test_startup_through_the_planner(name: str) -> None:
    row = row_of(name)
    words, error = tokens_from_memory(name, row)
    assert error is None or abs(error) <= bound_of(name), words
    pools, right = pools_of_tokens(name, row)
    assert right in (True, None), pools
    host, alike = host_of(name, row)
    assert alike in (True, None), host


def test_table_of_startups() -> None:
    lines, judged = [], 0
    for row in rows("startup-logs.json"):
        name = row["id"]
        start = STARTUPS[name]
        if isinstance(start, str):
            drafted = Asked(release="0.5.23", speculative={"algorithm": "EAGLE"})
            found = planned(request_of(Start("deepseek-v4-flash"), drafted, {"kv_pool_bytes": 4 * GIB}, 0.9))
            assert isinstance(found, Refusal) and found.code == "speculative_unplanned"
            lines.append(f"{name:34s} {start}")
            continue
        words, error = tokens_from_memory(name, row)
        pools, right = pools_of_tokens(name, row)
        judged += (error is not None) + (right is not None)
        lines.append(f"{name:34s} {words}; {pools}{host_of(name, row)[0]}")
    print("\n" + "\n".join(lines))
    assert len(lines) == 44
    assert judged >= 36


# What each launch of the CI says beside model and ranks, by its place in the list.
LAUNCHES: dict[int, Asked] = {
    9: Asked(speculative={"algorithm": "NEXTN"}),
    20: Asked(speculative={"algorithm": "NEXTN"}),
    21: Asked(speculative={"algorithm": "EAGLE", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}),
    22: Asked(attention_data_parallel=8, speculative={"algorithm": "NEXTN"}),
    25: Asked(),
}
# Their pool line is that of the draft, which comes last.
LOGS_DRAFT = {
    9: Start("qwen3.5-397b-a17b", 4, dtype="fp8_e4m3", state_dtype="bfloat16"),
    20: Start("qwen3-next-80b-a3b", 4),
}


def capacity_of(number: int) -> tuple[str, bool | None]:
    row, start = rows("ci-capacities.json")[number], LOGS_DRAFT.get(number, CAPACITIES[number])
    if isinstance(start, str):
        return start, None
    measured, asked = row["measured_mean"], LAUNCHES.get(number, Asked())
    tokens = int(measured["token_capacity"])
    slots = measured.get("mamba_cache_size")
    with_cap = Asked(
        "0.5.23" if number in LAUNCHES else asked.release,
        asked.attention_data_parallel,
        1,
        1,
        tokens,
        48,
        asked.speculative,
        asked.draft,
        {},
        slots * asked.attention_data_parallel if slots else None,
    )
    found = planned(request_of(start, with_cap, {"kv_pool_bytes": 4000 * GIB, "mem_fraction_static": 0.9}))
    if isinstance(found, Refusal):
        return f"refused: {found.code}", False
    pools = {pool["kind"]: pool["bytes_per_slot"] * pool["slots"] / GIB for pool in found["device"]["pools"]}
    right = True
    if "swa_mem_gb" in measured:
        ours, logged = pools["kv"] + pools["swa"], measured["swa_mem_gb"]
    elif number in LOGS_DRAFT:
        ours, logged = pools["draft"], measured["kv_cache_gb"]
    else:
        ours, logged = pools["kv"] + pools.get("indexer", 0), measured["kv_cache_gb"]
    words = f"{tokens:,} tokens: {ours:.2f} of {logged:.2f} GiB"
    right = abs(ours - logged) <= 0.012 + 0.0006 * logged
    if slots:
        state, states = allocated_of(found, "mamba") / GIB, measured["mamba_conv_gb"] + measured["mamba_ssm_gb"]
        # Means over runs whose states differ by one.
        right = right and abs(state - states) <= 0.012 + state / slots
        words += f", {slots} states {state:.2f} of {states:.2f}"
    return words, right


@pytest.mark.parametrize("number", range(len(CAPACITIES)))
def test_capacity_through_the_planner(number: int) -> None:
    words, right = capacity_of(number)
    assert right in (True, None), words


def test_table_of_capacities() -> None:
    found = [capacity_of(number) for number in range(len(CAPACITIES))]
    files = [row["test_file"].rsplit("/", 1)[-1] for row in rows("ci-capacities.json")]
    print("\n" + "\n".join(f"{file:48s} {words}" for file, (words, _right) in zip(files, found)))
    assert sum(right is True for _words, right in found) >= 24
    assert len(found) == 27


# Cards of the rows whose weights can be computed, in MiB as nvidia-smi prints them; told by the row or by its sizes.
CARDS = {
    "sglang#1386": 81559,
    "sglang#3204": 81920,
    "sglang#3451": 46068,
    "sglang#4257": 40960,
    "sglang#7495": 81559,
    "sglang#2527": 8192,
    "llama31-8b-80g-2025-01": 81559,
    "llama31-8b-h100-pr4760": 81559,
    "qwen3-0.6b-16g": 16380,
}


def on_paper(name: str) -> tuple[str, float | None]:
    """(words, error) of a plan from the configuration, the tensors of the checkpoint and the card alone."""
    row, case = row_of(name), NVIDIA[name]
    fraction = row.get("mem_fraction_static") or (row.get("check") or {}).get("implied_mem_fraction")
    if name not in CARDS or fraction is None or not row.get("kv_tokens"):
        lacks = "card" if name not in CARDS else "fraction" if fraction is None else "tokens"
        return f"no {lacks}", None
    structure = structure_from_config(case.config, case.config)
    groups = tensor_groups(model_tensors(case.config, case.form), structure.num_layers)
    arguments = request_of(start_of(name), ASKED.get(name, Asked()), {}, float(fraction), card_bytes=CARDS[name] << 20)
    arguments["model"] |= {
        "structure": structure.as_dict(),
        "weights": {"groups": [group.as_dict() for group in groups]},
        "quantization_details": {"method": case.method, "block": case.block},
    }
    found = planned(arguments)
    if isinstance(found, Refusal):
        return f"refused: {found.code}", None
    ours, tokens = found["device"]["max_total_num_tokens"], row["kv_tokens"]
    weights = found["device"]["weights_bytes"] / GIB
    return f"{ours:,} of {tokens:,} tokens ({ours / tokens - 1:+.1%}), weights {weights:.2f} GiB", ours / tokens - 1


def test_table_without_logged_memory() -> None:
    """Before anything was measured: context and collectives are an assumption, and the error is what it costs."""
    found = {name: on_paper(name) for name in NVIDIA}
    print("\n" + "\n".join(f"{name:28s} {words}" for name, (words, _error) in found.items()))
    errors = [abs(error) for _words, error in found.values() if error is not None]
    assert len(errors) >= 6
    assert sorted(errors)[len(errors) // 2] <= 0.03


def test_every_config_of_a_row_is_planned() -> None:
    for name, start in STARTUPS.items():
        if isinstance(start, Start):
            assert config_of(start)["architectures"], name
