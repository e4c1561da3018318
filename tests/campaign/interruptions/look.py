# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the node, its argument the key in hexadecimal: what is half-written, where the key is, what is in force."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLACES = ("/etc", "/opt", "/usr/local", "/srv/models", "/boot", "/var/lib/gpufleet", "/var/lib/sglang")
# Where anything that handles the key may have left it: these, and temporary files.
KEY_PLACES = (
    *PLACES,
    "/root",
    "/tmp",
    "/var/tmp",
    "/var/log",
    "/var/cache",
    "/run/systemd",
    "/run/gpufleet-model-store",
)
LARGEST_BYTES = 50_000_000
KEY_FILE = "/etc/sglang/keys/main/api_key"
UNFINISHED = re.compile(
    r"ansible|\.(new|tmp|part|partial|dpkg-new|dpkg-tmp|trash|swp)$|^\.(partial|trash)|~$|^tmp[a-z0-9_]{8}$|\.new-"
)
# Files of installed wheels are called what their authors called them.
FOREIGN = re.compile(
    r"/(site-packages|share|include)/|^/(mnt|srv/repositories)/|^/etc/(ssl|mke2fs)|^/usr/local/share/rehearsal"
)
# What each node has of its own, or each start: keys of the host, and what the last start took.
OWN = re.compile(r"^/etc/(machine-id|ssh/|sglang/kept/|systemd/system/sglang-main)")
UNIT = "sglang-main.service"


def said(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True, errors="replace").stdout.strip()


def files(places: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        for path in sorted(Path(place).rglob("*")):
            if not FOREIGN.search(str(path)):
                yield path


def unparsed(path: Path) -> str | None:
    """Why a file of ours is not whole."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.strip() and path.name != ".lock":
        return f"{path} is empty"
    if path.suffix == ".json":
        try:
            json.loads(text)
        except ValueError as error:
            return f"{path}: {error}"
    return None


def ours(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and bool(re.search(r"gpufleet|sglang|nvidia-cuda", str(path)))


def half_written() -> list[str]:
    found = [str(path) for path in files(PLACES) if UNFINISHED.search(path.name)]
    found += [why for path in files(PLACES) if ours(path) and path.suffix != ".py" and (why := unparsed(path))]
    audit = said("dpkg", "--audit")
    found += [f"dpkg --audit: {audit}"] if audit else []
    checked = subprocess.run(["apt-get", "check", "-qq"], check=False, capture_output=True, text=True)
    found += [f"apt-get check: {checked.stderr}"] if checked.returncode else []
    for unit in (UNIT, "gpufleet-huge-pages.service", "gpufleet-node-values.service"):
        if said("systemctl", "show", "--property=NeedDaemonReload", "--value", unit) != "no":
            found.append(f"{unit} needs a daemon-reload")
    failed = said("systemctl", "--failed", "--no-legend", "--plain")
    found += [f"failed: {failed}"] if failed else []
    running = said("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "gpufleet-model-*")
    found += [f"still running: {running}"] if running else []
    return found


def places_of_key(key: bytes) -> list[str]:
    found = []
    for path in files(KEY_PLACES):
        plain = path.is_file() and not path.is_symlink() and path.stat().st_size < LARGEST_BYTES
        if plain and str(path) != KEY_FILE and key in path.read_bytes():
            found.append(str(path))
    journal = subprocess.run(
        ["journalctl", "--output=export", "--no-pager", "--all"], check=False, capture_output=True
    ).stdout
    found += ["journal"] if key in journal else []
    told = said("systemctl", "show", "*", "--no-pager") + said("systemctl", "cat", UNIT)
    found += ["systemctl"] if key.decode() in told else []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found += [f"{process}/{name}"] if key in (process / name).read_bytes() else []
            except OSError:
                continue
    return found


def contents() -> dict[str, str]:
    """Every path of ours with a digest of what has to be the same on any node that was provisioned so."""
    told = {}
    for path in files(PLACES):
        name = re.sub(r"[0-9a-f]{12,}(-[a-z0-9_]{8})?", "#", str(path))
        same = str(path).startswith(("/etc/", "/usr/local/", "/boot/")) and not OWN.search(str(path))
        plain = path.is_file() and not path.is_symlink()
        told[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if same and plain else ""
    return told


def served() -> dict[str, Any]:
    ledger, loaded = Path("/var/lib/sglang/main/ledger.json"), Path("/sys/module/nvidia/version")
    return {
        "invocation": said("systemctl", "show", "--property=InvocationID", "--value", UNIT),
        "active": said("systemctl", "is-active", UNIT),
        "restarts": said("systemctl", "show", "--property=NRestarts", "--value", UNIT),
        "ledger": json.loads(ledger.read_text(encoding="utf-8")) if ledger.is_file() else {},
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        "driver": loaded.read_text(encoding="ascii").strip() if loaded.is_file() else None,
        "states": {
            path.name: json.loads(path.read_text(encoding="utf-8")).get("state")
            for path in Path("/var/lib/gpufleet").glob("*.json")
        },
    }


sys.stdout.write(
    json.dumps(
        {
            "half_written": half_written(),
            "key": places_of_key(bytes.fromhex(sys.argv[1])),
            "contents": contents(),
            **served(),
        }
    )
)
