# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings with which a server ends its own start because of what the model keeps: layouts, states, attention sinks.

Source: SGLang, mem_cache/pool_host/mamba.py and mha.py (in memory_pool_host.py to 0.5.15), server_args.py
C(_handle_mamba_radix_cache), from 0.5.19 on arg_groups/mamba_hook.py and model_hook.py.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import flags_of, is_set
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.backend_versions import sink_backends
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.hicache_versions import hicache_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    NO_BUFFER,
    checks_state_strategy,
    state_strategy,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def refuse_what_ends_a_start(
    facts: VersionFacts, model: ModelFacts, server: ServerRequest, transfer: tuple[str | None, str | None]
) -> None:
    """Refusal where the server would end by itself; C(transfer) is io backend and layout of HiCache, None without."""
    _refuse_layout(facts, model.attention, transfer)
    _refuse_states(facts, model, server)
    _refuse_without_sinks(facts, model, server)


def _unequal(attention: Attention) -> bool:
    window = attention.window
    return not attention.latent and (
        attention.head_dim != attention.v_head_dim or (window is not None and window.head_dim != window.v_head_dim)
    )


def _refuse_layout(facts: VersionFacts, attention: Attention, transfer: tuple[str | None, str | None]) -> None:
    io_backend, layout = transfer
    rules = hicache_facts(facts.version)
    for concerned, layouts, what in (
        (attention.state is not None, rules.layouts_of_states, "states"),
        (_unequal(attention), rules.layouts_of_unequal_widths, "keys and values of different widths"),
    ):
        if not concerned or layouts is None or layout is None or layout in layouts:
            continue
        takes = "page_first_direct" if io_backend == "direct" or "page_first" not in layouts else "page_first"
        remedy = f"Set hicache.mem_layout to {takes}."
        if takes == "page_first_direct" and io_backend != "direct":
            remedy = f"Set hicache.mem_layout to {takes}, and hicache.io_backend to direct."
        raise Refusal(
            "hicache_layout_unsupported",
            f"SGLang {facts.version} keeps host pools of {what} in {' or '.join(layouts)}, and hicache.mem_layout is "
            f"{layout}: the server ends its start.",
            remedy,
            {"mem_layout": layout, "io_backend": io_backend, "fitting": list(layouts)},
        )


def _refuse_states(facts: VersionFacts, model: ModelFacts, server: ServerRequest) -> None:
    flags = flags_of(server)
    if model.attention.state is None or is_set(flags, "disable-radix-cache"):
        return
    named = flags.get("mamba-radix-cache-strategy", flags.get("mamba-scheduler-strategy"))
    given = None if named is None else str(named)
    strategy = state_strategy(str(facts.version), model.architecture, given)
    if not checks_state_strategy(str(facts.version)):
        return
    if given in (None, "auto") and server.page_size in (None, 1) and is_set(flags, "disable-overlap-schedule"):
        strategy = NO_BUFFER
    evidence: dict[str, object] = {"strategy": strategy, "page_size": server.page_size}
    if strategy != NO_BUFFER:
        if server.device == "cpu":
            raise Refusal(
                "states_need_gpu",
                f"SGLang {facts.version} keeps the states of {model.architecture} by the strategy {strategy}, which no "
                "CPU can do: the server ends its start.",
                f"Give mamba-radix-cache-strategy {NO_BUFFER} and disable-overlap-schedule in extra_arguments.",
                evidence,
            )
        return
    if server.page_size not in (None, 1):
        raise Refusal(
            "states_page_size",
            f"server.page_size is {server.page_size}, and SGLang {facts.version} keeps the states of "
            f"{model.architecture} by the strategy {NO_BUFFER}, which takes pages of 1 token only: the server ends its "
            "start.",
            "Set server.page_size to 1, or mamba-radix-cache-strategy in extra_arguments to extra_buffer where the "
            "model's class knows it.",
            evidence,
        )
    if given == NO_BUFFER and not is_set(flags, "disable-overlap-schedule"):
        raise Refusal(
            "states_overlap_schedule",
            f"mamba-radix-cache-strategy is {NO_BUFFER}, with which SGLang {facts.version} does not overlap its "
            "schedule: without disable-overlap-schedule the server ends its start.",
            "Give disable-overlap-schedule: true in extra_arguments, or leave the strategy out.",
            evidence,
        )


def _refuse_without_sinks(facts: VersionFacts, model: ModelFacts, server: ServerRequest) -> None:
    takes = sink_backends(str(facts.version), model.architecture)
    if takes is None:
        return
    flags = flags_of(server)
    for option, named in (
        ("server.attention_backend", server.attention_backend),
        ("extra_arguments.prefill-attention-backend", flags.get("prefill-attention-backend")),
        ("extra_arguments.decode-attention-backend", flags.get("decode-attention-backend")),
    ):
        if named is not None and str(named) not in takes:
            raise Refusal(
                "attention_backend_without_sinks",
                f"{option} is {named}, which does not know the attention sinks of {model.architecture}: SGLang "
                f"{facts.version} ends its start.",
                f"Expected one of {', '.join(takes)}, or null for the server's own choice.",
                {"option": option, "value": str(named), "fitting": list(takes)},
            )
