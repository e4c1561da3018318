# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: scrape_targets
version_added: 0.1.0
short_description: What Prometheus has to scrape of a fleet
description:
  - Makes of the variables of hosts the targets of every SGLang instance, of the node exporter and the DCGM exporter of
    their nodes, and of routers, in the form of file_sd.
options:
  _input:
    description: C(hostvars), or any mapping from hosts to their variables.
    type: dict
    required: true
  nodes:
    description: Names of the hosts that have instances.
    type: list
    elements: str
    required: true
  routers:
    description: Names of the hosts that have a router.
    type: list
    elements: str
    default: []
  here:
    description: Name of the host that scrapes. What binds only to loopback can be scraped from nowhere else.
    type: str
    default: ''
  ports:
    description:
      - Ports of what hosts do not say themselves, C(node_exporter), C(dcgm) and C(router).
    type: dict
    default: {}
  labels:
    description: Labels that all targets get.
    type: dict
    default: {}
  read:
    description:
      - What nodes keep for instances whose port is arranged there, as results of M(ansible.builtin.slurp) in a loop
        over C(unknown_ports).
    type: list
    elements: dict
    default: []
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Show what is to be scraped
  ansible.builtin.debug:
    msg: "{{ hostvars | gpufleet.sglang.scrape_targets(nodes=groups.sglang, here=inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(jobs) has the groups of each job, C(unknown_ports) the instances whose port only their node knows, C(problems)
      what cannot be scraped.
  type: dict
  sample:
    jobs:
      sglang:
        - targets: ["10.213.77.131:30000"]
          labels: {node: node-1, sglang_instance: main}
      gpufleet-node:
        - targets: ["10.213.77.131:9100"]
          labels: {node: node-1}
      dcgm: []
      sglang-router: []
    unknown_ports: []
    problems: []
"""

# What is asked of each host; anything else is none of its business, and may not be templated here.
WANTED = (
    "ansible_host",
    "monitoring_address",
    "monitoring_dcgm",
    "monitoring_dcgm_port",
    "monitoring_node_exporter_port",
    "monitoring_router_metrics_port",
    "sglang_host",
    "sglang_instance",
    "sglang_instances",
    "sglang_port",
)


def scrape_targets(
    hostvars: Mapping[str, Mapping[str, Any]],
    nodes: Sequence[str],
    routers: Sequence[str] = (),
    here: str = "",
    ports: Mapping[str, Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    read: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.monitoring import targets as core

    def of_hosts(names: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {name: {key: hostvars[name][key] for key in WANTED if key in hostvars[name]} for name in names}

    asked = of_hosts(nodes)
    jobs, problems = core.targets(
        asked,
        of_hosts(routers),
        here,
        core.Ports(**{name: int(port) for name, port in (ports or {}).items()}),
        {name: str(value) for name, value in (labels or {}).items()},
        core.arranged_ports(read),
    )
    return {"jobs": jobs, "unknown_ports": core.unknown_ports(asked), "problems": problems}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"scrape_targets": scrape_targets}
