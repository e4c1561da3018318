# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs that PyTorch's and SGLang's compiled kernels are built for, by version and line of CUDA.

PyTorch: TORCH_CUDA_ARCH_LIST in .ci/manywheel/build_cuda.sh of pytorch/pytorch (12.6, 12.8, 12.9), and what
torch.cuda.get_arch_list() prints for 2.7.1+cu128 and 2.11.0+cu130. Kernels: read from the wheels 0.1.7, 0.2.8 and
0.4.10 themselves (tests/conformance/oracle/wheels.json); between them sgl-kernel/CMakeLists.txt, which has compiled for
Blackwell since CUDA 12.8 became its default, for 10.3 with CUDA 13 alone, and no longer for 7.5 from about 0.3.16 on.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import CudaLine
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import AARCH64, Wheels
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import target_named
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key


def _targets(names: str) -> frozenset[Target]:
    return frozenset(target_named(name) for name in names.split())


_TORCH_126 = _targets("sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90")
_TORCH_128_FIRST = _targets("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")
_TORCH_128 = _targets("sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120")
_TORCH_129 = _TORCH_128 | _targets("compute_120")
_TORCH_130 = _targets("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")

# From this version of the kernels on, for machine code of 12.x and of 13.x; and on aarch64 below, which has none
# for GPUs before Hopper.
_OLD = _targets("sm_75 sm_80 sm_89 sm_90 sm_90a")
_BLACKWELL_12 = _targets("sm_100a sm_120a")
_BLACKWELL_13 = _targets("sm_100a sm_103a sm_120a")
_FAMILY_13 = _targets("sm_100f sm_120a")
_BELOW_HOPPER = _targets("sm_80 sm_89")
_HOPPER = _targets("sm_90 sm_90a")
_ON_ARM = {12: _targets("sm_101a"), 13: _targets("sm_110a sm_121a")}


def torch_targets(wheels: Wheels, line: CudaLine) -> frozenset[Target]:
    if line.version == "12.6":
        return _TORCH_126
    if line.version == "12.8":
        return _TORCH_128_FIRST if wheels.torch == "2.7.1" else _TORCH_128
    return _TORCH_129 if line.version == "12.9" else _TORCH_130


def kernel_targets(wheels: Wheels, line: CudaLine, machine: str) -> frozenset[Target]:
    if machine not in wheels.machines:
        return frozenset()
    version = version_key(wheels.kernel)
    if version < version_key("0.3.5"):
        # PyPI's are built with a CUDA that does not know Blackwell; those of the index for 12.8 are.
        return _OLD if line.version == wheels.default_line else _OLD | _BLACKWELL_12
    if version < version_key("0.3.9"):
        # The extra "blackwell" of these releases still asks for other kernels than PyPI's.
        blackwell = frozenset() if line.version == wheels.default_line else _BLACKWELL_12
    elif line.major == 12:
        blackwell = _BLACKWELL_12
    else:
        blackwell = _FAMILY_13 if version >= version_key("0.4.10") else _BLACKWELL_13
    if machine == AARCH64:
        return _HOPPER | blackwell | (_ON_ARM[line.major] if blackwell else frozenset())
    before = _targets("sm_75") if version < version_key("0.3.16") else frozenset()
    return before | _BELOW_HOPPER | _HOPPER | blackwell
