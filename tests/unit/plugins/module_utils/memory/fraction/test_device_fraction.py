# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import (
    Fraction,
    Reserve,
    capability_of,
    fraction_in_force,
    fraction_problems,
    smallest_card,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.models import INDEXED, model_of

H100 = GpuFacts(0, memory_total_bytes=81_559 * MIB, compute_capability=(9, 0))


NOTHING_SEEN = Observed()


def in_force(
    release: str = "0.5.23",
    architecture: str = "LlamaForCausalLM",
    gpus: tuple[GpuFacts, ...] = (H100,),
    observed: Observed = NOTHING_SEEN,
    vision: dict[str, int] | None = None,
    **server: Any,
) -> tuple[Fraction, list[str]]:
    lines: list[str] = []
    model = model_of(architecture, vision=vision)
    return fraction_in_force(version_facts(release), model, ServerRequest(**server), gpus, observed, lines), lines


def parts(reserve: Reserve | None) -> int:
    assert reserve is not None
    sizes = {name: value for name, value in vars(reserve).items() if name.endswith("_bytes") and name != "total_bytes"}
    return sum(sizes.values())


def test_given_before_observed_before_default() -> None:
    seen = Observed(mem_fraction_static=0.8)
    assert in_force(mem_fraction_static=0.7, observed=seen)[0].source == "given"
    assert in_force(observed=seen)[0].source == "observed"
    chosen, lines = in_force()
    assert (chosen.value, chosen.source, chosen.factor) == (0.83, "default", 1.0)
    assert any("mem_fraction_static of SGLang 0.5.23 = (81,559 - 13,904) MiB / 81,559 MiB" in line for line in lines)


@pytest.mark.parametrize("release", [str(version) for version in EXAMINED])
def test_no_release_is_without_a_default(release: str) -> None:
    tower = {"num_hidden_layers": 24, "hidden_size": 1280}
    for architecture, vision in (("LlamaForCausalLM", None), ("Qwen2_5_VLForConditionalGeneration", tower)):
        chosen, _lines = in_force(release, architecture, vision=vision)
        assert chosen.source == "default"
        reserve = chosen.reserve
        assert reserve is not None
        assert parts(reserve) == reserve.total_bytes
        assert reserve.total_bytes == pytest.approx(81_559 * MIB * (1 - reserve.mem_fraction_static), abs=1)


def test_the_reserve_names_its_purposes() -> None:
    chosen, lines = in_force(tensor_parallel_size=8, attention_data_parallel_size=8, gpus=(H100,) * 8)
    reserve = chosen.reserve
    assert reserve is not None
    assert reserve.activations_bytes == 12 * GIB
    assert reserve.graphs_bytes == (512 * 2 + 58 * 8) * MIB
    assert reserve.parallel_bytes == GIB
    assert reserve.attention_dp_bytes == 18 * GIB
    assert reserve.floor_bytes == reserve.speculative_bytes == reserve.vision_bytes == 0
    # The fraction has three digits.
    assert abs(reserve.rest_bytes) <= 81_559 * MIB * 0.0005 + 1
    assert reserve.explanation in lines
    assert "12.00 GiB for activations" in reserve.explanation and "18.00 GiB for attention DP" in reserve.explanation


def test_a_tower_has_its_part() -> None:
    tower = {"num_hidden_layers": 24, "hidden_size": 1024}
    chosen, _lines = in_force(architecture="Qwen2_5_VLForConditionalGeneration", vision=tower)
    reserve = chosen.reserve
    assert reserve is not None and chosen.value is not None
    assert reserve.vision_bytes == pytest.approx(81_559 * MIB * chosen.value / 0.95 * 0.05, abs=2)


def test_a_tower_lowers_a_given_fraction_when_an_old_release_loads_it() -> None:
    chosen, lines = in_force("0.4.8", "Qwen2_5_VLForConditionalGeneration", mem_fraction_static=0.8)
    assert (chosen.value, chosen.factor) == (0.8, 0.9)
    assert chosen.applied == pytest.approx(0.72)
    assert lines[-1].endswith("0.8 x 0.9 = 0.72")
    assert in_force("0.4.9", "Qwen2_5_VLForConditionalGeneration", mem_fraction_static=0.8)[0].applied == 0.8


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ({"gpus": (GpuFacts(0),)}, "mem_fraction_static_unknown", "the size of the GPUs is not known"),
        ({"gpus": ()}, "mem_fraction_static_unknown", "the size of the GPUs is not known"),
        ({"architecture": "Qwen2_5_VLForConditionalGeneration"}, "mem_fraction_static_unknown", "vision tower"),
        ({"mem_fraction_static": 88}, "mem_fraction_static_out_of_range", "88"),
    ],
)
def test_what_cannot_be_known_is_refused(asked: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        in_force(**asked)
    assert refusal.value.code == code
    assert words in str(refusal.value)


def test_what_cannot_be_known_need_not_be() -> None:
    unknown = GpuFacts(0)
    given, lines = in_force(gpus=(unknown,), mem_fraction_static=0.8)
    assert (given.value, given.reserve, lines) == (0.8, None, [])
    seen, _lines = in_force(gpus=(unknown,), observed=Observed(kv_pool_bytes=GIB))
    assert (seen.value, seen.source, seen.applied) == (None, "unknown", None)


def test_the_smallest_card_and_the_first_capability_count() -> None:
    small = GpuFacts(1, memory_total_bytes=46_068 * MIB, compute_capability=(8, 9))
    assert smallest_card((H100, small)) == 46_068 * MIB
    assert smallest_card((H100, GpuFacts(1))) is None
    assert capability_of((GpuFacts(1), small, H100)) == (8, 9)
    assert capability_of(()) is None


@pytest.mark.parametrize(
    ("given", "source", "seen_idle", "codes"),
    [
        (0.83, "given", False, []),
        (0.84, "given", False, ["fraction_above_default"]),
        (0.84, "given", True, []),
        (0.84, "observed", False, []),
        (0.79, "given", False, []),
        (0.7, "given", False, ["fraction_below_default"]),
        (None, "given", False, []),
    ],
)
def test_what_is_said_of_a_fraction(given: float | None, source: str, seen_idle: bool, codes: list[str]) -> None:
    reserve = in_force()[0].reserve
    found = fraction_problems(given, source, reserve, seen_idle, "0.5.23")
    assert [problem.code for problem in found] == codes
    assert fraction_problems(given, source, None, seen_idle, "0.5.23") == []
    for problem in found:
        assert "default would be 0.830" in problem.message and "13.54 GiB" in problem.message


def test_a_release_that_sets_its_own_fraction_for_an_index_takes_no_other() -> None:
    model = model_of("DeepseekV32ForCausalLM", attention=INDEXED)
    lines: list[str] = []

    def of(release: str, **server: Any) -> Fraction:
        return fraction_in_force(version_facts(release), model, ServerRequest(**server), (H100,), NOTHING_SEEN, lines)

    chosen = of("0.5.3", tensor_parallel_size=8)
    assert (chosen.value, chosen.source) == (0.8, "default")
    assert parts(chosen.reserve) == pytest.approx(81_559 * MIB * 0.2, abs=1)
    assert of("0.5.3", mem_fraction_static=0.8).source == "given"
    with pytest.raises(Refusal) as refusal:
        of("0.5.3", mem_fraction_static=0.85)
    assert refusal.value.code == "mem_fraction_static_rewritten"
    assert refusal.value.evidence["rewritten_mem_fraction_static"] == 0.8
    assert of("0.5.4", mem_fraction_static=0.85).value == 0.85
