# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mem_fraction_static in force: the one that is given or was observed, or the default of the release.

Beside it stands what SGLang itself would keep of the GPU and for which purpose, whatever fraction is in force.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.fraction_default import (
    FractionDefault,
    factor_of_load,
    fraction_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    Observed,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# A fraction lower than the default by more than this leaves memory to nobody, as far as SGLang's own estimate goes.
_FAR_BELOW = 0.05


@dataclass(frozen=True)
class Reserve:
    """What SGLang itself would keep of a GPU, by purpose; its default fraction is the rest.

    C(by_card_bytes) is one sum for the size of the card, in releases that do not tell purposes apart; C(floor_bytes)
    is what the least reserve adds to them; C(rest_bytes) is the rounding of the fraction.
    """

    mem_fraction_static: float
    total_bytes: int
    constant_bytes: int
    activations_bytes: int
    graphs_bytes: int
    parallel_bytes: int
    attention_dp_bytes: int
    speculative_bytes: int
    experts_exchange_bytes: int
    floor_bytes: int
    by_card_bytes: int
    vision_bytes: int
    rest_bytes: int
    explanation: str


@dataclass(frozen=True)
class Fraction:
    """C(value) is the argument, C(factor) what loading the model makes of it; C(reserve) is None without a card."""

    value: float | None
    source: str
    factor: float
    reserve: Reserve | None
    after_capture: bool = False  # the KV cache is sized once the graphs are captured

    @property
    def applied(self) -> float | None:
        return None if self.value is None else self.value * self.factor


def smallest_card(gpus: tuple[GpuFacts, ...]) -> int | None:
    sizes = [gpu.memory_total_bytes for gpu in gpus if gpu.memory_total_bytes is not None]
    return min(sizes) if len(sizes) == len(gpus) and sizes else None


def capability_of(gpus: tuple[GpuFacts, ...]) -> tuple[int, int] | None:
    """That of the first card whose capability is known; where cards differ, the first rank's decides."""
    return next((gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None), None)


def reserve_of(default: FractionDefault, card_mib: int) -> Reserve:
    """The parts of a default in bytes; they add up to what the fraction leaves of the card."""
    parts, total = default.parts, card_mib * (1 - default.fraction)
    before = default.fraction / default.tower_factor if default.tower_mib == 0 else default.fraction
    vision = default.tower_mib or card_mib * (before - default.fraction)
    named = {
        "constant": parts.constant,
        "activations": parts.activations,
        "graphs": parts.decode_graphs + parts.prefill_graphs,
        "parallel": parts.parallel,
        "attention_dp": parts.attention_dp,
        "speculative": parts.speculative,
        "experts_exchange": parts.experts_exchange,
        "floor": parts.floor,
        "by_card": parts.by_card,
        "vision": vision,
    }
    sizes = {name: round(mib * MIB) for name, mib in named.items()}
    whole = round(total * MIB)
    words = {
        "constant": "constant data",
        "activations": "activations",
        "graphs": "graphs",
        "parallel": "the ranks' collectives",
        "attention_dp": "attention DP",
        "speculative": "drafts",
        "experts_exchange": "the exchange between experts",
        "floor": "the least reserve",
        "by_card": "a card of this size",
        "vision": "the vision tower",
    }
    told = [f"{format_gib(sizes[name])} for {words[name]}" for name in named if sizes[name] > 0]
    line = f"SGLang itself would keep {format_gib(whole)} of each GPU (mem_fraction_static {default.fraction:.4g})"
    return Reserve(
        mem_fraction_static=default.fraction,
        total_bytes=whole,
        rest_bytes=whole - sum(sizes.values()),
        explanation=line + (f": {', '.join(told)}" if told else ""),
        **{f"{name}_bytes": size for name, size in sizes.items()},
    )


def fraction_in_force(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    gpus: tuple[GpuFacts, ...],
    observed: Observed,
    explanation: list[str],
    speculative: SpeculativeRequest | None = None,
    copies: str | None = None,
) -> Fraction:
    """The fraction and the reserve behind the default; C(copies) is the io backend of HiCache, None where it is off."""
    release, card = str(facts.version), smallest_card(gpus)
    factor = factor_of_load(release, model, server)
    default, unknown = None, None
    if card is None:
        unknown = _unknown("the size of the GPUs is not known")
    else:
        try:
            default = fraction_default(
                release, model, server, card // MIB, capability_of(gpus), speculative, copies=copies
            )
        except Refusal as refusal:
            unknown = refusal
    reserve = None if default is None or card is None else reserve_of(default, card // MIB)
    if reserve is not None:
        explanation.append(reserve.explanation)
    if server.mem_fraction_static is not None:
        if not 0 < server.mem_fraction_static < 1:
            raise Refusal(
                "mem_fraction_static_out_of_range",
                f"mem_fraction_static is {server.mem_fraction_static}.",
                "Expected a number between 0 and 1, for example 0.88.",
                {"mem_fraction_static": server.mem_fraction_static},
            )
        if default is not None and default.forced and server.mem_fraction_static != default.fraction:
            raise Refusal(
                "mem_fraction_static_rewritten",
                f"mem_fraction_static is {server.mem_fraction_static:g}, and SGLang {facts.version} would switch to "
                f"{default.fraction:g} for {model.architecture}.",
                f"Set it to {default.fraction:g} or leave it out, or take a later release.",
                {"mem_fraction_static": server.mem_fraction_static, "rewritten_mem_fraction_static": default.fraction},
            )
        value, source = server.mem_fraction_static, "given"
    elif observed.mem_fraction_static is not None:
        value, source = observed.mem_fraction_static, "observed"
    elif default is not None:
        value, source = default.fraction, "default"
        if not 0 < value < 1:
            raise Refusal(
                "mem_fraction_static_out_of_range",
                f"mem_fraction_static is not set, and that of SGLang {facts.version} comes to {value:g}: "
                f"{default.formula}.",
                "Set server.mem_fraction_static, or lower what the release keeps a reserve for, such as "
                "server.chunked_prefill_size.",
                {"mem_fraction_static": value},
            )
        explanation.append(f"mem_fraction_static of SGLang {facts.version} = {default.formula}")
    elif observed.kv_pool_bytes is not None:
        return Fraction(None, "unknown", factor, reserve)
    else:
        raise unknown or _unknown("nothing is known of the GPUs")
    if factor != 1.0:
        explanation.append(
            f"SGLang {facts.version} lowers mem_fraction_static by a tenth for the vision tower when it loads the "
            f"model: {value:.4g} x {factor:g} = {value * factor:.4g}"
        )
    return Fraction(value, source, factor, reserve, default is not None and default.after_capture)


def _unknown(why: str) -> Refusal:
    return Refusal(
        "mem_fraction_static_unknown",
        f"mem_fraction_static is not set and its default cannot be computed: {why}.",
        "Set mem_fraction_static, or give observed.kv_pool_bytes of an earlier start.",
    )


def fraction_problems(
    given: float | None, source: str, reserve: Reserve | None, seen_idle: bool, release: str
) -> list[Problem]:
    """What to say of a fraction that is given and not SGLang's own; C(seen_idle) means that a start was measured."""
    if source != "given" or given is None or reserve is None or seen_idle:
        return []
    default = reserve.mem_fraction_static
    # Defaults have three digits, but for those that a vision tower lowers.
    if given > default + 5e-4:
        return [
            Problem(
                "fraction_above_default",
                "warning",
                f"mem_fraction_static is {given:g}; SGLang {release}'s own default would be {default:.3f}, which keeps "
                f"{format_gib(reserve.total_bytes)} of each GPU for activations and graphs.",
                "Watch the first start for memory errors, or leave mem_fraction_static out.",
            )
        ]
    if given < default - _FAR_BELOW:
        return [
            Problem(
                "fraction_below_default",
                "info",
                f"mem_fraction_static is {given:g}; SGLang {release}'s own default would be {default:.3f}, which keeps "
                f"{format_gib(reserve.total_bytes)} of each GPU and gives the rest to the weights and the KV cache.",
                "Raise mem_fraction_static if nothing else needs the memory.",
            )
        ]
    return []
