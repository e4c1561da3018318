# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A driver plan: what is decided, before and after it is turned into steps and expectations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.changes import Change
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.containers import DaemonReload
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.files import Dkms, File, Initramfs
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.flavour import Flavour
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.headers import PlannedKernel
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.mig import MigCommand
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.package_state import Repair
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.packages import Absent, Transaction
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.pins import Holds, ModuleStream, Preferences
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.repositories import FurtherRepository, Repository
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.services import Service
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.usage import Activation, Reboot
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain


@dataclass(frozen=True)
class Installed:
    version: str | None
    flavour: str | None
    source: str | None
    fabric_manager: str | None


@dataclass(frozen=True)
class Expectations:
    """C(version) is None where any release of C(branch) will do."""

    version: str | None
    branch: str
    flavour: str
    fabric_manager: bool
    imex: bool
    persistence: bool
    kernels: tuple[str, ...]
    nouveau: bool
    packages: tuple[str, ...]
    held: tuple[str, ...]
    gpus: int


@dataclass(frozen=True)
class Plan:
    """As documented in plugins/modules/driver_plan.py."""

    action: str
    source: str
    distribution: str
    package_manager: str
    flavour: Flavour
    branch: str
    version: str | None
    version_reason: str
    installed: Installed
    repository: Repository | None
    further_repositories: tuple[FurtherRepository, ...]
    repair: Repair
    transactions: tuple[Transaction, ...]
    absent: tuple[Absent, ...]
    module_stream: ModuleStream | None
    holds: Holds
    preferences: Preferences | None
    files: tuple[File, ...]
    initramfs: Initramfs
    dkms: Dkms
    services: tuple[Service, ...]
    activation: Activation
    reboot: Reboot
    daemon_reload: DaemonReload
    fabric: Fabric
    mig: tuple[MigCommand, ...]
    kernels: tuple[PlannedKernel, ...]
    expectations: Expectations
    changes: tuple[Change, ...]
    steps: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = plain(self)
        # Files are data and keep their line ends, which texts for people do not.
        for name in ("repository", "preferences"):
            part = getattr(self, name)
            if part is not None:
                result[name]["content"] = part.content
        for file, entry in zip(self.files, result["files"]):
            entry["content"] = file.content
        return result
