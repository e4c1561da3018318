#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stack_solution
version_added: 0.1.0
short_description: Find one driver, one line of CUDA and the wheels of SGLang that hold together on a host
description:
  - Knows which wheels each release of SGLang asks for (PyTorch, SGLang's compiled kernels, FlashInfer), for which lines
    of CUDA, interpreters, machines and C libraries they are built and which GPUs they have code for. Also which driver
    each line of CUDA and each board needs.
  - Chooses the newest release of SGLang that holds together with all of it and with what is asked for, its own line of
    CUDA before others, and the driver that is in force before another. Without one it takes the branches that are
    maintained for long first.
  - Where nothing holds together it fails with the smallest set of facts that exclude each other, where each is from,
    and what would be had if one of those that were asked for were let go of.
  - Runs on the controller, needs no connection to any host and changes nothing. The same input gives the same solution.
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
  topology:
    description:
      - What M(gpufleet.sglang.gpu_topology_info) returned for the host, or a machine on paper. Its GPUs constrain the
        choice by compute capability, name and PCI device id.
    type: dict
    default: {}
  stack:
    description:
      - What M(gpufleet.sglang.host_stack_info) returned for the host. It tells the operating system, the machine, the
        driver in force and, where O(topology) has no GPUs, which boards there are.
      - What is left out constrains nothing, and a problem says so.
    type: dict
    default: {}
  request:
    description: What is fixed. Everything that is left out is chosen.
    type: dict
    default: {}
    suboptions:
      sglang_version:
        description: Release of SGLang, quoted, for example V("0.5.23").
        type: str
      cuda:
        description: Line of CUDA that the wheels are built for, for example V("12.9") or V(cu129).
        type: str
      driver:
        description:
          - A branch such as V("580"), a whole release such as V("580.95.05"), or V(in_force) for the driver that is
            loaded or installed.
        type: str
      python:
        description:
          - Interpreter that is there on the node, for example V("3.12"). Left out, those that the operating system
            packages are considered.
        type: str
      forward_compatibility:
        description:
          - Whether NVIDIA's package for forward compatibility, for example C(cuda-compat-13-0), may take the place of a
            newer driver. It works on boards for data centres alone, from branch 535 of the driver on.
        type: bool
        default: false
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Choose for a host as it is
  gpufleet.sglang.stack_solution:
    topology: "{{ topology }}"
    stack: "{{ stack }}"
  register: best

- name: See whether a release runs with the driver that is there
  gpufleet.sglang.stack_solution:
    topology: "{{ topology }}"
    stack: "{{ stack }}"
    request:
      sglang_version: "0.5.23"
      driver: in_force
"""

RETURN = r"""
solution:
  description: One choice of everything.
  returned: success
  type: dict
  contains:
    sglang_version:
      description: Release of SGLang.
      type: str
      sample: 0.5.19
    python:
      description: Interpreter to install it with.
      type: str
      sample: "3.11"
    cuda_line:
      description: Line of CUDA that the wheels are built for.
      type: str
      sample: "12.9"
    wheels:
      description: The wheels that decide.
      type: dict
      contains:
        index_suffix:
          description: Suffix of the indexes to install from; null where PyPI has the wheels.
          type: str
          sample: cu129
        torch:
          description: Version of PyTorch, and the index that has it for this line, null for PyPI.
          type: dict
          sample: {version: 2.13.0, index: "https://download.pytorch.org/whl/cu129"}
        kernels:
          description: Package and version of SGLang's compiled kernels, and their index, null for PyPI.
          type: dict
          sample: {package: sglang-kernel, version: 0.4.6.post1, index: "https://docs.sglang.ai/whl/cu129/"}
        flashinfer:
          description: Package and version of FlashInfer.
          type: dict
          sample: {package: flashinfer_python, version: 0.6.18}
    driver:
      description: The driver.
      type: dict
      contains:
        branch:
          description: Branch to take.
          type: int
          sample: 570
        release:
          description: The exact release where it is in force or asked for; null for any of the branch.
          type: str
          sample: 570.133.20
        minimum:
          description: Oldest release that the wheels and all boards take; null where forward compatibility stands in.
          type: str
          sample: 525.60.13
        in_force:
          description: Release in force; null where there is none.
          type: str
          sample: 570.133.20
        stays:
          description: Whether the driver in force is the one that was chosen.
          type: bool
          sample: true
        forward_compatibility_package:
          description: Package that has to take the place of a newer driver; null where none has to.
          type: str
          sample: null
    with_driver_in_force:
      description: What would be had without another driver, where another is chosen and the one in force serves any.
      type: dict
      sample: {sglang_version: 0.5.19, cuda_line: "12.9"}
    explanation:
      description: Why this was chosen, in sentences.
      type: list
      elements: str
      sample: [SGLang 0.5.19 is the newest release that holds together with all the rest.]
    problems:
      description: What is worth knowing of the choice, each with code, severity, message and remedy.
      type: list
      elements: dict
      sample: []
"""
