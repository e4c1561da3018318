#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: compiled_architectures_info
version_added: 0.1.0
short_description: Tell which GPUs the installed libraries of an environment are compiled for
description:
  - Reads, out of the libraries of a Python environment, for which GPU architectures they have machine code and for
    which PTX, which the driver compiles. Says for each kind of GPU whether every library runs natively, is compiled
    first, or does not run at all, which ends in C(no kernel image is available for execution on the device).
  - Also tells which shared libraries are asked for and are nowhere to be found, those of kernels included that are not
    loaded before a model needs them, and whether there is an nvcc for kernels that are compiled at run time.
  - Reads headers alone, so that gigabytes take well below a second. Imports and loads nothing, and needs no GPU.
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
  path:
    description: Folder of the virtual environment.
    type: path
    required: true
  compute_capabilities:
    description:
      - Compute capabilities of the node's GPUs, for example V(9.0), as M(gpufleet.sglang.gpu_topology_info) returns
        them. One that comes several times counts once. Without any, the code is reported and no GPU is judged.
    type: list
    elements: str
    default: []
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.stack_solution
  - module: gpufleet.sglang.release_check
"""

EXAMPLES = r"""
- name: Hold the environment against the node's GPUs before anything is started
  gpufleet.sglang.compiled_architectures_info:
    path: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e
    compute_capabilities: "{{ topology.gpus | map(attribute='compute_capability') | select | unique }}"
  register: compiled
  failed_when: compiled.problems | selectattr('severity', 'eq', 'error')
"""

RETURN = r"""
packages_path:
  description: Folder of the environment's packages, which paths are relative to.
  returned: success
  type: str
  sample: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e/lib/python3.12/site-packages
libraries:
  description: The libraries that have code for GPUs.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The library.
      type: str
      sample: sgl_kernel/sm90/common_ops.abi3.so
    package:
      description: Folder of its package.
      type: str
      sample: sgl_kernel
    size_bytes:
      description: Size of the file.
      type: int
      sample: 12306992
    targets:
      description: >-
        What it has code for, as nvcc names it: C(sm_) is machine code, C(compute_) PTX. C(a) behind the number is for
        that architecture alone, C(f) for its family.
      type: list
      elements: str
      sample: [sm_80, sm_89, sm_90, sm_90a, sm_100f, sm_120a]
    parts:
      description: Parts that its code consists of, one a source file as a rule.
      type: int
      sample: 35
    gpus:
      description: By compute capability how a GPU runs it (C(way), native, jit or none) and how many parts it can.
      type: dict
      sample: {"9.0": {way: native, parts: 35}}
loose_code:
  description: Packages that ship machine code as files of its own, with the number of files by target.
  returned: success
  type: list
  elements: dict
  sample: [{package: flashinfer_cubin, files: 2142, targets: {sm_100f: 2142}}]
gpus:
  description: The kinds of GPUs that were asked about.
  returned: success
  type: list
  elements: dict
  contains:
    compute_capability:
      description: The kind.
      type: str
      sample: "9.0"
    served:
      description: Whether every library that a server cannot do without has code for it.
      type: bool
      sample: true
    native:
      description: Libraries with machine code for it.
      type: list
      elements: str
      sample: [sgl_kernel/sm90/common_ops.abi3.so]
    jit:
      description: Libraries that the driver has to compile first.
      type: list
      elements: str
      sample: []
    none:
      description: Libraries without any code for it, which is usual for kernels of other generations.
      type: list
      elements: str
      sample: []
    lacking:
      description: Those of them that a server cannot do without.
      type: list
      elements: str
      sample: []
missing_libraries:
  description: Shared libraries that are asked for and not found.
  returned: success
  type: list
  elements: dict
  contains:
    library:
      description: Its name.
      type: str
      sample: libcudart.so.13
    needed_by:
      description: Libraries that ask for it.
      type: list
      elements: str
      sample: [sgl_kernel/sm90/common_ops.abi3.so]
    of_driver:
      description: Whether it is a part of the NVIDIA driver.
      type: bool
      sample: false
compilers:
  description: Where nvcc is.
  returned: success
  type: dict
  contains:
    system:
      description: The one that programs find by themselves, in PATH or C(/usr/local/cuda); null where there is none.
      type: str
      sample: /usr/local/cuda/bin/nvcc
    wheels:
      description: Those in the environment, which are found where C(CUDA_HOME) names their folder.
      type: list
      elements: str
      sample: []
read:
  description: What was read.
  returned: success
  type: dict
  contains:
    libraries:
      description: Number of shared libraries.
      type: int
      sample: 112
    bytes:
      description: Their size.
      type: int
      sample: 4724187136
    unreadable:
      description: Files that are named like libraries and are none.
      type: list
      elements: str
      sample: []
problems:
  description: What is wrong or worth knowing, each with code, severity, message and remedy.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.environment import read_environment
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.loader import missing_libraries
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import architecture_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.verdict import judged
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Where programs that compile at run time look behind CUDA_HOME and PATH.
_USUAL_HOME = "/usr/local/cuda"


def _architectures(capabilities: list[str]) -> list[int]:
    found = set()
    for text in capabilities:
        number = architecture_of(text)
        if number is None:
            raise Refusal(
                "compute_capability_malformed",
                f"compute_capabilities has {text!r}, which is no compute capability.",
                "Expected a form like '9.0' or '10.3', quoted.",
                {"compute_capability": text},
            )
        found.add(number)
    return sorted(found)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "compute_capabilities": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        architectures = _architectures(module.params["compute_capabilities"])
        environment = read_environment(Path(module.params["path"]))
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    compiler = module.get_bin_path("nvcc", opt_dirs=[f"{_USUAL_HOME}/bin"])
    module.exit_json(changed=False, **judged(environment, architectures, missing_libraries(environment), compiler))


if __name__ == "__main__":
    main()
