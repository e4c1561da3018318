# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus has to scrape, by the variables of the hosts of an inventory. Pure.

A job's targets are groups as file_sd reads them, one a target: each has labels of its own, by which rules and dashboard
join what a server, its node and its GPUs tell.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.declared import declared_of, endpoint
from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.reserved import reservation_of

# Names of jobs are asked for by the rules.
SERVERS, NODES, GPUS, ROUTERS = "sglang", "gpufleet-node", "dcgm", "sglang-router"
JOBS = (SERVERS, NODES, GPUS, ROUTERS)
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*\Z")
# What the rules join by, and what Prometheus sets itself.
RESERVED_LABELS = ("node", "sglang_instance", "job", "instance")
LOOPBACK = ("127.", "::1")
WILDCARDS = ("0.0.0.0", "::")

Groups = list[dict[str, Any]]


@dataclass(frozen=True)
class Ports:
    """Of what is not told by a host's own variables."""

    node_exporter: int = 9100
    dcgm: int = 9400
    router: int = 29000


def address_of(host: str, variables: Mapping[str, Any]) -> str:
    """Where others reach a host."""
    return str(variables.get("monitoring_address") or variables.get("ansible_host") or host)


def _group(address: str, port: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"targets": [endpoint(address, port)], "labels": dict(labels)}


def label_problems(labels: Mapping[str, Any]) -> list[str]:
    return [
        f"The label {name!r} of monitoring_target_labels is none that can be set; expected letters, digits and "
        f"underscores, no two of them at the start, and none of {', '.join(RESERVED_LABELS)}."
        for name in labels
        if name in RESERVED_LABELS or not _LABEL.match(name)
    ]


def unknown_ports(hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Instances whose port only the node knows."""
    return [
        {"node": host, "instance": one.name}
        for host, variables in hosts.items()
        for one in declared_of(variables)
        if one.port is None
    ]


def _servers(
    host: str, variables: Mapping[str, Any], here: str, arranged: Mapping[str, int], labels: Mapping[str, str]
) -> tuple[Groups, list[str]]:
    groups: Groups = []
    problems = []
    for one in declared_of(variables):
        port = one.port if one.port is not None else arranged.get(one.name)
        address = address_of(host, variables) if one.address in WILDCARDS else one.address
        if port is None:
            problems.append(
                f"The port of instance {one.name} on {host} is arranged on the node, and it has none there yet; "
                "expected a node that the site playbook has been run on. Run it first, or give the instance a port."
            )
        elif one.address.startswith(LOOPBACK) and host != here:
            problems.append(
                f"Instance {one.name} on {host} binds {one.address}, where {here} cannot scrape it; expected an "
                "address that others reach. Set sglang_host to one of the node's, or to 0.0.0.0."
            )
        else:
            groups.append(_group(address, port, {**labels, "node": host, "sglang_instance": one.name}))
    return groups, problems


def targets(
    nodes: Mapping[str, Mapping[str, Any]],
    routers: Mapping[str, Mapping[str, Any]],
    here: str,
    ports: Ports,
    labels: Mapping[str, str],
    arranged: Mapping[str, Mapping[str, int]],
) -> tuple[dict[str, Groups], list[str]]:
    """(groups by job, what cannot be scraped). C(here) is the host that scrapes, C(arranged) ports by node."""
    found: dict[str, Groups] = {job: [] for job in JOBS}
    problems = label_problems(labels)
    for host, variables in nodes.items():
        groups, wrong = _servers(host, variables, here, arranged.get(host, {}), labels)
        found[SERVERS] += groups
        problems += wrong
        own = {**labels, "node": host}
        address = address_of(host, variables)
        port = int(variables.get("monitoring_node_exporter_port") or ports.node_exporter)
        found[NODES].append(_group(address, port, own))
        if variables.get("monitoring_dcgm"):
            found[GPUS].append(_group(address, int(variables.get("monitoring_dcgm_port") or ports.dcgm), own))
    for host, variables in routers.items():
        port = int(variables.get("monitoring_router_metrics_port") or ports.router)
        found[ROUTERS].append(_group(address_of(host, variables), port, {**labels, "node": host}))
    return found, problems


def arranged_ports(read: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Ports by node and instance, out of the files that nodes keep for their instances, as slurp reads them.

    Each has its C(item), one of C(unknown_ports), and the C(content) in base64; one that is no such file is left out.
    """
    found: dict[str, dict[str, int]] = {}
    for one in read:
        try:
            kept = reservation_of(json.loads(b64decode(str(one["content"]))))
        except (KeyError, ValueError):
            continue
        if kept is not None and "http" in kept["ports"]:
            ports = found.setdefault(str(one["item"]["node"]), {})
            ports[str(one["item"]["instance"])] = kept["ports"]["http"]["first"]
    return found
