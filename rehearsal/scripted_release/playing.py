# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From arguments and a model to the scenario of a start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.pools import (
    bytes_per_token,
    device_tokens,
    host_refusal,
    host_tokens,
    model_of,
)
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import version_of

# So many bytes a second does a rank pin, where the service's environment says no other number.
PIN_BYTES_PER_SECOND = 500_000_000
PIN_VARIABLE = "REHEARSAL_PIN_BYTES_PER_SECOND"
# A file of keys of a scenario that are laid over those of the arguments: faults, noise, seconds, http.
SCENARIO_VARIABLE = "REHEARSAL_SCENARIO"
GIB = 1 << 30
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "site-packages/sglang/srt/managers/scheduler.py", line 4711, in run_scheduler_process\n'
    "{error}\n"
)


def scenario_of(
    release: str,
    arguments: Mapping[str, Any],
    config: Mapping[str, Any],
    available_bytes: int,
    pin_bytes_per_second: int = PIN_BYTES_PER_SECOND,
) -> dict[str, Any]:
    """C(arguments) as the release names them, C(config) is the model's config.json. Raises C(ValueError)."""
    model, version, ranks = model_of(config), version_of(release), int(arguments["tp_size"])
    if arguments["max_total_tokens"] is None:
        raise ValueError("There is no GPU whose memory could be divided; expected --max-total-tokens.")
    token_bytes = bytes_per_token(model, ranks, arguments["dtype"], arguments["kv_cache_dtype"])
    tokens = device_tokens(int(arguments["max_total_tokens"]), int(arguments["page_size"]))
    if tokens <= 0:
        raise ValueError(f"--max-total-tokens {arguments['max_total_tokens']} is less than a page.")
    pool_gib = tokens * token_bytes / GIB
    found: dict[str, Any] = {
        "release": release,
        "ranks": ranks,
        "device": arguments["device"],
        "host": arguments["host"],
        "port": arguments["port"],
        "model": {
            "name": arguments["model_path"],
            "type": model.architecture,
            "context_tokens": arguments["context_length"] or model.context_tokens,
        },
        "capacity_tokens": tokens,
        "memory_gib": {
            "before_load": available_bytes / GIB,
            "weights": 0.01,
            "pool": pool_gib,
            "capture": 0.0,
        },
        "host_pools": [],
        "faults": [],
        "http": {
            "served_model_name": arguments["served_model_name"],
            "metrics": arguments["enable_metrics"],
        },
        "arguments": dict(arguments),
    }
    if arguments["enable_hierarchical_cache"]:
        host = host_tokens(
            version,
            tokens,
            int(arguments["page_size"]),
            token_bytes,
            ratio=arguments["hicache_ratio"],
            size_gb=int(arguments["hicache_size"]),
        )
        error = host_refusal(version, tokens, host, token_bytes, available_bytes, ranks)
        if error:
            crash = {"crash": TRACEBACK.format(error=error)}
            found["faults"] = [{"before": "host_pool", "rank": "all", "do": [crash]}]
        found["host_pools"] = [
            {"bytes": host * token_bytes, "tokens": host, "gb_per_second": pin_bytes_per_second / 1e9}
        ]
    return found


def laid_over(scenario: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """C(more) over the scenario: mappings by their keys, lists behind those that are there, the rest instead."""
    found = dict(scenario)
    for name, value in more.items():
        there = found.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            found[name] = {**there, **value}
        elif name == "faults":
            found[name] = [*(there or []), *value]
        else:
            found[name] = value
    return found
