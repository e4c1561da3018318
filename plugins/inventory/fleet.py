# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
version_added: 0.1.0
short_description: Group nodes by GPUs, NUMA nodes, driver and health
description:
  - Groups the hosts of the inventory sources before this one by what their last survey found, without touching them.
    Surveys are those that the role C(gpufleet.sglang.probe) keeps, in a folder of the controller (C(probe_save)) or in
    Ansible's cache of facts (C(probe_cache_facts)); of a host that has both, the newer one counts.
  - The names of the groups are those of O(group_by), followed by the value in small letters, for example
    C(gpu_model_h200), C(gpu_count_8), C(gpu_memory_140gib), C(architecture_hopper), C(numa_2x4) (two NUMA nodes with
    four GPUs each), C(driver_580) (the branch of the driver in force), C(health_error), C(facts_stale). A value that
    differs between the GPUs of a host is C(mixed), one that is not known is C(unknown), and a host without GPUs or
    driver has C(none).
  - Each host gets the same as variables with the prefix C(fleet_), and beside them C(fleet_gpu_memory_bytes),
    C(fleet_host_memory_bytes), C(fleet_driver_version), C(fleet_problems) (the codes of its errors and warnings) and
    C(fleet_surveyed_at) (seconds since 1970). O(compose), O(groups) and O(keyed_groups) can use them.
  - A host without a survey is in C(health_unknown) and C(facts_unknown) alone.
  - A file that is damaged, foreign or of another form is named in a warning and passed over; with O(strict) it is an
    error.
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Says that a file is for this plugin.
    type: str
    required: true
    choices: [gpufleet.sglang.fleet]
  surveys:
    description: Folder with surveys, relative to the folder of this file. None is read when left out.
    type: str
  fact_cache:
    description: Whether surveys are taken out of Ansible's cache of facts, where one is set up (C(fact_caching)).
    type: bool
    default: true
  add_hosts:
    description:
      - Whether hosts that only the folder of surveys knows are added to the inventory. Else a warning tells of them.
    type: bool
    default: false
  max_age:
    description: Surveys that are older than this are stale, in seconds. A week when left out.
    type: int
    default: 604800
  group_by:
    description: What to group by.
    type: list
    elements: str
    choices: [gpu_model, gpu_count, gpu_memory, architecture, numa, driver, health, facts]
    default: [gpu_model, gpu_count, gpu_memory, architecture, numa, driver, health, facts]
  group_prefix:
    description: What the names of those groups begin with.
    type: str
    default: ""
notes:
  - The file has to come after the sources that list the hosts. In a folder of sources, that is the order of the names.
  - With O(cache), what the surveys say is kept until O(cache_timeout); run C(ansible-inventory) or
    C(ansible-playbook) with C(--flush-cache) after new surveys. How old a survey is, is worked out each time.
seealso:
  - module: gpufleet.sglang.gpu_topology_info
  - module: gpufleet.sglang.host_stack_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
# inventories/production/zz-fleet.yml, behind hosts.yml in the same folder. The surveys come from
#   ansible-playbook gpufleet.sglang.probe -i inventories/production -e probe_save=inventories/production/.surveys
plugin: gpufleet.sglang.fleet
surveys: .surveys
max_age: 86400

# The same, with groups and variables of one's own.
# plugin: gpufleet.sglang.fleet
# surveys: .surveys
# group_by: [gpu_model, health]
# group_prefix: gpufleet_
# strict: true
# cache: true
# cache_plugin: ansible.builtin.jsonfile
# cache_connection: ~/.cache/gpufleet-inventory
# cache_timeout: 3600
# compose:
#   sglang_tensor_parallel_size: fleet_gpu_count
# groups:
#   ready: fleet_health != 'error' and fleet_facts == 'fresh'
# keyed_groups:
#   - {key: fleet_problems, prefix: problem}
"""

import difflib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.inventory.helpers import get_group_vars
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.plugins.loader import cache_loader
from ansible.utils.vars import combine_vars

from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.survey import (
    TOPOLOGY_FACT,
    NotASurvey,
    survey_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.traits import (
    UNKNOWN,
    age_of,
    group_names,
    traits_of,
)
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.survey_files import read_surveys

# The form of what is cached.
SCHEMA = 1


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "gpufleet.sglang.fleet"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache=cache)
        self._refuse_unknown(self._read_config_data(path) or {}, path)
        told = self._told(path, cache)
        for trouble in told["troubles"]:
            self._trouble(trouble)
        self._add_strangers(told["hosts"])
        now = time.time()
        for name in list(inventory.hosts):
            self._host(name, told["hosts"].get(name), now)

    def _refuse_unknown(self, said: Mapping[str, Any], path: str) -> None:
        known = sorted(self.get_options())
        for option in said:
            if option not in known:
                close = difflib.get_close_matches(str(option), known, n=1)
                hint = f"the closest is {close[0]}" if close else f"known are {', '.join(known)}"
                raise AnsibleParserError(
                    f"{path}: {option} is no option of {self.NAME}; {hint}. See ansible-doc -t inventory {self.NAME}."
                )

    def _told(self, path: str, cache: bool) -> Mapping[str, Any]:
        """What the surveys say, by host, and what is wrong with them: out of the cache where that is wanted."""
        wanted = bool(self.get_option("cache"))
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        if wanted and cache:
            kept = self._cache.get(key)
            if isinstance(kept, Mapping) and kept.get("schema") == SCHEMA:
                return kept
        told = self._read(path)
        if wanted:
            self._cache[key] = told
        return told

    def _read(self, path: str) -> dict[str, Any]:
        hosts: dict[str, Any] = {}
        troubles: list[str] = []
        for name, traits, trouble in (*self._of_folder(path), *self._of_facts()):
            if trouble is not None:
                troubles.append(trouble)
            elif traits is not None and (traits["surveyed_at"] or 0) >= (hosts.get(name, {}).get("surveyed_at") or 0):
                hosts[name] = traits
        return {"schema": SCHEMA, "hosts": hosts, "troubles": troubles}

    def _of_folder(self, path: str) -> Iterator[tuple[str, dict[str, Any] | None, str | None]]:
        said = self.get_option("surveys")
        if said is None:
            return
        folder = Path(path).parent / Path(said).expanduser()
        try:
            for one in read_surveys(str(folder)):
                yield one.host, traits_of(one.survey) if one.survey else None, one.trouble
        except OSError as error:
            yield (
                "",
                None,
                f"{folder}: It cannot be read: {error.strerror}; expected the folder that surveys were saved into. Run "
                "the playbook gpufleet.sglang.probe with probe_save, or correct surveys.",
            )

    def _of_facts(self) -> Iterator[tuple[str, dict[str, Any] | None, str | None]]:
        if not self.get_option("fact_cache"):
            return
        kept = cache_loader.get(C.CACHE_PLUGIN)
        for name in self.inventory.hosts:
            facts = kept.get(name) if kept.contains(name) else {}
            if TOPOLOGY_FACT not in facts:
                continue
            try:
                yield name, traits_of(survey_of(facts)), None
            except NotASurvey as error:
                yield name, None, f"The cached facts of {name}: {error}"

    def _trouble(self, text: str) -> None:
        if self.get_option("strict"):
            raise AnsibleParserError(text)
        self.display.warning(text)

    def _add_strangers(self, hosts: Mapping[str, Any]) -> None:
        strangers = [name for name in hosts if name not in self.inventory.hosts]
        if self.get_option("add_hosts"):
            for name in strangers:
                self.inventory.add_host(name)
        elif strangers:
            self._trouble(
                f"Surveys of {len(strangers)} hosts that the inventory does not have, {strangers[0]} among them; "
                "expected hosts of the sources before this one. Remove the files, set add_hosts, or name this source "
                "last."
            )

    def _host(self, name: str, traits: Mapping[str, Any] | None, now: float) -> None:
        chosen = self.get_option("group_by")
        prefix = self.get_option("group_prefix")
        if traits is None:
            known: dict[str, Any] = {"health": UNKNOWN}
            facts = UNKNOWN
            chosen = [what for what in chosen if what in ("health", "facts")]
        else:
            known = dict(traits)
            facts = age_of(traits, now, self.get_option("max_age"))
        variables = {f"fleet_{what}": value for what, value in {**known, "facts": facts}.items()}
        for variable, value in variables.items():
            self.inventory.set_variable(name, variable, value)
        for group in group_names(known, facts, chosen, prefix):
            self.inventory.add_child(self.inventory.add_group(group), name)
        strict = self.get_option("strict")
        host = self.inventory.get_host(name)
        scope = combine_vars(get_group_vars(host.get_groups()), host.get_vars())
        self._set_composite_vars(self.get_option("compose"), scope, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), scope, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), scope, name, strict=strict)
