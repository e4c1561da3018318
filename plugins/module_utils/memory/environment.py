# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Environment variables of the service that change what a plan computes, checked and read as SGLang reads them.

Source: SGLang, environ.py (C(EnvBool), C(EnvInt)). A value that it cannot read it leaves for its default with a
warning, so that the plan would be of something else; it is refused here. Of other variables the plan need not know,
and secrets among them would get into its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import refuse_unknown
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.host_memory_versions import (
    HUGEPAGE_VARIABLE,
    PARALLEL_VARIABLE,
)

# Sizes the KV cache once the graphs are captured.
AFTER_CAPTURE = "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING"
# Another allocator of the KV cache, which keeps a server from that.
CUSTOM_POOL = "SGLANG_MOONCAKE_CUSTOM_MEM_POOL"
# MiB that models with a tower keep for embeddings, and for features on their way between processes.
EMBEDDING_CACHE = "SGLANG_VLM_CACHE_SIZE_MB"
FEATURE_CACHE = "SGLANG_MM_FEATURE_CACHE_MB"
# Lets features travel through GPU memory; the older name of --mm-feature-transport.
FEATURES_BY_IPC = "SGLANG_USE_CUDA_IPC_TRANSPORT"

_TRUE, _FALSE = ("true", "1", "yes", "y"), ("false", "0", "no", "n")
_SWITCHES = frozenset({AFTER_CAPTURE, FEATURES_BY_IPC})
_SIZES = frozenset({EMBEDDING_CACHE, FEATURE_CACHE})
# Variables that the plan itself sets, and the option that decides on them.
OWNED = {
    HUGEPAGE_VARIABLE: "hicache.hugepage_size",
    PARALLEL_VARIABLE: "hicache.parallel_alloc_threads",
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"), "server.gpus"),
}
PLANNED = _SWITCHES | _SIZES | {CUSTOM_POOL}


def checked_environment(given: Mapping[str, Any], device: str = "cuda") -> dict[str, str]:
    """The variables as the service gets them, or a Refusal of the first that is not one a plan can take."""
    if device == "cpu":
        # Whatever hides GPUs from it, a plan does not seat it on any.
        given = {name: value for name, value in given.items() if OWNED.get(name) != "server.gpus"}
    for name, option in OWNED.items():
        if name in given:
            raise Refusal(
                "environment_owned",
                f"server.environment sets {name}, which the plan decides.",
                f"Set {option} instead.",
                {"variable": name},
            )
    refuse_unknown(given, PLANNED, "server.environment.")
    environment = {name: str(value) for name, value in given.items()}
    for name, value in environment.items():
        if name in _SWITCHES and value.lower() not in (*_TRUE, *_FALSE):
            raise _malformed(name, value, f"one of {', '.join((*_TRUE, *_FALSE))}")
        if name in _SIZES and not (value.isascii() and value.isdigit()):
            raise _malformed(name, value, "a whole number of MiB, 0 or more")
    return environment


def _malformed(name: str, value: str, expected: str) -> Refusal:
    return Refusal(
        "environment_malformed",
        f"server.environment sets {name} to {value!r}, which SGLang cannot read and leaves for its default.",
        f"Expected {expected}.",
        {"variable": name, "value": value},
    )


def switched_on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "0").lower() in _TRUE


def size_mib(environment: Mapping[str, str], name: str) -> int | None:
    """None where the service is not told."""
    value = environment.get(name)
    return None if value is None else int(value)
