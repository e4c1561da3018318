#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: small_files
version_added: 0.1.0
short_description: Have a set of small files and their folders as they shall be, in one call
description:
  - Makes folders, writes files and removes others, each only where it differs. What M(ansible.builtin.template) and
    M(ansible.builtin.file) do in several calls for each file takes one for all of them; what a file holds is rendered
    on the controller, as by P(ansible.builtin.template#lookup).
  - Nothing is written before all that would be written has passed its O(files[].validate). Each file is replaced as a
    whole, with owner, group and mode, so that nobody reads half of one, or a secret that others may read.
  - A link in the place of a file is replaced, not followed; a folder in its place is an error.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: A user or a group that is not there yet counts as a difference.
  diff_mode:
    support: full
    details: Of a file that is O(files[].secret) it tells that it differs, and not how.
  platform:
    platforms: linux
options:
  folders:
    description: Folders that shall be there, in the order in which they are made.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where.
        type: path
        required: true
      owner:
        description: Name of the user that it belongs to.
        type: str
        default: root
      group:
        description: Name of the group that it belongs to.
        type: str
        default: root
      mode:
        description: Octal, as a text.
        type: str
        default: "0755"
  files:
    description: Files that shall be there.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where.
        type: path
        required: true
      content:
        description: All that it holds. Either this or O(files[].secret) has to be given.
        type: str
      secret:
        description: The same, of what neither a log nor a diff shall show.
        type: str
      owner:
        description: Name of the user that it belongs to.
        type: str
        default: root
      group:
        description: Name of the group that it belongs to.
        type: str
        default: root
      mode:
        description: Octal, as a text.
        type: str
        default: "0644"
      validate:
        description:
          - A command that has to succeed before anything is written, run without a shell. V(%s) in it stands for a file
            that holds what would be written.
        type: str
  absent:
    description: Files that shall not be there.
    type: list
    elements: path
    default: []
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: ansible.builtin.template
  - module: gpufleet.sglang.key_file
"""

EXAMPLES = r"""
- name: Have the service's files
  gpufleet.sglang.small_files:
    folders:
      - path: /etc/sglang
    files:
      - path: /etc/sglang/main.env
        secret: "{{ lookup('ansible.builtin.template', 'environment.j2') }}"
        mode: "0600"
      - path: /etc/systemd/system/sglang-main.service
        content: "{{ lookup('ansible.builtin.template', 'sglang.service.j2') }}"
        validate: systemd-analyze verify %s:sglang-main.service
    absent:
      - /etc/sglang/keys/main/api_key
  notify: Reload systemd
"""

RETURN = r"""
paths:
  description: What was changed, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [/etc/sglang/main.env, /etc/systemd/system/sglang-main.service]
made:
  description: Those of O(folders) that were not there.
  returned: always
  type: list
  elements: str
  sample: []
"""

import grp
import os
import pwd
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

OWNED: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
}


class Unfit(Exception):
    """What keeps it from being done, said to the user."""


class Owned(NamedTuple):
    """None for a user or a group that is not there."""

    uid: int | None
    gid: int | None
    mode: int

    def describes(self, found: os.stat_result) -> bool:
        return (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == self


def owned_from(wanted: dict[str, Any]) -> Owned:
    uid = gid = None
    with suppress(KeyError):
        uid = pwd.getpwnam(wanted["owner"]).pw_uid
    with suppress(KeyError):
        gid = grp.getgrnam(wanted["group"]).gr_gid
    try:
        mode = int(wanted["mode"], 8)
    except ValueError:
        raise Unfit(
            f"The mode of {wanted['path']} is {wanted['mode']}; expected octal digits such as 0644. Nothing was "
            "changed."
        ) from None
    return Owned(uid, gid, mode)


def found_at(path: Path, *, follow: bool = False) -> os.stat_result | None:
    try:
        return path.stat() if follow else path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def content_of(wanted: dict[str, Any]) -> bytes:
    text: str = wanted["content"] if wanted["secret"] is None else wanted["secret"]
    return text.encode("utf-8", errors="surrogateescape")


def differs(wanted: dict[str, Any], owned: Owned) -> bool:
    path = Path(wanted["path"])
    found = found_at(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise Unfit(f"{path} is a folder; expected a file, or nothing. Nothing was changed.")
    return (
        found is None
        or not stat.S_ISREG(found.st_mode)
        or not owned.describes(found)
        or path.read_bytes() != content_of(wanted)
    )


def unfinished_of(path: Path) -> Path:
    # Always of the same name: what a run that was killed has left is replaced by the next.
    return path.with_name(f".{path.name}.new")


def put(wanted: dict[str, Any], owned: Owned) -> None:
    """All of it beside its place, with its owner before its content."""
    unfinished = unfinished_of(Path(wanted["path"]))
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchown(file.fileno(), owned.uid or 0, owned.gid or 0)
        os.fchmod(file.fileno(), owned.mode)
        file.write(content_of(wanted))
        file.flush()
        os.fsync(file.fileno())


def validated(module: AnsibleModule, wanted: dict[str, Any]) -> None:
    if not wanted["validate"]:
        return
    unfinished = str(unfinished_of(Path(wanted["path"])))
    command = [word.replace("%s", unfinished) for word in shlex.split(wanted["validate"])]
    status, out, errors = module.run_command(command)
    if status != 0:
        raise Unfit(
            f"{wanted['path']} would not do: {' '.join((errors or out).split())[:2000]} Expected {command[0]} to "
            "accept it. None of the files was changed."
        )


def labelled(module: AnsibleModule, path: Path) -> None:
    if module.selinux_enabled():
        module.set_context_if_different(str(path), module.selinux_default_context(str(path)), False)


def shown(wanted: dict[str, Any]) -> dict[str, str]:
    """One entry of the diff, from what is there before anything is written."""
    path = Path(wanted["path"])
    headers = {"before_header": str(path), "after_header": str(path)}
    if wanted["secret"] is not None:
        return {**headers, "before": "", "after": "(differs, and is not shown)\n"}
    with suppress(OSError):
        return {**headers, "before": path.read_text(errors="replace"), "after": wanted["content"]}
    return {**headers, "before": "", "after": wanted["content"]}


def make_folder(wanted: dict[str, Any], owned: Owned) -> None:
    path = Path(wanted["path"])
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, -1 if owned.uid is None else owned.uid, -1 if owned.gid is None else owned.gid)
    path.chmod(owned.mode)


def folders_that_differ(folders: list[tuple[dict[str, Any], Owned]]) -> tuple[list[Any], list[str]]:
    """Those to be made or given away, and the paths of those to be made."""
    different, made = [], []
    for wanted, owned in folders:
        # A folder may be a link to where there is room.
        found = found_at(Path(wanted["path"]), follow=True)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            raise Unfit(f"{wanted['path']} is no folder; expected one, or nothing. Nothing was changed.")
        if found is None:
            made.append(wanted["path"])
        if found is None or not owned.describes(found):
            different.append((wanted, owned))
    return different, made


def refuse_strangers(wanted: list[tuple[dict[str, Any], Owned]]) -> None:
    for one, owned in wanted:
        for kind, name, number in (("user", one["owner"], owned.uid), ("group", one["group"], owned.gid)):
            if number is None:
                raise Unfit(f"There is no {kind} {name}, to whom {one['path']} shall belong. Nothing was changed.")


def bring_about(module: AnsibleModule) -> dict[str, Any]:
    folders = [(one, owned_from(one)) for one in module.params["folders"]]
    files = [(one, owned_from(one)) for one in module.params["files"]]
    folders, made = folders_that_differ(folders)
    files = [(one, owned) for one, owned in files if differs(one, owned)]
    gone = [Path(path) for path in module.params["absent"] if found_at(Path(path)) is not None]
    result = {
        "changed": bool(folders or files or gone),
        "paths": [one["path"] for one, _owned in folders + files] + [str(path) for path in gone],
        "made": made,
        "diff": [shown(one) for one, _owned in files],
    }
    if module.check_mode:
        return result
    refuse_strangers(folders + files)
    for one, owned in folders:
        make_folder(one, owned)
        labelled(module, Path(one["path"]))
    try:
        for one, owned in files:
            put(one, owned)
        for one, _owned in files:
            validated(module, one)
        for one, _owned in files:
            path = Path(one["path"])
            unfinished_of(path).replace(path)
            labelled(module, path)
    finally:
        for one, _owned in files:
            unfinished_of(Path(one["path"])).unlink(missing_ok=True)
    for path in gone:
        path.unlink(missing_ok=True)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folders": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {**OWNED, "mode": {"type": "str", "default": "0755"}},
            },
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    **OWNED,
                    "mode": {"type": "str", "default": "0644"},
                    "content": {"type": "str"},
                    "secret": {"type": "str", "no_log": True},
                    "validate": {"type": "str"},
                },
                "required_one_of": [("content", "secret")],
                "mutually_exclusive": [("content", "secret")],
            },
            "absent": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = bring_about(module)
    except Unfit as unfit:
        module.fail_json(msg=str(unfit))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or 'A file'}: {error.strerror or error}; expected a place where root can write."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
