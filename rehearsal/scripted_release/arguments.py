# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of C(sglang.launch_server) that are played, and how they are read: as the releases read theirs.

server_args.py (prepare_server_args) and utils/server_args_config_parser.py: what the file says becomes words of the
command line, in front of the given ones, and argparse reads both. A flag that is not here is refused as an unknown one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.config_file import read_config

CACHE_TYPES = ("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16")
MODEL_TYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")


def argument_parser(admin_key: bool) -> argparse.ArgumentParser:
    """C(admin_key): --admin-api-key begins with 0.5.8."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    add = parser.add_argument
    add("--model-path", "--model", required=True)
    add("--served-model-name")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=30000)
    add("--device", choices=("cpu", "cuda"), default="cuda")
    add("--tensor-parallel-size", "--tp-size", "--tp", dest="tp_size", type=int, default=1)
    add("--page-size", type=int, default=1)
    add("--dtype", choices=MODEL_TYPES, default="auto")
    add("--kv-cache-dtype", choices=CACHE_TYPES, default="auto")
    add("--context-length", type=int)
    add("--max-total-tokens", type=int)
    add("--mem-fraction-static", type=float)
    add("--enable-metrics", action="store_true")
    add("--api-key")
    if admin_key:
        add("--admin-api-key")
    add("--enable-hierarchical-cache", action="store_true")
    add("--hicache-ratio", type=float)
    add("--hicache-size", type=int, default=0)
    add("--hicache-write-policy", choices=("write_back", "write_through", "write_through_selective"))
    # What these decide is no part of what is played; the server shows them among its arguments.
    add("--hicache-io-backend", choices=("direct", "kernel"))
    add("--hicache-mem-layout", choices=("layer_first", "page_first", "page_first_direct", "page_head"))
    add("--attention-backend")
    add("--chunked-prefill-size", type=int)
    add("--max-running-requests", type=int)
    add("--load-format", default="auto")
    add("--log-level", default="info")
    add("--sleep-on-idle", action="store_true")
    add("--trust-remote-code", action="store_true")
    return parser


def _switches(parser: argparse.ArgumentParser) -> set[str]:
    return {action.dest for action in parser._actions if action.nargs == 0}


def words_of(config: Mapping[str, Any], switches: set[str]) -> list[str]:
    """utils/server_args_config_parser.py, _convert_config_to_args."""
    words: list[str] = []
    for name, value in config.items():
        flag = f"--{name}"
        if isinstance(value, bool) and name.replace("-", "_") in switches:
            words += [flag] if value else []
        elif isinstance(value, bool):
            words += [flag, str(value).lower()]
        elif isinstance(value, list):
            words += [flag, *map(str, value)] if value else []
        else:
            words += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return words


def prepare(argv: Sequence[str], admin_key: bool) -> argparse.Namespace:
    """Ends the process with status 2 for what argparse refuses, as the release does."""
    parser = argument_parser(admin_key)
    words = list(argv)
    if "--config" in words:
        place = words.index("--config")
        if place + 1 == len(words) or "--config" in words[place + 1 :]:
            raise ValueError("Expected one --config, with a file behind it.")
        config = read_config(Path(words[place + 1]).read_text(encoding="utf-8"))
        words = words_of(config, _switches(parser)) + words[:place] + words[place + 2 :]
    found = parser.parse_args(words)
    # What the release itself resolves.
    found.served_model_name = found.served_model_name or found.model_path
    found.hicache_write_policy = found.hicache_write_policy or "write_through"
    return found
