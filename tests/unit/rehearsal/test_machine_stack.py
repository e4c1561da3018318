# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The software of every machine profile, as host_stack_info's reader sees it."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Stack
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).parent / "machines"
PROFILES = sorted(path.stem for path in MACHINES.glob("*.yml"))
# What is wrong beyond defaults of a distribution, which are worth an info at most.
EXPECTED = {
    "driver-mismatch": {
        "driver_user_space_mismatch",
        "driver_module_mismatch",
        "next_kernel_without_module",
        "dkms_build_missing",
        "headers_missing",
        "reboot_required",
    },
    "mixed-models": {"governor_not_performance"},
    "no-driver-nouveau": {"nouveau_loaded"},
}


def stack_of(name: str, dest: Path, **stack: object) -> Stack:
    profile = machine_tree.load_profile(MACHINES / f"{name}.yml")
    profile["stack"] = {**profile.get("stack", {}), **stack}
    machine_tree.build_tree(profile, dest)
    return read_stack(dest)


def codes(stack: Stack) -> set[str]:
    return {problem.code for problem in stack.problems}


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_wrong_with_the_software_of_each_machine(name: str, tmp_path: Path) -> None:
    stack = stack_of(name, tmp_path)
    grave = {problem.code for problem in stack.problems if problem.severity != "info"}
    assert grave == EXPECTED.get(name, set())
    assert stack.unreadable == ()
    driver = machine_tree.load_profile(MACHINES / f"{name}.yml")["driver"] or {}
    assert stack.driver.loaded.version == driver.get("version")
    assert stack.driver.loaded.flavour == (driver.get("flavour", "open") if driver else None)
    assert stack.driver.releases.consistent == (name != "driver-mismatch" if driver else None)


def test_a_module_in_use_is_told_by_its_references(tmp_path: Path) -> None:
    assert stack_of("h100-mig", tmp_path / "used").driver.loaded.in_use is True
    assert stack_of("hgx-h100-snc4", tmp_path / "idle").driver.loaded.in_use is False


def test_kernels_by_age_and_the_one_that_boots_next(tmp_path: Path) -> None:
    stack = stack_of("driver-mismatch", tmp_path / "newest")
    assert [(kernel.release, kernel.boots_next) for kernel in stack.kernels] == [
        ("6.1.0-28-amd64", True),
        ("6.1.0-26-amd64", False),
    ]
    chosen = stack_of("driver-mismatch", tmp_path / "chosen", boots_next="6.1.0-26-amd64")
    assert chosen.next_boot.kernel == "6.1.0-26-amd64"
    assert "next_kernel_without_module" not in codes(chosen)


def test_a_signed_module_names_its_signer(tmp_path: Path) -> None:
    (kernel,) = stack_of("cxl-expander", tmp_path).kernels
    assert kernel.nvidia_module is not None
    assert kernel.nvidia_module.signer == "cxl-expander Secure Boot Module Signature key"
    assert kernel.nvidia_module.signer_trusted is True


@pytest.mark.parametrize("state", ["installed", "built", "added"])
def test_dkms_in_every_state(state: str, tmp_path: Path) -> None:
    stack = stack_of("founding", tmp_path, kernels={"6.17.0-20-generic": {"dkms": state}})
    assert [entry.state for entry in stack.dkms] == [state]


def test_packages_on_hold_and_daemons(tmp_path: Path) -> None:
    name = "nvidia-driver-550-server-open"
    stack = stack_of("hgx-h100-snc4", tmp_path, held=[name], fabric_manager={"version": "550.54.15", "running": False})
    assert [package.name for package in stack.packages or () if package.held] == [name]
    assert stack.driver.fabric_manager.installed_version == "550.54.15"
    assert (stack.driver.fabric_manager.running, stack.driver.fabric_manager.enabled) == (False, True)
    assert stack.driver.persistenced.running is True


def test_settings_of_the_host(tmp_path: Path) -> None:
    stack = stack_of("mixed-models", tmp_path, memlock="infinity", tuned="throughput-performance")
    assert stack.memory.transparent_hugepage.enabled == "always"
    assert [device.size_bytes for device in stack.memory.swap.devices] == [8388604 << 10]
    assert (stack.cpu.governors, stack.cpu.tuned_profile) == ({"powersave": 32}, "throughput-performance")
    assert stack.limits.memlock.services.soft_unlimited is True
    assert stack.memory.free_by_order[0].largest_free_block_bytes == 4 << 20


def test_page_sizes_of_other_architectures(tmp_path: Path) -> None:
    assert stack_of("gh200", tmp_path / "arm").memory.page_bytes == 64 << 10
    assert stack_of("power9-v100", tmp_path / "power").memory.page_bytes == 64 << 10
