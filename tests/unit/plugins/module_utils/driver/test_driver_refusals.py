# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What forbids a plan before anything is touched: kernels, signatures, nouveau, use, room, packages, containers."""

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.mig import can_be_divided
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Container, MigLayout, Space
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.space import boot_bytes, root_bytes
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    LoadedModule,
    Nouveau,
    OperatingSystem,
    Persistenced,
    SecureBoot,
    Stack,
    UnattendedUpgrades,
    UserSpace,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.driver.driver_hosts import (
    A100,
    B200,
    GB200,
    H100,
    KERNELS,
    L40S,
    bare,
    codes,
    kernel,
    module,
    outcome,
    package,
    planned,
    problem_codes,
    topology_of,
    with_driver,
    with_fabric_manager,
)

NEW = "580.95.05"


# Headers --------------------------------------------------------------------------------------------------------------


def two_kernels(distribution: str, **facts: Any) -> Stack:
    """One runs, another boots next; C(facts) are of the next."""
    running = KERNELS[distribution]
    following = running.replace("25", "28").replace("570.12", "570.99")
    return bare(
        distribution,
        kernels=(kernel(following, running=False, **facts), kernel(running, boots_next=False)),
    )


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("debian12", "linux-headers-6.1.0-28-amd64"),
        ("rhel9", "kernel-devel-5.14.0-570.99.1.el9_6.x86_64"),
    ],
)
def test_headers_of_the_next_kernel_that_cannot_be_had_are_refused(distribution: str, expected: str) -> None:
    stack = two_kernels(distribution, headers_installed=False)
    found = outcome(stack, version=NEW, headers_available=())
    assert codes(found) == ["driver_headers_not_there"]
    assert "boots next" in found.refusals[0].message
    assert found.refusals[0].evidence["package"] == expected
    installable = planned(stack, version=NEW, headers_available=(expected,))
    assert installable.transactions[0].packages[0] == expected


def test_headers_that_nobody_looked_up_are_installed_with_a_warning() -> None:
    found = outcome(two_kernels("debian12", headers_installed=False), version=NEW)
    assert codes(found) == []
    assert "driver_headers_unchecked" in problem_codes(found)


def test_a_running_kernel_without_headers_is_left_by_a_reboot() -> None:
    running = KERNELS["debian12"]
    stack = bare(
        kernels=(
            kernel("6.1.0-28-amd64", running=False),
            kernel(running, boots_next=False, headers_installed=False),
        ),
    )
    stack = replace(stack, next_boot=replace(stack.next_boot, kernel="6.1.0-28-amd64"))
    found = outcome(stack, version=NEW, headers_available=())
    assert found.refusals[0].remedy.startswith("Reboot first, into kernel 6.1.0-28-amd64")


def test_64k_kernels_of_arm_have_headers_of_their_own() -> None:
    release = "5.14.0-570.12.1.el9_6.aarch64+64k"
    system = OperatingSystem("rocky", "9.6", None, "rhel", "aarch64", "dnf")
    stack = bare("rhel9", os=system, kernels=(kernel(release, headers_installed=False),))
    plan = planned(stack, version=NEW, headers_available=(release,))
    assert plan.transactions[0].packages[0] == "kernel-64k-devel-5.14.0-570.12.1.el9_6.aarch64"


def test_ubuntus_own_driver_needs_no_headers() -> None:
    stack = bare("ubuntu2404", kernels=(kernel(KERNELS["ubuntu2404"], headers_installed=False),))
    assert codes(outcome(stack, source="distribution", branch=580, headers_available=())) == []


def test_a_container_has_no_kernels_of_its_own() -> None:
    stack = bare(kernels=(kernel(KERNELS["debian12"], vmlinuz=None, headers_installed=False),))
    stack = replace(stack, os=replace(stack.os, container="podman"))
    found = outcome(stack, version=NEW, headers_available=())
    assert codes(found) == []
    assert "driver_kernels_unknown" in problem_codes(found)
    assert found.plan is not None
    assert (found.plan.kernels, found.plan.dkms.commands, found.plan.activation.method) == ((), (), "none")


# Secure Boot ----------------------------------------------------------------------------------------------------------

SECURE = SecureBoot(
    efi=True, enabled=True, shim_validation=True, lockdown="integrity", trusted_keys=("Debian UEFI CA",)
)


@pytest.mark.parametrize(
    ("distribution", "certificate"),
    [
        ("debian12", "/var/lib/dkms/mok.pub"),
        ("ubuntu2404", "/var/lib/shim-signed/mok/MOK.der"),
        ("rhel9", "/var/lib/dkms/mok.pub"),
    ],
)
def test_secure_boot_without_an_enrolled_key_is_refused_with_the_steps(distribution: str, certificate: str) -> None:
    found = outcome(bare(distribution, secure_boot=SECURE), version=NEW)
    assert codes(found) == ["driver_module_would_be_unsigned"]
    remedy = found.refusals[0].remedy
    assert f"mokutil --import {certificate}" in remedy
    assert "Enroll MOK" in remedy
    assert f"mokutil --test-key {certificate}" in remedy
    steps = found.refusals[0].evidence["steps"]
    assert isinstance(steps, list)
    assert len(steps) == 4


@pytest.mark.parametrize(
    "secure",
    [
        replace(SECURE, enabled=False, lockdown="none", module_sig_enforce=False),
        replace(SECURE, trusted_keys=("Debian UEFI CA", "DKMS module signing key")),
        replace(SECURE, trusted_keys=("host-7 Secure Boot Module Signature key",)),
        SecureBoot(),
    ],
)
def test_what_the_kernel_takes_is_not_refused(secure: SecureBoot) -> None:
    assert codes(outcome(bare(secure_boot=secure), version=NEW)) == []


def test_a_module_of_dkms_that_is_trusted_now_shows_that_the_key_is_enrolled() -> None:
    release = KERNELS["debian12"]
    signed = kernel(release, nvidia_module=module("570.172.08", signer_trusted=True))
    stack = with_driver(secure_boot=replace(SECURE, trusted_keys=None), kernels=(signed,))
    assert codes(outcome(stack, version=NEW)) == []
    loaded = with_driver(secure_boot=replace(SECURE, trusted_keys=None))
    assert codes(outcome(loaded, version=NEW)) == []
    unknown = with_driver(secure_boot=replace(SECURE, trusted_keys=None), loaded=LoadedModule())
    assert codes(outcome(unknown, version=NEW)) == ["driver_module_would_be_unsigned"]
    assert "does not show which keys it trusts" in outcome(unknown, version=NEW).refusals[0].message
    found = outcome(unknown, version=NEW, assume_signed=True)
    assert codes(found) == []
    assert "driver_signature_assumed" in problem_codes(found)


def test_enforced_signatures_count_without_secure_boot() -> None:
    secure = SecureBoot(module_sig_enforce=True, trusted_keys=())
    found = outcome(bare(secure_boot=secure), version=NEW)
    assert "module.sig_enforce" in found.refusals[0].message


def test_canonicals_modules_are_signed() -> None:
    assert codes(outcome(bare("ubuntu2404", secure_boot=SECURE), source="distribution", branch=580)) == []


# nouveau and use ------------------------------------------------------------------------------------------------------


def test_nouveau_needs_a_reboot_that_is_allowed() -> None:
    stack = bare(gpus_by_driver={"nouveau": 4}, nouveau=Nouveau(loaded=True))
    found = outcome(stack, version=NEW)
    assert codes(found) == ["driver_nouveau_without_reboot"]
    assert "holds 4 of 4 GPUs" in found.refusals[0].message
    plan = planned(stack, version=NEW, allow_reboot=True)
    assert (plan.activation.method, plan.reboot.needed, plan.reboot.allowed) == ("reboot", True, True)
    assert plan.files[0].content.splitlines()[1:] == ["blacklist nouveau", "options nouveau modeset=0"]
    assert plan.initramfs.commands == (("update-initramfs", "-u", "-k", KERNELS["debian12"]),)


def test_nouveau_that_is_loaded_and_holds_nothing_is_not_in_the_way() -> None:
    stack = bare(nouveau=Nouveau(loaded=True))
    assert planned(stack, version=NEW).activation.method == "load"


def test_a_display_card_with_nouveau_beside_the_driver_is_nobodys_business() -> None:
    stack = with_driver(gpus_by_driver={"nvidia": 4, "nouveau": 1}, nouveau=Nouveau(loaded=True))
    assert planned(stack).activation.method == "none"


def test_processes_on_gpus_are_named_when_their_driver_would_change() -> None:
    stack = with_driver(in_use=True)
    topology = topology_of((L40S,) * 4, {0: [(4711, "sglang::scheduler")], 2: [(4712, "python3")]})
    found = outcome(stack, topology, version=NEW)
    assert codes(found) == ["driver_gpu_in_use"]
    assert "sglang::scheduler (4711, GPU 0), python3 (4712, GPU 2)" in found.refusals[0].message
    assert codes(outcome(stack, topology)) == []
    idle = outcome(stack, topology_of((L40S,) * 4), version=NEW)
    assert codes(idle) == []
    assert idle.plan is not None
    assert idle.plan.activation.stop == ("nvidia-persistenced",)
    assert idle.plan.activation.unload[-1] == "nvidia"


def test_use_that_nobody_names_is_refused_where_no_daemon_explains_it() -> None:
    stack = with_driver(in_use=True, persistenced=Persistenced())
    assert codes(outcome(stack, version=NEW)) == ["driver_gpu_in_use"]
    explained = outcome(with_driver(in_use=True), version=NEW)
    assert codes(explained) == []
    assert "driver_usage_unknown" in problem_codes(explained)


def test_daemons_are_stopped_in_the_order_in_which_they_depend() -> None:
    packages = [
        package("nvidia-driver-cuda", "570.172.08-1"),
        package("nvidia-kernel-open-dkms", "570.172.08-1"),
        package("nvidia-persistenced", "570.172.08-1"),
        package("nvidia-fabricmanager-570", "570.172.08-1"),
        package("datacenter-gpu-manager-4-core", "1:4.3.0"),
    ]
    stack = with_fabric_manager(with_driver("debian12", (H100,) * 8, packages=packages), "570.172.08")
    plan = planned(stack, version=NEW)
    assert plan.activation.stop == ("nvidia-dcgm", "nvidia-fabricmanager", "nvidia-persistenced")
    assert [service.name for service in plan.services] == ["nvidia-fabricmanager", "nvidia-persistenced"]
    assert [one.name for one in plan.absent] == ["nvidia-fabricmanager-570"]


def test_a_module_that_an_earlier_run_left_loaded_is_exchanged() -> None:
    stack = with_driver(version=NEW, loaded=LoadedModule(True, "570.172.08", "open", 3, False))
    plan = planned(stack, version=NEW)
    assert (plan.action, plan.activation.method) == ("none", "reload")
    assert [(one.what, one.before, one.after) for one in plan.changes if one.what == "loaded module"] == [
        ("loaded module", "570.172.08", NEW)
    ]


# Room -----------------------------------------------------------------------------------------------------------------


def test_room_is_asked_for_with_figures() -> None:
    needed = root_bytes(True, False, 1, True)
    found = outcome(bare(), version=NEW, space=Space(root_free_bytes=needed - 1, boot_free_bytes=10**9))
    assert codes(found) == ["driver_no_space"]
    assert "/ has 1.62 GB free" in found.refusals[0].message
    assert found.refusals[0].evidence == {"path": "/", "free_bytes": needed - 1, "needed_bytes": needed}
    assert codes(outcome(bare(), version=NEW, space=Space(root_free_bytes=needed, boot_free_bytes=10**9))) == []


def test_boot_has_to_hold_a_second_initramfs() -> None:
    space = Space(root_free_bytes=10**11, boot_free_bytes=60_000_000, initramfs_bytes=73_000_000)
    found = outcome(bare(), version=NEW, space=space)
    assert codes(found) == ["driver_no_space"]
    assert "/boot has 0.060 GB free" in found.refusals[0].message
    assert "has 0.073 GB" in found.refusals[0].message
    assert found.refusals[0].evidence["needed_bytes"] == boot_bytes(73_000_000, "open") == 93_000_000


def test_one_file_system_needs_room_for_both() -> None:
    needed = root_bytes(True, False, 1, True)
    space = Space(root_free_bytes=needed, boot_on_root=True, initramfs_bytes=73_000_000)
    assert codes(outcome(bare(), version=NEW, space=space)) == ["driver_no_space"]


def test_room_does_not_matter_when_nothing_is_installed() -> None:
    found = outcome(with_driver(version=NEW), version=NEW, space=Space(root_free_bytes=0, boot_free_bytes=0))
    assert codes(found) == []
    assert "driver_space_unchecked" not in problem_codes(found)


# Packages -------------------------------------------------------------------------------------------------------------


def test_half_installed_packages_of_others_are_refused_with_the_command() -> None:
    stack = bare(packages=(package("linux-image-6.1.0-26-amd64", "6.1.112-1", "half-configured"),))
    found = outcome(stack, version=NEW)
    assert codes(found) == ["driver_packages_half_installed"]
    assert "linux-image-6.1.0-26-amd64 6.1.112-1 (half-configured)" in found.refusals[0].message
    assert "dpkg --configure -a" in found.refusals[0].remedy


def test_what_an_interrupted_run_of_the_plan_left_is_finished() -> None:
    halves = (
        package("nvidia-driver-cuda", f"{NEW}-1", "unpacked"),
        package("nvidia-kernel-open-dkms", f"{NEW}-1", "half-configured"),
        package("libcuda1", f"{NEW}-1", "unpacked"),
    )
    plan = planned(bare(packages=halves), version=NEW)
    assert plan.repair.needed
    assert plan.repair.commands[0] == ("dpkg", "--configure", "-a")
    assert plan.action in ("install", "complete")
    assert codes(outcome(bare(packages=halves), version=NEW, repair=False)) == ["driver_packages_half_installed"]


def test_the_runfile_has_to_go_first() -> None:
    stack = bare(user_space=UserSpace("570.86.15"), packages=())
    found = outcome(stack, version=NEW)
    assert codes(found) == ["driver_runfile_installed"]
    assert "nvidia-uninstall" in found.refusals[0].remedy
    release = KERNELS["debian12"]
    by_hand = with_driver(kernels=(kernel(release, nvidia_module=module("570.172.08", source="unknown")),))
    assert codes(outcome(by_hand, version=NEW)) == ["driver_runfile_installed"]


@pytest.mark.parametrize(
    ("distribution", "name", "version", "source"),
    [
        ("debian12", "nvidia-open-kernel-dkms", "535.261.03-1", "vendor"),
        ("debian12", "nvidia-kernel-open-dkms", "535.261.03-1", "distribution"),
        ("ubuntu2404", "nvidia-headless-no-dkms-580-server-open", "580.95.05-0ubuntu0.24.04.2", "vendor"),
        ("ubuntu2404", "nvidia-dkms-580-open", "580.95.05-0ubuntu1", "distribution"),
        ("ubuntu2404", "nvidia-driver-580-open", "580.95.05-0ubuntu0~gpu24.04.1", "vendor"),
        ("debian12", "nvidia-kernel-dkms", "535.261.03-1", "vendor"),
        ("rhel9", "akmod-nvidia", "580.95.05-1.el9", "vendor"),
    ],
)
def test_drivers_of_another_source_are_replaced_only_when_allowed(
    distribution: str, name: str, version: str, source: str
) -> None:
    stack = with_driver(distribution, version="535.261.03", packages=[package(name, version)])
    asked: dict[str, Any] = {"source": source, "allow_downgrade": True}
    asked["version" if source == "vendor" else "branch"] = NEW if source == "vendor" else 580
    if distribution == "debian12" and source == "distribution":
        asked["branch"] = 535
    found = outcome(stack, **asked)
    assert codes(found) == ["driver_packages_conflict"]
    assert f"{name} {version}" in found.refusals[0].message
    plan = planned(stack, remove_conflicting=True, **asked)
    assert [(one.name, one.foreign) for one in plan.absent] == [(name, True)]


def test_unknown_packages_are_refused() -> None:
    assert codes(outcome(bare(packages=None), version=NEW)) == ["driver_packages_unknown"]


def test_unattended_upgrades_are_held_off_or_refused() -> None:
    upgrades = UnattendedUpgrades("unattended-upgrades", True, True, True, "Origin NVIDIA is allowed.")
    held = outcome(bare(unattended_upgrades=upgrades), version=NEW)
    assert codes(held) == []
    assert "driver_unattended_held" in problem_codes(held)
    free = outcome(bare(unattended_upgrades=upgrades), version=NEW, hold=False)
    assert codes(free) == ["driver_unattended_upgrades"]
    unclear = outcome(bare(unattended_upgrades=replace(upgrades, covers_driver=None)), version=NEW, hold=False)
    assert codes(unclear) == []
    assert "driver_unattended_unclear" in problem_codes(unclear)


def test_holds_are_let_go_of_for_a_change_and_only_then() -> None:
    held = [
        package("nvidia-driver-cuda", "570.172.08-1", held=True),
        package("nvidia-kernel-open-dkms", "570.172.08-1", held=True),
        package("nvidia-persistenced", "570.172.08-1", held=True),
    ]
    stack = with_driver(packages=held)
    names = tuple(one.name for one in held)
    assert planned(stack, version=NEW).holds.release == names
    kept = planned(stack)
    assert (kept.holds.release, kept.holds.packages, kept.changes) == ((), names, ())


# Containers -----------------------------------------------------------------------------------------------------------

BY_RUNTIME = Container("chat", "docker", "systemd", (), True)


@pytest.mark.parametrize(
    ("container", "links", "loses"),
    [
        (BY_RUNTIME, False, True),
        (BY_RUNTIME, True, True),
        (replace(BY_RUNTIME, cgroup_manager="cgroupfs"), False, False),
        (replace(BY_RUNTIME, uses_gpus=False), False, False),
        (Container("web", "docker", "systemd"), False, False),
        (Container("cdi", "podman", "systemd", ("/dev/nvidia0", "/dev/nvidiactl")), False, True),
        (Container("cdi", "podman", "systemd", ("/dev/nvidia0", "/dev/nvidiactl")), True, False),
        (Container("cdi", "podman", None, ("nvidia.com/gpu=all",)), False, True),
        (Container("ctl", "podman", "systemd", ("/dev/nvidiactl",)), False, False),
    ],
)
def test_containers_that_lose_their_gpus_postpone_the_reload(container: Container, links: bool, loses: bool) -> None:
    stack = with_driver(version=NEW)
    plan = planned(stack, version=NEW, containers=(container,), dev_char_links=links)
    assert plan.daemon_reload.postpone is loses
    assert plan.daemon_reload.containers == ((container.name,) if loses else ())
    assert (plan.daemon_reload.reason is None) is not loses


def test_packages_reload_units_themselves_so_that_nothing_is_installed_under_such_containers() -> None:
    found = outcome(bare(), version=NEW, containers=(BY_RUNTIME,))
    assert codes(found) == ["driver_containers_lose_gpus"]
    assert found.refusals[0].evidence == {"containers": ["chat"]}


# Fabric and MIG -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", [(L40S,) * 8, (B200,), ("10de:2331",) * 2])
def test_a_fabric_manager_without_a_switch_is_refused(gpus: tuple[str, ...]) -> None:
    assert codes(outcome(bare(gpus=gpus), version=NEW, fabric_manager=True)) == ["driver_fabric_manager_pointless"]


def test_a_needed_fabric_manager_that_is_left_out_is_said() -> None:
    found = outcome(with_fabric_manager(bare(gpus=(H100,) * 8), None), version=NEW, fabric_manager=False)
    assert codes(found) == []
    assert "driver_fabric_manager_left_out" in problem_codes(found)
    assert found.plan is not None
    assert not any("fabric" in name for name in found.plan.expectations.packages)


def test_imex_is_for_hosts_of_one_nvlink_domain() -> None:
    assert codes(outcome(bare(gpus=(H100,) * 8), version=NEW, imex=True)) == ["driver_imex_pointless"]


def test_imex_is_told_the_hosts_of_its_domain() -> None:
    stack = bare("ubuntu2404", (GB200,) * 4)
    plan = planned(stack, version=NEW, imex_nodes=("10.0.0.1", "10.0.0.2"))
    files = {file.path: file.content for file in plan.files}
    assert files["/etc/nvidia-imex/nodes_config.cfg"] == "10.0.0.1\n10.0.0.2\n"
    assert "driver_imex_nodes_missing" in problem_codes(outcome(stack, version=NEW))


def test_four_gb200_that_stand_alone_need_no_imex() -> None:
    gpus = (GB200,) * 4
    plan = planned(with_driver("debian12", gpus, version=NEW), topology_of(gpus), version=NEW)
    assert (plan.fabric.kind, plan.fabric.imex) == ("none", False)


def test_switches_that_the_bus_does_not_show_are_told_of_in_a_guest() -> None:
    topology = topology_of((B200,) * 8)
    assert "driver_fabric_in_guest" not in problem_codes(outcome(bare("debian12", (B200,) * 8), topology, version=NEW))
    topology["host"]["virtualization"] = "kvm"
    found = outcome(bare("debian12", (B200,) * 8), topology, version=NEW)
    told = {problem.code: problem.message for problem in found.problems}
    assert told["driver_fabric_in_guest"].startswith("The host is a guest of kvm. 8 GPUs of 10de:2901 (B200) reach")


def test_slices_of_vgpu_need_their_own_driver() -> None:
    topology = topology_of((L40S,) * 4)
    topology["gpus"][0]["virtualization"] = "vgpu"
    assert codes(outcome(with_driver(), topology, version=NEW)) == ["driver_vgpu_guest"]
    assert codes(outcome(with_driver(), topology, source="none")) == []


def test_a_fabric_manager_that_is_not_needed_is_stopped() -> None:
    stack = with_fabric_manager(with_driver(version=NEW), NEW)
    fabric = replace(stack.driver.fabric_manager, needed=False)
    plan = planned(replace(stack, driver=replace(stack.driver, fabric_manager=fabric)), version=NEW)
    assert [(one.name, one.state, one.enabled) for one in plan.services][0] == (
        "nvidia-fabricmanager",
        "stopped",
        False,
    )


@pytest.mark.parametrize(
    ("pci_id", "divides"),
    [
        ("10de:20b2", True),  # A100 SXM4 80 GB
        ("10de:2330", True),  # H100 SXM5
        ("10de:3182", True),  # B300
        ("10de:2bb5", True),  # RTX PRO 6000 Blackwell Server Edition
        ("10de:2c31", True),  # RTX PRO 4500 Blackwell
        ("10de:2c34", False),  # RTX PRO 4000 Blackwell
        ("10de:2b85", False),  # GeForce RTX 5090
    ],
)
def test_which_boards_can_be_divided(pci_id: str, divides: bool) -> None:
    assert can_be_divided(pci_id) is divides


def test_a_mig_layout_is_checked_and_made_once() -> None:
    stack, gpus = with_driver(version=NEW, gpus=(A100,) * 2), (A100,) * 2
    layout = (MigLayout((0,), ("3g.40gb", "3g.40gb")),)
    plan = planned(stack, topology_of(gpus), version=NEW, mig=layout)
    assert [" ".join(one.command) for one in plan.mig] == [
        "nvidia-smi -i 0 -mig 1",
        "nvidia-smi mig -i 0 -cgi 3g.40gb,3g.40gb -C",
    ]
    divided = topology_of(gpus)
    parts = [{"name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb"}] * 2
    divided["gpus"][0].update({"mig": {"enabled": True}, "mig_devices": parts})
    assert planned(stack, divided, version=NEW, mig=layout).mig == ()
    other = planned(stack, divided, version=NEW, mig=(MigLayout((0,), ("7g.80gb",)),)).mig
    assert [one.command[-1] for one in other] == ["-dci", "-dgi", "-C"]


@pytest.mark.parametrize(
    ("gpus", "layout", "code"),
    [
        ((L40S,), MigLayout((), ("1g.10gb",)), "driver_mig_gpu"),
        ((A100,), MigLayout((3,), ("1g.10gb",)), "driver_mig_gpu"),
        ((A100,), MigLayout((0, 0), ("1g.10gb",)), "driver_mig_gpu"),
        ((A100,), MigLayout((0,), ("4g.40gb", "4g.40gb")), "driver_mig_profile"),
        ((A100,), MigLayout((0,), ("half",)), "driver_mig_profile"),
    ],
)
def test_mig_layouts_that_cannot_be(gpus: tuple[str, ...], layout: MigLayout, code: str) -> None:
    found = outcome(with_driver(version=NEW, gpus=gpus), version=NEW, mig=(layout,))
    assert codes(found) == [code]


def test_a_gpu_in_use_is_not_divided() -> None:
    topology = topology_of((A100,), {0: [(99, "python3")]})
    found = outcome(with_driver(version=NEW, gpus=(A100,)), topology, version=NEW, mig=(MigLayout((), ("7g.80gb",)),))
    assert codes(found) == ["driver_mig_gpu"]
    assert "python3 (99)" in found.refusals[0].message


# All at once ----------------------------------------------------------------------------------------------------------


def test_everything_that_forbids_a_plan_is_said_at_once() -> None:
    release = KERNELS["debian12"]
    stack = with_driver(
        in_use=True,
        version="590.48.01",
        secure_boot=SECURE,
        kernels=(kernel(release, headers_installed=False, nvidia_module=module("590.48.01", signer_trusted=False)),),
    )
    topology = topology_of((L40S,) * 4, {1: [(7, "python3")]})
    found = outcome(
        stack, topology, version=NEW, headers_available=(), space=Space(root_free_bytes=0, boot_free_bytes=0)
    )
    assert codes(found) == [
        "driver_downgrade",
        "driver_headers_not_there",
        "driver_module_would_be_unsigned",
        "driver_gpu_in_use",
        "driver_no_space",
        "driver_no_space",
    ]
    assert found.plan is not None


@pytest.mark.parametrize(
    ("os", "code"),
    [
        (OperatingSystem("debian", "11", "bullseye", "debian", "x86_64", "apt"), "driver_distribution_unknown"),
        (OperatingSystem("arch", None, None, "other", "x86_64", None), "driver_distribution_unknown"),
        (OperatingSystem("debian", "12", "bookworm", "debian", "ppc64le", "apt"), "driver_architecture_unknown"),
    ],
)
def test_systems_that_nvidia_has_no_repository_for(os: OperatingSystem, code: str) -> None:
    found = outcome(bare(os=os), version=NEW)
    assert codes(found) == [code]
    assert found.plan is None
    assert codes(outcome(with_driver(version=NEW, os=os), source="none")) == []
