# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs a piece of device code runs on.

CUDA C++ programming guide, "Binary Compatibility", "PTX Compatibility", "Feature Set Compiler Targets": machine code
runs on its compute capability and later ones of the same major number; code for an architecture (sm_90a) on that alone;
code for a family (sm_100f) on later ones of the family; PTX is compiled by the driver for any later GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import CUBIN, Target

NATIVE, JIT = "native", "jit"


def architecture_of(compute_capability: str | None) -> int | None:
    """C(9.0) -> 90, C(10.3) -> 103; None for what is no compute capability."""
    major, dot, minor = (compute_capability or "").strip().partition(".")
    if not dot or not (major.isdecimal() and minor.isdecimal()) or len(minor) != 1:
        return None
    return int(major) * 10 + int(minor)


def capability_text(architecture: int) -> str:
    """90 -> C(9.0)."""
    return f"{architecture // 10}.{architecture % 10}"


def way_to_run(target: Target, architecture: int) -> str | None:
    """native, jit (the driver compiles it first) or None, on a GPU of this architecture."""
    same_generation = target.architecture // 10 == architecture // 10
    if target.variant == "a":
        fits = target.architecture == architecture
    elif target.variant == "f" or target.kind == CUBIN:
        fits = same_generation and target.architecture <= architecture
    else:
        fits = target.architecture <= architecture
    if not fits:
        return None
    return NATIVE if target.kind == CUBIN else JIT


def best_way(targets: Iterable[Target], architecture: int) -> str | None:
    """How the GPU can run the code that is there for some of these targets."""
    ways = {way_to_run(target, architecture) for target in targets}
    return NATIVE if NATIVE in ways else JIT if JIT in ways else None


def target_named(name: str) -> Target:
    """C(sm_90a), C(compute_120) as a target."""
    kind, _line, rest = name.partition("_")
    variant = rest[-1] if rest[-1] in "af" else ""
    return Target(int(rest[: len(rest) - len(variant)]), variant, CUBIN if kind == "sm" else "ptx")
