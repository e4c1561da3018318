# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Recorded starts against the pools that are planned for them, every row with what it tells and what comes out.

    pytest tests/conformance/test_pool_records.py -s -k listing

prints the list. Skipped where the records are not at hand.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import cache_type
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    CellSizes,
    Layout,
    cell_sizes,
    index_row_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StateRequest,
    plan_states,
    slot_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB, GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.tests.conformance.pool_records import CAPACITIES, STARTUPS, Start
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data

HERE = Path(__file__).resolve().parent
SGLANG = DATA / "sglang"
# Half a unit of the log's second decimal, and a little for the sum of two of them.
ROUNDING_GIB = 0.0055

pytestmark = needs_recorded_data


def rows(name: str) -> list[dict[str, Any]]:
    found = json.loads((SGLANG / name).read_text(encoding="utf-8"))
    return list(found["rows"] if isinstance(found, dict) else found)


def attention_of(start: Start) -> Attention:
    config = yaml.safe_load((HERE / "configs" / f"{start.model}.yml").read_text(encoding="utf-8"))["config"]
    nested = config.get("text_config")
    (nested if isinstance(nested, dict) else config).update(start.changed)
    return attention_from_config(config)


def cells_of(start: Start, release: str = "0.5.13") -> CellSizes:
    attention, facts = attention_of(start), pool_facts(release)
    cache = cache_type(attention, facts, start.dtype, "bfloat16", compute_capability=(9, 0))
    return cell_sizes(attention, Layout(start.ranks), cache, facts)


def near(ours: float, logged: float, values: int = 1) -> bool:
    return abs(ours - logged) <= ROUNDING_GIB * values


def pools_of(row: dict[str, Any], start: Start) -> dict[str, bool]:
    """Each logged pool by name, and whether ours is within the rounding of the log."""
    cells, found = cells_of(start), {}
    tokens, window = row.get("kv_tokens"), row.get("swa") or {}
    both = cells.pools["kv"] + cells.pools.get("indexer", 0)
    if tokens and row.get("kv_mla_gib"):
        found["latent pool"] = near(both * tokens / GIB, row["kv_mla_gib"])
    elif tokens and row.get("kv_k_gib") and not window:
        found["K and V"] = near(both * tokens / GIB, row["kv_k_gib"] + row["kv_v_gib"], 2)
    if window.get("full_k_gib"):
        ours = cells.pools["kv"] * window["full_layer_tokens"] / GIB
        found["full pool"] = near(ours, window["full_k_gib"] + window["full_v_gib"], 2)
    if window.get("swa_k_gib"):
        ours = cells.pools["swa"] * window["swa_layer_tokens"] / GIB
        found["window pool"] = near(ours, window["swa_k_gib"] + window["swa_v_gib"], 2)
        found["window tokens"] = window["swa_layer_tokens"] == int(window["full_layer_tokens"] * 0.8)
    states, state = row.get("mamba") or {}, attention_of(start).state
    if states and state is not None:
        ours = slot_bytes(state, start.ranks, dtype=start.state_dtype) * (states["slots"] + 1) / GIB
        found["states"] = near(ours, states["conv_gib"] + states["ssm_gib"], 2)
    return found


def host_of(row: dict[str, Any], start: Start) -> dict[str, bool]:
    """Host pools by size or ratio, where a row tells them."""
    found: dict[str, bool] = {}
    settings, logged = row.get("hicache") or {}, row.get("host_alloc_gb_per_rank")
    if logged is None:
        return found
    cells, attention = cells_of(start), attention_of(start)
    per_token, index = cells.pools["kv"], cells.pools.get("indexer", 0)
    if settings.get("hicache_size"):
        tokens = (int(settings["hicache_size"] * GB // per_token) // 64 + 1) * 64
    else:
        # The device pool's tokens out of its logged size, as the row has no number of them.
        device = row["kv_mla_gib"] * GIB / (per_token + index)
        tokens = int(device * settings["hicache_ratio"])
    found["host pool"] = abs(tokens * per_token / GB - logged) <= max(0.005, 0.0003 * logged)
    extra = row.get("host_alloc_extra_gb_per_rank") or {}
    if "dsa_indexer" in extra:
        found["host index"] = abs(tokens * index / GB - extra["dsa_indexer"]) <= max(0.005, 0.0003 * logged)
    if "draft" in extra:
        # One layer of raw FP8 rows.
        width = (attention.kv_lora_rank or 0) + (attention.qk_rope_head_dim or 0)
        found["host draft"] = abs(tokens * width / GB - extra["draft"]) <= 0.005
    return found


# Why the tokens of a start do not follow from its memory, where they do not.
NOT_FROM_MEMORY = {
    "sglang#1953": "asks for an int8 cache, which no release of ours has; what it took instead is not logged",
    "sglang#4257": "capped by --max-total-tokens",
    "sglang#5637": "no fraction",
    "sglang#7847": "capped by --max-total-tokens",
    "dsv3-int8-ktransformers-tp2": "capped by --max-total-tokens",
    "sglang#748": "of July 2024, long before the releases that are planned; 1.2 % off by their formula",
    "qwen3-30b-a3b-mi3xx-tp1": "the AITER branch takes its workspace off; see test_planner_records.py",
    "ling3-flash-fp8-gb10": "states are not quoted",
}


def tokens_of(row: dict[str, Any], start: Start) -> tuple[str, bool | None]:
    """(words, whether the tokens follow from the logged memory within 0.5 %, or 2 % over eight ranks and more)."""
    before, after = row.get("avail_before_weights_gib"), row.get("avail_after_weights_gib")
    fraction, tokens = row.get("mem_fraction_static"), row.get("kv_tokens")
    if before is None or after is None or fraction is None or tokens is None:
        given = {"before": before, "after": after, "fraction": fraction, "tokens": tokens}
        return f"no {', '.join(name for name, value in given.items() if value is None)}", None
    if row["id"] in NOT_FROM_MEMORY:
        return NOT_FROM_MEMORY[row["id"]], None
    budget = (after - before * (1 - fraction)) * GIB
    state = attention_of(start).state
    if state is not None:
        budget -= 0.0977 * GIB  # a vision tower's reservation
        asked = StateRequest(running_requests=32, radix_cache=False)
        budget = plan_states(state, start.ranks, budget, asked, pool_facts("0.5.23")).left_bytes
    cells = cells_of(start)
    ours = int(budget // (cells.pools["kv"] + cells.pools.get("indexer", 0)))
    error = ours / tokens - 1
    return f"tokens {ours:,} against {tokens:,} ({error:+.2%})", abs(error) <= (0.02 if start.ranks >= 8 else 0.005)


def test_every_startup_is_named() -> None:
    assert {row["id"] for row in rows("startup-logs.json")} == set(STARTUPS)


@pytest.mark.parametrize("name", sorted(STARTUPS))
def test_pools_of_startup(name: str) -> None:
    start = STARTUPS[name]
    row = next(row for row in rows("startup-logs.json") if row["id"] == name)
    if isinstance(start, str):
        assert re.search(r"refused", start)
        return
    judged = {**pools_of(row, start), **host_of(row, start)}
    words, within = tokens_of(row, start)
    assert all(judged.values()), judged
    assert within in (True, None), words


def test_listing_of_startups() -> None:
    """Every row with the inputs it has and the result; none is left out."""
    lines = []
    for row in rows("startup-logs.json"):
        start = STARTUPS[row["id"]]
        if isinstance(start, str):
            lines.append(f"{row['id']:36s} {start}")
            continue
        judged = {**pools_of(row, start), **host_of(row, start)}
        pools = ", ".join(f"{key} {'agrees' if right else 'DIFFERS'}" for key, right in judged.items())
        lines.append(f"{row['id']:36s} {pools or 'no pool and tokens in the row'}; {tokens_of(row, start)[0]}")
    print("\n" + "\n".join(lines))
    assert len(lines) == 44
    assert sum("agrees" in line for line in lines) >= 30
    assert not any("DIFFERS" in line for line in lines)


@pytest.mark.parametrize("number", range(len(CAPACITIES)))
def test_capacities_of_the_ci_of_sglang(number: int) -> None:
    """Means over about three runs of the same launch; the rounding is that of the logs they are means of."""
    start, row = CAPACITIES[number], rows("ci-capacities.json")[number]
    if isinstance(start, str):
        assert re.search(r"mean over launches|the draft|refused", start)
        return
    cells, measured = cells_of(start), row["measured_mean"]
    both = cells.pools["kv"] + cells.pools.get("indexer", 0)
    tokens, slack = measured["token_capacity"], 0.0006
    if "swa_mem_gb" in measured:
        full, window = measured.get("full_size", tokens) * cells.pools["kv"], measured["swa_size"] * cells.pools["swa"]
        assert (full + window) / GIB == pytest.approx(measured["swa_mem_gb"], rel=slack, abs=0.012)
        if "kv_cache_gb" in measured:
            # The record keeps the pool line that was logged last: of the full layers, or of the windows.
            assert any(
                part / GIB == pytest.approx(measured["kv_cache_gb"], rel=slack, abs=0.012) for part in (full, window)
            )
        return
    assert both * tokens / GIB == pytest.approx(measured["kv_cache_gb"], rel=slack, abs=0.006)
    state = attention_of(start).state
    if state is not None:
        ours = slot_bytes(state, start.ranks, dtype=start.state_dtype) * (measured["mamba_cache_size"] + 1) / GIB
        one = slot_bytes(state, start.ranks, dtype=start.state_dtype) / GIB
        assert ours == pytest.approx(measured["mamba_conv_gb"] + measured["mamba_ssm_gb"], abs=one + 0.012)


def test_every_capacity_is_named() -> None:
    assert len(rows("ci-capacities.json")) == len(CAPACITIES) == 27
    assert sum(isinstance(start, Start) for start in CAPACITIES) == 22


def test_rows_of_the_index_in_the_two_logs_that_name_them() -> None:
    """656 bytes a layer and token, and 132 for the index key: both are in the logs."""
    start = Start("glm-5", 8, dtype="fp8_e4m3")
    assert cells_of(start).pools == {"kv": 656 * 78, "indexer": index_row_bytes(128) * 78}
    assert index_row_bytes(128) == 132
