# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a request and what a node is like to the items that make it so. Pure.

What is good enough as it was found is left alone. C(recorded) tells of each value that was changed before what it had
been, so that a value does not look good enough only because it is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.acs import REDIRECTS
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning import fstab, hugepages, sysctl_files
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.boot_files import UNITS, boot_items, limits_item
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.facts import NodeFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import (
    ACS,
    FILE,
    LINK,
    SHM,
    SWAP,
    VALUE,
    Item,
    State,
    file_state,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.request import AUTO, KEEP, Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.settings import (
    SYSCTLS,
    THP_FOLDER,
    TRANSPARENT_HUGEPAGES,
    Setting,
    chosen_settings,
)

FSTAB = "/etc/fstab"
SWAPS = "/proc/swaps"
SHM_MOUNT = "/dev/shm"
# Some of /dev/shm is in use at any time; NCCL, for one, takes a few MB a pair of ranks.
_SHM_SPARE = 64 << 20


@dataclass
class Tuned:
    """C(items) in the order in which they are to be put into force."""

    items: list[Item] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def names_of_sysctls(request: Request) -> list[str]:
    table = SYSCTLS if request.sysctl_defaults else ()
    return [setting.name for setting, _given in chosen_settings(table, dict(request.sysctl))]


def decide(request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> Tuned:
    """C(recorded): the state before the first change, by the key of the item."""
    tuned = Tuned()
    _sysctl(tuned, request, facts, recorded)
    _thp(tuned, request, facts, recorded)
    _hugepages(tuned, request, facts, recorded)
    _governor(tuned, request, facts, recorded)
    _acs(tuned, request, facts, recorded)
    _swap_and_shm(tuned, request, facts, recorded)
    tuned.items += boot_items(tuned.early, tuned.late)
    tuned.items += [limits_item(unit, limits) for unit, limits in sorted(request.unit_limits.items())]
    return tuned


def _found_first(recorded: Mapping[str, State], target: str, current: str) -> str:
    """What a value was before the first change."""
    before = recorded.get(f"{VALUE}:{target}", current)
    return before if isinstance(before, str) else current


def _sysctl(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    table = SYSCTLS if request.sysctl_defaults else ()
    managed: list[Setting] = []
    for setting, given in chosen_settings(table, dict(request.sysctl)):
        path = sysctl_files.proc_path(setting.name)
        if setting.name not in facts.sysctl:
            if given:
                raise Refusal(
                    "sysctl_missing",
                    f"node_tuning_sysctl has {setting.name}, and this kernel has no {path}.",
                    "Correct the name, load the module that brings it, or leave it out.",
                )
            continue
        elsewhere = sysctl_files.deciding(setting.name, facts.sysctl_files)
        if elsewhere is not None and elsewhere.by_person and not setting.satisfied(elsewhere.value):
            if given:
                raise Refusal(
                    "sysctl_set_elsewhere",
                    f"{elsewhere.place} sets {setting.name} to {elsewhere.value}, and node_tuning_sysctl to "
                    f"{setting.value}.",
                    f"Take that line out, or leave {setting.name} out of node_tuning_sysctl.",
                    {"name": setting.name, "path": elsewhere.path, "line": elsewhere.line},
                )
            tuned.notes.append(
                Problem(
                    "sysctl_left_to_person",
                    "warning",
                    f"{elsewhere.place} sets {setting.name} to {elsewhere.value}, where {setting.value} would be set.",
                    f"{setting.reason} Take that line out to have it set.",
                )
            )
            continue
        # Good enough now, and also after a reboot.
        boots_well = elsewhere is None or setting.satisfied(elsewhere.value)
        if setting.satisfied(_found_first(recorded, path, facts.sysctl[setting.name])) and boots_well:
            continue
        managed.append(setting)
    if managed:
        text = sysctl_files.render((one.name, one.value, one.reason) for one in managed)
        tuned.items.append(Item(FILE, sysctl_files.OURS, file_state(text)))
        tuned.items += [Item(VALUE, sysctl_files.proc_path(one.name), one.value) for one in managed]


def _thp(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    rules = {setting.name: setting for setting in TRANSPARENT_HUGEPAGES}
    for name, mode in request.thp.items():
        if mode == KEEP or name not in facts.thp:
            continue
        knob, target = facts.thp[name], f"/{THP_FOLDER}/{name}"
        rule = rules[name] if mode == AUTO else Setting(name, mode, "", "")
        if rule.satisfied(_found_first(recorded, target, knob.current)):
            continue
        if knob.offered and rule.value not in knob.offered:
            raise Refusal(
                "thp_mode_missing",
                f"node_tuning_transparent_hugepage gives {name} the mode {rule.value}, and this kernel has "
                f"{', '.join(knob.offered)}.",
                "Choose one of these.",
            )
        tuned.items.append(Item(VALUE, target, rule.value))
        tuned.late.append(f"{target} {rule.value}")


def _hugepages(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    if not request.hugepages:
        return
    hugepages.refuse_too_many(
        request.hugepages, facts.nodes, facts.memory_available_bytes, facts.memory_total_bytes, request.leave_bytes
    )
    for one in request.hugepages:
        target = hugepages.path_of(one.page_bytes, one.numa_node)
        before = recorded.get(f"{VALUE}:{target}")
        found = facts.nodes[one.numa_node].huge.get(one.page_bytes, 0)
        # More than asked for was somebody's wish, unless it was ours; a plain zero takes all of them away.
        if before is None and (found == one.pages or (one.pages and found > one.pages)):
            continue
        tuned.items.append(Item(VALUE, target, str(one.pages)))
        if one.size in request.early_sizes and one.pages:
            tuned.early.append(f"{target} {one.pages}")


def _governor(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    wanted = request.governor
    if wanted is None:
        return
    if not facts.governors:
        where = "a virtual machine, whose host governs" if facts.hypervisor else "the firmware governs"
        tuned.notes.append(
            Problem(
                "governor_not_here",
                "info",
                f"No frequency governor is there to be set to {wanted}: {where}.",
                "Set the power profile in the firmware, or on the virtual machine's host.",
            )
        )
        return
    without = [path for path, knob in facts.governors.items() if knob.offered and wanted not in knob.offered]
    if without:
        offered = ", ".join(facts.governors[without[0]].offered)
        raise Refusal(
            "governor_missing",
            f"node_tuning_cpu_governor is {wanted}, and {without[0].rpartition('/')[2]} offers {offered}.",
            "Choose one of these; or null, which leaves the governor alone.",
        )
    for path, knob in sorted(facts.governors.items()):
        target = f"{path}/scaling_governor"
        if _found_first(recorded, target, knob.current) != wanted:
            tuned.items.append(Item(VALUE, target, wanted))
            tuned.late.append(f"{target} {wanted}")
    if facts.tuned_profile:
        tuned.notes.append(
            Problem(
                "tuned_active",
                "warning",
                f"TuneD is there with the profile {facts.tuned_profile}, which sets governor, transparent huge pages "
                "and kernel settings as well.",
                "At boot these here come last; after a change of the profile run the role again, or switch TuneD off.",
            )
        )


def _acs(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    if not request.clear_acs:
        return
    before = {
        key.partition(":")[2]: state
        for key, state in recorded.items()
        if key.startswith(f"{ACS}:") and isinstance(state, int)
    }
    if facts.redirecting_ports is None:
        raise Refusal(
            "acs_not_seen",
            "node_tuning_clear_acs is true, and the configuration space of the ports above the GPUs cannot be read.",
            "Run the role with become, on the machine itself and not in a virtual machine.",
        )
    ports = {**{port: facts.acs[port] for port in facts.redirecting_ports if port in facts.acs}, **before}
    if not ports:
        return
    if facts.isolated_devices:
        raise Refusal(
            "acs_isolation_in_use",
            "node_tuning_clear_acs is true, and these devices are passed through: "
            f"{', '.join(facts.isolated_devices)}.",
            "Expected none: without these bits a guest could reach the memory of devices that are not its own.",
            {"devices": list(facts.isolated_devices)},
        )
    if not facts.setpci:
        raise Refusal(
            "setpci_missing",
            "node_tuning_clear_acs is true, and setpci, which clears the bits at each boot, is not installed.",
            "Install the package pciutils.",
        )
    for port, control in sorted(ports.items()):
        tuned.items.append(Item(ACS, port, control & ~REDIRECTS))
        tuned.late.append(f"acs {port} 0:{REDIRECTS:x}")


def _swap_and_shm(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    text = facts.fstab or ""
    goal = text
    if request.swap == "off":
        goal = fstab.without_swap(goal)
        _swap_off(tuned, request, facts, recorded)
    if request.shm_bytes is not None and _shm_differs(request.shm_bytes, facts, recorded):
        _refuse_shm(request.shm_bytes, request, facts)
        goal = fstab.with_shm_size(goal, request.shm_bytes)
        tuned.items.append(Item(SHM, SHM_MOUNT, request.shm_bytes))
    if goal != text:
        now = facts.fstab_now or ""
        # Where somebody added lines behind ours, the same lines stand there in another order.
        if sorted(now.splitlines()) == sorted(goal.splitlines()):
            goal = now
        # Who may read it stays as it was; a new one is everybody's to read.
        wanted = {"text": goal} if facts.fstab is not None else file_state(goal)
        tuned.items.append(Item(FILE, FSTAB, wanted, base=text))


def _swap_off(tuned: Tuned, request: Request, facts: NodeFacts, recorded: Mapping[str, State]) -> None:
    used = sum(device.used_bytes for device in facts.swaps)
    room = facts.memory_available_bytes - request.leave_bytes
    if used > max(room, 0):
        raise Refusal(
            "swap_does_not_fit",
            f"node_tuning_swap is off; {format_gb(used)} of swap are in use, and "
            f"{format_gb(facts.memory_available_bytes)} of memory are available, of which "
            f"{format_gb(request.leave_bytes)} are to be left (node_tuning_leave_bytes).",
            "Stop what was swapped out, or leave swap on with a low vm.swappiness.",
            {"used_bytes": used, "available_bytes": facts.memory_available_bytes, "largest_bytes": max(room, 0)},
        )
    if facts.swaps or f"{SWAP}:{SWAPS}" in recorded:
        tuned.items.append(Item(SWAP, SWAPS, []))
    # Partitions are also found by their type (systemd-gpt-auto-generator), without a line in fstab.
    ours = [key.partition(":")[2] for key in recorded if key.startswith(f"{LINK}:") and key.endswith(".swap")]
    for path in sorted({*ours, *(f"{UNITS}/{unit}" for unit in facts.swap_units)}):
        tuned.items.append(Item(LINK, path, "/dev/null"))


def _shm_differs(size_bytes: int, facts: NodeFacts, recorded: Mapping[str, State]) -> bool:
    return facts.shm_bytes != size_bytes or f"{SHM}:{SHM_MOUNT}" in recorded


def _refuse_shm(size_bytes: int, request: Request, facts: NodeFacts) -> None:
    huge = sum(node.huge_bytes for node in facts.nodes.values())
    largest = max(0, facts.memory_total_bytes - huge - request.leave_bytes)
    if facts.shm_bytes is None:
        raise Refusal(
            "shm_missing",
            "node_tuning_shm_bytes is set, and /dev/shm is not mounted as a tmpfs.",
            "Leave it out; in a container its size is the container's own setting.",
        )
    if size_bytes < facts.shm_used_bytes + _SHM_SPARE:
        raise Refusal(
            "shm_too_small",
            f"node_tuning_shm_bytes is {format_gb(size_bytes)}, and {format_gb(facts.shm_used_bytes)} of /dev/shm "
            "are in use.",
            f"Expected {format_gb(facts.shm_used_bytes + _SHM_SPARE)} at least. Files that no process has open any "
            "more (memory_holders_info tells) can be removed.",
            {"used_bytes": facts.shm_used_bytes},
        )
    if size_bytes > largest:
        raise Refusal(
            "shm_too_large",
            f"node_tuning_shm_bytes is {format_gb(size_bytes)}; the host has {format_gb(facts.memory_total_bytes)}, of "
            f"which {format_gb(huge)} lie in huge pages and {format_gb(request.leave_bytes)} are to be left.",
            f"Expected {format_gb(largest)} at most: a full /dev/shm would take the memory of everything else.",
            {"largest_bytes": largest},
        )
