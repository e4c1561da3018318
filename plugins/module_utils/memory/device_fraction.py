# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mem_fraction_static in force: the one that is given or was observed, or the default of the release.

Source: SGLang, server_args.py (0.5.9), arg_groups/memory_hook.py (0.5.23).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import FAMILY_MLA
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import FractionDefaults, VersionFacts


def prefill_graph_sizes(limit: int) -> int:
    """How many prefill graphs SGLang captures up to a token count (C(generate_prefill_cuda_graph_batch_sizes))."""
    count, reached = 0, 0
    for bound, step in ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256), (limit, 512)):
        upper = min(bound, limit)
        if upper > reached:
            count += (upper - reached) // step
            reached = bound
    return count


def default_mem_fraction(
    defaults: FractionDefaults,
    card_mib: int,
    server: ServerRequest,
    family: str,
    attention_dp: int = 1,
    speculative_algorithm: str | None = None,
) -> tuple[float, str]:
    """(fraction, formula) that a release resolves when mem_fraction_static is not given.

    C(card_mib) is what C(nvidia-smi --query-gpu=memory.total) prints, the minimum over the GPUs.
    """
    tp = server.tensor_parallel_size
    chunk, decode = next(
        (chunk, small if tp < 4 else large) for below, chunk, small, large in defaults.classes if card_mib < below
    )
    # Attention DP divides the chunk among its ranks, but only after the fraction is computed.
    chunk = server.chunked_prefill_size or chunk
    reserved = 512 + max(chunk, 2048) * 1.5 + decode * 2 + server.ranks / 8 * 1024
    if attention_dp > 1:
        reserved += decode * attention_dp * 3
        if decode > 300:
            reserved += decode * attention_dp * 1.5
    if family == FAMILY_MLA:
        reserved += defaults.prefill_graph_mib_mla
    else:
        limit = min(chunk, server.max_total_tokens) if server.max_total_tokens else chunk
        reserved += prefill_graph_sizes(limit) * defaults.prefill_graph_mib_per_size
    if card_mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    if speculative_algorithm is not None:
        reserved += defaults.speculative_mib.get(speculative_algorithm, defaults.speculative_mib["*"])
    fraction = round((card_mib - reserved) / card_mib, 3)
    return fraction, f"({card_mib:,} - {reserved:,.0f}) MiB / {card_mib:,} MiB = {fraction}"


def smallest_card(gpus: tuple[GpuFacts, ...]) -> int | None:
    sizes = [gpu.memory_total_bytes for gpu in gpus if gpu.memory_total_bytes is not None]
    return min(sizes) if len(sizes) == len(gpus) and sizes else None


def fraction_in_force(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    observed: Observed,
    explanation: list[str],
) -> tuple[float | None, str]:
    if server.mem_fraction_static is not None:
        if not 0 < server.mem_fraction_static < 1:
            raise Refusal(
                "mem_fraction_static_out_of_range",
                f"mem_fraction_static is {server.mem_fraction_static}.",
                "Expected a number between 0 and 1, for example 0.88.",
                {"mem_fraction_static": server.mem_fraction_static},
            )
        return server.mem_fraction_static, "given"
    if observed.mem_fraction_static is not None:
        return observed.mem_fraction_static, "observed"
    card = smallest_card(gpus)
    defaults = facts.fraction_defaults
    if defaults is not None and not model.multimodal and card is not None:
        # All latent caches are captured alike.
        family = FAMILY_MLA if model.attention.latent else model.attention.family
        fraction, formula = default_mem_fraction(defaults, card // MIB, server, family)
        explanation.append(f"mem_fraction_static of SGLang {facts.version} = {formula}")
        return fraction, "default"
    if observed.kv_pool_bytes is not None:
        return None, "unknown"
    if model.multimodal:
        why = f"{model.architecture} has a vision tower, for which SGLang lowers its default by the tower's size"
    elif defaults is None:
        why = f"the default of SGLang {facts.version} was not read from its source"
    else:
        why = "the size of the GPUs is not known"
    raise Refusal(
        "mem_fraction_static_unknown",
        f"mem_fraction_static is not set and its default cannot be computed: {why}.",
        "Set mem_fraction_static, or give observed.kv_pool_bytes of an earlier start.",
    )
