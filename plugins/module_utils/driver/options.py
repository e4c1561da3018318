# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument specification of driver_plan; described in plugins/modules/driver_plan.py."""

from __future__ import annotations

from typing import Any

SPACE_OPTIONS: dict[str, Any] = {
    "boot_free_bytes": {"type": "int"},
    "root_free_bytes": {"type": "int"},
    "boot_on_root": {"type": "bool", "default": False},
    "initramfs_bytes": {"type": "int"},
}
CONTAINER_OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "runtime": {"type": "str"},
    "cgroup_manager": {"type": "str"},
    "devices": {"type": "list", "elements": "str", "default": []},
    "uses_gpus": {"type": "bool"},
}
MIG_OPTIONS: dict[str, Any] = {
    "gpus": {"type": "list", "elements": "int", "default": []},
    "profiles": {"type": "list", "elements": "str", "required": True},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "stack": {"type": "dict", "required": True},
    "topology": {"type": "dict", "default": {}},
    "space": {"type": "dict", "options": SPACE_OPTIONS, "default": {}},
    "containers": {"type": "list", "elements": "dict", "options": CONTAINER_OPTIONS},
    "dev_char_links": {"type": "bool", "default": False},
    "source": {
        "type": "str",
        "choices": ["vendor", "mirror", "folder", "distribution", "none"],
        "default": "vendor",
    },
    "version": {"type": "str"},
    "branch": {"type": "str"},
    "available": {"type": "list", "elements": "str", "default": []},
    "package_revision": {"type": "str"},
    "headers_available": {"type": "list", "elements": "str"},
    "flavour": {"type": "str", "choices": ["auto", "open", "proprietary"], "default": "auto"},
    "compute_only": {"type": "bool", "default": True},
    "repository_url": {"type": "str"},
    "repository_suite": {"type": "str", "default": "/"},
    "repository_components": {"type": "list", "elements": "str", "default": []},
    "key": {"type": "str"},
    "key_fingerprint": {"type": "str"},
    "fabric_manager": {"type": "raw", "default": "auto"},
    "imex": {"type": "raw", "default": "auto"},
    "imex_nodes": {"type": "list", "elements": "str", "default": []},
    "persistence": {"type": "bool", "default": True},
    "container_toolkit": {"type": "bool", "default": False},
    "container_toolkit_version": {"type": "str"},
    "mig": {"type": "list", "elements": "dict", "options": MIG_OPTIONS, "default": []},
    "hold": {"type": "bool", "default": True},
    "repair": {"type": "bool", "default": True},
    "allow_reboot": {"type": "bool", "default": False},
    "allow_downgrade": {"type": "bool", "default": False},
    "assume_signed": {"type": "bool", "default": False},
    "remove_conflicting": {"type": "bool", "default": False},
    "refuse": {"type": "bool", "default": True},
}
