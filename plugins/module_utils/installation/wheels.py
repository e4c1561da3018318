# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of wheels, and which of them a Python of a node takes. Pure.

File names: https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
Tags of Linux: https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import normalised

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)\Z")
_LEGACY = re.compile(r"manylinux(1|2010|2014)_(\w+)\Z")
# PEP 513, 571 and 599: the glibc that each stands for.
_LEGACY_GLIBC = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
_CPYTHON = re.compile(r"cp(\d)(\d+)\Z")


@dataclass(frozen=True)
class Target:
    """The Python that wheels are for. C(glibc) is None where the node has another libc."""

    python: tuple[int, int]
    machine: str
    glibc: tuple[int, int] | None
    implementation: str = "cpython"

    @property
    def tag(self) -> str:
        return f"cp{self.python[0]}{self.python[1]}"

    @property
    def platform(self) -> str:
        if self.glibc is None:
            return f"linux_{self.machine}"
        return f"manylinux_{self.glibc[0]}_{self.glibc[1]}_{self.machine}"

    def words(self) -> str:
        libc = f"glibc {self.glibc[0]}.{self.glibc[1]}" if self.glibc else "another libc than glibc"
        return f"Python {self.python[0]}.{self.python[1]} on {self.machine} with {libc}"


@dataclass(frozen=True)
class Wheel:
    """A wheel by its file name. C(version) with the label of its build, such as C(2.13.0+cpu)."""

    file: str
    name: str
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]


def parse_wheel(file: str) -> Wheel | None:
    """None for what is no wheel in name."""
    if not file.endswith(".whl"):
        return None
    parts = file[: -len(".whl")].split("-")
    if len(parts) not in (5, 6) or not all(parts):
        return None
    pythons, abis, platforms = (tuple(part.split(".")) for part in parts[-3:])
    return Wheel(file, normalised(parts[0]), parts[1].replace("_", "-"), pythons, abis, platforms)


def _platform_fits(platform: str, target: Target) -> bool:
    if platform in ("any", f"linux_{target.machine}"):
        return True
    if target.glibc is None:
        return False
    if match := _MANYLINUX.match(platform):
        return match[3] == target.machine and (int(match[1]), int(match[2])) <= target.glibc
    if match := _LEGACY.match(platform):
        return match[2] == target.machine and _LEGACY_GLIBC[match[1]] <= target.glibc
    return False


def _python_fits(python: str, abi: str, target: Target) -> bool:
    if abi == "none" and python in ("py3", f"py{target.python[0]}{target.python[1]}"):
        return True
    if python.startswith("py3") and abi == "none" and python[3:].isdigit():
        return int(python[3:]) <= target.python[1]
    match = _CPYTHON.match(python)
    if match is None:
        return False
    made_for = (int(match[1]), int(match[2]))
    if abi == "abi3":
        return made_for[0] == 3 and made_for <= target.python
    return made_for == target.python and abi in ("none", target.tag)


def fits(wheel: Wheel, target: Target) -> bool:
    return any(_platform_fits(one, target) for one in wheel.platforms) and any(
        _python_fits(python, abi, target) for python in wheel.pythons for abi in wheel.abis
    )


def why_not(wheel: Wheel, target: Target) -> str:
    """What keeps the target from taking a wheel, in words."""
    if not any(_platform_fits(one, target) for one in wheel.platforms):
        return f"is for {' or '.join(wheel.platforms)}"
    return f"is for Python {' or '.join(wheel.pythons)} (ABI {' or '.join(wheel.abis)})"


def same_version(pinned: str, version: str) -> bool:
    """Whether pip takes a wheel of C(version) for the pin. A pin without a label takes any build; PEP 440."""
    pin, found = pinned.lower().replace("_", "-"), version.lower().replace("_", "-")
    if "+" not in pin:
        found = found.split("+", 1)[0]
    return _release(pin) == _release(found)


def _release(version: str) -> tuple[str, str]:
    """Trailing zeros do not count, and the other spellings of PEP 440 are not used by what is pinned here."""
    public, _label, label = version.removeprefix("v").partition("+")
    match = re.match(r"(\d+(?:\.\d+)*)(.*)\Z", public)
    if match is None:
        return public, label
    digits = [str(int(part)) for part in match[1].split(".")]
    while len(digits) > 1 and digits[-1] == "0":
        digits.pop()
    return ".".join(digits) + match[2].replace("-", ".").lstrip(), label


def candidates(wheels: Iterable[Wheel], name: str, version: str | None) -> list[Wheel]:
    return [one for one in wheels if one.name == name and (version is None or same_version(version, one.version))]
