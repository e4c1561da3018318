# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether upgrades come in by themselves, and whether the driver is among them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.apt_conf import read_apt_conf
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    OperatingSystem,
    Package,
    Pin,
    UnattendedUpgrades,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, assignments
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import DRIVER_KINDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.units import is_enabled, is_masked
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import version_key

_APT_TIMER, _APT_SERVICE = "apt-daily-upgrade.timer", "apt-daily-upgrade.service"
# Timers that install whatever automatic.conf says, and those that do as it says.
_INSTALLING_TIMERS = ("dnf-automatic-install.timer",)
_OBEYING_TIMERS = ("dnf-automatic.timer", "dnf5-automatic.timer")
_LIST_LIMIT = 64 << 20
# What is installed has 100, repositories 500, the release that is asked for 990.
_PIN_PRIORITY = 501
_PATTERN_LIMIT = 200
_REPEATS_LIMIT = 3
_REPEATS = re.compile(r"[*+{]")
# Words of unattended-upgrades' patterns; both of a pair mean the same.
_MATCHERS = {
    "o": "origin",
    "l": "label",
    "a": "suite",
    "archive": "suite",
    "n": "codename",
    "c": "component",
    **{word: word for word in ("origin", "label", "suite", "codename", "component", "site")},
}


@dataclass(frozen=True)
class Repository:
    """What the Release file of a repository says, and the host it is from."""

    origin: str | None = None
    label: str | None = None
    suite: str | None = None
    codename: str | None = None
    site: str | None = None


def matches(pattern: str, repository: Repository, os: OperatingSystem) -> bool | None:
    """Whether a pattern of Origins-Pattern allows upgrades from a repository; None where that is not known."""
    names = {"distro_codename": os.codename or "", "distro_id": (os.id or "").capitalize()}
    text = re.sub(r"\$\{(\w+)\}", lambda match: names.get(match.group(1), match.group()), pattern.strip())
    if not text:
        return False
    answers: list[bool | None] = []
    for part in text.replace("\\,", "%2C").split(","):
        word, equals, wanted = part.partition("=")
        field = _MATCHERS.get(word.strip())
        if not equals or field is None or "${" in wanted:
            return None
        told = getattr(repository, field, None)
        answers.append(None if told is None else fnmatch.fnmatchcase(told, wanted.strip().replace("%2C", ",")))
    if False in answers:
        return False
    return None if None in answers else True


def origin_patterns(conf: Mapping[str, Sequence[str]]) -> list[str]:
    """Origins-Pattern and the older Allowed-Origins (C(origin:suite)), as patterns."""
    old = []
    for entry in conf.get("unattended-upgrade::allowed-origins", ()):
        origin, _colon, suite = entry.partition(":")
        old.append(f"origin={origin.strip()},suite={suite.strip()}")
    return [*conf.get("unattended-upgrade::origins-pattern", ()), *old]


def listed(patterns: Sequence[str], name: str) -> bool:
    """Whether one of Python's regular expressions matches the start of the name, as unattended-upgrades does it."""
    for pattern in patterns:
        if len(pattern) > _PATTERN_LIMIT or len(_REPEATS.findall(pattern)) > _REPEATS_LIMIT:
            continue  # no name of a package needs it, and it might be tried for ever
        try:
            if re.match(pattern, name):
                return True
        except (re.error, RecursionError, OverflowError):
            continue
    return False


def pinned(package: Package, pins: Sequence[Pin]) -> bool:
    """Whether a preference of apt keeps the package at exactly the release that is installed."""
    for pin in pins:
        words = (pin.pin or "").split()
        exact = words[:1] == ["version"] and len(words) == 2 and package.driver_release is not None
        if not exact or (pin.priority or 0) < _PIN_PRIORITY:
            continue
        if words[1].startswith(str(package.driver_release)) and fnmatch.fnmatchcase(package.version, words[1]):
            for name in pin.packages.split():
                # C(src:nvidia*:any): by the name of the source, of any architecture.
                pattern = re.sub(r":[^:]*$", "", name[4:]) if name.startswith("src:") else name.partition(":")[0]
                named = package.source or package.name if name.startswith("src:") else package.name
                if fnmatch.fnmatchcase(named, pattern):
                    return True
    return False


def exposed(packages: Sequence[Package], pins: Sequence[Pin], blacklist: Sequence[str]) -> list[str]:
    """Driver packages that nothing keeps from being upgraded."""
    return [
        package.name
        for package in packages
        if package.kind in DRIVER_KINDS
        and not package.held
        and not listed(blacklist, package.name)
        and not pinned(package, pins)
    ]


def apt_covers(
    packages: Sequence[Package],
    pins: Sequence[Pin],
    conf: Mapping[str, Sequence[str]],
    repositories: Sequence[Repository],
    os: OperatingSystem,
) -> tuple[bool | None, str]:
    """Whether the driver can be upgraded, and why so."""
    drivers = [package for package in packages if package.kind in DRIVER_KINDS]
    if not drivers:
        return None, "No package of the driver is installed yet."
    free = exposed(drivers, pins, conf.get("unattended-upgrade::package-blacklist", ()))
    if not free:
        return False, "All packages of the driver are held, pinned or on the black list."
    if conf.get("unattended-upgrade::package-whitelist-strict", ["false"])[-1].lower() in ("true", "1", "yes"):
        free = [name for name in free if listed(conf.get("unattended-upgrade::package-whitelist", ()), name)]
        if not free:
            return False, "Only packages on the white list are upgraded, and the driver is not on it."
    patterns = origin_patterns(conf)
    answers = [matches(pattern, repository, os) for pattern in patterns for repository in repositories]
    named = ", ".join(free[:3]) + (", …" if len(free) > 3 else "")
    if True in answers:
        return True, f"Upgrades are allowed from a repository that has the driver, and these are not held: {named}."
    if None in answers or not repositories:
        return None, f"It is not known which repository these packages are from: {named}."
    return False, "No repository that upgrades are allowed from has the driver."


def parse_release(text: str, site: str | None) -> Repository:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith(" "):
            fields.setdefault(name, value.strip())
    return Repository(fields.get("Origin"), fields.get("Label"), fields.get("Suite"), fields.get("Codename"), site)


def _driver_repositories(tree: Tree, packages: Sequence[Package]) -> list[Repository]:
    """Repositories that have a driver package in the installed version or a newer one.

    Compressed lists are not read; a repository of which only those are there is not known.
    """
    base = "var/lib/apt/lists"
    wanted = {package.name: package.version for package in packages if package.kind in DRIVER_KINDS}
    found = []
    names = tree.names(base)
    for name in names:
        if not name.endswith("_Packages"):
            continue
        text = tree.text(f"{base}/{name}", _LIST_LIMIT) or ""
        if not any(offers(text, package, version) for package, version in wanted.items()):
            continue
        release = _release_file(names, name)
        if release is not None:
            found.append(parse_release(tree.text(f"{base}/{release}", 4096) or "", name.split("_")[0]))
    return found


def offers(text: str, package: str, installed: str) -> bool:
    """Whether a list of packages has this one in the installed version or a newer one."""
    head = f"Package: {package}\n"
    at = text.find(head)
    while at >= 0:
        end = text.find("\n\n", at)
        stanza = text[at : end if end >= 0 else len(text)]
        version = re.search(r"^Version: (\S+)", stanza, re.MULTILINE)
        whole_name = at == 0 or text[at - 1] == "\n"
        if whole_name and version and version_key(version.group(1)) >= version_key(installed):
            return True
        at = text.find(head, at + 1)
    return False


def _release_file(names: Sequence[str], packages_file: str) -> str | None:
    """C(host_debian_dists_bookworm_main_binary-amd64_Packages) belongs to C(host_debian_dists_bookworm_InRelease)."""
    best: str | None = None
    for name in names:
        stem, _line, kind = name.rpartition("_")
        fits = kind in ("InRelease", "Release") and packages_file.startswith(f"{stem}_")
        if fits and (best is None or len(name) > len(best)):
            best = name
    return best


def read_unattended(
    tree: Tree, os: OperatingSystem, packages: Sequence[Package], pins: Sequence[Pin]
) -> UnattendedUpgrades:
    if os.family == "debian" or os.package_manager == "apt":
        return _read_apt(tree, os, packages, pins)
    if os.family == "rhel" or os.package_manager == "dnf":
        return _read_dnf(tree, packages)
    return UnattendedUpgrades()


def _read_apt(tree: Tree, os: OperatingSystem, packages: Sequence[Package], pins: Sequence[Pin]) -> UnattendedUpgrades:
    tool = "unattended-upgrades"
    if not tree.is_file("usr/bin/unattended-upgrade"):
        return UnattendedUpgrades(tool, False, False, False, "unattended-upgrades is not installed.")
    conf = read_apt_conf(tree)

    def days(name: str, default: str) -> str:
        return conf.get(f"apt::periodic::{name}", [default])[-1]

    # Without the timer's unit, thus without systemd, cron runs the same script.
    started = is_enabled(tree, _APT_TIMER) is not False and not is_masked(tree, _APT_SERVICE)
    enabled = started and days("enable", "1") != "0" and days("unattended-upgrade", "0") not in ("0", "", "false", "no")
    if not enabled:
        return UnattendedUpgrades(tool, True, False, False, "It is switched off.")
    covers, reason = apt_covers(packages, pins, conf, _driver_repositories(tree, packages), os)
    return UnattendedUpgrades(tool, True, True, covers, reason)


def _read_dnf(tree: Tree, packages: Sequence[Package]) -> UnattendedUpgrades:
    tool = "dnf-automatic"
    conf = tree.text("etc/dnf/automatic.conf")
    timers = [name for name in (*_INSTALLING_TIMERS, *_OBEYING_TIMERS) if is_enabled(tree, name)]
    binary = tree.is_file("usr/bin/dnf-automatic") or tree.is_file("usr/lib/systemd/system/dnf5-automatic.timer")
    if conf is None and not timers and not binary:
        return UnattendedUpgrades(tool, False, False, False, "dnf-automatic is not installed.")
    settings = assignments(conf)
    applies = settings.get("apply_updates", "no").lower() in ("yes", "true", "1", "on")
    enabled = any(name in _INSTALLING_TIMERS for name in timers) or (bool(timers) and applies)
    if not enabled:
        return UnattendedUpgrades(tool, True, False, False, "No timer of it that installs upgrades is enabled.")
    drivers = [package for package in packages if package.kind in DRIVER_KINDS]
    if not drivers:
        return UnattendedUpgrades(tool, True, True, None, "No package of the driver is installed yet.")
    free = exposed(drivers, (), ())
    if not free:
        return UnattendedUpgrades(tool, True, True, False, "All packages of the driver are locked or excluded.")
    named = ", ".join(free[:3]) + (", …" if len(free) > 3 else "")
    if settings.get("upgrade_type", "default") == "security":
        reason = f"Only upgrades that fix security are installed, which an upgrade of these may be: {named}."
        return UnattendedUpgrades(tool, True, True, None, reason)
    return UnattendedUpgrades(tool, True, True, True, f"These are neither locked nor excluded: {named}.")
