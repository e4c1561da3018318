# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What lets an unmodified SGLang run without a GPU, and a few ways to call it whatever the release."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import Case

GIB = 1 << 30
Ask = Callable[[Case, Path], dict[str, Any]]


def declare_torchvision_operators() -> Any:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


class KernelStandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the names that SGLang imports from its GPU kernels; none of them is called."""

    PACKAGES: tuple[str, ...] = ("sgl_kernel", "flashinfer")

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

        def __init__(self, *_arguments: Any, **_rest: Any) -> None:
            """Inheriting from an instance calls its type with the name, the bases and the body."""

        def __getattr__(self, name: str) -> Any:
            return KernelStandIn.anything(name)

        def __call__(self, *_arguments: Any, **_rest: Any) -> None:
            return


def four_bit(dtype: Any) -> bool:
    """SGLang's own question without its "and CUDA is there"."""
    return bool(dtype == torch.float4_e2m1fn_x2)


def srt(name: str) -> Any:
    return importlib.import_module(f"sglang.srt.{name}")


def fitting(function: Callable[..., Any], **arguments: Any) -> Any:
    """Called with those of the arguments that this release's function takes."""
    taken = inspect.signature(function).parameters
    return function(**{name: value for name, value in arguments.items() if name in taken})


def settle(server_args: Any, **fields: Any) -> None:
    """Changes settings where this release keeps them once a server runs."""
    context = srt("runtime_context").get_context()
    (context if hasattr(context, "override") else server_args).override("record", **fields)


def pool_bytes(pool: Any) -> int:
    size = pool.get_kv_size_bytes()
    return int(sum(size) if isinstance(size, tuple) else size)


def state_bytes(pool: Any) -> int:
    if hasattr(pool, "get_kv_size_bytes"):
        return pool_bytes(pool)
    kept = pool.mamba_cache
    return int(sum(part.nbytes for part in kept.conv) + kept.temporal.nbytes)


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


def modules_with(name: str) -> list[Any]:
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("sglang.") and getattr(module, name, None) is not None
    ]
