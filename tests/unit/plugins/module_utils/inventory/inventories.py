# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts of inventories as the checks take them, and a role with a few of the real one's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.check import check
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import NODES, PAPER, Host, Removal, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.playbook_variables import PLAYBOOKS
from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.variables import OPTIONS

SGLANG = Role(
    "sglang",
    {
        "sglang_instance": {"type": "str", "default": "main"},
        "sglang_instances": {"type": "list", "elements": "dict", "default": []},
        "sglang_version": {"type": "str", "required": True},
        "sglang_model_path": {"type": "path"},
        "sglang_host": {"type": "str", "default": "127.0.0.1"},
        "sglang_port": {"type": "int", "default": 30000},
        "sglang_attention_data_parallel_size": {"type": "int", "default": 1},
        "sglang_gpus": {"type": "list", "elements": "int", "default": []},
        "sglang_device": {"type": "str", "choices": ["cuda", "cpu"], "default": "cuda"},
        "sglang_extra_arguments": {"type": "dict", "default": {}},
        "sglang_hicache_ratio": {"type": "float"},
        "sglang_hicache_storage": {
            "type": "dict",
            "options": {"backend": {"type": "str", "choices": ["file", "nixl"]}, "max_bytes": {"type": "int"}},
        },
        "sglang_paper_machine": {"type": "dict", "default": {}},
        "sglang_tensor_parallel_size": {"type": "int", "default": 1},
        "sglang_served_model_name": {"type": "str"},
        **OPTIONS,
        "sglang_api_key": {"type": "str", "choices": ["made up, so that it can be wrong"], "no_log": True},
    },
    frozenset({"sglang_plan"}),
    (NODES, PAPER),
)
STORE = Role("model_store", {"model_store_root": {"type": "path"}}, frozenset({"model_store_paths"}))
ROUTER = Role("router", {"router_port": {"type": "int", "default": 30000}})
PROBE = Role("probe", {"probe_show": {"type": "bool"}}, strict=False)
ROLES = (SGLANG, STORE, ROUTER, PROBE, *PLAYBOOKS)
WHOLE: dict[str, Any] = {"sglang_version": "0.5.23", "sglang_model_path": "/srv/models/Qwen3-32B"}


def node(name: str = "gpu-1", *, group: str = NODES, unresolved: Any = None, **said: Any) -> Host:
    """One that nothing is wrong with, but for what is said."""
    return Host(name, frozenset({"all", group}), {"ansible_host": name, **WHOLE, **said}, unresolved or {})


def found(*hosts: Host, removed: Mapping[str, Removal] | None = None, **options: Any) -> list[Finding]:
    return list(check(hosts, options.pop("roles", ROLES), removed=removed or {}, **options))


def only(*hosts: Host, **options: Any) -> Finding:
    [one] = found(*hosts, **options)
    return one
