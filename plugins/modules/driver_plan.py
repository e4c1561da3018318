#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
version_added: 0.1.0
short_description: Plan the NVIDIA driver of a host before anything of it is touched
description:
  - Computes, from a survey of the host and from what is asked for, which driver is to be installed and how. That is the
    flavour of the kernel modules, the exact release, the repository with its key and fingerprint, the packages in the
    order they are needed, what has to go, what is held and pinned, the files, the services and whether a reboot is due.
  - Refuses what would leave the host without GPUs, all of it at once, each with what was found and what to do.
  - Runs on the controller, needs no connection to the host and changes nothing. The same input gives the same plan.
  - Knows NVIDIA's repositories for Debian 12 and 13, Ubuntu 22.04 and 24.04, RHEL 9 and 10 and what is like them, and
    the drivers that Debian and Ubuntu build themselves.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: all
options:
  stack:
    description: What M(gpufleet.sglang.host_stack_info) returned for the host.
    type: dict
    required: true
  topology:
    description:
      - What M(gpufleet.sglang.gpu_topology_info) returned for the host. It tells the processes on the GPUs by name, the
        fabric, and what of the GPUs can be divided. Without it the plan goes by O(stack) alone.
    type: dict
    default: {}
  space:
    description: Room on the host's file systems. What is left out is not checked, with a warning.
    type: dict
    default: {}
    suboptions:
      boot_free_bytes:
        description: What is free on the file system of C(/boot).
        type: int
      root_free_bytes:
        description: What is free on the file system of C(/), where packages and modules go.
        type: int
      boot_on_root:
        description: Whether C(/boot) is on the file system of C(/), so that both need their room there.
        type: bool
        default: false
      initramfs_bytes:
        description: Size of the largest initramfs that is there, from which that of a new one is estimated.
        type: int
  containers:
    description:
      - The containers that run on the host. Reloading systemd's units takes the GPUs away from those that got them
        past systemd's knowledge, see RV(plan.daemon_reload). Null where nobody looked.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name or id.
        type: str
        required: true
      runtime:
        description: What runs it, such as V(docker), V(podman) or V(containerd).
        type: str
      cgroup_manager:
        description: V(systemd) or V(cgroupfs), as the runtime tells of itself.
        type: str
      devices:
        description: Devices that it was given by name, such as C(/dev/nvidia0), by options or by CDI.
        type: list
        elements: str
        default: []
      uses_gpus:
        description:
          - Whether it has GPUs. When left out it does where O(containers[].devices) names one or its runtime or
            environment (C(NVIDIA_VISIBLE_DEVICES)) gave it some, which the caller has to look up.
        type: bool
  dev_char_links:
    description:
      - Whether C(/dev/char) has a link to each of NVIDIA's device files, as C(nvidia-ctk system
        create-dev-char-symlinks) makes. With them reloading systemd's units takes no GPU away.
    type: bool
    default: false
  source:
    description:
      - V(vendor) is NVIDIA's network repository, V(mirror) a copy of it at O(repository_url), V(folder) one in a folder
        on the host, V(distribution) the driver that Debian or Ubuntu build themselves.
      - V(none) installs nothing. It states whether the driver that is there will do.
    type: str
    choices: [vendor, mirror, folder, distribution, none]
    default: vendor
  version:
    description:
      - Exact release of the driver, quoted, such as V("580.95.05").
      - When left out it is the newest of O(branch) that O(available) lists, and else the one that is installed where it
        belongs to that branch, and so never an upgrade that nobody asked for.
    type: str
  branch:
    description:
      - Branch of the driver, such as V("580"). That of O(version) when left out, else that of the driver which is
        installed, else V("580"), which is maintained for long and serves everything from Maxwell to Blackwell Ultra, or
        a later one where a GPU needs it or NVIDIA's repository for the distribution begins later (Debian 13, with
        V("590")). With O(source=distribution) on Debian it is the one that Debian has.
    type: str
  available:
    description:
      - Versions of the driver that the configured repositories offer, such as C(apt-cache madison) lists, for a plan
        that names what will be installed, and refuses a O(version) that is not to be had.
      - Where all are of the branch that Debian itself has, and O(source) is another one, they are left aside, as that
        source is not configured yet.
    type: list
    elements: str
    default: []
  package_revision:
    description:
      - What follows the release in the version of packages, such as V(1) in V(580.95.05-1). When left out any revision
        will do, as packages of one release do not all have the same.
    type: str
  headers_available:
    description:
      - Kernels whose headers can be installed, by C(uname -r) or by the name of the package, such as C(apt-cache
        policy) or C(dnf list) tell. What is missing and not among them is refused. Null where nobody looked, with a
        warning.
    type: list
    elements: str
  flavour:
    description:
      - Kernel modules. V(auto) is the open ones where every GPU can, as NVIDIA recommends from release 560 on.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  compute_only:
    description: Leave out what only screens need, where the source has packages for that.
    type: bool
    default: true
  repository_url:
    description:
      - Address of the O(source=mirror), or path of the O(source=folder) on the host.
      - Needed for these two, and refused for others.
    type: str
  repository_suite:
    description: Suite of an apt repository. V(/) is a flat one like NVIDIA's own.
    type: str
    default: /
  repository_components:
    description: Components of an apt repository that is not flat.
    type: list
    elements: str
    default: []
  key:
    description:
      - Address or path on the host of the public key that signs the repository. NVIDIA's own when left out, which
        signs faithful mirrors too.
    type: str
  key_fingerprint:
    description:
      - Full fingerprint of O(key), 40 hexadecimal digits. Blanks do not matter. NVIDIA's own when left out, needed when
        O(key) is another one.
    type: str
  fabric_manager:
    description:
      - Whether the fabric manager is installed, in exactly the driver's release. V(auto) is where NVSwitches need it.
    type: raw
    default: auto
  imex:
    description:
      - Whether the IMEX daemon is installed, which lets the hosts of one NVLink domain share memory. V(auto) is on
        GB200 and GB300.
    type: raw
    default: auto
  imex_nodes:
    description:
      - Addresses of the hosts that form one NVLink domain, in the same order on each, for IMEX.
    type: list
    elements: str
    default: []
  persistence:
    description: Whether the persistence daemon runs, which keeps idle GPUs initialised.
    type: bool
    default: true
  container_toolkit:
    description: Whether NVIDIA's container toolkit is installed, and the GPUs are described for CDI.
    type: bool
    default: false
  container_toolkit_version:
    description: Exact version of the toolkit's packages. When left out it is what the repository offers.
    type: str
  mig:
    description:
      - Layout of GPUs that MIG divides, off when empty.
      - The plan checks the boards and that they are idle, and lists the commands.
    type: list
    elements: dict
    default: []
    suboptions:
      gpus:
        description: Indexes of the GPUs. All when left out.
        type: list
        elements: int
        default: []
      profiles:
        description: Profiles of one GPU in order, such as V(3g.40gb).
        type: list
        elements: str
        required: true
  hold:
    description: Whether the driver's packages are held and pinned, so that no upgrade comes in by itself.
    type: bool
    default: true
  repair:
    description:
      - Whether what an interrupted run left half installed is finished, RV(plan.repair), where these are packages of
        the driver or of the plan. Other packages that are half installed, and all with V(false), are refused.
    type: bool
    default: true
  allow_reboot:
    description: Whether the host may be rebooted once, where that is what it takes.
    type: bool
    default: false
  allow_downgrade:
    description: Whether an older release than the one that is installed may take its place.
    type: bool
    default: false
  assume_signed:
    description:
      - Take it that what DKMS builds will be signed with a key that the host trusts, where the survey cannot tell.
    type: bool
    default: false
  remove_conflicting:
    description:
      - Whether packages of another source than the plan's, which exclude its own, may be removed. They are those in
        RV(plan.absent) with C(foreign), and refused when this is V(false). Packages of another branch or flavour of the
        same source go with the change that was asked for, without this.
    type: bool
    default: false
  refuse:
    description:
      - Whether the task fails where there are refusals. V(false) returns them in RV(refusals) beside the plan, so that
        a preview can show both.
    type: bool
    default: true
notes:
  - A reboot is planned only where nouveau has to make way. Where the driver is loaded and changes, its modules are
    exchanged on an idle host, RV(plan.activation).
  - Packages are asked for by release, whatever their revision, with C(=580.95.05-*) of apt and C(-580.95.05) of dnf.
seealso:
  - module: gpufleet.sglang.host_stack_info
  - module: gpufleet.sglang.gpu_topology_info
  - plugin: gpufleet.sglang.driver_findings
    plugin_type: filter
  - name: NVIDIA driver installation guide
    description: Repositories, names of packages, flavours, version locking.
    link: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Survey the host
  gpufleet.sglang.host_stack_info:
  register: stack

- name: Plan a release from NVIDIA's repository
  gpufleet.sglang.driver_plan:
    stack: "{{ stack }}"
    version: "580.95.05"
    allow_reboot: true
  register: driver

- name: Install what every transaction of the plan names
  ansible.builtin.package:
    name: "{{ item.packages }}"
  loop: "{{ driver.plan.transactions }}"
  loop_control:
    label: "{{ item.name }}"

- name: Show what stands in the way of a mirror, without failing
  gpufleet.sglang.driver_plan:
    stack: "{{ stack }}"
    source: mirror
    repository_url: http://mirror.example.com/cuda/debian12/x86_64/
    branch: "580"
    refuse: false
  register: preview
"""

RETURN = r"""
refused:
  description: Whether there are refusals.
  returned: always
  type: bool
  sample: false
refusals:
  description: What forbids the plan, in the order that it should be dealt with. The task fails for it with O(refuse).
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Fixed name, explained in C(docs/problems.md).
      type: str
      sample: headers_not_there
    message:
      description: What was found, with the values of the case at hand.
      type: str
      sample: The headers of kernel 6.1.0-25-amd64, which runs, are not installed.
    remedy:
      description: What is expected and what to do.
      type: str
      sample: Install linux-headers-6.1.0-25-amd64, or reboot into a kernel whose headers are to be had.
    evidence:
      description: The values behind it, sizes in bytes.
      type: dict
      sample: {kernel: 6.1.0-25-amd64, package: linux-headers-6.1.0-25-amd64}
problems:
  description: What is worth knowing and does not forbid the plan.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Fixed name, explained in C(docs/problems.md).
      type: str
      sample: driver_branch_unknown
    severity:
      description: V(info) or V(warning).
      type: str
      sample: warning
    message:
      description: What was found.
      type: str
      sample: Branch 999 is not one that this collection knows.
    remedy:
      description: What to do.
      type: str
      sample: Check the release; the names of its packages are taken to be those of the newest known branch.
plan:
  description: The plan; null where a refusal leaves nothing to be planned, as GPUs without a common flavour do.
  returned: always
  type: dict
  contains:
    action:
      description:
        - V(install), V(upgrade), V(downgrade), V(change) (another flavour, source or set of packages of the same
          release), V(complete) (an installation that stopped half way, or parts that are missing), V(none).
      type: str
      sample: upgrade
    source:
      description: As asked for.
      type: str
      sample: vendor
    distribution:
      description: V(debian12), V(debian13), V(ubuntu2204), V(ubuntu2404), V(rhel9) or V(rhel10).
      type: str
      sample: debian12
    package_manager:
      description: V(apt) or V(dnf).
      type: str
      sample: apt
    flavour:
      description: V(open) or V(proprietary), and why.
      type: dict
      contains:
        name:
          description: The flavour.
          type: str
          sample: open
        reason:
          description: Why, in a sentence.
          type: str
          sample: 10de:2bb5 works with the open modules only.
    branch:
      description: Branch of the driver.
      type: str
      sample: "580"
    version:
      description: Release of the driver; null where any of the branch will do that the repository has.
      type: str
      sample: 580.95.05
    version_reason:
      description: Why that one, in a sentence.
      type: str
      sample: It was asked for.
    installed:
      description: What is there now, with C(version), C(flavour), C(source) (of packages) and C(fabric_manager).
      type: dict
      sample: {version: 570.172.08, flavour: open, source: vendor, fabric_manager: null}
    repository:
      description:
        - The repository to configure, null for O(source=distribution) and O(source=none).
        - C(deb822) are the fields of C(ansible.builtin.deb822_repository), C(yum) those of
          C(ansible.builtin.yum_repository); the one that does not apply is null. C(content) is the file as a whole.
      type: dict
      sample:
        name: nvidia-cuda
        path: /etc/apt/sources.list.d/nvidia-cuda.sources
        content: |
          Types: deb
          URIs: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
          Suites: /
          Signed-By: /etc/apt/keyrings/nvidia-cuda.asc
        deb822:
          name: nvidia-cuda
          types: [deb]
          uris: [https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/]
          suites: [/]
          components: []
          architectures: [amd64]
          signed_by: /etc/apt/keyrings/nvidia-cuda.asc
        yum: null
        key:
          url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
          path: /etc/apt/keyrings/nvidia-cuda.asc
          fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
        replaces: [/etc/apt/sources.list.d/cuda-debian12-x86_64.list]
    further_repositories:
      description:
        - What else has to be enabled, each with C(name), C(why), C(how), and C(evidence), which holds C(components) of
          apt's own sources, C(packages) that bring the repository, or C(url), C(key) and C(fingerprint).
        - These are Debian's C(contrib) and C(non-free), Ubuntu's C(restricted), EPEL for DKMS, and NVIDIA's
          repository of the container toolkit.
      type: list
      elements: dict
      sample:
        - name: contrib
          why: NVIDIA's packages for Debian depend on packages there.
          how: Add contrib to Components of Debian's sources in /etc/apt.
          evidence: {components: [contrib]}
    transactions:
      description:
        - What to install, in order. Packages of one transaction go into one call of the package manager, so that the
          fabric manager never differs from the driver. V(headers), V(pinning), V(driver), V(containers).
        - C(packages) are as the package manager takes them, C(names) without versions, C(version) the release or null.
        - C(optional) is V(true) for what the plan holds without, as the pinning package where a mirror lacks it.
      type: list
      elements: dict
      sample:
        - name: headers
          packages: [linux-headers-6.1.0-25-amd64]
          names: [linux-headers-6.1.0-25-amd64]
          version: null
          optional: false
          why: DKMS builds the modules for the kernels that run and boot next.
        - name: pinning
          packages: [nvidia-driver-pinning-580.95.05]
          names: [nvidia-driver-pinning-580.95.05]
          version: null
          optional: true
          why: It keeps apt on release 580.95.05, and has to be there before the driver.
        - name: driver
          packages: [nvidia-driver-cuda=580.95.05-*, nvidia-kernel-open-dkms=580.95.05-*]
          names: [nvidia-driver-cuda, nvidia-kernel-open-dkms]
          version: 580.95.05
          optional: false
          why: Open kernel modules and what computing needs.
    absent:
      description:
        - Installed packages that have to go, each with C(name), C(version), C(why) and whether it is C(foreign), of
          another source than the plan's. Those that pin the driver have to go before anything is installed; the package
          manager removes most others itself, as they conflict.
      type: list
      elements: dict
      sample:
        - name: nvidia-kernel-dkms
          version: 535.247.01-1
          why: It is the other flavour of the modules.
          foreign: false
    repair:
      description:
        - What an interrupted run of the package manager left, C(needed), the C(packages), and the C(commands) that
          finish it, to be run before anything else.
      type: dict
      sample:
        needed: true
        packages: [nvidia-kernel-open-dkms]
        commands: [[dpkg, --configure, -a], [apt-get, --fix-broken, --assume-yes, install]]
    module_stream:
      description:
        - Stream of dnf, with C(module), C(stream), C(spec) as C(ansible.builtin.dnf5) and C(dnf) take it and C(reset),
          whether another one has to be reset first where it is enabled. Null elsewhere.
      type: dict
      sample: {module: nvidia-driver, stream: 580-open, spec: "@nvidia-driver:580-open", reset: true}
    holds:
      description:
        - What is held once it is installed. C(manager) is V(apt) (C(apt-mark hold)) or V(dnf) (C(dnf versionlock)).
        - C(packages) are the names, C(locks) the entries of dnf's version lock, C(release) what is held now and has
          to be let go of before the change.
      type: dict
      sample: {manager: apt, packages: [nvidia-driver-cuda, nvidia-kernel-open-dkms], locks: [], release: []}
    preferences:
      description: File of apt's preferences, with C(path) and C(content); null elsewhere and without O(hold).
      type: dict
      sample:
        path: /etc/apt/preferences.d/gpufleet-nvidia-driver
        content: |
          Explanation: Release 580.95.05 of the NVIDIA driver and no other.
          Package: src:*nvidia*:any src:cuda-drivers:any
          Pin: version 580.95.05-*
          Pin-Priority: 1000
    files:
      description:
        - Files to write, each with C(path), C(content), C(mode), C(why) and whether the C(initramfs) has to be made
          anew for it.
      type: list
      elements: dict
      sample:
        - path: /etc/modprobe.d/gpufleet-nvidia.conf
          content: |
            blacklist nouveau
            options nouveau modeset=0
          mode: "0644"
          why: nouveau must not take the GPUs.
          initramfs: true
    initramfs:
      description:
        - How to make it anew, with C(needed), C(tool), C(kernels) and C(commands), one list of arguments a kernel.
      type: dict
      sample:
        needed: true
        tool: update-initramfs
        kernels: [6.1.0-25-amd64]
        commands: [[update-initramfs, -u, -k, 6.1.0-25-amd64]]
    dkms:
      description:
        - Whether modules are built on the host, C(used), for which C(kernels), and the C(commands) that build what is
          missing after the packages are there.
      type: dict
      sample:
        used: true
        kernels: [6.1.0-25-amd64]
        commands: [[dkms, autoinstall, -k, 6.1.0-25-amd64]]
    services:
      description:
        - Services, each with C(name), C(enabled), C(state) (V(started), V(stopped)) and C(why), in the order that they
          are to be started in.
      type: list
      elements: dict
      sample: [{name: nvidia-persistenced, enabled: true, state: started, why: It keeps idle GPUs initialised.}]
    activation:
      description:
        - How the driver comes into force. C(method) is V(none) (it is), V(load) (nothing is loaded), V(reload) (the old
          modules are unloaded first, which needs idle GPUs) or V(reboot).
        - C(stop) are the services to stop before, in order, C(unload) and C(load) the modules, in order.
      type: dict
      sample:
        method: reload
        why: Release 570.172.08 is loaded and nothing uses it.
        stop: [nvidia-persistenced]
        unload: [nvidia_drm, nvidia_modeset, nvidia_uvm, nvidia]
        load: [nvidia, nvidia_uvm]
    reboot:
      description: Whether a reboot is C(needed), C(allowed), and the C(reasons) in sentences.
      type: dict
      sample: {needed: false, allowed: true, reasons: []}
    daemon_reload:
      description:
        - Whether reloading systemd's units has to wait, C(postpone), with C(reason), the C(containers) that would lose
          their GPUs and a C(remedy).
      type: dict
      sample: {postpone: false, reason: null, containers: [], remedy: null}
    fabric:
      description:
        - C(kind) is V(none), V(nvswitch), V(nvlink5) (NVSwitches behind an adapter, so that a subnet manager is needed)
          or V(multi_node). C(fabric_manager), C(subnet_manager) and C(imex) tell what is installed, C(reason) why.
      type: dict
      sample:
        kind: nvlink5
        fabric_manager: true
        subnet_manager: true
        imex: false
        reason: 8 GPUs of 10de:2901 (B200) reach one another over NVSwitches that the PCI bus does not show.
    mig:
      description: Commands that make the layout, each with C(gpu) and C(command), in order; empty when MIG stays off.
      type: list
      elements: dict
      sample: []
    kernels:
      description:
        - The kernels that need modules, each with C(release), C(why) (V(running), V(next) or V(both)), and its
          C(headers_package).
      type: list
      elements: dict
      sample: [{release: 6.1.0-25-amd64, why: both, headers_package: linux-headers-6.1.0-25-amd64}]
    steps:
      description: What will happen, in sentences for a person.
      type: list
      elements: str
      sample: [Configure NVIDIA's repository for Debian 12 and check its key against EB69…63CC.]
    expectations:
      description: What has to hold afterwards; P(gpufleet.sglang.driver_findings#filter) checks it.
      type: dict
      sample:
        version: 580.95.05
        branch: "580"
        flavour: open
        fabric_manager: false
        imex: false
        persistence: true
        kernels: [6.1.0-25-amd64]
        nouveau: false
        packages: [nvidia-driver-cuda, nvidia-kernel-open-dkms]
        held: [nvidia-driver-cuda, nvidia-kernel-open-dkms]
        gpus: 8
    changes:
      description: What would differ from now, each with C(what), C(before) and C(after); empty where nothing would.
      type: list
      elements: dict
      sample: [{what: driver, before: 570.172.08, after: 580.95.05}]
"""
