#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_plan
version_added: 0.1.0
short_description: Plan the CUDA toolkits of a host, and hold its driver against SGLang's wheels
description:
  - Computes, from a survey of the host and from what is asked for, which packages are to be there and which are to go,
    from which repository, and whether the driver in force serves the wheels of SGLang.
  - Refuses metapackages that bring a driver, packages for forward compatibility where they do not work or are needless,
    and, with the smallest conflict, a driver that does not serve what is asked for.
  - Runs on the controller, needs no connection to any host and changes nothing. The same input gives the same plan.
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
    description: What M(gpufleet.sglang.gpu_topology_info) returned for the host.
    type: dict
    default: {}
  toolkits:
    description: Releases of the toolkit to have side by side, such as V("13.0").
    type: list
    elements: str
    default: []
  absent:
    description: Releases of the toolkit whose packages are to go.
    type: list
    elements: str
    default: []
  default_toolkit:
    description: Release that C(/usr/local/cuda) leads to. Left as it is when not given.
    type: str
  forward_compatibility:
    description: Release whose package for forward compatibility takes the place of a newer driver.
    type: str
  sglang_version:
    description: Release of SGLang that the driver in force has to serve. The newest that it serves when not given.
    type: str
  source:
    description: Where packages come from, as the role C(gpufleet.sglang.nvidia_driver) has it. V(none) configures none.
    type: str
    choices: [vendor, mirror, folder, none]
    default: vendor
  repository_url:
    description: Address of the mirror, or path of the folder on the host.
    type: str
  repository_suite:
    description: Suite of the repository. V(/) is a flat one.
    type: str
    default: /
  repository_components:
    description: Components of a repository that is not flat.
    type: list
    elements: str
    default: []
  key:
    description: Address, or path on the host, of the key that signs the repository. NVIDIA's own when not given.
    type: str
  key_fingerprint:
    description: Fingerprint of the key. NVIDIA's own when not given.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.stack_solution
"""

EXAMPLES = r"""
- name: Plan two toolkits side by side
  gpufleet.sglang.cuda_plan:
    stack: "{{ stack }}"
    topology: "{{ topology }}"
    toolkits: ["12.9", "13.0"]
    default_toolkit: "13.0"
  register: cuda
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
  contains:
    repository:
      description: Repository to configure, with its key; null where none is.
      type: dict
      sample: null
    packages:
      description: Packages to have.
      type: list
      elements: str
      sample: [cuda-toolkit-13-0]
    absent:
      description: Packages to remove, of those that are installed.
      type: list
      elements: str
      sample: []
    toolkits:
      description: Each toolkit with its folder and its compiler.
      type: list
      elements: dict
      sample: [{version: "13.0", folder: /usr/local/cuda-13.0, compiler: /usr/local/cuda-13.0/bin/nvcc}]
    default_folder:
      description: Where C(/usr/local/cuda) is to lead to; null where it is left as it is.
      type: str
      sample: /usr/local/cuda-13.0
    package_manager:
      description: Package manager of the host.
      type: str
      sample: apt
    solution:
      description: As RV(gpufleet.sglang.stack_solution#module:solution), for the driver in force; null without GPUs.
      type: dict
      sample: null
    steps:
      description: What will be done, in sentences.
      type: list
      elements: str
      sample: ["Have CUDA 13.0 in /usr/local/cuda-13.0, without a driver."]
"""
