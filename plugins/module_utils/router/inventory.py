# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which workers an inventory describes: every instance of every host of a group, where a router reaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import KINDS, normal_url
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES

# roles/sglang/defaults
DEFAULT_PORT = 30000
DEFAULT_HOST = "127.0.0.1"


def workers_of_hosts(
    hosts: Sequence[Mapping[str, Any]] | Mapping[str, Any], only: str | None = None
) -> list[dict[str, Any]]:
    """C(hosts): the variables of each, or of one, as hostvars has them. C(only): that instance alone.

    Rows are those of the option workers of router_members.
    """
    several = [hosts] if isinstance(hosts, Mapping) else hosts
    return [_worker(host, entry) for host in several for entry in _entries(host, only)]


def _entries(host: Mapping[str, Any], only: str | None) -> list[Mapping[str, Any]]:
    entries = list(host.get("sglang_instances") or []) or [{}]
    if only is None or entries == [{}]:
        return entries
    return [entry for entry in entries if entry.get("instance") == only]


def _worker(host: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    def asked(name: str, otherwise: Any = None) -> Any:
        return entry.get(name, host.get(f"sglang_{name}", otherwise))

    arguments = {str(name).replace("_", "-"): value for name, value in (asked("extra_arguments") or {}).items()}
    mode = arguments.get("disaggregation-mode")
    kind = mode if mode in KINDS else KINDS[0]
    port = arguments.get("disaggregation-bootstrap-port", 8998) if kind == "prefill" else None
    return {"url": _url(host, entry, asked), "kind": kind, "bootstrap_port": port}


def _url(host: Mapping[str, Any], entry: Mapping[str, Any], asked: Any) -> str:
    given = asked("worker_url")
    if given:
        return normal_url(str(given))
    name = str(host.get("inventory_hostname", "a host"))
    which = f"{name}, instance {entry['instance']}" if "instance" in entry else name
    port, bound = asked("port", DEFAULT_PORT), str(asked("host", DEFAULT_HOST))
    if port is None:
        raise _unknown(which, "sglang_port is null, so that the port is found on the node", "a port in the inventory")
    if bound in ("127.0.0.1", "::1", "localhost"):
        raise _unknown(
            which, f"sglang_host is {bound}, which no router on another host reaches", "0.0.0.0 or an address"
        )
    address = str(host.get("ansible_host") or name)
    return normal_url(f"http://{'[' + address + ']' if ':' in address else address}:{port}")


def _unknown(which: str, found: str, expected: str) -> Refusal:
    return Refusal(
        "worker_url_malformed",
        f"Where a router reaches {which} is not known: {found}; expected {expected}, or sglang_worker_url.",
        CODES["worker_url_malformed"].remedy,
        {"worker": which},
    )
