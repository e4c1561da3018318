# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole stack of a machine below a root, with what is wrong stated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack import (
    driver_findings,
    host_findings,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.boot import read_next_boot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.cpu import read_cpu
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.dkms import read_dkms
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.dpkg import STATUS, read_dpkg, read_preferences
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.driver import read_driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Pin, Stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.kernels import read_kernels
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.limits import read_limits
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.memory import read_memory
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reboot import read_request, reboot_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.rpm import (
    Run,
    has_database,
    read_locks,
    read_rpm,
    with_holds,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.security import read_secure_boot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.unattended import read_unattended


def _read_packages(tree: Tree, run: Run | None) -> tuple[tuple[Package, ...] | None, tuple[Pin, ...], bool]:
    """Packages, pins, and whether there is a database of packages at all."""
    if tree.is_file(STATUS) or STATUS in tree.denied:
        return read_dpkg(tree), read_preferences(tree), True
    if not has_database(tree):
        return None, (), False
    locks = read_locks(tree)
    packages = read_rpm(tree, run)
    return None if packages is None else with_holds(packages, locks), locks, True


def _shown(denied: Sequence[str]) -> tuple[str, ...]:
    """The paths that were denied, without the numbers of processes, of which there may be thousands."""
    return tuple(sorted({shown(path) or path for path in denied if not path.startswith("proc/")}))


def read_stack(root: Path, run: Run | None = None) -> Stack:
    """C(run) is for rpm, without which an RPM database is not read."""
    tree = Tree(root)
    system = read_system(tree)
    running = tree.line("proc/sys/kernel/osrelease")
    if tree.live:
        # In a container with another personality the files would tell of the kernel that is not meant.
        system = replace(system, architecture=system.architecture or os.uname().machine)
    packages, pins, database = _read_packages(tree, run)
    dkms = read_dkms(tree)
    secure_boot = read_secure_boot(tree)
    kernels = read_kernels(tree, running, dkms, packages or (), secure_boot.trusted_keys)
    next_boot = read_next_boot(tree, kernels)
    if next_boot.kernel is not None:
        kernels = tuple(replace(kernel, boots_next=kernel.release == next_boot.kernel) for kernel in kernels)
    driver = read_driver(tree, system.architecture, kernels, next_boot, packages or ())
    unattended = read_unattended(tree, system, packages or (), pins)
    asked, asking = read_request(tree)
    reboot = reboot_of(system, running, kernels, next_boot, driver, asked, asking)
    limits = read_limits(tree)
    memory = read_memory(tree, system.architecture, running)
    cpu = read_cpu(tree)
    unreadable = _shown(sorted(tree.denied))
    problems = [
        *driver_findings.release_problems(driver, kernels, next_boot),
        *driver_findings.fabric_problems(driver, kernels, packages is not None),
        *driver_findings.flavour_problems(driver, kernels),
        *driver_findings.nouveau_problems(driver, kernels),
        *driver_findings.signature_problems(secure_boot, kernels),
        *driver_findings.dkms_problems(dkms, kernels),
        *host_findings.package_problems(packages, database, unattended),
        *host_findings.boot_problems(system, kernels, next_boot, reboot),
        *host_findings.limit_problems(limits),
        *host_findings.memory_problems(memory),
        *host_findings.cpu_problems(cpu),
        *host_findings.reading_problems(unreadable),
    ]
    return Stack(
        os=system,
        running_kernel=running,
        kernels=kernels,
        next_boot=next_boot,
        driver=driver,
        secure_boot=secure_boot,
        dkms=dkms,
        packages=packages,
        pins=pins,
        unattended_upgrades=unattended,
        limits=limits,
        memory=memory,
        cpu=cpu,
        reboot=reboot,
        unreadable=unreadable,
        problems=tuple(problems),
    )
