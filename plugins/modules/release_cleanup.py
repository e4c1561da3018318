#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release_cleanup
version_added: 0.1.0
short_description: Let old environments of SGLang go that nothing uses
description:
  - Removes environments below C(releases) but for those that are asked for, those that a unit, a link, a file of a kept
    generation or a running process names, and the newest of the rest.
  - What was never finished goes as well, unless it is being made at this moment.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  install_root:
    description: Folder of the environments, which lie below C(releases).
    type: path
    required: true
  wanted:
    description: Names of environments that are to stay, whoever uses them.
    type: list
    elements: str
    default: []
  keep:
    description: How many more to keep, the newest first.
    type: int
    default: 2
  folders:
    description:
      - Folders whose small files are searched for names of environments, so that what brings an earlier generation back
        finds it.
    type: list
    elements: path
    default: [/etc/systemd/system, /run/systemd/system, /usr/local/lib/systemd/system, /etc/sglang]
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.release_info
"""

EXAMPLES = r"""
- name: Keep what is used and one more
  gpufleet.sglang.release_cleanup:
    install_root: /opt/sglang
    keep: 1
"""

RETURN = r"""
removed:
  description: What was removed, or would be in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the environment.
      type: str
    size_bytes:
      description: What it took on the disk.
      type: int
    whole:
      description: Whether it was whole.
      type: bool
  sample:
    - name: 0.5.22-9c0e4d6f8a2b
      size_bytes: 9200000000
      whole: true
kept:
  description: Why each of the others stays, by name.
  returned: always
  type: dict
  sample:
    0.5.23-4f1f5a3c7f6e: it is asked for
freed_bytes:
  description: What the removed ones took together.
  returned: always
  type: int
  sample: 9200000000
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import (
    environments_below,
    installed_at,
    size_of,
    text_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.retention import (
    Environment,
    judge,
    named_in,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb

_SMALL_BYTES = 1 << 20
_DEEP = 6
_GONE = ".gone-"


def _small_files(folder: Path, deep: int = _DEEP) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if deep > 0:
                yield from _small_files(Path(entry.path), deep - 1)
        elif entry.is_file():
            yield Path(entry.path)


def _process_texts(process: Path) -> Iterator[str]:
    """What a process runs and has loaded: its name may be another one by now, its libraries are still mapped."""
    for name in ("cmdline", "maps"):
        yield text_of(process / name) or ""
    for name in ("exe", "cwd"):
        try:
            yield str((process / name).readlink())
        except OSError:
            continue


def used_environments(releases: Path, install_root: Path, folders: list[str], proc: Path) -> dict[str, str]:
    """Why each environment is used, by its name."""
    used: dict[str, str] = {}
    for process in proc.iterdir():
        if process.name.isdigit():
            for text in _process_texts(process):
                for name in named_in(text, str(releases)):
                    used.setdefault(name, f"process {process.name} runs it")
    for folder in folders:
        for path in _small_files(Path(folder)):
            for name in named_in(text_of(path, _SMALL_BYTES) or "", str(releases)):
                used.setdefault(name, f"{path} names it")
    for link in install_root.iterdir():
        if link.is_symlink():
            for name in named_in(str(link.readlink()), str(releases)):
                used.setdefault(name, f"the link {link} leads to it")
    return used


def _remove(path: Path) -> None:
    """Renamed first: what is half-removed is never taken for an environment."""
    doomed = path.with_name(f"{_GONE}{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed)


def clean_up(module: AnsibleModule) -> dict[str, Any]:
    root = Path(module.params["install_root"])
    releases = root / "releases"
    result: dict[str, Any] = {"changed": False, "removed": [], "kept": {}, "freed_bytes": 0}
    if not releases.is_dir():
        return result
    descriptor = os.open(releases / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Whoever makes one now holds it; nothing is removed under its hands.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not module.check_mode:
            # What a removal that was killed has left.
            for path in releases.glob(f"{_GONE}*"):
                shutil.rmtree(path, ignore_errors=True)
        environments = []
        for path in environments_below(releases):
            record = installed_at(path)
            size = record["size_bytes"] if record else size_of(path)
            environments.append(Environment(path.name, size, record["installed_at"] if record else None))
        used = used_environments(releases, root, module.params["folders"], Path("/proc"))
        for verdict in judge(environments, used, module.params["wanted"], module.params["keep"]):
            one = verdict.environment
            if verdict.reason is not None:
                result["kept"][one.name] = verdict.reason
                continue
            if not module.check_mode:
                _remove(releases / one.name)
            whole = one.installed_at is not None
            result["removed"].append({"name": one.name, "size_bytes": one.size_bytes, "whole": whole})
    finally:
        os.close(descriptor)
    result["changed"] = bool(result["removed"])
    result["freed_bytes"] = sum(one["size_bytes"] for one in result["removed"])
    if result["changed"]:
        names = ", ".join(one["name"] for one in result["removed"])
        would = "would be removed" if module.check_mode else "removed"
        result["msg"] = f"{names} {would}, {format_gb(result['freed_bytes'])} in all."
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "install_root": {"type": "path", "required": True},
            "wanted": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "int", "default": 2},
            "folders": {
                "type": "list",
                "elements": "path",
                "default": [
                    "/etc/systemd/system",
                    "/run/systemd/system",
                    "/usr/local/lib/systemd/system",
                    "/etc/sglang",
                ],
            },
        },
        supports_check_mode=True,
    )
    if module.params["keep"] < 0:
        module.fail_json(msg=f"keep is {module.params['keep']}; expected 0 or more.")
    module.exit_json(**clean_up(module))


if __name__ == "__main__":
    main()
