# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes that a server has for its pools: what loading leaves of a GPU, less what the fraction keeps back."""

from __future__ import annotations

import math

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_weights import DeviceWeights
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import Speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.device_fraction import Fraction
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def estimated_budget(
    model: ModelFacts,
    speculation: Speculation | None,
    held: DeviceWeights,
    observed: Observed,
    before: int | None,
    chosen: Fraction,
    multimodal: int,
    explanation: list[str],
    assumptions: list[str],
) -> tuple[int, int]:
    """(budget, weights of a rank), or a Refusal of what is not known."""
    fraction = chosen.applied
    if before is None or fraction is None:
        raise Refusal(
            "gpu_memory_unknown",
            "The memory of the GPUs is not known.",
            "Give topology.gpus[].memory_total_bytes, or observed.kv_pool_bytes of an earlier start.",
        )
    after = observed.available_after_load_bytes
    weights = None if after is None else before - after
    if after is None:
        if held.largest is None:
            raise Refusal(
                "weights_unknown",
                f"The size of the weights of {model.name} is not known.",
                "Give model.weights.total_bytes, or observed.available_after_load_bytes.",
            )
        weights = held.largest
        after = before - weights
        explanation += held.explanation
        assumptions += held.assumptions
        if speculation is not None and speculation.counts_draft_weights:
            after -= _draft_of_budget(held, explanation)
    budget = math.floor(after - before * (1 - fraction) - multimodal)
    explanation.append(
        f"KV budget = available after weights {format_gib(after)} - available before {format_gib(before)} x "
        f"(1 - {fraction:.4g})"
        + (f" - multimodal reservation {format_gib(multimodal)}" if multimodal else "")
        + f" = {format_gib(budget)}"
    )
    return budget, before - after if weights is None else weights


def _draft_of_budget(held: DeviceWeights, explanation: list[str]) -> int:
    """The draft's weights, which releases from 0.5.14 on load before they size the pools."""
    if held.draft_bytes is None:
        raise Refusal(
            "draft_weights_unknown",
            "The draft's weights are loaded before the pools are sized, and their size is not known.",
            "Give speculative.model with weights.total_bytes, or observed.available_after_load_bytes with the draft.",
        )
    if held.draft_bytes:
        explanation.append(f"the draft's weights take {format_gib(held.draft_bytes)} a rank")
    if held.draft_vocabulary_bytes:
        explanation.append(
            f"the draft's own embedding and head take {format_gib(held.draft_vocabulary_bytes)} a rank until the pools "
            "are sized; then it takes the target's, and they stay idle"
        )
    return held.draft_bytes + held.draft_vocabulary_bytes
