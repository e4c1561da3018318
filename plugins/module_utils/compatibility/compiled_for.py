# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The GPUs that PyTorch's and SGLang's compiled kernels are built for, by version, line of CUDA and machine.

PyTorch: TORCH_CUDA_ARCH_LIST in .ci/manywheel/build_cuda.sh of pytorch/pytorch (2.8 and 2.9: 12.6, 12.8, 12.9), and the
tables of .ci/manywheel/build_env_setup.py that took its place in 2.13 (13.0, both machines); its pull requests 146265
and 147607 (12.8 without 5.0, 6.0 and 7.0 in 2.7), 158700 (7.0 is back in 2.8), 172598 (without it again in 12.8 and
12.9 from 2.11 on) and 188443 (12.9 of 2.13). That the lists of 13.0 hold for 2.9 and 2.11 as well is from the tables of
RELEASE.md in pull requests 164471 and 175253. Those of 12.x for aarch64 changed from release to release: what is here
all that were seen have in common.

Kernels: read from the wheels themselves on PyPI for x86_64 (tests/conformance/oracle/wheels.json); between those that
were read the neighbours agree. Builds for other lines and for aarch64 were not read: sgl-kernel/CMakeLists.txt of
sgl-project/sglang compiles for 10.3 with CUDA 13 alone, on aarch64 for nothing before 9.0 and for 10.1, or 11.0 and
12.1, as well; since pull request 33433 (kernels 0.4.6) it compiles for the family of 10.0 instead of 10.0 and 10.3.
Whether the builds of 0.4.6 for 12.9 do so, too, and would serve 10.3, is not known: they are taken not to.
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
_TORCH_FROM_TURING = _targets("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")
_TORCH_ON_ARM = {
    12: _targets("sm_90 sm_100 sm_120"),
    13: _targets("sm_80 sm_90 sm_100 sm_110 sm_120 compute_120"),
}

# From this version of the kernels on, for machine code of 12.x and of 13.x; and on aarch64 below, which has none
# for GPUs before Hopper.
_OLD = _targets("sm_75 sm_80 sm_89 sm_90 sm_90a")
_BLACKWELL_12 = _targets("sm_100a sm_120a")
_BLACKWELL_13 = _targets("sm_100a sm_103a sm_120a")
_FAMILY_13 = _targets("sm_100f sm_120a")
_BELOW_HOPPER = _targets("sm_80 sm_89")
_HOPPER = _targets("sm_90 sm_90a")
_THOR_12 = _targets("sm_101a")
_ON_ARM = {12: _THOR_12, 13: _targets("sm_110a sm_121a")}


def torch_targets(wheels: Wheels, line: CudaLine, machine: str) -> frozenset[Target]:
    if machine == AARCH64:
        return _TORCH_ON_ARM[line.major]
    version = version_key(wheels.torch)
    if line.major == 13 or version >= version_key("2.11"):
        return _TORCH_FROM_TURING
    if line.version == "12.6":
        return _TORCH_126
    if line.version == "12.8":
        return _TORCH_128_FIRST if version < version_key("2.8") else _TORCH_128
    return _TORCH_129


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
        blackwell = _BLACKWELL_12 | (_THOR_12 if version < version_key("0.3.16.post5") else frozenset())
    else:
        blackwell = _FAMILY_13 if version >= version_key("0.4.6") else _BLACKWELL_13
    if machine == AARCH64:
        return _HOPPER | blackwell | (_ON_ARM[line.major] if blackwell else frozenset())
    before = _targets("sm_75") if version < version_key("0.3.9") else frozenset()
    return before | _BELOW_HOPPER | _HOPPER | blackwell
