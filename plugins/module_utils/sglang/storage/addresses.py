# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host and port of what a backend is told to speak to. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_PORTS = {"http": 80, "https": 443}


def host_and_port(option: str, given: str, scheme: str | None = None) -> str:
    """C(host:port) out of a URL, or of an address without a scheme; C(scheme) says which port is meant without one.

    Raises Refusal, C(storage_address_malformed).
    """
    try:
        parts = urlsplit(given if "://" in given else f"//{given}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme or scheme or "")
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise Refusal(
            "storage_address_malformed",
            f"sglang_hicache_storage.extra_config.{option} is {given}.",
            "Expected an address with a port of 1 to 65535, such as http://10.0.0.5:18000.",
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
