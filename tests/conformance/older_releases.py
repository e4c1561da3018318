# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lets the arguments of an older SGLang be read beside the libraries of a newer one, with no GPU.

Only what stops the import of server_args.py is smoothed over: operators and packages of GPU kernels, model types that
transformers has learnt since, and places of triton's cache.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import (
    KernelStandIn,
    declare_torchvision_operators,
)


class AbsentPackages(KernelStandIn):
    PACKAGES = (*KernelStandIn.PACKAGES, "vllm", "decord", "outlines", "soundfile")


def _registering_what_exists(register: Callable[..., Any]) -> Callable[..., Any]:
    """Registers shapes of operators that exist; those of the GPU kernels that are stood in for do not."""

    def register_fake(operator: Any, function: Any = None, /, **rest: Any) -> Any:
        if function is None:
            return lambda given: register_fake(operator, given, **rest)
        with contextlib.suppress(RuntimeError):
            register(operator, function, **rest)
        return function

    return register_fake


def bear_with_newer_libraries() -> Any:
    """To be called before sglang is imported; what is returned has to be kept while it is used."""
    sys.meta_path.append(AbsentPackages())
    registering = _registering_what_exists(torch.library.register_fake)
    vars(torch.library)["register_fake"] = registering
    mapping = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    register = mapping.register
    mapping.register = lambda key, value, exist_ok=True: register(key, value, exist_ok=True)
    cache = importlib.import_module("triton.runtime.cache")
    for place in ("default_cache_dir", "default_dump_dir", "default_override_dir"):
        if not hasattr(cache, place):
            setattr(cache, place, lambda: "")
    return declare_torchvision_operators()
