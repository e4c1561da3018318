# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arithmetic of releases whose ModelRunner divides the budget (0.5.9 to 0.5.15): budgets, tokens and states."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import types
from pathlib import Path
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import (
    BUDGET_BYTES,
    PAGE_SIZE,
    Case,
)
from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import (
    GIB,
    Ask,
    four_bit,
    modules_with,
    srt,
)


def asker_of_mixin() -> Ask:
    """Releases whose ModelRunner divides the budget (0.5.9 to 0.5.15), with a pool configurator from 0.5.11 on."""
    module, model_config = srt("model_executor.model_runner_kv_cache_mixin"), srt("configs.model_config")
    spec, divide = srt("speculative.spec_info").SpeculativeAlgorithm, srt("distributed.utils").get_pp_indices
    runner_module = srt("model_executor.model_runner")
    dtypes = {
        "auto": torch.bfloat16,
        "fp8_e4m3": torch.float8_e4m3fn,
        "fp8_e5m2": torch.float8_e5m2,
        "fp4_e2m1": torch.float4_e2m1fn_x2,
    }
    group = types.SimpleNamespace(world_size=1, cpu_group=None)
    module.get_world_group = lambda: group
    module.is_float4_e2m1fn_x2 = four_bit
    pools = None
    if importlib.util.find_spec("sglang.srt.model_executor.pool_configurator"):
        pools = srt("model_executor.pool_configurator")
        pools.is_float4_e2m1fn_x2 = four_bit
    module.get_available_gpu_memory = lambda *_arguments, **_rest: BUDGET_BYTES / GIB

    def layers_with_tokens(runner: Any) -> int:
        if runner.mambaish_config is None:
            return int(runner.num_effective_layers)
        full = runner.mambaish_config.full_attention_layer_ids
        return sum(runner.start_layer <= layer < runner.end_layer for layer in full)

    def answer_of_resolved(pools: Any, runner: Any, config: Any, answer: dict[str, Any]) -> dict[str, Any]:
        # The minimum over pipeline stages needs their processes; each is asked by itself here.
        runner.pp_size, runner.is_hybrid_swa = 1, config.is_hybrid_swa
        runner._resolve_max_num_reqs = lambda _tokens: 1
        if runner.mambaish_config is not None:
            answer["slot_bytes"] = runner.mambaish_config.mamba2_cache_params.mamba_cache_per_req
        if pools is not None:
            answer["budget"] = float(pools.create_memory_pool_configurator(runner)._cell_size)
        else:
            answer["budget"] = float(runner.get_cell_size_per_token(layers_with_tokens(runner)))
        sizes = runner._resolve_memory_pool_config(BUDGET_BYTES / GIB)
        if runner.mambaish_config is not None:
            answer["slots"] = runner.server_args.max_mamba_cache_size
        answer["tokens"], answer["window_tokens"] = sizes.max_total_num_tokens, sizes.swa_max_total_num_tokens
        return answer

    # A property of the real class asks for this one.
    registry = getattr(runner_module.ModelRunner, "_get_linear_attn_registry_result", None)
    runner_class: Any = type(
        "Runner",
        (module.ModelRunnerKVCacheMixin,),
        {"_get_linear_attn_registry_result": registry, "_linear_attn_registry_cache": None},
    )

    def ask(case: Case, folder: Path) -> dict[str, Any]:
        ranks = case.tensor_parallel // case.attention_data_parallel
        for patched in (module, *modules_with("get_attention_tp_size")):
            patched.get_attention_tp_size = lambda: ranks
        config = model_config.ModelConfig(str(folder))
        runner = runner_class()
        runner.model_config, runner.kv_cache_dtype = config, dtypes[case.kv_cache_dtype]
        runner.use_mla_backend = config.attention_arch == model_config.AttentionArch.MLA
        runner.is_draft_worker, runner.device, runner.gpu_id, runner.mem_fraction_static = False, "cpu", 0, 1.0
        layers = max(config.num_hidden_layers, config.num_attention_layers)
        runner.start_layer, runner.end_layer = divide(layers, case.stage, case.pipeline_parallel)
        runner.num_effective_layers = runner.end_layer - runner.start_layer
        runner.spec_algorithm = spec.from_string("EAGLE" if case.draft_layers else None)
        runner.eagle_draft_num_layers = case.draft_layers or None
        runner.sliding_window_size = config.sliding_window_size or config.attention_chunk_size
        runner.dp_size = case.attention_data_parallel
        for name in ("mamba2_config", "hybrid_gdn_config", "kimi_linear_config", "hybrid_lightning_config"):
            setattr(runner, name, getattr(runner_module.ModelRunner, name).fget(runner))
        runner.mambaish_config = runner_module.ModelRunner.mambaish_config.fget(runner)
        arguments = runner.server_args = types.SimpleNamespace(
            page_size=PAGE_SIZE,
            swa_full_tokens_ratio=case.window_ratio,
            mamba_full_memory_ratio=case.state_ratio,
            max_mamba_cache_size=case.state_slots,
            max_running_requests=case.running_requests,
            speculative_num_draft_tokens=case.draft_tokens,
            disable_radix_cache=False,
            dp_size=case.attention_data_parallel,
            enable_dp_attention=case.attention_data_parallel > 1,
            nsa_prefill_backend="trtllm" if case.raw_index_rows else "flashmla_auto",
            nsa_decode_backend="trtllm" if case.raw_index_rows else "flashmla_kv",
            dsa_prefill_backend="trtllm" if case.raw_index_rows else "flashmla_auto",
            dsa_decode_backend="trtllm" if case.raw_index_rows else "flashmla_kv",
            enable_mamba_extra_buffer=lambda: False,
            max_total_tokens=case.cap,
            mem_fraction_static=1.0,
        )
        answer: dict[str, Any] = {"attention_ranks": ranks}
        if hasattr(runner, "_resolve_memory_pool_config"):
            return answer_of_resolved(pools, runner, config, answer)
        if runner.mambaish_config is not None:
            answer["slot_bytes"] = runner.mambaish_config.mamba2_cache_params.mamba_cache_per_req
        answer["budget"] = float(runner.get_cell_size_per_token(layers_with_tokens(runner)))
        tokens = runner.profile_max_num_token(BUDGET_BYTES / GIB)
        if runner.mambaish_config is not None:
            answer["slots"] = arguments.max_mamba_cache_size
        # init_memory_pool: the cap, whole pages, then the division between the pools.
        tokens = tokens if case.cap is None else min(tokens, case.cap)
        runner.max_total_num_tokens = tokens // PAGE_SIZE * PAGE_SIZE
        answer["window_tokens"] = None
        if config.is_hybrid_swa:
            runner.set_num_tokens_hybrid_swa()
            answer["window_tokens"] = runner.swa_max_total_num_tokens
        answer["tokens"] = runner.max_total_num_tokens
        if runner.use_mla_backend:
            answer["latent_row"] = runner.calculate_mla_kv_cache_dim() * runner.kv_cache_dtype.itemsize
        return answer

    return ask
