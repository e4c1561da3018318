#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_plan
version_added: 0.1.0
short_description: Plan a third tier of the KV cache, and hold it against a node
description:
  - Computes from what is asked for and from the memory plan of the server which arguments, environment and file its
    storage backend takes in this release, what each of its processes may keep, and what the backend needs of the node.
  - Refuses what the release does not have, what it would mix up or silently change, and, with O(node), what the node
    lacks, all reasons at once.
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
  storage:
    description: What is asked for, as C(sglang_hicache_storage) of the role C(gpufleet.sglang.sglang) takes it.
    type: dict
    required: true
  plan:
    description: The memory plan of the server, as M(gpufleet.sglang.memory_plan) returns it.
    type: dict
    required: true
  instance:
    description: Name of the instance.
    type: str
    default: main
  config_root:
    description: Folder of the configuration files.
    type: path
    default: /etc/sglang
  environment:
    description: Names of the variables that the instance's environment sets by itself.
    type: list
    elements: str
    default: []
  extra_arguments:
    description: Names of the flags that are passed through to the server.
    type: list
    elements: str
    default: []
  node:
    description: What M(gpufleet.sglang.storage_info) returned for the node. It is not held against a node without.
    type: dict
  requirements:
    description: Pins of the packages that are going to be installed, where there are any.
    type: str
  system_packages:
    description: Packages of the distribution that are installed anyway; null where the caller installs RV(packages).
    type: list
    elements: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.storage_info
  - module: gpufleet.sglang.memory_plan
"""

EXAMPLES = r"""
- name: Plan files below the host pools
  gpufleet.sglang.storage_plan:
    storage:
      backend: file
      path: /srv/kv-cache
      max_bytes: 200000000000
    plan: "{{ memory.plan }}"
  register: storage
"""

RETURN = r"""
tier:
  description: The tier.
  returned: success
  type: dict
  contains:
    backend:
      description: Its backend.
      type: str
      sample: file
    arguments:
      description: Flags of the server, without dashes.
      type: dict
      sample: {hicache-storage-backend: file}
    environment:
      description: Variables of the server.
      type: dict
      sample: {SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR: /srv/kv-cache}
    file:
      description: Path and content of the file that the backend reads, null where it reads none.
      type: dict
      sample: null
    folders:
      description: Folders that it writes to.
      type: list
      elements: str
      sample: [/srv/kv-cache]
    writable:
      description: Paths that the unit of the server has to leave writable.
      type: list
      elements: str
      sample: [/srv/kv-cache]
    mounts:
      description: Paths where something has to be mounted.
      type: list
      elements: str
      sample: []
    modules:
      description: Modules that the release has to hold.
      type: list
      elements: str
      sample: []
    addresses:
      description: Addresses that have to answer.
      type: list
      elements: str
      sample: []
    compiles:
      description: Whether the server compiles what names its pages, with ninja, a compiler and OpenSSL's headers.
      type: bool
      sample: true
    host_bytes:
      description: What it takes of the host memory beside the host pools, in bytes.
      type: int
      sample: 0
    writers:
      description: Number of processes that write pages.
      type: int
      sample: 8
    prune:
      description: Folder, cap and floor that the role keeps to beside the server; null where the backend does.
      type: dict
      sample: {folder: /srv/kv-cache, max_bytes: 200000000000, min_free_bytes: 10737418240}
packages:
  description: Packages of the distribution that bring what the node lacks of a compiler.
  returned: success
  type: list
  elements: str
  sample: [libssl-dev]
refusals:
  description: What the node lacks.
  returned: success or failure
  type: list
  elements: dict
  sample: []
problems:
  description: What is allowed but should be known, each with C(code), C(severity), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
  sample: []
failure:
  description: Why there is no plan, or the first of RV(refusals).
  returned: failure
  type: dict
  sample:
    code: storage_no_room
    message: /srv (ext4) has 90.00 GB for /srv/kv-cache; needed are 200.00 GB for pages and 10.74 GB that stay free.
    remedy: Set sglang_hicache_storage.max_bytes to 79262581760 (79.26 GB) or less, or min_free_bytes lower.
    evidence: {largest_max_bytes: 79262581760}
"""
