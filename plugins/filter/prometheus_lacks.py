# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.later import later

DOCUMENTATION = r"""
name: prometheus_lacks
version_added: 0.1.0
short_description: Parts that a configuration of Prometheus lacks to use given rules and targets
description:
  - Looks whether a configuration names files of rules, and files of targets by their jobs or a file with these jobs.
options:
  _input:
    description: The configuration, as C(from_yaml) gives it.
    type: dict
    required: true
  folder:
    description: Folder of the configuration, from which relative names are taken.
    type: path
    required: true
  rules:
    description: Files of rules.
    type: list
    elements: path
    required: true
  scrapes:
    description: A file with the jobs, as C(scrape_config_files) takes it from Prometheus 2.43 on.
    type: path
    required: true
  targets:
    description: The file of targets of each job.
    type: dict
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Say what is missing
  ansible.builtin.debug:
    msg: >-
      {{ {'rule_files': ['rules/*.yml']}
         | gpufleet.sglang.prometheus_lacks('/etc/prometheus', ['/etc/prometheus/rules/a.yml'],
           '/etc/prometheus/scrape.yml', {'sglang': '/etc/prometheus/targets/sglang.json'}) }}
"""

RETURN = r"""
_value:
  description: Names of the parts, C(rule_files) and C(scrape_configs); empty where nothing is missing.
  type: list
  elements: str
  sample: [scrape_configs]
"""

_missing_parts: Callable[..., list[str]] = later("monitoring.configuration", "missing_parts")


def prometheus_lacks(
    config: Mapping[str, Any] | None, folder: str, rules: Sequence[str], scrapes: str, targets: Mapping[str, str]
) -> list[str]:
    return _missing_parts(config or {}, folder, rules, scrapes, targets)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"prometheus_lacks": prometheus_lacks}
