# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which workers an inventory describes: every instance of every host of a group, where a router reaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.declared import (
    Declared,
    declared_of,
    endpoint,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.arrange import DEFAULT_BOOTSTRAP_PORT
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.members import KINDS, normal_url
from ansible_collections.gpufleet.sglang.plugins.module_utils.router.problem_codes import CODES


def workers_of_hosts(
    hosts: Sequence[Mapping[str, Any]] | Mapping[str, Any], only: str | None = None
) -> list[dict[str, Any]]:
    """C(hosts): the variables of each, or of one, as hostvars has them. C(only): that instance alone.

    Rows are those of the option workers of router_members.
    """
    several = [hosts] if isinstance(hosts, Mapping) else hosts
    found = [one for host in several for one in declared_of(host)]
    return [_worker(one) for one in found if only is None or one.name == only or not one.entry]


def _worker(one: Declared) -> dict[str, Any]:
    arguments = {str(name).replace("_", "-"): value for name, value in (one.get("extra_arguments") or {}).items()}
    mode = arguments.get("disaggregation-mode")
    kind = mode if mode in KINDS else KINDS[0]
    port = arguments.get("disaggregation-bootstrap-port", DEFAULT_BOOTSTRAP_PORT) if kind == "prefill" else None
    return {"url": _url(one), "kind": kind, "bootstrap_port": port}


def _url(one: Declared) -> str:
    given = one.get("worker_url")
    if given:
        return normal_url(str(given))
    host = str(one.variables.get("inventory_hostname", "a host"))
    which = f"{host}, instance {one.name}" if one.entry else host
    if one.port is None:
        raise _unknown(which, "sglang_port is null, so that the port is found on the node", "a port in the inventory")
    if one.address in ("127.0.0.1", "::1", "localhost"):
        raise _unknown(
            which,
            f"sglang_host is {one.address}, which no router on another host reaches",
            "0.0.0.0 or an address",
        )
    return normal_url(f"http://{endpoint(str(one.variables.get('ansible_host') or host), one.port)}")


def _unknown(which: str, found: str, expected: str) -> Refusal:
    return Refusal(
        "worker_url_malformed",
        f"Where a router reaches {which} is not known: {found}; expected {expected}, or sglang_worker_url.",
        CODES["worker_url_malformed"].remedy,
        {"worker": which},
    )
