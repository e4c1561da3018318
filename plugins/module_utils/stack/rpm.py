# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RHEL's packages. The database has no format of its own that could be read here, so rpm itself is asked."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Package, Pin
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree, assignments, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.packages import kind_of, release_of

DATABASES = (
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "var/lib/rpm/rpmdb.sqlite",
    "var/lib/rpm/Packages",
    "var/lib/rpm/Packages.db",
)
# Runs a command: its status, its output, its errors.
Run = Callable[[list[str]], tuple[int, str, str]]
_FORMAT = r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}\t%{RELEASE}\t%{ARCH}\n"
_LOCK_LISTS = ("etc/dnf/plugins/versionlock.list", "etc/yum/pluginconf.d/versionlock.list")
_LOCK_TOML = "etc/dnf/versionlock.toml"


def parse_query(text: str) -> tuple[Package, ...]:
    """The output of rpm in _FORMAT. A version is written as C(epoch:version-release), without an epoch of 0."""
    found = []
    for line in text.splitlines():
        words = line.split("\t")
        kind = kind_of(words[0])
        if len(words) != 5 or kind is None:
            continue
        name, epoch, version, release, architecture = words
        full = f"{version}-{release}" if epoch in ("0", "(none)") else f"{epoch}:{version}-{release}"
        found.append(Package(name, full, architecture, kind=kind, driver_release=release_of(name, full)))
    return tuple(sorted(found, key=lambda package: (package.name, package.version)))


def parse_lock_list(text: str, path: str) -> tuple[Pin, ...]:
    """DNF 4's versionlock.list: C(name-epoch:version-release.arch), with wildcards; C(!) excludes."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(
        Pin(line.lstrip("!"), "exclude" if line.startswith("!") else "lock", None, path)
        for line in lines
        if line and not line.startswith("#")
    )


def parse_lock_toml(text: str, path: str) -> tuple[Pin, ...]:
    """DNF 5's versionlock.toml: a name and conditions on it."""
    pins = []
    for block in re.split(r"^\[\[packages\]\]", text, flags=re.MULTILINE)[1:]:
        name = re.search(r'^name\s*=\s*"([^"]*)"', block, re.MULTILINE)
        conditions = re.findall(r'^\s*(key|comparator|value)\s*=\s*"([^"]*)"', block, re.MULTILINE)
        if name:
            pins.append(Pin(name.group(1), " ".join(value for _key, value in conditions) or None, None, path))
    return tuple(pins)


def parse_excludes(text: str, path: str) -> tuple[Pin, ...]:
    """C(exclude) or C(excludepkgs) of dnf.conf; names and wildcards between blanks or commas."""
    settings = assignments(text)
    names = " ".join(settings.get(key, "") for key in ("exclude", "excludepkgs"))
    return tuple(Pin(name, "exclude", None, path) for name in re.split(r"[\s,]+", names) if name)


def holds(pin: Pin, package: Package) -> bool:
    """Whether the pin keeps an upgrade of the package away."""
    epoch, colon, rest = package.version.partition(":")
    full = f"{epoch}:{rest}" if colon else f"0:{package.version}"
    plain = full.partition(":")[2]
    forms = (
        package.name,
        f"{package.name}.{package.architecture}",
        f"{package.name}-{full}",
        f"{package.name}-{full}.{package.architecture}",
        f"{package.name}-{plain}",
        f"{package.name}-{plain}.{package.architecture}",
    )
    return any(fnmatch.fnmatchcase(form, pin.packages) for form in forms)


def with_holds(packages: Sequence[Package], pins: Sequence[Pin]) -> tuple[Package, ...]:
    return tuple(replace(package, held=any(holds(pin, package) for pin in pins)) for package in packages)


def _database(tree: Tree) -> str | None:
    return next((path for path in DATABASES if tree.is_file(path)), None)


def has_database(tree: Tree) -> bool:
    return _database(tree) is not None


def read_rpm(tree: Tree, run: Run | None) -> tuple[Package, ...] | None:
    """None where rpm is not installed here, may not be run or fails."""
    rpm, database = shutil.which("rpm"), _database(tree)
    if run is None or rpm is None or database is None:
        return None
    # The place is named, as rpm of another distribution looks elsewhere, finds nothing and calls that an answer.
    place = f"/{database.rpartition('/')[0]}"
    try:
        status, output, _errors = run(
            [rpm, "--root", os.path.realpath(tree.root), "--dbpath", place, "-qa", "--qf", _FORMAT]
        )
    except OSError:
        return None
    return parse_query(output) if status == 0 else None


def read_locks(tree: Tree) -> tuple[Pin, ...]:
    found: list[Pin] = []
    for path in _LOCK_LISTS:
        found += parse_lock_list(tree.text(path) or "", shown(path) or path)
    found += parse_lock_toml(tree.text(_LOCK_TOML) or "", shown(_LOCK_TOML) or _LOCK_TOML)
    found += parse_excludes(tree.text("etc/dnf/dnf.conf") or "", "/etc/dnf/dnf.conf")
    return tuple(pin for pin in found if concerns_us(pin.packages))


def concerns_us(pattern: str) -> bool:
    """Whether a pattern of names can mean packages that matter here."""
    return pattern.strip("*") == "" or bool(re.search(r"nvidia|cuda|kernel|kmod|nvlsm|libnv|dkms", pattern))
