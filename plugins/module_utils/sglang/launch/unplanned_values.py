# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flags that a plan follows for some models and values only."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Methods that make smaller weights out of a checkpoint that is not quantized (layers/quantization/).
_WHILE_LOADING = frozenset(
    {"fp8", "w8a8_fp8", "w8a8_int8", "mxfp8", "mxfp4", "nvfp4", "nvfp4_online", "bitsandbytes", "torchao", "qoq"}
)


def refuse_unplanned_values(model: ModelFacts, server: ServerRequest, observed: Observed) -> None:
    """What takes memory that only a start tells passes when one measured it."""
    _refuse_quantizing(model, server, observed)
    _refuse_exchange(server, observed)


def _refuse_quantizing(model: ModelFacts, server: ServerRequest, observed: Observed) -> None:
    """Weights that are quantized while they are loaded take less than their files."""
    method = server.extra_arguments.get("quantization")
    measured = observed.available_after_load_bytes is not None or observed.kv_pool_bytes is not None
    if method not in _WHILE_LOADING or model.quantization is not None or measured:
        return
    raise Refusal(
        "extra_argument_unplanned",
        f"extra_arguments holds quantization {method}, and {model.name} is not quantized: its weights are quantized "
        "while they are loaded, and what they take then is not known before a start.",
        "Leave it out, take a checkpoint that is quantized (then give model.quantization), or give "
        "observed.available_after_load_bytes of an earlier start.",
        {"flag": "quantization", "value": method},
    )


def _refuse_exchange(server: ServerRequest, observed: Observed) -> None:
    """Backends of layers/moe/token_dispatcher/ take buffers beside the pools; only for DeepEP there is a reserve."""
    backend = str(server.extra_arguments.get("moe-a2a-backend", "none"))
    if backend in ("none", "deepep") or observed.idle_bytes_per_gpu is not None or observed.kv_pool_bytes is not None:
        return
    raise Refusal(
        "extra_argument_unplanned",
        f"extra_arguments holds moe-a2a-backend {backend}: the exchange of tokens between experts has buffers on each "
        "GPU, which are not known before a start.",
        "Leave it out, or give observed.idle_bytes_per_gpu of an earlier start with it.",
        {"flag": "moe-a2a-backend", "value": backend},
    )
