# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang for its own arithmetic, and write the answers to oracle/.

Run with the Python of an environment that holds the release (a CPU build will do; no GPU is asked for) and with the
folder above ansible_collections on PYTHONPATH:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_oracle --wheel sglang-0.5.23-....whl

The wheel is named in the record by its SHA-256, after the files that answer were found to be those in it. What runs is
SGLang's code: ModelConfig reads the configuration, KVCacheConfigurator (0.5.16 on) or ModelRunnerKVCacheMixin (before)
divide the budget, and the pool classes allocate a few rows on the CPU (0.5.16 on). Replaced are the measurement of free
memory, process groups, the allocator of pinned memory, GPU kernels, and torchvision's operators, whose compiled part
wants CUDA. Transformers has to be of the release that the wheel asks for: it reads the configurations.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import cases_of
from ansible_collections.gpufleet.sglang.tests.conformance.oracle_configurator import asker_of_configurator
from ansible_collections.gpufleet.sglang.tests.conformance.oracle_runner import asker_of_mixin
from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import (
    Ask,
    KernelStandIn,
    declare_torchvision_operators,
    fitting,
    srt,
)

HERE = Path(__file__).resolve().parent
# The files whose answers are recorded; they must be those of the wheel.
ANSWERING = (
    "configs/model_config.py",
    "configs/mamba_utils.py",
    "mem_cache/memory_pool.py",
    "mem_cache/kv_cache_configurator.py",
    "mem_cache/deepseek_v4_memory_pool.py",
    "mem_cache/deepseek_v4_compress_state.py",
    "mem_cache/memory_pool_host.py",
    "mem_cache/swa_memory_pool.py",
    "mem_cache/hybrid_cache/hybrid_pool_assembler.py",
    "model_executor/pool_configurator.py",
    "model_executor/model_runner_kv_cache_mixin.py",
)


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
                rows.append({**case.asked(), "answer": answer})
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
    ask = (
        asker_of_configurator()
        if importlib.util.find_spec("sglang.srt.mem_cache.kv_cache_configurator")
        else asker_of_mixin()
    )
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
