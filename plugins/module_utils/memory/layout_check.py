# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layouts that SGLang refuses, or that it would start and not serve, before a byte is counted.

Source: SGLang, models/llama.py and the other models (heads over ranks), layers/dp_attention.py
C(compute_dp_attention_world_info), distributed/parallel_state.py, layers/moe/fused_moe_triton/layer.py (experts),
distributed/utils.py C(get_pp_indices).
"""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import attends_by_index
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.multimodal import flags_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.backend_versions import backend_rules
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pipeline_versions import (
    pipeline_since,
    runs_over_stages,
    stage_keeps_all_layers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import ONE_STEP, pool_facts


def check_layout(version: str, model: ModelFacts, server: ServerRequest) -> None:
    """Refuse a layout, with the sizes that would pass."""
    tensor = server.tensor_parallel_size
    if server.max_running_requests is not None and server.max_running_requests < 1:
        raise Refusal(
            "value_not_positive",
            f"server.max_running_requests is {server.max_running_requests}.",
            "Expected a whole number above 0.",
            {"option": "max_running_requests", "value": server.max_running_requests},
        )
    for option, code, what in (
        ("attention_data_parallel_size", "attention_data_parallel_uneven", "groups of attention ranks"),
        ("expert_parallel_size", "expert_parallel_uneven", "groups of experts"),
    ):
        size = getattr(server, option)
        if size < 1:
            raise Refusal(
                "value_not_positive",
                f"server.{option} is {size}.",
                "Expected a whole number above 0.",
                {"option": option, "value": size},
            )
        if tensor % size:
            fitting = _fitting(tensor, lambda divisor: tensor % divisor == 0)
            raise Refusal(
                code,
                f"{option} {size} does not divide tensor_parallel_size {tensor}: its ranks are those of {what}.",
                f"Expected one of {_listed(fitting)}.",
                {option: size, "tensor_parallel_size": tensor, "fitting": fitting},
            )
    _check_attention_dp(version, model, server)
    _check_heads(model, server)
    _check_experts(model, server)
    _check_stages(version, model, server)


def layout_problems(version: str, model: ModelFacts, server: ServerRequest) -> list[Problem]:
    """What a layout costs that its sizes do not tell."""
    size = server.pipeline_parallel_size
    if size == 1 or not stage_keeps_all_layers(version, model.architecture):
        return []
    return [
        Problem(
            "pipeline_stages_keep_all_layers",
            "warning",
            f"{model.architecture} does not tell SGLang {version} which layers a pipeline stage has, so each of the "
            f"{size} stages keeps the KV cache of all {model.attention.num_layers} layers.",
            "Set pipeline_parallel_size to 1 and spread the model with tensor_parallel_size, unless only the weights "
            "have to be divided.",
        )
    ]


def _fitting(upper: int, fits: Callable[[int], bool]) -> list[int]:
    return [size for size in range(1, upper + 1) if fits(size)]


def _listed(sizes: list[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def _check_attention_dp(version: str, model: ModelFacts, server: ServerRequest) -> None:
    tensor, rules = server.tensor_parallel_size, backend_rules(version)
    given = server.attention_data_parallel_size
    if given == tensor or not rules.index_sets_attention_dp or not attends_by_index(rules, model):
        return
    raise Refusal(
        "attention_data_parallel_rewritten",
        f"attention_data_parallel_size is {given}, and SGLang {version} would switch to {tensor}, as many as "
        f"tensor_parallel_size, for {model.architecture}.",
        f"Set attention_data_parallel_size to {tensor}, or take SGLang 0.5.6 or newer.",
        {"attention_data_parallel_size": given, "rewritten_attention_data_parallel_size": tensor},
    )


def _check_heads(model: ModelFacts, server: ServerRequest) -> None:
    """Heads divide evenly over the ranks of one request, or these over the KV heads (SGLang asserts both)."""
    attention, groups = model.attention, server.attention_data_parallel_size
    heads, kv_heads = attention.num_attention_heads, attention.num_kv_heads

    def even(ranks: int) -> bool:
        smaller, larger = sorted((kv_heads, ranks))
        # MLA has one latent head, whole on every rank.
        return heads % ranks == 0 and (attention.latent or larger % smaller == 0)

    ranks = server.tensor_parallel_size // groups
    if even(ranks):
        return
    fitting = [size * groups for size in _fitting(2 * ranks - 1, even)]
    over = f" over {groups} groups of attention ranks" if groups > 1 else ""
    raise Refusal(
        "tensor_parallel_uneven",
        f"tensor_parallel_size {server.tensor_parallel_size}{over} does not divide {heads} attention heads and "
        f"{kv_heads} KV heads evenly.",
        f"Expected one of {_listed(fitting)}.",
        {"tensor_parallel_size": server.tensor_parallel_size, "fitting": fitting},
    )


def _check_experts(model: ModelFacts, server: ServerRequest) -> None:
    experts = model.weights.structure.num_experts if model.weights is not None else None
    size = server.expert_parallel_size
    if experts is None or size == 1:
        return
    redundant = flags_of(server).get("ep-num-redundant-experts")
    if redundant is not None and not (isinstance(redundant, int) or str(redundant).isdigit()):
        return
    experts += int(redundant or 0)
    if experts % size:
        tensor = server.tensor_parallel_size
        fitting = _fitting(tensor, lambda divisor: tensor % divisor == 0 and experts % divisor == 0)
        raise Refusal(
            "expert_parallel_uneven",
            f"expert_parallel_size {size} does not divide {experts} experts.",
            f"Expected one of {_listed(fitting)}.",
            {"expert_parallel_size": size, "experts": experts, "fitting": fitting},
        )


def _check_stages(version: str, model: ModelFacts, server: ServerRequest) -> None:
    size, layers = server.pipeline_parallel_size, model.attention.num_layers
    if size == 1:
        return
    if not runs_over_stages(version, model.architecture):
        since = pipeline_since(model.architecture)
        raise Refusal(
            "pipeline_unsupported",
            f"server.pipeline_parallel_size is {size}, and SGLang {version} does not run {model.architecture} over "
            "pipeline stages.",
            "Set pipeline_parallel_size to 1 and spread the model with tensor_parallel_size"
            + (f", or take SGLang {since} or newer." if since is not None else "."),
            {"pipeline_parallel_size": size, "architecture": model.architecture, "since": since},
        )
    if size > layers:
        raise Refusal(
            "pipeline_parallel_uneven",
            f"pipeline_parallel_size {size} is more than the {layers} layers of {model.name}.",
            f"Expected {layers} or less.",
            {"pipeline_parallel_size": size, "layers": layers},
        )
    if not pool_facts(version).pipeline_synced:
        raise Refusal(
            "pipeline_parallel_unplanned",
            f"SGLang {version} does not bring the tokens of its pipeline stages together: they differ by stage.",
            "Set pipeline_parallel_size to 1, or take SGLang 0.5.2 or newer.",
            {"pipeline_parallel_size": size},
        )
    if model.attention.window is not None and pool_facts(version).window_split != ONE_STEP:
        raise Refusal(
            "pipeline_parallel_unplanned",
            f"SGLang {version} gives each pipeline stage another number of tokens in models with window layers.",
            "Set pipeline_parallel_size to 1, or take SGLang 0.5.11 or newer.",
            {"pipeline_parallel_size": size},
        )
