# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan would change, for check mode and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.packages import Absent, Transaction
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.pins import Holds
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.services import Service
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.version import Version
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release, version_key


@dataclass(frozen=True)
class Change:
    """None is what is not there."""

    what: str
    before: str | None
    after: str | None


def missing(host: Host, transaction: Transaction | None) -> list[str]:
    """Names of a transaction that are not installed whole, or in another release."""
    if transaction is None:
        return []
    found = []
    for name in transaction.names:
        package = host.package(name)
        if package is None or package.status != "installed":
            found.append(name)
        elif transaction.version is not None and transaction.name == "driver":
            release = driver_release(package.version)
            if release is not None and _is_versioned(transaction, name) and release != transaction.version:
                found.append(name)
    return found


def _is_versioned(transaction: Transaction, name: str) -> bool:
    return name not in transaction.packages


def action_of(host: Host, version: Version, flavour: str, driver: Transaction | None, absent: Sequence[Absent]) -> str:
    """install, upgrade, downgrade, change, complete or none."""
    if driver is None:
        return "none"
    installed = host.installed_release()
    if installed is None:
        return "install"
    if version.release is not None and installed != version.release:
        return "upgrade" if version_key(installed) < version_key(version.release) else "downgrade"
    if version.release is None and installed.partition(".")[0] != str(version.branch):
        return "upgrade" if int(installed.partition(".")[0]) < version.branch else "downgrade"
    if absent or host.installed_flavour() not in (None, flavour):
        return "change"
    return "complete" if missing(host, driver) else "none"


def list_changes(
    host: Host,
    version: Version,
    flavour: str,
    transactions: Sequence[Transaction],
    absent: Sequence[Absent],
    holds: Holds,
    services: Sequence[Service],
) -> tuple[Change, ...]:
    found = []
    installed = host.installed_release()
    wanted = version.release or (installed if _same_branch(installed, version) else f"of branch {version.branch}")
    if transactions and installed != wanted:
        found.append(Change("driver", installed, wanted))
    current = host.installed_flavour()
    if transactions and current != flavour and not (current is None and host.in_container):
        found.append(Change("kernel modules", current, flavour))
    if host.loaded.loaded and version.release is not None and host.loaded.version != version.release:
        found.append(Change("loaded module", host.loaded.version, version.release))
    for transaction in transactions:
        for name in missing(host, transaction):
            package = host.package(name)
            before = None if package is None or package.status != "installed" else package.version
            after = transaction.version if transaction.version and _is_versioned(transaction, name) else "installed"
            found.append(Change(f"package {name}", before, after))
    found += [Change(f"package {one.name}", one.version, None) for one in absent]
    for name in holds.packages:
        package = host.package(name)
        if package is None or not package.held:
            found.append(Change(f"hold of {name}", None, "held"))
    for service in services:
        before = _service_now(host, service.name)
        after = _service(service.state == "started", service.enabled)
        if before not in (None, after):
            found.append(Change(f"service {service.name}", before, after))
    return tuple(found)


def _same_branch(installed: str | None, version: Version) -> bool:
    return installed is not None and installed.partition(".")[0] == str(version.branch)


def _service_now(host: Host, name: str) -> str | None:
    daemon = {"nvidia-fabricmanager": host.fabric_manager, "nvidia-persistenced": host.persistenced}.get(name)
    if daemon is None or daemon.running is None:
        return None
    return _service(daemon.running, bool(daemon.enabled))


def _service(running: bool, enabled: bool) -> str:
    return f"{'running' if running else 'stopped'}, {'enabled' if enabled else 'disabled'}"
