# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which wheels a release of SGLang asks for, for which interpreters, machines and lines of CUDA there are any.

Read from the wheels' METADATA and from the names of all wheels on PyPI (tests/conformance/record_wheels.py, where the
tables are held against what was read). The first line of a row is what PyPI gives. The others come from the index of
PyTorch and, unless PyPI's kernels serve them, from that of SGLang; they are those that SGLang's installation guide of
the time names (docs/get_started/install.md), and that docs.sglang.io/whl/cu128, cu129 and cu130 list. The last release
with a line of CUDA 12 is 0.5.19: the wheels for 12.9 are retired, as PyTorch 2.14 has none (docs.sglang.io/docs,
"Method 1: With pip or uv").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, parse_version

TORCH_INDEX = "https://download.pytorch.org/whl/"
KERNEL_INDEX = "https://docs.sglang.ai/whl/"
X86_64, AARCH64 = "x86_64", "aarch64"


@dataclass(frozen=True)
class Wheels:
    """C(pythons): the first and the last interpreter that all wheels exist for, as minor releases of Python 3.

    C(glibc): the oldest C library, as its minor release. C(torch_on_arm): the first line is there for aarch64 too.
    """

    release: str
    torch: str
    kernel_package: str
    kernel: str
    flashinfer: str
    pythons: tuple[int, int]
    glibc: int
    lines: tuple[str, ...]
    machines: tuple[str, ...] = (X86_64, AARCH64)
    torch_on_arm: bool = False

    @property
    def version(self) -> Version:
        return parse_version(self.release)

    @property
    def default_line(self) -> str:
        return self.lines[0]

    def serves(self, machine: str, line: str) -> bool:
        """PyPI's PyTorch for aarch64 has no CUDA up to 2.9; the index of PyTorch has it for the later lines."""
        if machine not in self.machines or line not in self.lines:
            return False
        return machine == X86_64 or self.torch_on_arm or line != self.default_line


def _shape(
    pythons: tuple[int, int],
    glibc: int,
    lines: tuple[str, ...],
    machines: tuple[str, ...] = (X86_64, AARCH64),
    torch_on_arm: bool = False,
) -> Wheels:
    """What many releases have in common, without their names."""
    return Wheels("", "", "", "", "", pythons, glibc, lines, machines, torch_on_arm)


_TORCH_27 = _shape((9, 13), 28, ("12.6", "12.8"), (X86_64,))
_TORCH_28_X86 = _shape((10, 13), 28, ("12.8", "12.9"), (X86_64,))
_TORCH_28 = _shape((10, 13), 28, ("12.8", "12.9"))
_TORCH_29 = _shape((10, 14), 28, ("12.8", "12.9", "13.0"))
_TORCH_211 = _shape((10, 13), 34, ("13.0", "12.9"), torch_on_arm=True)
_ONLY_13 = _shape((10, 13), 34, ("13.0",), torch_on_arm=True)
_TORCH_214 = _shape((11, 13), 34, ("13.0",), torch_on_arm=True)

# SGLang, PyTorch, kernels, FlashInfer, the rest.
_ROWS: tuple[tuple[str, str, str, str, Wheels], ...] = (
    ("0.4.7", "2.7.1", "0.1.7", "0.2.6.post1", _TORCH_27),
    ("0.4.8", "2.7.1", "0.1.9", "0.2.6.post1", _TORCH_27),
    ("0.4.9", "2.7.1", "0.2.4", "0.2.7.post1", _TORCH_27),
    ("0.4.10", "2.7.1", "0.2.8", "0.2.9rc2", _TORCH_27),
    ("0.5.0rc2", "2.8.0", "0.3.5", "0.2.11.post3", _TORCH_28_X86),
    ("0.5.1", "2.8.0", "0.3.5", "0.2.11.post3", _TORCH_28_X86),
    ("0.5.2", "2.8.0", "0.3.9.post2", "0.3.1", _TORCH_28_X86),
    ("0.5.3", "2.8.0", "0.3.14.post1", "0.4.0rc3", _TORCH_28),
    ("0.5.4", "2.8.0", "0.3.16.post3", "0.4.1", _TORCH_28),
    ("0.5.5", "2.8.0", "0.3.16.post5", "0.5.0", _TORCH_28),
    ("0.5.6", "2.9.1", "0.3.18.post2", "0.5.3", _TORCH_29),
    ("0.5.7", "2.9.1", "0.3.20", "0.5.3", _TORCH_29),
    ("0.5.8", "2.9.1", "0.3.21", "0.6.1", _TORCH_29),
    ("0.5.9", "2.9.1", "0.3.21", "0.6.3", _TORCH_29),
    ("0.5.10", "2.9.1", "0.4.1", "0.6.7.post2", _TORCH_29),
    ("0.5.11", "2.11.0", "0.4.2", "0.6.8.post1", _TORCH_211),
    ("0.5.12", "2.11.0", "0.4.2.post2", "0.6.11.post1", _TORCH_211),
    ("0.5.13", "2.11.0", "0.4.3", "0.6.12", _TORCH_211),
    ("0.5.14", "2.11.0", "0.4.4", "0.6.12", _TORCH_211),
    ("0.5.15", "2.11.0", "0.4.4", "0.6.12", _TORCH_211),
    ("0.5.16", "2.11.0", "0.4.5", "0.6.14", _TORCH_211),
    ("0.5.17", "2.11.0", "0.4.5", "0.6.15.post1", _TORCH_211),
    ("0.5.18", "2.13.0", "0.4.6.post1", "0.6.17", _TORCH_211),
    ("0.5.19", "2.13.0", "0.4.6.post1", "0.6.18", _TORCH_211),
    ("0.5.20", "2.13.0", "0.4.7", "0.6.18", _ONLY_13),
    ("0.5.21", "2.13.0", "0.4.7", "0.6.18", _ONLY_13),
    ("0.5.22", "2.14.1", "0.4.9", "0.7.1", _TORCH_214),
    ("0.5.23", "2.14.1", "0.4.10", "0.7.2", _TORCH_214),
)
# The kernels changed their name on PyPI.
_RENAMED = parse_version("0.5.10")


def _wheels(release: str, torch: str, kernel: str, flashinfer: str, shape: Wheels) -> Wheels:
    package = "sglang-kernel" if parse_version(release) >= _RENAMED else "sgl-kernel"
    return replace(shape, release=release, torch=torch, kernel_package=package, kernel=kernel, flashinfer=flashinfer)


WHEELS: tuple[Wheels, ...] = tuple(_wheels(*row) for row in _ROWS)


def wheels_of(version: Version) -> Wheels:
    """Of a post release, or a build between releases, those of the release that it amends or leads to."""
    for exactly in (version, version.base):
        for wheels in WHEELS:
            if wheels.version == exactly:
                return wheels
    raise Refusal(
        "sglang_wheels_unknown",
        f"sglang_version is {version}, and which wheels that release asks for is not known.",
        f"Expected a release from {WHEELS[0].release} to {WHEELS[-1].release}, or none for the newest that fits.",
        {"sglang_version": str(version)},
    )
