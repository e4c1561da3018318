# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang for its own arithmetic, and write the answers to oracle/.

Run with the Python of an environment that holds the release (a CPU build will do; no GPU is asked for) and with the
folder above ansible_collections on PYTHONPATH:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_oracle --wheel sglang-0.5.23-....whl

The wheel is named in the record by its SHA-256, after the files that answer were found to be those in it. What runs is
SGLang's code: ModelConfig reads the configuration, KVCacheConfigurator and its pool configurators (0.5.23) or
ModelRunnerKVCacheMixin (0.5.9) divide the budget, and the pool classes allocate a few rows on the CPU. Replaced are the
measurement of free memory, process groups, the allocator of pinned memory, GPU kernels, and torchvision's operators,
whose compiled part wants CUDA.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import json
import logging
import sys
import tempfile
import types
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

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
GIB = 1 << 30
# The files whose answers are recorded; they must be those of the wheel.
ANSWERING = (
    "configs/model_config.py",
    "configs/mamba_utils.py",
    "mem_cache/memory_pool.py",
    "mem_cache/kv_cache_configurator.py",
    "mem_cache/swa_memory_pool.py",
    "mem_cache/hybrid_cache/hybrid_pool_assembler.py",
    "model_executor/pool_configurator.py",
    "model_executor/model_runner_kv_cache_mixin.py",
)
Ask = Callable[[Case, Path], dict[str, Any]]


def declare_torchvision_operators() -> Any:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


class KernelStandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the names that SGLang imports from its GPU kernels; none of them is called."""

    PACKAGES = ("sgl_kernel", "flashinfer")

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in self.PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__dict__["__getattr__"] = self.anything
        return module

    def exec_module(self, _module: types.ModuleType) -> None:
        return

    @staticmethod
    def anything(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return KernelStandIn.Name()

    class Name:
        """Anything: a function, a class to inherit from, a holder of constants."""

        def __getattr__(self, name: str) -> Any:
            return KernelStandIn.anything(name)

        def __call__(self, *_arguments: Any, **_rest: Any) -> None:
            return


def four_bit(dtype: Any) -> bool:
    """SGLang's own question without its "and CUDA is there"."""
    return bool(dtype == torch.float4_e2m1fn_x2)


def srt(name: str) -> Any:
    return importlib.import_module(f"sglang.srt.{name}")


def provenance(wheel: Path) -> dict[str, str]:
    """The wheel's name and sum, when the imported files are its own."""
    package = Path(importlib.import_module("sglang").__file__ or "").parent
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for file in ANSWERING:
            member = f"sglang/srt/{file}"
            if member in names and archive.read(member) != (package / "srt" / file).read_bytes():
                raise SystemExit(f"{package / 'srt' / file} is not the file of {wheel.name}")
    return {"wheel": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}


def fitting(function: Callable[..., Any], **arguments: Any) -> Any:
    """Called with those of the arguments that this release's function takes."""
    taken = inspect.signature(function).parameters
    return function(**{name: value for name, value in arguments.items() if name in taken})


def pool_bytes(pool: Any) -> int:
    size = pool.get_kv_size_bytes()
    return int(sum(size) if isinstance(size, tuple) else size)


def measured_rows(pool: Any, rows: int) -> dict[str, float]:
    """Bytes of one row of each pool, out of what was allocated for C(rows)."""
    if hasattr(pool, "swa_kv_pool"):
        return {"kv": pool_bytes(pool.full_kv_pool) / rows, "swa": pool_bytes(pool.swa_kv_pool) / rows}
    if hasattr(pool, "full_kv_pool"):
        return {"kv": pool_bytes(pool.full_kv_pool) / rows}
    if hasattr(pool, "main_pool"):
        main = pool_bytes(pool.main_pool) / rows
        return {"kv": main, "indexer": pool_bytes(pool) / rows - main}
    index = getattr(pool, "index_k_with_scale_buffer", None)
    if index is not None:
        keys = sum(buffer.nbytes for buffer in index)
        return {"kv": (pool_bytes(pool) - keys) / rows, "indexer": keys / rows}
    # The pool's own sum forgets the scales of four-bit latent rows.
    scales = sum(buffer.nbytes for buffer in getattr(pool, "kv_scale_buffer", None) or ())
    return {"kv": (pool_bytes(pool) + scales) / rows}


def asker_of_configurator() -> Ask:
    """Releases with KVCacheConfigurator and a runtime context (0.5.17 to 0.5.23)."""
    context_module, kc = srt("runtime_context"), srt("mem_cache.kv_cache_configurator")
    model_config, dtypes = srt("configs.model_config"), srt("mem_cache.kv_cache_dtype")
    pools, setup = srt("model_executor.pool_configurator"), srt("model_executor.model_runner_components.layer_setup")
    aux = srt("model_executor.model_runner_components.spec_aux_hidden_state")
    spec, divide = srt("speculative.spec_info").SpeculativeAlgorithm, srt("distributed.utils").get_pp_indices
    kc.is_float4_e2m1fn_x2 = pools.is_float4_e2m1fn_x2 = four_bit
    # Before, the sizes of the groups were those of live process groups.
    sized_by_arguments = "attn_dp_size" in inspect.signature(kc.KVCacheConfigurator).parameters

    def parallel(case: Case) -> dict[str, Any]:
        if sized_by_arguments:
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
        _, dtype = fitting(
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
        context_module.get_context().override("record", max_mamba_cache_size=STATE_SLOTS)
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
            answer["slots"] = context_module.get_schedule().max_mamba_cache_size
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
                answer["rows"]["mamba"] = pool_bytes(requests.mamba_pool) / (STATE_SLOTS + 1)
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
    context, plain = srt("runtime_context").get_context(), torch.empty
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
        context.override("record", hicache_size=size)
        shares: list[float | None] = [None] * (len(device) + 1)
        several = [*device, *([states] if states is not None else [])]
        if size and len(several) > 1:
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
            host = assembler.build_mamba_host_pool(states, info, host_size=shares[-1] or 0, layout="page_first")
            built["mamba"] = [host.size, host.size_per_token]
        found[mode] = built
    return found


def asker_of_mixin() -> Ask:
    """Releases whose ModelRunner divides the budget itself (0.5.9)."""
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
    module.get_available_gpu_memory = lambda *_arguments, **_rest: BUDGET_BYTES / GIB

    runner_class: Any = type("Runner", (module.ModelRunnerKVCacheMixin,), {})

    def ask(case: Case, folder: Path) -> dict[str, Any]:
        ranks = case.tensor_parallel // case.attention_data_parallel
        for patched in (module, *_modules_with("get_attention_tp_size")):
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
        )
        answer: dict[str, Any] = {"attention_ranks": ranks}
        count = runner.num_effective_layers
        if runner.mambaish_config is not None:
            answer["slot_bytes"] = runner.mambaish_config.mamba2_cache_params.mamba_cache_per_req
            own = [
                layer
                for layer in runner.mambaish_config.full_attention_layer_ids
                if runner.start_layer <= layer < runner.end_layer
            ]
            count = len(own)
        answer["budget"] = float(runner.get_cell_size_per_token(count))
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


def _modules_with(name: str) -> list[Any]:
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("sglang.") and getattr(module, name, None) is not None
    ]


def read_as_remote_code_would(configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Model types that the environment's transformers does not know: their classes come with the checkpoint."""
    transformers = importlib.import_module("transformers")
    known = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    importlib.import_module("sglang.srt.utils.hf_transformers_utils")
    for config in configs.values():
        kind = str(config["model_type"])
        if kind not in known:
            remote = type(kind, (transformers.PretrainedConfig,), {"model_type": kind, "rope_scaling": None})
            transformers.AutoConfig.register(kind, remote)


def answers(ask: Ask, release: str, configs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, config in sorted(configs.items()):
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
            for case in cases_of(name, config, release):
                try:
                    answer = ask(case, path)
                except Exception as error:  # what SGLang refuses is an answer, too
                    answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
                rows.append({**case.as_dict(), "answer": answer})
    return rows


class AnyConfig:
    """A configuration that has every key, so that only the model class decides."""

    rope_scaling = rope_parameters = None
    use_mla, is_hybrid_swa, hc_mult, sliding_window = True, False, 1, 128

    def __init__(self, name: str) -> None:
        self.architectures, self.model_type = [name], "any"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return ["sliding_attention"] if name == "layer_types" else 64


def families() -> dict[str, dict[str, Any]]:
    """What the functions that decide on caches say of each model class."""
    module, registry = srt("configs.model_config"), srt("models.registry")
    # The older name, and models that came later.
    has_index = getattr(module, "is_deepseek_dsa", None) or module.is_deepseek_nsa
    has_sparse = getattr(module, "is_minimax_sparse", lambda _config: False)
    decided = {}
    for name in sorted(registry.ModelRegistry.get_supported_archs()):
        config = AnyConfig(name)
        shaped = module.ModelConfig.__new__(module.ModelConfig)
        shaped.hf_config = shaped.hf_text_config = config
        try:
            shaped._derive_model_shapes()
            attention = shaped.attention_arch.name
        except Exception as error:
            attention = f"{type(error).__name__}"
        decided[name] = {
            "attention": attention,
            "window": bool(fitting(module.is_hybrid_swa_model, model_architectures=[name], hf_text_config=config)),
            "index": bool(has_index(config)),
            "sparse": bool(has_sparse(config)),
            "multimodal": bool(module.is_multimodal_model([name])),
        }
    return decided


def read_configs() -> dict[str, dict[str, Any]]:
    return {
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
        for file in sorted((HERE / "configs").glob("*.yml"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheel", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    library = declare_torchvision_operators()
    # Behind the real ones, where they are installed.
    sys.meta_path.append(KernelStandIn())
    release = str(importlib.import_module("sglang.version").__version__)
    source = provenance(arguments.wheel)
    ask = asker_of_mixin() if release.startswith("0.5.9") else asker_of_configurator()
    logging.disable(logging.CRITICAL)
    configs = read_configs()
    read_as_remote_code_would(configs)
    rows = answers(ask, release, configs)
    target = HERE / "oracle" / f"cell-sizes-{release}.json"
    target.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    target.write_text(
        f'{{"sglang": "{release}",\n"source": {json.dumps(source)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8"
    )
    decided = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in families().items())
    (target.parent / f"families-{release}.json").write_text(
        f'{{"sglang": "{release}",\n"source": {json.dumps(source)},\n"classes": {{\n{decided}\n}}}}\n',
        encoding="utf-8",
    )
    failed = [row for row in rows if "error" in row["answer"]]
    print(f"{target.name}: {len(rows)} answers, {len(failed)} errors ({library})")
    for row in failed:
        print(row["model"], row["answer"]["error"])


if __name__ == "__main__":
    main()
