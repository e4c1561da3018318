# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Bytes a token, tokens, states and pools of real models, against what SGLang's own code answered.

The answers lie in oracle/, with the wheel that gave them; record_oracle.py asks again in an environment with that
release. The questions are in cell_cases.py, the models' facts in configs/.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cache_type import CacheType, cache_type
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import (
    CellSizes,
    Draft,
    Layout,
    cell_sizes,
    stages,
    token_budget,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.state_pools import (
    StatePlan,
    StateRequest,
    plan_states,
    slot_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import (
    DevicePool,
    DevicePools,
    device_pools,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_RATIO, BY_SIZE, Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_pools import host_pools
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import (
    attention_from_config,
    config_dtype,
    model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import FAMILIES, Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import PoolFacts, pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    EXACT,
    EXAMINED,
    parse_version,
    version_facts,
)
from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import (
    BUDGET_BYTES,
    HOST_RATIO,
    HOST_SIZE_GB,
    PAGE_SIZE,
    POOL_PAGES,
    STATE_SLOTS,
    Case,
    cases_of,
)

HERE = Path(__file__).resolve().parent
RECORDS = sorted((HERE / "oracle").glob("cell-sizes-*.json"))
# These releases cannot read the configuration at all: transformers 5.19 takes num_attention_heads of this model as one
# per layer, and SGLang's own reader (utils/hf_transformers/config.py) asks for the one of all.
UNREADABLE = {("0.5.22", "step-3.5-flash"), ("0.5.23", "step-3.5-flash")}


def load(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def configs() -> dict[str, dict[str, Any]]:
    return {
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
        for file in sorted((HERE / "configs").glob("*.yml"))
    }


CONFIGS = configs()
ROWS = [(record["sglang"], row) for path in RECORDS for record in [load(path)] for row in record["rows"]]


class Ours:
    """What the collection computes for one question."""

    def __init__(self, release: str, case: Case) -> None:
        self.facts: PoolFacts = pool_facts(release)
        self.attention: Attention = attention_from_config(CONFIGS[case.model])
        self.layout = Layout(case.tensor_parallel, case.pipeline_parallel, case.attention_data_parallel)
        backends = frozenset({"trtllm" if case.raw_index_rows else "flashmla_kv"})
        self.cache: CacheType = cache_type(
            self.attention,
            self.facts,
            case.kv_cache_dtype,
            config_dtype(CONFIGS[case.model]),
            compute_capability=(9, 0),
            index_backends=backends,
        )
        every = stages(self.attention.num_layers, case.pipeline_parallel, self.facts.pipeline_division)
        draft = Draft(case.draft_layers) if case.draft_layers else None
        self.cells: CellSizes = cell_sizes(
            self.attention, self.layout, self.cache, self.facts, every[case.stage], draft
        )
        self.states: StatePlan | None = None
        state = self.attention.state
        budget = float(BUDGET_BYTES)
        if state is not None:
            self.states = plan_states(
                state,
                self.layout.attention_ranks,
                budget,
                StateRequest(
                    slots=case.state_slots,
                    ratio=case.state_ratio,
                    running_requests=case.running_requests,
                    draft_tokens=case.draft_tokens,
                    replicas=case.attention_data_parallel,
                ),
                self.facts,
                tuple(len([layer for layer in state.layers if layer in stage]) for stage in every)
                if case.pipeline_parallel > 1
                else (),
            )
            budget = self.states.left_bytes
        self.pools: DevicePools = device_pools(
            self.attention, self.cells, self.facts, budget, PAGE_SIZE, case.cap, case.window_ratio, self.states
        )
        self.budget = token_budget(self.cells, self.facts, case.window_ratio)


def case_of(row: dict[str, Any]) -> Case:
    return Case(**{key: value for key, value in row.items() if key != "answer"})


def named(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    changed = [f"{key}={item}" for key, item in value.items() if key not in ("answer", "model")]
    return "-".join([value["model"], *changed])


def test_records_name_their_wheels_and_cover_what_is_claimed() -> None:
    released = {str(version) for version in EXAMINED if version >= parse_version("0.5.9")}
    assert {load(path)["sglang"] for path in RECORDS} == released >= {str(version) for version in EXACT}
    for path in RECORDS:
        source = load(path)["source"]
        assert source["wheel"].startswith(f"sglang-{load(path)['sglang']}-")
        assert len(source["sha256"]) == 64
    assert len(CONFIGS) >= 25
    assert {attention_from_config(config).family for config in CONFIGS.values()} == set(FAMILIES)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_question_was_answered(path: Path) -> None:
    """A record that is older than the questions would hide some of them."""
    record = load(path)
    asked = [case for name, config in sorted(CONFIGS.items()) for case in cases_of(name, config, record["sglang"])]
    assert [case_of(row) for row in record["rows"]] == asked
    unread = {(record["sglang"], row["model"]) for row in record["rows"] if "error" in row["answer"]}
    assert unread == {pair for pair in UNREADABLE if pair[0] == record["sglang"]}


ANSWERED = [(release, row) for release, row in ROWS if "error" not in row["answer"]]


@pytest.mark.parametrize(("release", "row"), ANSWERED, ids=named)
def test_budget_tokens_and_states(release: str, row: dict[str, Any]) -> None:
    case, answer = case_of(row), row["answer"]
    ours = Ours(release, case)
    assert ours.layout.attention_ranks == answer["attention_ranks"]
    assert ours.budget == pytest.approx(answer["budget"], rel=1e-12)
    if "slots" in answer:
        assert ours.states is not None and ours.attention.state is not None
        assert slot_bytes(ours.attention.state, ours.layout.attention_ranks) == answer["slot_bytes"]
        assert ours.states.slots == answer["slots"]
    if "left_bytes" in answer:
        assert ours.states is not None
        assert int(ours.states.left_bytes) == pytest.approx(answer["left_bytes"], abs=64)
    assert ours.pools.tokens == answer["tokens"]
    if answer["window_tokens"] is not None:
        assert ours.pools.slots("swa") == answer["window_tokens"]


@pytest.mark.parametrize(("release", "row"), [pair for pair in ANSWERED if "rows" in pair[1]["answer"]], ids=named)
def test_bytes_of_allocated_rows(release: str, row: dict[str, Any]) -> None:
    """The real pool classes allocated a few rows; what each takes is what is planned for it."""
    ours = Ours(release, case_of(row))
    planned = {pool.kind: pool.bytes_per_slot for pool in ours.pools.pools}
    if "mamba" in planned:
        stage = stages(ours.attention.num_layers, ours.layout.pipeline_parallel_size, ours.facts.pipeline_division)[
            row.get("stage", 0)
        ]
        state = ours.attention.state
        assert state is not None
        own = len([layer for layer in state.layers if layer in stage])
        planned["mamba"] = slot_bytes(state, ours.layout.attention_ranks, own)
    assert planned == row["answer"]["rows"]


@pytest.mark.parametrize(("release", "row"), [pair for pair in ANSWERED if "host" in pair[1]["answer"]], ids=named)
def test_host_pools(release: str, row: dict[str, Any]) -> None:
    ours = Ours(release, case_of(row))
    tokens = POOL_PAGES * PAGE_SIZE
    tiny = [DevicePool(kind, tokens, size, PAGE_SIZE) for kind, size in ours.cells.pools.items()]
    if ours.states is not None:
        tiny.append(DevicePool("mamba", STATE_SLOTS, ours.states.bytes_per_slot, 1))
    facts = version_facts(release)
    for mode, sizing in (
        ("ratio", Sizing(BY_RATIO, ratio=HOST_RATIO)),
        ("size", Sizing(BY_SIZE, size_gb=HOST_SIZE_GB)),
    ):
        planned = {
            pool.kind: [pool.tokens, pool.bytes_per_token] for pool in host_pools(facts, tiny, PAGE_SIZE, sizing)
        }
        planned.pop("indexer", None)
        assert planned == row["answer"]["host"][mode], mode


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_facts_survive_the_way_through_model_info(name: str) -> None:
    config = CONFIGS[name]
    attention = attention_from_config(config)
    through = json.loads(json.dumps(attention.as_dict()))
    assert model_facts({"architecture": config["architectures"][0], "attention": through}).attention == attention


@pytest.mark.parametrize(
    ("model", "release", "ranks", "dtype", "page", "figures"),
    [
        ("gpt-oss-120b", "0.5.23", 4, "auto", 1, {"tokens": 2_589_076, "swa": 2_071_260}),
        ("qwen3-next-80b-a3b", "0.5.23", 4, "auto", 1, {"tokens": 1_839_937, "mamba": 1_052}),
        ("glm-5", "0.5.9", 8, "fp8_e4m3", 64, {"tokens": 777_728}),
    ],
)
def test_figures_of_the_guide(
    model: str, release: str, ranks: int, dtype: str, page: int, figures: dict[str, int]
) -> None:
    facts, attention = pool_facts(release), attention_from_config(CONFIGS[model])
    cache = cache_type(attention, facts, dtype, "bfloat16", compute_capability=(9, 0))
    cells, budget, states = cell_sizes(attention, Layout(ranks), cache, facts), 40.0 * (1 << 30), None
    if attention.state is not None:
        states = plan_states(attention.state, ranks, budget, StateRequest(), facts)
        budget = states.left_bytes
    found = device_pools(attention, cells, facts, budget, page, states=states)
    guide = (HERE.parents[1] / "docs" / "families.md").read_text(encoding="utf-8")
    for kind, figure in figures.items():
        assert figure == (found.tokens if kind == "tokens" else found.slots(kind))
        assert f"{figure:,}" in guide
