# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The software under a server: what host_stack_info looks at. Most of it follows from kernel and driver."""

from __future__ import annotations

from .entries import Entries, Folder, Link, Profile, ProfileError
from .lists import numbers_of
from .stack_kernels import installed_kernels, kernels

SYSTEMS = {
    "debian-12": {"ID": "debian", "VERSION_ID": '"12"', "VERSION_CODENAME": "bookworm"},
    "ubuntu-22.04": {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": '"22.04"', "VERSION_CODENAME": "jammy"},
    "ubuntu-24.04": {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": '"24.04"', "VERSION_CODENAME": "noble"},
    "rhel-8": {"ID": '"rhel"', "ID_LIKE": '"fedora"', "VERSION_ID": '"8.10"'},
}
EFI_GLOBAL = "sys/firmware/efi/efivars/{}-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# What systemd gives a service that asks for nothing.
MEMLOCK_BYTES, NOFILE, NOFILE_MAX = 8 << 20, 1024, 524288
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
{:<26}{:<21}{:<21}files
{:<26}{:<21}{:<21}bytes"""
ORDERS = 11
FEW_BLOCKS = (17, 9, 5, 3, 2, 1, 1, 1, 1, 1)
SSH_PID, FABRIC_PID, PERSISTENCED_PID = 802, 1201, 1202


def default_system(kernel: str) -> str:
    """By the kernel's name: each distribution has its own way to name them."""
    if ".el8" in kernel:
        return "rhel-8"
    return "ubuntu-24.04" if any(word in kernel for word in ("-generic", "-nvidia", "-azure")) else "debian-12"


def stack(profile: Profile) -> Entries:
    if profile["stack"]["os"] not in SYSTEMS:
        raise ProfileError(f"{profile['name']}: stack.os is {profile['stack']['os']}; known: {', '.join(SYSTEMS)}.")
    yield from _system(profile)
    yield from kernels(profile)
    yield from _user_space(profile)
    yield from _packages(profile)
    yield from _security(profile)
    yield from _services(profile)
    yield from _settings(profile)


def _system(profile: Profile) -> Entries:
    yield "etc/os-release", "\n".join(f"{key}={value}" for key, value in SYSTEMS[profile["stack"]["os"]].items())
    yield "proc/sys/kernel/arch", profile["host"]["architecture"]
    asked = profile["stack"].get("reboot_required")
    if asked:
        yield "run/reboot-required", "*** System restart required ***"
        yield "run/reboot-required.pkgs", "\n".join(asked)
    if profile["stack"].get("unattended_upgrades"):
        yield "usr/bin/unattended-upgrade", "#!/usr/bin/python3"
        yield "etc/apt/apt.conf.d/20auto-upgrades", 'APT::Periodic::Unattended-Upgrade "1";'
        origin = 'Unattended-Upgrade::Origins-Pattern { "origin=*"; };'
        yield "etc/apt/apt.conf.d/50unattended-upgrades", origin


def user_space_version(profile: Profile) -> str | None:
    """Of the driver's libraries; the loaded module's where the profile does not say."""
    told: str | None = profile["stack"].get("user_space", (profile["driver"] or {}).get("version"))
    return told


def _user_space(profile: Profile) -> Entries:
    version = user_space_version(profile)
    if version is None:
        return
    rpm = profile["stack"]["os"].startswith("rhel")
    folder = "usr/lib64" if rpm else f"usr/lib/{profile['host']['architecture']}-linux-gnu"
    for name in ("libcuda", "libnvidia-ml"):
        yield f"{folder}/{name}.so.{version}", "library"
        yield f"{folder}/{name}.so.1", Link(f"{folder}/{name}.so.{version}")


def _has_switches(profile: Profile) -> bool:
    return any(device["kind"] == "nvswitch" for device in profile["all_devices"])


def fabric_manager(profile: Profile) -> dict[str, object] | None:
    """There where switches and a driver are, in the version of the libraries, unless the profile says otherwise."""
    version = user_space_version(profile)
    default = {"version": version, "running": True, "enabled": True} if _has_switches(profile) and version else None
    told = profile["stack"].get("fabric_manager", default)
    return None if told is None else {**(default or {"running": True, "enabled": True}), **told}


def _package_versions(profile: Profile) -> dict[str, str]:
    found = {}
    for release, kernel in installed_kernels(profile).items():
        found[f"linux-image-{release}"] = release.split("-")[0]
        if kernel["headers"]:
            found[f"linux-headers-{release}"] = release.split("-")[0]
    version = user_space_version(profile)
    flavour = "-open" if (profile["driver"] or {}).get("flavour", "open") == "open" else ""
    manager = fabric_manager(profile)
    ubuntu = profile["stack"]["os"].startswith("ubuntu")
    branch = (version or "").split(".")[0]
    if version and ubuntu:
        for name in (
            f"nvidia-driver-{branch}-server{flavour}",
            f"nvidia-dkms-{branch}-server{flavour}",
            f"libnvidia-compute-{branch}-server",
            f"nvidia-compute-utils-{branch}-server",
        ):
            found[name] = f"{version}-0ubuntu1"
    elif version:
        for name in (
            f"nvidia{flavour or '-driver'}",
            f"nvidia-kernel{flavour}-dkms",
            "libnvidia-ml1",
            "nvidia-persistenced",
        ):
            found[name] = f"{version}-1"
    if manager and manager["version"]:
        name = f"nvidia-fabricmanager-{branch}" if ubuntu else "nvidia-fabricmanager"
        found[name] = f"{manager['version']}-{'0ubuntu1' if ubuntu else '1'}"
    found.update(profile["stack"].get("packages") or {})
    return {name: told for name, told in found.items() if told is not None}


def _packages(profile: Profile) -> Entries:
    if profile["stack"]["os"].startswith("rhel"):
        # Its database is no text, and what rpm cannot be asked about is unknown.
        return
    held = profile["stack"].get("held") or ()
    word = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}[profile["host"]["architecture"]]
    stanzas = [
        f"Package: {name}\nStatus: {'hold' if name in held else 'install'} ok installed\nArchitecture: {word}\n"
        f"Version: {version}\nDescription: {name}\n"
        for name, version in _package_versions(profile).items()
    ]
    yield "var/lib/dpkg/status", "\n".join(stanzas)


def _security(profile: Profile) -> Entries:
    boot = profile["stack"].get("secure_boot", None if profile["host"]["hypervisor"] else {"enabled": False})
    if boot is not None:
        for name, value in (("SecureBoot", boot["enabled"]), ("SetupMode", boot.get("setup_mode", False))):
            yield EFI_GLOBAL.format(name), bytes((6, 0, 0, 0, int(value)))
        lockdown = boot.get("lockdown", "integrity" if boot["enabled"] else "none")
        modes = (f"[{mode}]" if mode == lockdown else mode for mode in ("none", "integrity", "confidentiality"))
        yield "sys/kernel/security/lockdown", " ".join(modes)
        keys = ["Build time autogenerated kernel key", *boot.get("keys", ())]
        yield (
            "proc/keys",
            "\n".join(
                f"{number:08x} I------     1 perm 1f030000     0     0 asymmetri {name}: {number:040x}: X509.rsa []"
                for number, name in enumerate(keys, 1)
            ),
        )
    yield "sys/module/module/parameters/sig_enforce", "Y" if boot and boot["enabled"] else "N"
    if profile["stack"].get("nouveau_blacklisted", bool(profile["driver"])):
        yield "etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau\noptions nouveau modeset=0"
    if any(device.get("driver") == "nouveau" for device in profile["all_devices"]):
        yield "sys/module/nouveau/initstate", "live"


def _services(profile: Profile) -> Entries:
    yield "proc/1/comm", "systemd"
    yield "proc/1/limits", _limits(profile, "unlimited", NOFILE_MAX << 11)
    memlock = profile["stack"].get("memlock")
    yield "etc/systemd/system.conf", "[Manager]" + (f"\nDefaultLimitMEMLOCK={memlock}" if memlock else "")
    if profile["cgroup"]["mount_root"] == "/":
        base = "sys/fs/cgroup" if profile["cgroup"]["layout"] == "v2" else "sys/fs/cgroup/systemd"
        yield f"{base}/system.slice/ssh.service/cgroup.procs", str(SSH_PID)
    yield f"proc/{SSH_PID}/comm", "sshd"
    yield f"proc/{SSH_PID}/limits", _limits(profile, MEMLOCK_BYTES, NOFILE)
    manager = fabric_manager(profile)
    daemons = [("nvidia-fabricmanager", "nv-fabricmanager", FABRIC_PID, manager)]
    if profile["driver"]:
        told = profile["stack"].get("persistenced", {"running": True, "enabled": True})
        daemons.append(("nvidia-persistenced", "nvidia-persistenced", PERSISTENCED_PID, told))
    for unit, command, pid, state in daemons:
        if state is None:
            continue
        yield f"usr/lib/systemd/system/{unit}.service", "[Install]\nWantedBy=multi-user.target"
        if state["enabled"]:
            wants = f"etc/systemd/system/multi-user.target.wants/{unit}.service"
            yield wants, Link(f"usr/lib/systemd/system/{unit}.service")
        if state["running"]:
            yield f"proc/{pid}/comm", command[:15]


def _limits(profile: Profile, memlock: object, files: int) -> str:
    return LIMITS.format("Max open files", files, NOFILE_MAX, "Max locked memory", memlock, memlock)


def _settings(profile: Profile) -> Entries:
    settings = profile["stack"]
    chosen = settings.get("transparent_hugepage", "madvise")
    modes = " ".join(f"[{mode}]" if mode == chosen else mode for mode in ("always", "madvise", "never"))
    yield "sys/kernel/mm/transparent_hugepage/enabled", modes
    yield "sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never"
    yield "sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force"
    swap_kib = settings.get("swap_kib", 0)
    swaps = ["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"]
    yield "proc/swaps", "\n".join(swaps + ([f"/swap.img file\t\t{swap_kib}\t\t0\t\t-2"] if swap_kib else []))
    yield "proc/sys/vm/overcommit_memory", str(settings.get("overcommit_memory", 0))
    yield "proc/sys/vm/overcommit_ratio", "50"
    yield "proc/sys/vm/swappiness", "60"
    yield "proc/sys/vm/zone_reclaim_mode", "0"
    yield "proc/sys/kernel/numa_balancing", "1" if len(profile["numa_nodes"]) > 1 else "0"
    yield "proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0"
    yield "proc/buddyinfo", _buddyinfo(profile)
    if settings.get("tuned"):
        yield "etc/tuned/active_profile", settings["tuned"]
    governor = settings.get("governor", None if profile["host"]["hypervisor"] else "performance")
    if governor:
        yield from _governor(profile, governor)
    yield "boot", Folder()


def _governor(profile: Profile, governor: str) -> Entries:
    """One policy for the CPUs of a node: enough to tell, and not thousands of files."""
    offline = set(numbers_of(profile["host"]["cpus_offline"]))
    for node in profile["numa_nodes"]:
        cpus = [cpu for cpu in numbers_of(node["cpus"]) if cpu not in offline]
        if cpus:
            here = f"sys/devices/system/cpu/cpufreq/policy{cpus[0]}"
            yield f"{here}/affected_cpus", " ".join(map(str, cpus))
            yield f"{here}/scaling_driver", "acpi-cpufreq"
            yield f"{here}/scaling_governor", governor


def _buddyinfo(profile: Profile) -> str:
    """Free blocks by order: a few small ones, the rest as large as they come."""
    page_kib = 64 if "64k" in profile["host"]["kernel"] or profile["host"]["architecture"] == "ppc64le" else 4
    lines = []
    for node in profile["numa_nodes"]:
        if node["memory_total_kib"]:
            largest = node["memory_free_kib"] // (page_kib << (ORDERS - 1))
            blocks = " ".join(f"{count:6d}" for count in (*FEW_BLOCKS, largest))
            lines.append(f"Node {node['id']}, zone {'Normal':>8} {blocks}")
    return "\n".join(lines)
