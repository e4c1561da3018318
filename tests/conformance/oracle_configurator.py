# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arithmetic of releases with KVCacheConfigurator (0.5.16 on): budgets, tokens, allocated rows and host pools."""

from __future__ import annotations

import contextlib
import inspect
import types
from pathlib import Path
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import (
    BUDGET_BYTES,
    HOST_RATIO,
    HOST_SIZE_GB,
    PAGE_SIZE,
    POOL_PAGES,
    STATE_SLOTS,
    Case,
)
from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import (
    GIB,
    Ask,
    fitting,
    four_bit,
    measured_rows,
    settle,
    srt,
    state_bytes,
)


def asker_of_configurator() -> Ask:
    """Releases with KVCacheConfigurator and a runtime context (0.5.16 to 0.5.23)."""
    context_module, kc = srt("runtime_context"), srt("mem_cache.kv_cache_configurator")
    model_config, dtypes = srt("configs.model_config"), srt("mem_cache.kv_cache_dtype")
    pools, setup = srt("model_executor.pool_configurator"), srt("model_executor.model_runner_components.layer_setup")
    aux = srt("model_executor.model_runner_components.spec_aux_hidden_state")
    spec, divide = srt("speculative.spec_info").SpeculativeAlgorithm, srt("distributed.utils").get_pp_indices
    kc.is_float4_e2m1fn_x2 = pools.is_float4_e2m1fn_x2 = four_bit
    # Before, the sizes of the groups were those of live process groups.
    sized_by_arguments = "attn_dp_size" in inspect.signature(kc.KVCacheConfigurator).parameters

    def parallel(case: Case) -> dict[str, Any]:
        if "attn_dp_size" in getattr(srt("server_args").ServerArgs, "__struct_fields__", ()):
            return {"attn_dp_size": case.attention_data_parallel}
        return {
            "dp_size": case.attention_data_parallel,
            "enable_dp_attention": case.attention_data_parallel > 1,
        }

    def groups(case: Case) -> contextlib.AbstractContextManager[Any]:
        if sized_by_arguments:
            return contextlib.nullcontext()
        sizes = {
            "attn_tp_size": case.tensor_parallel // case.attention_data_parallel,
            "attn_tp_rank": 0,
            "attn_dp_size": case.attention_data_parallel,
            "attn_dcp_size": 1,
            "attn_cp_size": 1,
            "tp_size": case.tensor_parallel,
            "pp_size": case.pipeline_parallel,
        }
        known = context_module._PARALLEL_FIELDS
        held: contextlib.AbstractContextManager[Any] = context_module.get_parallel().override(
            **{name: size for name, size in sizes.items() if name in known}
        )
        return held

    def configurator(case: Case, folder: Path, server_args: Any) -> Any:
        config = model_config.ModelConfig(str(folder))
        _checked, dtype = fitting(
            dtypes.configure_kv_cache_dtype,
            server_args_kv_cache_dtype=case.kv_cache_dtype,
            model=None,
            model_dtype=config.dtype,
            is_draft_worker=False,
            is_dflash=False,
            speculative_draft_attention_backend=None,
        )
        layers = max(config.num_hidden_layers, config.num_attention_layers)
        start, end = divide(layers, case.stage, case.pipeline_parallel)
        return fitting(
            kc.KVCacheConfigurator,
            device="cpu",
            gpu_id=0,
            ps=types.SimpleNamespace(attn_dp_size=case.attention_data_parallel, pp_size=case.pipeline_parallel),
            attn_dp_size=case.attention_data_parallel,
            pp_size=case.pipeline_parallel,
            pp_group=types.SimpleNamespace(rank_in_group=case.stage),
            model=None,
            model_config=config,
            server_args=server_args,
            kv_cache_dtype=dtype,
            kv_cache_dtype_str=case.kv_cache_dtype,
            model_dtype=config.dtype,
            page_size=PAGE_SIZE,
            sliding_window_size=config.sliding_window_size,
            spec_algorithm=spec.from_string("EAGLE" if case.draft_layers else None),
            is_draft_worker=False,
            post_capture_kv_active=False,
            spec_aux_config=aux.SpecAuxHiddenStateConfig(eagle_draft_num_layers=case.draft_layers or None),
            is_hybrid_swa=config.is_hybrid_swa,
            is_hybrid_swa_compress=config.is_hybrid_swa_compress,
            use_mla_backend=config.attention_arch == model_config.AttentionArch.MLA,
            layer_info=fitting(
                setup.resolve_layer_indices,
                model=types.SimpleNamespace(start_layer=start, end_layer=end),
                model_config=config,
                is_draft_worker=False,
                spec_algorithm=spec.from_string(None),
            ),
            forward_stream=None,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=None,
            memory_pool_config=None,
        )

    def tiny_pools(kvc: Any, case: Case) -> tuple[Any, Any]:
        tokens = POOL_PAGES * PAGE_SIZE
        sizes = fitting(
            kc._PoolSizes,
            max_total_num_tokens=tokens,
            max_running_requests=4,
            full_max_total_num_tokens=tokens,
            swa_max_total_num_tokens=tokens,
            c4_max_total_num_tokens=0,
            c128_max_total_num_tokens=0,
            c4_state_pool_size=0,
            c128_state_pool_size=0,
            c4_state_dtype=None,
            c128_state_dtype=None,
        )
        settle(kvc.server_args, max_mamba_cache_size=STATE_SLOTS)
        kvc.model_config.context_len = PAGE_SIZE
        requests = kvc._build_req_to_token_pool(max_num_reqs=4)
        indexed = model_config.is_deepseek_dsa(kvc.model_config.hf_config)
        pool = fitting(
            kvc._build_token_to_kv_pool,
            sizes=sizes,
            is_dsa_model=indexed,
            is_dsv4_model=False,
            req_to_token_pool=requests,
        )
        return pool, requests

    def answer_of(case: Case, folder: Path, server_args: Any) -> dict[str, Any]:
        kvc = configurator(case, folder, server_args)
        answer: dict[str, Any] = {"attention_ranks": context_module.get_parallel().attn_tp_size}
        rest = BUDGET_BYTES / GIB
        if kvc.mambaish_config is not None:
            answer["slot_bytes"] = kvc.mambaish_config.mamba2_cache_params.mamba_cache_per_req
            rest = kvc._handle_max_mamba_cache(rest)
            settled = context_module.get_schedule() if hasattr(context_module, "get_schedule") else server_args
            answer["slots"] = settled.max_mamba_cache_size
            answer["left_bytes"] = int(rest * GIB)
        calculator = pools.create_memory_pool_configurator(kvc)
        answer["budget"] = float(calculator._cell_size)
        if case.pipeline_parallel > 1:
            sizes = calculator.calculate_pool_sizes(int(rest * GIB), PAGE_SIZE)
        else:
            sizes = kvc.config_from_budget(int(rest * GIB))
        answer["tokens"] = sizes.max_total_num_tokens
        answer["window_tokens"] = sizes.swa_max_total_num_tokens
        if not case.draft_layers:
            pool, requests = tiny_pools(kvc, case)
            answer["rows"] = measured_rows(pool, (POOL_PAGES + 1) * PAGE_SIZE)
            if hasattr(requests, "mamba_pool"):
                answer["rows"]["mamba"] = state_bytes(requests.mamba_pool) / (STATE_SLOTS + 1)
            if case == Case(case.model):
                host = host_pools(pool, requests, server_args)
                answer.update({"host": host} if host else {})
        return answer

    def ask(case: Case, folder: Path) -> dict[str, Any]:
        backend = "trtllm" if case.raw_index_rows else "flashmla_kv"
        override = context_module.get_context().override_server_args(
            tp_size=case.tensor_parallel,
            **parallel(case),
            pp_size=case.pipeline_parallel,
            kv_cache_dtype=case.kv_cache_dtype,
            page_size=PAGE_SIZE,
            swa_full_tokens_ratio=case.window_ratio,
            mamba_full_memory_ratio=case.state_ratio,
            max_mamba_cache_size=case.state_slots,
            max_running_requests=case.running_requests,
            max_total_tokens=case.cap,
            speculative_num_draft_tokens=case.draft_tokens,
            mem_fraction_static=0.9,
            disable_radix_cache=False,
            dsa_prefill_backend=backend,
            dsa_decode_backend=backend,
            hicache_ratio=HOST_RATIO,
            hicache_mem_layout="page_first",
        )
        server_args = override.install()
        try:
            with groups(case):
                return answer_of(case, folder, server_args)
        finally:
            override.restore()

    return ask


def host_pools(pool: Any, requests: Any, server_args: Any) -> dict[str, dict[str, list[int]]]:
    """Slots and bytes a slot of the host pools that SGLang builds for these device pools, by ratio and by size."""
    assembler, common = srt("mem_cache.hybrid_cache.hybrid_pool_assembler"), srt("mem_cache.pool_host.common")
    plain = torch.empty
    for name in {*common.ALLOC_MEMORY_FUNCS, "cpu"}:
        common.ALLOC_MEMORY_FUNCS[name] = lambda dims, dtype, **_rest: plain(dims, dtype=dtype)
    states = getattr(requests, "mamba_pool", None)
    if states is not None and not hasattr(assembler, "build_mamba_host_pool"):
        return {}
    windowed = hasattr(pool, "swa_kv_pool")
    device = [pool.full_kv_pool, pool.swa_kv_pool] if windowed else [getattr(pool, "full_kv_pool", pool)]
    if hasattr(pool, "main_pool"):
        device = [pool.main_pool]
    found: dict[str, dict[str, list[int]]] = {}
    for mode, size in (("ratio", 0), ("size", HOST_SIZE_GB)):
        settle(server_args, hicache_size=size)
        shares: list[float | None] = [None] * (len(device) + 1)
        several = [*device, *([states] if states is not None else [])]
        if size and len(several) > 1 and hasattr(assembler, "_split_hicache_size"):
            shares = list(assembler._split_hicache_size(size, tuple(several)))
        built = {}
        for kind, kv_pool, share in zip(("kv", "swa"), device, shares):
            host = fitting(
                assembler.build_kv_host_pool,
                kv_pool=kv_pool,
                page_size=PAGE_SIZE,
                server_args=server_args,
                use_mla=hasattr(kv_pool, "kv_lora_rank"),
                host_size=size if share is None else share,
            )
            built[kind] = [host.size, host.size_per_token]
        if states is not None:
            (info,) = states.get_device_pool_infos()
            build = assembler.build_mamba_host_pool
            settings: dict[str, Any] = {"host_size": shares[-1] or 0, "layout": "page_first"}
            if "pool_info" in inspect.signature(build).parameters:
                settings["pool_info"] = info
            host = build(states, **settings)
            built["mamba"] = [host.size, host.size_per_token]
        found[mode] = built
    return found
