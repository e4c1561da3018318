# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an environment of SGLang is asked to be, and what the node says that it has. Facts alone."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target, Wheel


@dataclass(frozen=True)
class Asked:
    """C(requirements) is the text of the pins, None where the release alone is named and its needs are resolved."""

    version: str
    device: str
    python: str
    requirements: str | None = None
    installer: str = "auto"
    uv_version: str | None = None
    wheelhouse: str | None = None
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    require_hashes: bool | None = None
    # Packages of the distribution that will be there before the installation.
    system_packages: tuple[str, ...] = ()

    @property
    def hashes_required(self) -> bool:
        """In an air gap the wheels were carried there: what arrives has to be what left."""
        return self.require_hashes if self.require_hashes is not None else self.wheelhouse is not None


@dataclass(frozen=True)
class NodePython:
    """An interpreter that runs. C(makes_environments): it has venv, and ensurepip to put pip into them."""

    version: str
    target: Target
    makes_environments: bool


@dataclass(frozen=True)
class Wheelhouse:
    """C(sums): SHA-256 by file name, out of its SHA256SUMS, None without that file. C(others): files but no wheels."""

    wheels: tuple[Wheel, ...]
    sums: dict[str, str] | None = None
    requirements: str | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where environments lie: what the file system below the nearest folder that is there has and forbids."""

    folder: str
    free_bytes: int
    executable: bool = True
    writable: bool = True
