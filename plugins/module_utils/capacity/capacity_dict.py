# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options in their documented, JSON-safe form, with the best of them and the one that misses by least."""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.capacity_request import Workload
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.judge import Option
from ansible_collections.gpufleet.sglang.plugins.module_utils.capacity.search import Capacity
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def capacity_as_dict(found: Capacity, workload: Workload) -> dict[str, Any]:
    """What capacity_options returns, without what Ansible adds."""
    options = [option_as_dict(option) for option in found.options]
    fitting = [option for option in options if option["fits"]]
    return {
        "options": options,
        "best": fitting[0] if fitting else None,
        "models_that_fit": list(dict.fromkeys(option["model"] for option in fitting)),
        "nearest_miss": nearest_miss(found, workload),
        "excluded": [
            {"model": one.model, "layout": one.layout.as_options(), "refusal": _refusal(one.refusal)}
            for one in found.excluded
        ],
    }


def option_as_dict(option: Option) -> dict[str, Any]:
    return {
        "model": option.model,
        "board": option.board,
        "gpus": option.gpus,
        "gpu_memory_bytes": option.gpu_memory_bytes,
        "layout": option.layout.as_options(),
        "fits": option.fits,
        "tokens": option.tokens,
        "requests_at_context": option.requests_at_context,
        "mem_fraction_static": option.mem_fraction_static,
        "weights_bytes": option.weights_bytes,
        "kv_bytes": option.kv_bytes,
        "needed_kv_bytes": option.needed_kv_bytes,
        "idle_bytes": option.idle_bytes,
        "missing_bytes": option.missing_bytes,
        "reserved_bytes": option.reserved_bytes,
        "host_ratio_auto": option.host_ratio_auto,
        "host_tokens": option.host_tokens,
        "host_bytes_total": option.host_bytes_total,
        "host_required_bytes": option.host_required_bytes,
        "observed": option.observed,
        "refusal": None if option.refusal is None else _refusal(option.refusal),
        "explanation": list(option.explanation),
        "assumptions": list(option.assumptions),
    }


def nearest_miss(found: Capacity, workload: Workload) -> dict[str, Any] | None:
    """The option that lacks the fewest bytes, and the smaller workloads that it serves."""
    short = [option for option in found.options if not option.fits and option.missing_bytes]
    if not short:
        return None
    option = min(short, key=lambda one: (one.missing_bytes or math.inf) * one.gpus)
    missing, alone = option.missing_bytes or 0, option.gpus == 1
    message = (
        f"{option.group_text} ({option.layout.text}) {'lacks' if alone else 'lack'} {format_gib(missing)} a GPU, "
        f"{format_gib(missing * option.gpus)} in all"
    )
    smaller = []
    if option.largest_context_tokens:
        smaller.append(
            f"{_requests(workload.concurrent_requests)} of {format_count(option.largest_context_tokens)} tokens"
        )
    if option.requests_at_context:
        smaller.append(f"{_requests(option.requests_at_context)} of {format_count(workload.context_tokens)} tokens")
    subject = "it serves" if alone else "they serve"
    message += f"; {subject} {' or '.join(smaller) if smaller else 'no smaller workload either'}."
    return {
        "model": option.model,
        "board": option.board,
        "gpus": option.gpus,
        "layout": option.layout.as_options(),
        "missing_bytes": missing,
        "missing_bytes_total": missing * option.gpus,
        "largest_context_tokens": option.largest_context_tokens,
        "largest_concurrent_requests": option.requests_at_context,
        "message": message,
    }


def _requests(count: int) -> str:
    return f"{format_count(count)} request{'' if count == 1 else 's'}"


def _refusal(refusal: Refusal) -> dict[str, str]:
    return {"code": refusal.code, "message": refusal.message, "remedy": refusal.remedy}
