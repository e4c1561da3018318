#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_stack_info
version_added: 0.1.0
short_description: Tell whether driver, kernels, packages and settings of a GPU host fit together
description:
  - Reads the loaded nvidia module, the modules installed for each kernel, the driver's libraries, the fabric manager
    and the packages, and compares them with one another and with the kernel that boots next.
  - Reads what decides whether they go on fitting (Secure Boot, DKMS, headers, nouveau, holds, unattended upgrades) and
    the settings that a server's memory depends on (memlock, huge pages, swap, overcommit, C(/dev/shm), fragmentation).
  - Changes nothing and runs no program, but for C(rpm) where there is an RPM database. Modules, boot menus and dpkg's
    database are read as files, so that the facts of another machine can be read below O(root).
  - No file that is missing, broken or not readable ends it. The value is null then; what may not be read is listed in
    RV(unreadable) and stated as a problem.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  root:
    description:
      - Folder that all files are read below, such as a recording of another machine or a mounted system, as an
        absolute path.
      - Symbolic links are followed as that machine would, never out of the folder.
    type: path
    default: /
notes:
  - Needs root for what only root may read, such as C(/boot/grub/grub.cfg) on many systems.
  - C(/etc/security/limits.d) is not counted in RV(limits), as it applies to logins and not to services.
seealso:
  - module: gpufleet.sglang.gpu_topology_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Read the stack
  gpufleet.sglang.host_stack_info:
  register: stack

- name: Stop before a reboot that would lose the GPUs
  ansible.builtin.assert:
    that: "'next_kernel_without_module' not in stack.problems | map(attribute='code')"
    fail_msg: "Kernel {{ stack.next_boot.kernel }} boots next and has no nvidia module."

- name: Install the headers of the kernel that boots next
  ansible.builtin.apt:
    name: "linux-headers-{{ stack.next_boot.kernel }}"
  when: not (stack.kernels | selectattr('boots_next') | first).headers_installed

- name: Read a recorded machine
  gpufleet.sglang.host_stack_info:
    root: /srv/recordings/gpu-host-7
"""

RETURN = r"""
os:
  description: The operating system.
  returned: always
  type: dict
  contains:
    id:
      description: ID of C(/etc/os-release).
      type: str
      sample: ubuntu
    version_id:
      description: VERSION_ID of C(/etc/os-release).
      type: str
      sample: "24.04"
    codename:
      description: VERSION_CODENAME of C(/etc/os-release); null where the distribution has none.
      type: str
      sample: noble
    family:
      description: V(debian), V(rhel) or V(other), also for what is like one of these.
      type: str
      sample: debian
    architecture:
      description: Architecture of the kernel, or else of the programs.
      type: str
      sample: x86_64
    package_manager:
      description: V(apt), V(dnf) or V(zypper).
      type: str
      sample: apt
    container:
      description: Manager of the container that this is; null on a machine. A container runs its host's kernel.
      type: str
      sample: null
running_kernel:
  description: Release of the kernel that runs.
  returned: always
  type: str
  sample: 6.17.0-20-generic
kernels:
  description: The installed kernels, newest first, without rescue images.
  returned: always
  type: list
  elements: dict
  contains:
    release:
      description: What C(uname -r) tells when it runs.
      type: str
      sample: 6.17.0-22-generic
    running:
      description: Whether it runs now.
      type: bool
      sample: false
    boots_next:
      description: Whether it boots next; null when RV(next_boot.kernel) is not known.
      type: bool
      sample: true
    vmlinuz:
      description: Path of its image; null for what is left of a removed kernel.
      type: str
      sample: /boot/vmlinuz-6.17.0-22-generic
    initramfs:
      description: Path of its initramfs.
      type: str
      sample: /boot/initrd.img-6.17.0-22-generic
    headers_installed:
      description: Whether modules can be built for it.
      type: bool
      sample: true
    headers_path:
      description: Folder of its headers.
      type: str
      sample: /usr/src/linux-headers-6.17.0-22-generic
    nvidia_module:
      description: The nvidia module that modprobe would load into it; null without one.
      type: dict
      contains:
        path:
          description: The module's file.
          type: str
          sample: /lib/modules/6.17.0-22-generic/updates/dkms/nvidia.ko.zst
        version:
          description: The driver's release, from the file.
          type: str
          sample: 595.58.03
        flavour:
          description: V(open) or V(proprietary), by the module's licence.
          type: str
          sample: open
        license:
          description: The licence in the file.
          type: str
          sample: Dual MIT/GPL
        signed:
          description: Whether a signature is appended. It is not verified; that is the kernel's business.
          type: bool
          sample: true
        signer:
          description: Common name of who signed it; null where the signature does not tell.
          type: str
          sample: gpu-host-7 Secure Boot Module Signature key
        signer_trusted:
          description: Whether RV(secure_boot.trusted_keys) has a key of that name; null where that is not known.
          type: bool
          sample: true
        source:
          description: V(dkms), V(packaged), or V(unknown) for what was built by hand or by NVIDIA's C(.run) file.
          type: str
          sample: dkms
    nouveau_path:
      description: Its nouveau module; null without one.
      type: str
      sample: /lib/modules/6.17.0-22-generic/kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst
next_boot:
  description: What boots next.
  returned: always
  type: dict
  contains:
    kernel:
      description: Release of the kernel; null when it is not known.
      type: str
      sample: 6.17.0-22-generic
    source:
      description:
        - How it is known. V(grub) and V(bls) from GRUB's menu (C(grub.cfg) with C(grubenv), entries in
          C(loader/entries)), V(systemd_boot) from that loader's, V(newest) when no menu is there or may be read. Then
          the newest kernel is taken, or the one that GRUB_DEFAULT names.
        - Null where nothing can boot, as in most containers.
      type: str
      sample: grub
    entry:
      description: Title of the menu's entry.
      type: str
      sample: Ubuntu
    arguments:
      description: The kernel's command line in that entry.
      type: str
      sample: root=UUID=0f1b5bb1-8a3c-4d62-a1f8-0e8f6a2f0b55 ro iommu=pt
    once:
      description: Whether that holds for the next boot only.
      type: bool
      sample: false
driver:
  description: The NVIDIA driver.
  returned: always
  type: dict
  contains:
    gpus:
      description: PCI vendor and device of each GPU, in the order of the bus.
      type: list
      elements: str
      sample: ["10de:2bb5", "10de:2bb5"]
    gpus_by_driver:
      description: Number of GPUs by the kernel driver that holds them; those that none holds are not counted.
      type: dict
      sample: {nvidia: 2}
    required_flavour:
      description: >-
        Flavour of the kernel modules that these GPUs work with. V(open), V(proprietary), V(either), V(none) when they
        have none in common, null without GPUs. GPUs that another driver holds (C(vfio-pci), or C(nouveau) beside
        C(nvidia)) and display cards that are too old for every current driver do not count beside others.
      type: str
      sample: open
    loaded:
      description: The module in the running kernel.
      type: dict
      contains:
        loaded:
          description: Whether it is loaded.
          type: bool
          sample: true
        version:
          description: Its release.
          type: str
          sample: 595.58.03
        flavour:
          description: V(open) or V(proprietary).
          type: str
          sample: open
        reference_count:
          description: The kernel's count of its users; other modules count as well.
          type: int
          sample: 27
        in_use:
          description: Whether anything but other modules uses it, so that it cannot be unloaded.
          type: bool
          sample: true
    user_space:
      description: The driver's libraries, by the names of their files, as the loader finds them.
      type: dict
      contains:
        version:
          description: Release of C(libnvidia-ml), which no compatibility package brings.
          type: str
          sample: 595.58.03
        nvml_path:
          description: File of C(libnvidia-ml).
          type: str
          sample: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.595.58.03
        cuda_version:
          description: Release of C(libcuda).
          type: str
          sample: 595.58.03
        cuda_path:
          description: File of C(libcuda).
          type: str
          sample: /usr/lib/x86_64-linux-gnu/libcuda.so.595.58.03
        other_versions:
          description: Further releases whose libraries are there.
          type: list
          elements: str
          sample: []
    fabric_manager:
      description: The fabric manager, without which no GPU behind an NVSwitch works.
      type: dict
      contains:
        installed_version:
          description: Release of its package.
          type: str
          sample: 595.58.03
        running:
          description: Whether its process runs.
          type: bool
          sample: true
        enabled:
          description: Whether it is started at boot; null where there is no such service.
          type: bool
          sample: true
        needed:
          description: >-
            Whether NVSwitches are on the PCI bus; null where some may be there that do not show on it (B200, B300).
          type: bool
          sample: true
    persistenced:
      description: The persistence daemon.
      type: dict
      contains:
        installed_version:
          description: Release of its package.
          type: str
          sample: 595.58.03
        running:
          description: Whether its process runs.
          type: bool
          sample: true
        enabled:
          description: Whether it is started at boot; null where there is no such service.
          type: bool
          sample: true
    nouveau:
      description: The free driver, which excludes NVIDIA's.
      type: dict
      contains:
        loaded:
          description: Whether it is loaded.
          type: bool
          sample: false
        blacklisted:
          description: Whether anything keeps it from loading.
          type: bool
          sample: true
        blacklisted_by:
          description: The files that do, and V(command line).
          type: list
          elements: str
          sample: [/usr/lib/modprobe.d/nvidia-graphics-drivers.conf]
        initramfs_stale:
          description: >-
            Whether the initramfs of the next boot is older than those files, so that it does not know of them; null
            where that does not matter or is not known.
          type: bool
          sample: false
    releases:
      description: The driver's release as each part tells it.
      type: dict
      contains:
        loaded:
          description: The loaded module.
          type: str
          sample: 595.58.03
        running_kernel:
          description: The module that is installed for the running kernel.
          type: str
          sample: 595.58.03
        next_kernel:
          description: The module that is installed for the kernel that boots next.
          type: str
          sample: 595.58.03
        user_space:
          description: The libraries.
          type: str
          sample: 595.58.03
        fabric_manager:
          description: The fabric manager.
          type: str
          sample: null
        packages:
          description: The packages; more than one release is a fault.
          type: list
          elements: str
          sample: [595.58.03]
        consistent:
          description: Whether all of these are one release; null when less than two are known.
          type: bool
          sample: true
secure_boot:
  description: What the firmware and the kernel demand of modules.
  returned: always
  type: dict
  contains:
    efi:
      description: Whether the host was booted by EFI firmware.
      type: bool
      sample: true
    enabled:
      description: Whether Secure Boot is on; null without EFI.
      type: bool
      sample: true
    shim_validation:
      description: >-
        Whether shim checks signatures. Where it was told not to (C(mokutil --disable-validation)), the kernel takes
        Secure Boot for off. Null where Secure Boot is off or not known.
      type: bool
      sample: true
    setup_mode:
      description: Whether the firmware takes new keys from anybody; null without EFI.
      type: bool
      sample: false
    lockdown:
      description: V(none), V(integrity) or V(confidentiality).
      type: str
      sample: integrity
    module_sig_enforce:
      description: Whether only signed modules load.
      type: bool
      sample: true
    trusted_keys:
      description: >-
        Names of the keys that the running kernel trusts (built in, of the firmware, and machine owner keys), from
        C(/proc/keys); null where it shows none.
      type: list
      elements: str
      sample: [Canonical Ltd. Live Patch Signing, gpu-host-7 Secure Boot Module Signature key]
dkms:
  description: Modules in DKMS's tree, one entry a kernel that it was built for.
  returned: always
  type: list
  elements: dict
  contains:
    module:
      description: Name in DKMS.
      type: str
      sample: nvidia
    version:
      description: Version of the source.
      type: str
      sample: 595.58.03
    kernel:
      description: Kernel that it was built for; null when it is only added.
      type: str
      sample: 6.17.0-22-generic
    architecture:
      description: Architecture that it was built for.
      type: str
      sample: x86_64
    state:
      description: V(added), V(built) or V(installed), as C(dkms status) tells.
      type: str
      sample: installed
packages:
  description: >-
    The installed packages of the driver, of CUDA, of the kernel and its headers, of DKMS and of NVIDIA's container
    toolkit; null where they cannot be listed.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name.
      type: str
      sample: nvidia-dkms-open
    version:
      description: Version with the distribution's revision.
      type: str
      sample: 595.58.03-1ubuntu1
    architecture:
      description: Architecture.
      type: str
      sample: amd64
    source:
      description: Source package, which preferences of apt can name; null for packages of RPM.
      type: str
      sample: nvidia-open
    kind:
      description: >-
        V(driver), V(kernel_module), V(fabric), V(cuda), V(container), V(kernel), V(headers) or V(dkms).
      type: str
      sample: kernel_module
    status:
      description: dpkg's word for its state, or V(reinstall-required). Packages of RPM are V(installed).
      type: str
      sample: installed
    held:
      description: Whether C(apt-mark hold), a version lock or an exclude keeps it as it is.
      type: bool
      sample: true
    driver_release:
      description: The driver's release that it belongs to; null for packages that do not tell.
      type: str
      sample: 595.58.03
pins:
  description: Preferences of apt, version locks and excludes of dnf that name such packages.
  returned: always
  type: list
  elements: dict
  contains:
    packages:
      description: Names or patterns.
      type: str
      sample: src:*nvidia*:any src:cuda-drivers:any src:cuda-compat:any
    pin:
      description: What apt's preference pins, C(lock), C(exclude), or the conditions of a lock.
      type: str
      sample: version 595.58.03-1ubuntu1
    priority:
      description: Priority of apt's preference.
      type: int
      sample: 1000
    path:
      description: File that says so.
      type: str
      sample: /etc/apt/preferences.d/nvidia
unattended_upgrades:
  description: Upgrades that come in by themselves.
  returned: always
  type: dict
  contains:
    tool:
      description: V(unattended-upgrades) or V(dnf-automatic).
      type: str
      sample: unattended-upgrades
    installed:
      description: Whether it is installed.
      type: bool
      sample: true
    enabled:
      description: >-
        Whether it installs upgrades regularly: its settings say so and its timer is enabled, which the links of
        C(systemctl enable) tell. A timer that was only stopped counts, as it starts again at the next boot.
      type: bool
      sample: true
    covers_driver:
      description: Whether it can upgrade the driver; null where that cannot be decided.
      type: bool
      sample: false
    reason:
      description: Why so.
      type: str
      sample: All packages of the driver are held, pinned or on the black list.
limits:
  description: Resource limits.
  returned: always
  type: dict
  contains:
    memlock:
      description: Memory that may be locked.
      type: dict
      contains:
        services:
          description: What a service of systemd's is given whose unit sets nothing.
          type: dict
          contains: &memlock
            soft_bytes:
              description: Soft limit; null when it is unlimited or not known.
              type: int
              sample: 8388608
            soft_unlimited:
              description: Whether there is none; null when it is not known.
              type: bool
              sample: false
            hard_bytes:
              description: Hard limit.
              type: int
              sample: 8388608
            hard_unlimited:
              description: Whether there is none.
              type: bool
              sample: false
            source:
              description: Where that is from, systemd's configuration or the limits of a process.
              type: str
              sample: /proc/212/limits
        pid1:
          description: What systemd has itself, which it does not pass on.
          type: dict
          contains: *memlock
        process:
          description: What this module's process has; null below another root.
          type: dict
          contains: *memlock
    nofile:
      description: Files that may be open.
      type: dict
      contains:
        services:
          description: What a service of systemd's is given whose unit sets nothing.
          type: dict
          contains: &nofile
            soft:
              description: Soft limit; null when it is unlimited or not known.
              type: int
              sample: 1024
            soft_unlimited:
              description: Whether there is none; null when it is not known.
              type: bool
              sample: false
            hard:
              description: Hard limit.
              type: int
              sample: 524288
            hard_unlimited:
              description: Whether there is none.
              type: bool
              sample: false
            source:
              description: Where that is from, systemd's configuration or the limits of a process.
              type: str
              sample: /proc/212/limits
        pid1:
          description: What systemd has itself, which it does not pass on.
          type: dict
          contains: *nofile
        process:
          description: What this module's process has; null below another root.
          type: dict
          contains: *nofile
memory:
  description: The kernel's settings for memory.
  returned: always
  type: dict
  contains:
    page_bytes:
      description: Size of a page.
      type: int
      sample: 4096
    total_bytes:
      description: Memory that the kernel manages.
      type: int
      sample: 25276502016
    transparent_hugepage:
      description: Transparent huge pages.
      type: dict
      contains:
        enabled:
          description: V(always), V(madvise) or V(never).
          type: str
          sample: madvise
        defrag:
          description: V(always), V(defer), V(defer+madvise), V(madvise) or V(never).
          type: str
          sample: madvise
        shmem_enabled:
          description: V(always), V(within_size), V(advise), V(never), V(deny) or V(force).
          type: str
          sample: never
    swap:
      description: Swap.
      type: dict
      contains:
        total_bytes:
          description: All of it.
          type: int
          sample: 8589930496
        free_bytes:
          description: What is free.
          type: int
          sample: 8589930496
        swappiness:
          description: vm.swappiness.
          type: int
          sample: 60
        devices:
          description: Files and partitions, each with C(path), C(kind), C(size_bytes) and C(used_bytes).
          type: list
          elements: dict
          contains:
            path:
              description: File or partition.
              type: str
              sample: /swap.img
            kind:
              description: V(file) or V(partition).
              type: str
              sample: file
            size_bytes:
              description: Its size.
              type: int
              sample: 8589930496
            used_bytes:
              description: What is used of it.
              type: int
              sample: 0
    overcommit:
      description: How much memory the kernel promises.
      type: dict
      contains:
        policy:
          description: V(heuristic), V(always) or V(never), for vm.overcommit_memory of 0, 1 and 2.
          type: str
          sample: heuristic
        ratio:
          description: vm.overcommit_ratio, in percent; matters with V(never).
          type: int
          sample: 50
        limit_bytes:
          description: What is promised at most with V(never).
          type: int
          sample: 12638248960
        committed_bytes:
          description: What is promised now.
          type: int
          sample: 516055040
    shm:
      description: Memory that processes share.
      type: dict
      contains:
        path:
          description: Where it is mounted.
          type: str
          sample: /dev/shm
        size_bytes:
          description: How large it may grow; null where it is not mounted.
          type: int
          sample: 1073741824
        used_bytes:
          description: What is used; null below another root.
          type: int
          sample: 0
    zone_reclaim_mode:
      description: vm.zone_reclaim_mode.
      type: int
      sample: 0
    numa_balancing:
      description: kernel.numa_balancing.
      type: int
      sample: 0
    free_by_order:
      description: Free blocks by size, for each zone of each NUMA node, from C(/proc/buddyinfo).
      type: list
      elements: dict
      contains:
        node:
          description: NUMA node.
          type: int
          sample: 0
        zone:
          description: Zone of the node.
          type: str
          sample: Normal
        orders:
          description: From the smallest block to the largest.
          type: list
          elements: dict
          contains:
            order:
              description: A block has as many pages as 2 to the power of this.
              type: int
              sample: 9
            bytes_each:
              description: Size of a block; null where the size of a page is not known.
              type: int
              sample: 2097152
            blocks:
              description: How many are free.
              type: int
              sample: 2
            bytes:
              description: Memory in all of them.
              type: int
              sample: 4194304
        largest_free_block_bytes:
          description: Size of the largest block that is free.
          type: int
          sample: 4194304
cpu:
  description: How the processors' frequency is governed.
  returned: always
  type: dict
  contains:
    driver:
      description: Driver of the frequency; null in most guests.
      type: str
      sample: amd-pstate-epp
    governors:
      description: Number of processors by governor; null in most guests.
      type: dict
      sample: {performance: 255}
    energy_preferences:
      description: Number of processors by energy preference; null where there is none.
      type: dict
      sample: {performance: 255}
    tuned_profile:
      description: Profile that tuned has been given.
      type: str
      sample: throughput-performance
reboot:
  description: >-
    Whether a reboot is due, by Debian's and Ubuntu's request for one, by the kernel that boots next and by the driver.
    Libraries that were replaced under running services are not looked for, as C(needs-restarting) of RHEL does.
  returned: always
  type: dict
  contains:
    required:
      description: Whether it is; null where it is not known which kernel boots next and nothing else asks for it.
      type: bool
      sample: true
    reasons:
      description: Why, in sentences.
      type: list
      elements: str
      sample: [Kernel 6.17.0-20-generic runs and 6.17.0-22-generic boots next.]
    packages:
      description: Packages that asked for it.
      type: list
      elements: str
      sample: [linux-image-6.17.0-22-generic]
unreadable:
  description: Files and folders that the user of the task may not read.
  returned: always
  type: list
  elements: str
  sample: []
problems:
  description: What is wrong or worth knowing.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Fixed name of the problem.
      type: str
      sample: reboot_required
    severity:
      description: V(info), V(warning) or V(error).
      type: str
      sample: warning
    message:
      description: The case at hand.
      type: str
      sample: Kernel 6.17.0-20-generic runs and 6.17.0-22-generic boots next.
    remedy:
      description: What to do.
      type: str
      sample: Drain the host and reboot it.
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import checked_root
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.reading import read_stack


def main() -> None:
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    try:
        root = checked_root(module.params["root"], "etc, proc and sys")
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())

    def run(command: list[str]) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = module.run_command(command, handle_exceptions=False)
        return answer

    module.exit_json(changed=False, **read_stack(root, run).as_dict())


if __name__ == "__main__":
    main()
