# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which keys each release asks for, and where it shows a key that it is given as an argument.

Read in every wheel from 0.4.7 to 0.5.23. No release hides them: C(--watermark-key) is what redact_watermark_secrets of
0.5.22 hides, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, value_at

# server_args.py: --api-key in every release, --admin-api-key from 0.5.8 on (utils/auth.py).
_ADMIN_KEY = (("0.4.7", False), ("0.5.8", True))
# Answered without a key in every release (add_api_key_middleware of utils, decide_request_auth of utils/auth.py).
OPEN_PATHS = ("/health", "/metrics")
# From 0.5.20 on.
_OPEN_PATHS = (("0.4.7", OPEN_PATHS), ("0.5.20", (*OPEN_PATHS, "/ready")))

# Arguments that let requests in beside the HTTP server that asks for the key, or make it forget to, and why. What a
# plan refuses anyway is not among them (encoder-only, use-ray).
UNGUARDED_ARGUMENTS = {
    "grpc-port": "its listener asks for no key (handle_grpc of arg_groups/serving_hook.py refuses it)",
    "grpc-mode": "a server of gRPC asks for no key",
    "smg-grpc-mode": "a server of gRPC asks for no key",
    "sidecar": "what runs beside the server asks for no key of its own",
}
# entrypoints/http_server.py from 0.5.2 on: "API key is not supported in multi-tokenizer mode".
WORKERS = "tokenizer-worker-num"
# entrypoints/http_server.py from 0.5.17 on: another HTTP server, which is given the arguments and not the key.
UNGUARDED_VARIABLES = ("SGLANG_RUST_SERVER",)


@dataclass(frozen=True)
class KeyFacts:
    """C(open_paths): beginnings of the paths that are answered without a key."""

    admin_key: bool
    open_paths: tuple[str, ...]


def key_facts(version: Version) -> KeyFacts:
    return KeyFacts(admin_key=value_at(_ADMIN_KEY, version), open_paths=value_at(_OPEN_PATHS, version))
