# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Indexes of apt archives, flat as NVIDIA's and by suite as Debian's, signed by the real gpg with a key made here."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .package import Package, build

DATE = "Thu, 01 Jan 2026 00:00:00 UTC"


def _gpg(home: Path, *words: str) -> str:
    done = subprocess.run(
        ["gpg", "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", *words],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "GNUPGHOME": str(home)},
    )
    if done.returncode != 0:
        raise RuntimeError(f"gpg {' '.join(words)} failed: {done.stderr}")
    return done.stdout


def make_key(home: Path, name: str) -> str:
    """A key of its own for the name, unless the folder has it; its fingerprint. It never leaves this machine."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if f"<{name}@" not in _gpg(home, "--list-secret-keys"):
        _gpg(home, "--quick-generate-key", f"{name} <{name}@example.org>", "rsa3072", "sign", "never")
    found = re.search(r"^fpr:+([0-9A-F]{40}):", _gpg(home, "--with-colons", "--list-keys", f"{name}@"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"gpg lists no fingerprint of {name}")
    return found.group(1)


def public_key(home: Path, name: str) -> str:
    return _gpg(home, "--armor", "--export", f"{name}@")


def stop_agent(home: Path) -> None:
    """Signing starts an agent, which would outlive the program."""
    subprocess.run(["gpgconf", "--kill", "all"], check=False, env={**os.environ, "GNUPGHOME": str(home)})


def _stanza(package: Package, file: Path, path: str) -> str:
    content = file.read_bytes()
    control, _head, description = package.control().rpartition("Description: ")
    return (
        f"{control}Filename: {path}\nSize: {len(content)}\nMD5sum: {hashlib.md5(content).hexdigest()}\n"
        f"SHA256: {hashlib.sha256(content).hexdigest()}\nDescription: {description}"
    )


def _release(folder: Path, fields: Mapping[str, str], indexes: Sequence[str]) -> str:
    lines = [*(f"{name}: {value}" for name, value in fields.items()), f"Date: {DATE}", "SHA256:"]
    for name in indexes:
        content = (folder / name).read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    return "\n".join(lines) + "\n"


def sign(folder: Path, home: Path, name: str) -> None:
    """InRelease and Release.gpg beside Release."""
    for option, target in (("--clear-sign", "InRelease"), ("--detach-sign", "Release.gpg")):
        _gpg(home, "--yes", "--armor", "--local-user", f"{name}@", "--output", str(folder / target), option,
             str(folder / "Release"))  # fmt: skip


def _write_index(folder: Path, stanzas: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = "\n".join(stanzas).encode()
    (folder / "Packages").write_bytes(content)
    (folder / "Packages.gz").write_bytes(gzip.compress(content, mtime=0))


def flat_archive(folder: Path, packages: Sequence[Package], home: Path, key: str, fields: Mapping[str, str]) -> None:
    """Everything in one folder, as in NVIDIA's repositories."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_index(folder, [_stanza(package, build(package, folder), f"./{package.file_name}") for package in packages])
    (folder / "Release").write_text(_release(folder, fields, ("Packages", "Packages.gz")), encoding="utf-8")
    sign(folder, home, key)


def suite_archive(folder: Path, suite: str, components: Mapping[str, Sequence[Package]], home: Path, key: str) -> None:
    """pool/ and dists/SUITE/, as in Debian's archive."""
    dist = folder / "dists" / suite
    for component, packages in components.items():
        pool = folder / "pool" / component
        pool.mkdir(parents=True, exist_ok=True)
        stanzas = [
            _stanza(package, build(package, pool), f"pool/{component}/{package.file_name}") for package in packages
        ]
        _write_index(dist / component / "binary-amd64", stanzas)
    fields = {
        "Origin": "Debian",
        "Label": "Debian",
        "Suite": "stable",
        "Codename": suite,
        "Architectures": "amd64",
        "Components": " ".join(components),
    }
    names = [f"{component}/binary-amd64/{name}" for component in components for name in ("Packages", "Packages.gz")]
    (dist / "Release").write_text(_release(dist, fields, names), encoding="utf-8")
    sign(dist, home, key)
