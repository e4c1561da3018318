# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of model_snapshot, for the module and for the action that repeats it."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import HUB

# Those by which a controller waits; the node has nothing to do with them.
WAITING_OPTIONS: dict[str, Any] = {
    "reconnect_seconds": {"type": "float", "default": 300},
    "live_lines": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
}
SNAPSHOT_OPTIONS: dict[str, Any] = {
    "root": {"type": "path", "default": "/srv/models"},
    "name": {"type": "str", "required": True},
    "revision": {"type": "str"},
    "content_sha256": {"type": "str"},
    "folder": {"type": "path"},
    "mirrors": {"type": "list", "elements": "str", "default": []},
    "repository": {"type": "str"},
    "endpoints": {"type": "list", "elements": "str", "default": [HUB]},
    "token": {"type": "str", "no_log": True},
    "token_file": {"type": "path", "no_log": False},
    "ca_file": {"type": "path"},
    "include": {"type": "list", "elements": "str", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
    "activate": {"type": "bool", "default": True},
    "transfer": {"type": "str", "choices": ["auto", "hardlink", "copy"], "default": "auto"},
    "parallel_files": {"type": "int", "default": 4},
    "stall_seconds": {"type": "float", "default": 30},
    "attempts": {"type": "int", "default": 6},
    "corrupt_attempts": {"type": "int", "default": 3},
    "retry_pause_seconds": {"type": "float", "default": 1},
    "first_location": {"type": "int", "default": 0},
    "reserve_bytes": {"type": "int", "default": 10_000_000_000},
    "max_bytes_per_second": {"type": "int"},
    "group": {"type": "str", "default": "root"},
    "file_mode": {"type": "str", "default": "0644"},
    "poll_seconds": {"type": "float", "default": 3},
    "run_id": {"type": "str"},
    **WAITING_OPTIONS,
}
