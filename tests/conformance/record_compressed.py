# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang how it divides memory for compressed caches (DeepSeek-V4), and write the answers to oracle/.

Run as record_oracle.py is:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_compressed --wheel sglang-0.5.23-....whl

What runs is SGLang's code: ModelConfig reads the configuration, DSV4PoolConfigurator divides the budget,
DeepSeekV4TokenToKVPool allocates the whole pools and build_deepseek_v4_hicache_stack their mirrors, on the device
"meta", which keeps shapes and no bytes. Replaced are what record_oracle.py replaces, the cache controller, and the
measurement of host memory.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import logging
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.tests.conformance.compressed_cases import (
    PAGE_SIZE,
    RUNNING_REQUESTS,
    WINDOW_SHARE,
    CompressedCase,
    compressed_cases,
)
from ansible_collections.gpufleet.sglang.tests.conformance.older_releases import bear_with_newer_libraries
from ansible_collections.gpufleet.sglang.tests.conformance.record_oracle import provenance, read_configs
from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import fitting, srt

HERE = Path(__file__).resolve().parent
# Host memory without an end.
_ENDLESS = 1 << 60
# As both functions of the releases take them.
_ARGUMENTS = {
    "page_size": PAGE_SIZE,
    "kv_cache_dtype": "fp8_e4m3",
    "speculative_algorithm": None,
    "enable_hisparse": False,
    "enable_deepseek_v4_fp4_indexer": False,
    "disaggregation_mode": "null",
    "hicache_size": 0,
    "hicache_mem_layout": "layer_first",
    "hicache_io_backend": "direct",
    "hicache_write_policy": "write_through",
    "hicache_storage_backend": None,
    "mem_fraction_static": 0.9,
}


def _settings(case: CompressedCase) -> dict[str, Any]:
    return {
        **_ARGUMENTS,
        "max_running_requests": case.running_requests or RUNNING_REQUESTS,
        "swa_full_tokens_ratio": WINDOW_SHARE if case.window_ratio is None else case.window_ratio,
        "swa_prefix_tails": case.prefix_tails,
        "chunked_prefill_size": case.chunk,
        "disable_radix_cache": not case.radix_cache,
        "disable_overlap_schedule": not case.overlap,
        "max_total_tokens": case.cap,
        "pp_size": case.pipeline_parallel,
        "hicache_ratio": case.host_ratio or 2.0,
        # What arg_groups/model_overrides/deepseek_v4.py sets counts as given once kv_cache_hook.py looks.
        "_swa_full_tokens_ratio_explicitly_set": True,
    }


@contextlib.contextmanager
def _in_force(case: CompressedCase) -> Iterator[Any]:
    """Settings where a release looks for them: its runtime context, or the arguments of the process."""
    module = srt("server_args")
    context = srt("runtime_context") if importlib.util.find_spec("sglang.srt.runtime_context") else None
    if context is None or not hasattr(context.get_context(), "override_server_args"):
        arguments = types.SimpleNamespace(
            **_settings(case), max_speculative_num_draft_tokens=None, disaggregation_decode_extra_slots=None
        )
        module.set_global_server_args_for_scheduler(arguments)
        yield arguments
        return
    known = getattr(module.ServerArgs, "__struct_fields__", None) or getattr(
        module.ServerArgs, "__dataclass_fields__", {}
    )
    fields = {key: value for key, value in _settings(case).items() if key in known}
    override = context.get_context().override_server_args(**fields)
    arguments = override.install()
    try:
        sizes = {"attn_dp_size": case.attention_data_parallel, "pp_size": case.pipeline_parallel}
        parallel = context.get_parallel()
        known_sizes = getattr(context, "_PARALLEL_FIELDS", ())
        held = parallel.override(**{name: size for name, size in sizes.items() if name in known_sizes})
        with held:
            yield arguments
    finally:
        override.restore()


def _runner(case: CompressedCase, config: Any, arguments: Any) -> Any:
    """What the configurator asks of the runner, under the names of every release."""
    divide = srt("distributed.utils").get_pp_indices
    start, end = divide(config.num_hidden_layers, case.stage, case.pipeline_parallel)
    groups = case.attention_data_parallel
    return types.SimpleNamespace(
        model_config=config,
        server_args=arguments,
        kv_cache_dtype_str="fp8_e4m3",
        layer_info=types.SimpleNamespace(start_layer=start, end_layer=end),
        start_layer=start,
        end_layer=end,
        pp_size=case.pipeline_parallel,
        pp_group=types.SimpleNamespace(rank_in_group=case.stage),
        ps=types.SimpleNamespace(attn_dp_size=groups, pp_size=case.pipeline_parallel),
        dp_size=groups,
        attn_dp_size=groups,
        enable_hisparse=False,
        spec_algorithm=srt("speculative.spec_info").SpeculativeAlgorithm.from_string(None),
        spec_aux_config=None,
        is_draft_worker=False,
        mambaish_config=None,
        is_hybrid_swa=True,
        sliding_window_size=config.sliding_window_size,
        page_size=PAGE_SIZE,
    )


def _requests(runner: Any, tokens: int) -> int:
    if importlib.util.find_spec("sglang.srt.mem_cache.kv_cache_configurator"):
        return int(srt("mem_cache.kv_cache_configurator").KVCacheConfigurator.resolve_max_num_reqs(runner, tokens))
    mixin = srt("model_executor.model_runner_kv_cache_mixin").ModelRunnerKVCacheMixin
    return int(mixin._resolve_max_num_reqs(runner, tokens))


def _pool(runner: Any, sizes: Any, requests: int) -> Any:
    module, config = srt("mem_cache.deepseek_v4_memory_pool"), runner.model_config
    extra = {}
    if hasattr(module, "select_dsv4_kv_layout"):
        extra["kv_layout"], extra["compressed_kv_layout"] = module.select_dsv4_kv_layout()
    return fitting(
        module.DeepSeekV4TokenToKVPool,
        max_num_reqs=requests,
        swa_size=sizes.swa_max_total_num_tokens,
        c4_size=sizes.c4_max_total_num_tokens,
        c128_size=sizes.c128_max_total_num_tokens,
        c4_state_pool_size=sizes.c4_state_pool_size,
        c128_state_pool_size=sizes.c128_state_pool_size,
        page_size=PAGE_SIZE,
        swa_page_size=PAGE_SIZE,
        dtype=torch.float8_e4m3fn,
        state_dtype=torch.float32,
        c4_state_dtype=torch.float32,
        c128_state_dtype=torch.float32,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        indexer_head_dim=config.index_head_dim,
        layer_num=runner.end_layer - runner.start_layer,
        device="meta",
        enable_memory_saver=False,
        compression_ratios=config.compress_ratios,
        sliding_window=config.window_size,
        start_layer=runner.start_layer,
        end_layer=runner.end_layer,
        full_size=sizes.full_max_total_num_tokens,
        **extra,
    )


def _device_bytes(pool: Any) -> dict[str, int]:
    def of(buffers: Any) -> int:
        return int(sum(buffer.nbytes for buffer in buffers))

    def states(pools: Any, ratio: int) -> int:
        named = zip(pool.compression_ratios, pools)
        return of(state.kv_score_buffer.kv_score for own, state in named if state is not None and own == ratio)

    return {
        "swa": of(pool.swa_kv_pool.kv_buffer),
        "c4": of(pool.c4_kv_pool.kv_buffer),
        "c4_indexer": of(pool.c4_indexer_kv_pool.index_k_with_scale_buffer),
        "c128": of(pool.c128_kv_pool.kv_buffer),
        "c4_state": states(pool.compress_state_pools, 4),
        "c4_indexer_state": states(pool.indexer_compress_state_pools, 4),
        "c128_state": states(pool.compress_state_pools, 128),
    }


class _Endless:
    """An allocator of pinned memory that pins nothing."""

    def __getitem__(self, _device: Any) -> Callable[..., torch.Tensor]:
        return lambda dims, dtype, **_rest: torch.empty(dims, dtype=dtype, device="meta")


def _host_bytes(pool: Any, tokens: int, arguments: Any) -> dict[str, int]:
    """Bytes of each pool of the host stack, and the tokens that it can hold under "tokens"."""
    assembler, pools = srt("mem_cache.hybrid_cache.hybrid_pool_assembler"), srt("mem_cache.memory_pool_host")
    pools.ALLOC_MEMORY_FUNCS = _Endless()
    pools.host_memory_budget_bytes = lambda: _ENDLESS
    pools.make_kernel_ptr_table = lambda *_arguments, **_rest: None
    if hasattr(pools, "psutil"):
        pools.psutil = types.SimpleNamespace(virtual_memory=lambda: types.SimpleNamespace(available=_ENDLESS))
    assembler.HostPoolGroup = list
    assembler.HybridCacheController = lambda *_arguments, **_rest: None
    allocator = types.SimpleNamespace(size_full=tokens, swa_attn_allocator=types.SimpleNamespace(alloc=None, free=None))
    params = types.SimpleNamespace(
        token_to_kv_pool_allocator=allocator,
        page_size=PAGE_SIZE,
        mtp_draft_device_pools=(),
        tp_cache_group=None,
        attn_cp_cache_group=None,
        attn_tp_cache_group=None,
        pp_cache_group=None,
    )
    entries, _controller = fitting(
        assembler.build_deepseek_v4_hicache_stack,
        params=params,
        server_args=arguments,
        kvcache=pool,
        page_size=PAGE_SIZE,
        tp_group=None,
        load_cache_event=None,
        storage_backend=None,
    )
    found = {"tokens": 0}
    for entry in entries:
        host = entry.host_pool
        name = str(getattr(entry.name, "value", entry.name)).lower().removeprefix("deepseek_v4_")
        if not host.kv_buffer:
            found["tokens"] = host.size
        else:
            found[name] = int(sum(buffer.nbytes for buffer in host.kv_buffer))
    return found


def answer_of(case: CompressedCase, folder: Path) -> dict[str, Any]:
    config = srt("configs.model_config").ModelConfig(str(folder))
    configurators = srt("model_executor.pool_configurator")
    with _in_force(case) as arguments:
        runner = _runner(case, config, arguments)
        configurator = configurators.create_memory_pool_configurator(runner)
        if type(configurator).__name__ != "DSV4PoolConfigurator":
            raise SystemExit(f"{type(configurator).__name__} answers for {case.model}")
        sizes = configurator.calculate_pool_sizes(case.budget_bytes, PAGE_SIZE)
        if case.cap is not None and case.cap < sizes.max_total_num_tokens:
            sizes = configurator.calculate_pool_sizes_from_max_tokens(case.cap, PAGE_SIZE)
        requests = sizes.max_running_requests = _requests(runner, sizes.max_total_num_tokens)
        if hasattr(configurator, "finalize_with_max_running_requests"):
            sizes = configurator.finalize_with_max_running_requests(sizes)
        pool = _pool(runner, sizes, requests)
        answer: dict[str, Any] = {
            "bytes_per_token": configurator.bytes_per_full_token,
            "tokens": sizes.max_total_num_tokens,
            "window_tokens": sizes.swa_max_total_num_tokens,
            "requests": requests,
            "device": _device_bytes(pool),
        }
        if case.host_ratio is not None:
            answer["host"] = _host_bytes(pool, sizes.max_total_num_tokens, arguments)
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheel", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    library = bear_with_newer_libraries()
    release = str(importlib.import_module("sglang.version").__version__)
    source = provenance(arguments.wheel)
    logging.disable(logging.CRITICAL)
    configs, rows = read_configs(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in compressed_cases():
            path = Path(folder) / case.model
            path.mkdir(exist_ok=True)
            (path / "config.json").write_text(json.dumps(configs[case.model]), encoding="utf-8")
            try:
                answer = answer_of(case, path)
            except (AssertionError, RuntimeError, ValueError) as error:  # what SGLang refuses is an answer, too
                answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            rows.append({**case.asked(), "answer": answer})
    target = HERE / "oracle" / f"compressed-{release}.json"
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    target.write_text(
        f'{{"sglang": "{release}",\n"source": {json.dumps(source)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8"
    )
    failed = [row for row in rows if "error" in row["answer"]]
    print(f"{target.name}: {len(rows)} answers, {len(failed)} errors ({library})", file=sys.stderr)
    for row in failed:
        print(row["model"], row["answer"]["error"], file=sys.stderr)


if __name__ == "__main__":
    main()
