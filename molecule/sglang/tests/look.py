# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on a host and prints what the tests look at as one JSON: a login for each question takes most of a scenario."""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FIELDS = "MainPID,InvocationID,NRestarts,ActiveState,UnitFileState,LimitMEMLOCK,LimitNOFILE"


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def fields(text: str, separator: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.split(separator) if "=" in line)


def status(pid: str) -> dict[str, str]:
    lines = Path("/proc", pid, "status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _colon, value in (line.partition(":") for line in lines)}


def limits(pid: str) -> dict[str, float]:
    """The hard ones, by their names."""
    lines = Path("/proc", pid, "limits").read_text(encoding="utf-8").splitlines()[1:]
    rows = ((line[:26].strip(), line[26:].split()[1]) for line in lines)
    return {name: float("inf") if hard == "unlimited" else float(hard) for name, hard in rows}


def processes() -> dict[str, list[str]]:
    """Arguments and environment of each process, by its id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parts = [(folder / name).read_bytes().decode("utf-8", "replace") for name in ("cmdline", "environ")]
        except OSError:
            continue
        found[folder.name] = [part.replace("\0", "\n").strip() for part in parts]
    return found


def answer(port: int, path: str, key: str | None) -> dict[str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return {"status": response.status, "body": response.read().decode()}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": ""}


def instance(name: str, running: dict[str, list[str]]) -> dict[str, Any]:
    unit = f"sglang-{name}.service"
    shown = fields(run("systemctl", "show", unit, f"--property={FIELDS}"), "\n")
    pid = shown["MainPID"]
    ranks = {
        words[0]: status(rank)["RssShmem"]
        for rank, words in running.items()
        if words[0].startswith("sglang::scheduler") and status(rank)["PPid"] == pid
    }
    return {
        "unit": shown,
        "user": pwd.getpwuid(int(status(pid)["Uid"].split()[0])).pw_name,
        "environment": fields(running[pid][1], "\n"),
        "limits": limits(pid),
        "ranks": ranks,
        "ledger": json.loads(Path(f"/var/lib/sglang/{name}/ledger.json").read_text(encoding="utf-8")),
        "exposure": run("systemd-analyze", "security", "--no-pager", unit).splitlines()[-1],
        "systemd": run("systemctl", "show", unit) + run("systemctl", "cat", unit),
        "journal": run("journalctl", "--no-pager", f"--unit={unit}", "--output=cat"),
    }


def files(folders: list[str]) -> dict[str, list[str]]:
    """User, group and mode of all files below, and of the folders."""
    shown = run("find", *folders, "-xdev", "-printf", "%p\t%u\t%g\t%m\n")
    return {path: rest for path, *rest in (line.split("\t") for line in shown.splitlines())}


def main() -> None:
    asked = json.loads(sys.argv[1])
    running = processes()
    key = "".join(asked["key"])
    found = {
        "instances": {name: instance(name, running) for name in asked["instances"]},
        "most": limits("1"),
        "processes": list(running.values()),
        "answers": [
            answer(one["port"], one["path"], key if one["key"] is True else one["key"]) for one in asked["answers"]
        ],
        "files": files(["/etc/sglang", "/etc/systemd/system", "/var/lib/sglang", "/var/cache/sglang"]),
        "listening": run("ss", "--listening", "--tcp", "--numeric", "--no-header"),
        "holding": run("grep", "--recursive", "--files-with-matches", "--", key, *asked["sought_in"]),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
