# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every task of the roles and playbooks that refuses, read out of their files, and cut out of them to be run alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
HOSTS = Path(__file__).resolve().with_name("hosts.yml")
PLAYBOOKS = "playbooks"
# Modules that refuse, and what has their message.
REFUSING = {"ansible.builtin.assert": "fail_msg", "ansible.builtin.fail": "msg"}
_NESTED = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")


@dataclass(frozen=True)
class RoleRefusal:
    """A task that refuses; one item of it where it loops over a list of demands."""

    role: str
    file: str
    task: str
    # What the item says was found, before it is templated; of a task without such a list the message.
    message: str
    item: bool
    alone: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As a case names it."""
        found = re.sub(r"{{.*?}}", "…", self.message)
        return f"{self.role}/{self.file}: {self.task}" + (f" [{found}]" if self.item else "")


def _tasks(entries: list[dict[str, Any]], around: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each task, and the variables that hold for it: its own and those of the blocks and the play around it."""
    for entry in entries:
        variables = {**around, **entry.get("vars", {})}
        yield entry, variables
        for key in _NESTED:
            if isinstance(entry.get(key), list):
                yield from _tasks(entry[key], variables)


def _demands(entry: Mapping[str, Any]) -> Any:
    """What the task goes through: its list, or that variable of its own out of which it takes what does not hold."""
    loop = entry.get("loop")
    named = re.match(r"{{ (\w+) \| rejectattr\('holds'\) }}$", loop) if isinstance(loop, str) else None
    return entry.get("vars", {}).get(named[1]) if named else loop


def of_file(role: str, file: str, entries: list[dict[str, Any]]) -> Iterator[RoleRefusal]:
    for entry, variables in _tasks(entries, {}):
        for module, key in REFUSING.items():
            if module not in entry:
                continue
            message, demands = str(entry[module][key]), _demands(entry)
            # Whether it is asked at all is for the tests of the whole role; here it is.
            left_out = ("when", "vars", "run_once")
            alone = {**{name: part for name, part in entry.items() if name not in left_out}, "vars": variables}
            if isinstance(demands, list) and "item.found" in message:
                for demand in demands:
                    yield RoleRefusal(role, file, entry["name"], demand["found"], True, alone)
            else:
                yield RoleRefusal(role, file, entry["name"], message, False, alone)


def refusals() -> list[RoleRefusal]:
    found: list[RoleRefusal] = []
    folders = {path.name: path for path in sorted((ROOT / "roles").iterdir())}
    for role, folder in {**folders, PLAYBOOKS: ROOT / PLAYBOOKS}.items():
        for path in sorted(folder.rglob("*.yml")):
            inside = path.relative_to(folder).with_suffix("")
            if role == PLAYBOOKS or inside.parts[0] in ("tasks", "handlers"):
                entries = yaml.safe_load(path.read_text(encoding="utf-8"))
                where = inside.as_posix() if role == PLAYBOOKS else "/".join(inside.parts[1:])
                if isinstance(entries, list):
                    found += of_file(role, where, entries)
    return found


def cases() -> dict[str, dict[str, Any]]:
    """Each case of the table by the name of its host."""
    groups = yaml.safe_load(HOSTS.read_text(encoding="utf-8"))
    return {name: case for group in groups.values() for name, case in group.get("hosts", {}).items()}


def cut(folder: Path) -> None:
    """Makes roles below a folder that have, beside all else of the genuine ones, a file of tasks for each case."""
    by_name = {one.name: one for one in refusals()}
    for name, case in cases().items():
        refusal = by_name[case["refused_by"]]
        role = folder / refusal.role
        (role / "tasks").mkdir(parents=True, exist_ok=True)
        for part in ("defaults", "vars", "meta", "files", "templates"):
            genuine = ROOT / "roles" / refusal.role / part
            if genuine.is_dir() and not (role / part).is_symlink():
                (role / part).symlink_to(genuine)
        (role / "tasks" / f"{name}.yml").write_text(yaml.safe_dump([dict(refusal.alone)]), encoding="utf-8")


def said(folder: Path) -> dict[str, dict[str, str]]:
    """Runs all cases in one play on this machine: the task that refused each, and what it says; by the case's name."""
    cut(folder / "roles")
    told = folder / "said.json"
    command = ["ansible-playbook", "tests/refusals/play.yml", "-i", str(HOSTS), "-c", "local"]
    done = subprocess.run(
        [*command, "-e", f"refused_path={told}"],
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_ROLES_PATH": str(folder / "roles"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not told.is_file():
        raise RuntimeError(f"The play of the refusals failed:\n{done.stdout}{done.stderr}")
    counts = re.findall(r"^(\S+) +: ok=.* changed=(\d+)", done.stdout, re.MULTILINE)
    changed = [host for host, count in counts if int(count)]
    if changed or not counts:
        raise RuntimeError(f"Refusals that changed something: {', '.join(changed) or 'the play has no recap'}.")
    result: dict[str, dict[str, str]] = json.loads(told.read_text(encoding="utf-8"))
    return {name: {"task": one["task"], "says": in_words(one["says"])} for name, one in result.items()}


def in_words(text: str) -> str:
    return " ".join(text.split())
