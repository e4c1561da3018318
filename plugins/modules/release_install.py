#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: release_install
version_added: 0.1.0
short_description: Make the environment of a release of SGLang
description:
  - Makes the environment that M(gpufleet.sglang.release_info) names, with pip or uv, from an index or a wheelhouse.
  - Its record is written last. An environment without one was interrupted or has failed; it is removed and made anew,
    as an installer that is killed leaves packages behind that look whole to the next one.
  - One environment is made at a time. Who comes second waits, also for the installer of a module that was killed.
  - Passwords reach the installer in a file that only root reads, neither in its arguments nor in what it prints.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
  - gpufleet.sglang.release
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Names the packages that differ from those of the environment that O(compare_with) is.
  platform:
    platforms: linux
options:
  index_credentials:
    description: Logins for indexes.
    type: list
    elements: dict
    default: []
    suboptions:
      machine:
        description: Host name of the index.
        type: str
        required: true
      login:
        description: Name of the user.
        type: str
        required: true
      password:
        description: Password or token.
        type: str
        required: true
  compare_with:
    description: Folder of another environment, such as the one in force, for the diff.
    type: path
  timeout_seconds:
    description: How long the installer may take.
    type: int
    default: 3600
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.release_info
  - module: gpufleet.sglang.release_check
"""

EXAMPLES = r"""
- name: Install a release from a wheelhouse
  gpufleet.sglang.release_install:
    install_root: /opt/sglang
    version: 0.5.23
    wheelhouse: /srv/wheelhouse
    requirements: "{{ lookup('ansible.builtin.file', 'constraints.txt') }}"

- name: Install a release from an index with a login
  gpufleet.sglang.release_install:
    install_root: /opt/sglang
    version: 0.5.23
    installer: uv
    index_url: https://pypi.example.com/simple
    extra_index_urls:
      - https://download.pytorch.org/whl/cu130
    index_credentials:
      - machine: pypi.example.com
        login: node
        password: "{{ index_password }}"
"""

RETURN = r"""
path:
  description: Folder of the environment.
  returned: always
  type: str
  sample: /opt/sglang/releases/0.5.23-4f1f5a3c7f6e
installer:
  description: What has installed it, with its version; null in check mode.
  returned: changed
  type: str
  sample: pip 23.0.1
packages:
  description: Number of packages that it holds, null in check mode.
  returned: changed
  type: int
  sample: 111
size_bytes:
  description: What it takes on the disk, null in check mode.
  returned: changed
  type: int
  sample: 2400000000
removed_half_written:
  description: Whether what an interrupted installation had left was removed first.
  returned: changed
  type: bool
  sample: false
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import Asked, Wheelhouse
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.differences import package_diff
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installer_words import read_failure, tail
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installers import (
    Job,
    Source,
    chosen_installer,
    environment_of,
    netrc_text,
    pip_command,
    uv_command,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import (
    installed_at,
    read_python,
    read_wheelhouse,
    size_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import RELEASE_OPTIONS, asked_from
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.record import RECORD, as_text, new_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.release import (
    Release,
    checked_python,
    planned_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system

_PACKAGES = """\
import importlib.metadata, json
print(json.dumps({one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}))
"""


class Installation:
    """One environment in the making, with all that is written about it below its own folder."""

    def __init__(self, module: AnsibleModule, asked: Asked, release: Release, wheelhouse: Wheelhouse | None) -> None:
        self.module = module
        self.asked = asked
        self.release = release
        self.wheelhouse = wheelhouse
        self.releases = Path(module.params["install_root"], "releases")
        self.path = self.releases / release.name
        self.source = Source(asked.wheelhouse, asked.index_url, asked.extra_index_urls)
        self.lock: int | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held by whatever is started here as well: an installer outlives a module that is killed."""
        self.releases.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.releases / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.lock = descriptor
            yield
        finally:
            os.close(descriptor)
            self.lock = None

    def must(self, name: str, command: list[str], cwd: str) -> str:
        limit = ["timeout", "--kill-after=30", str(self.module.params["timeout_seconds"])]
        held = [self.lock] if self.lock is not None else []
        status, output, errors = self.module.run_command([*limit, *command], cwd=cwd, pass_fds=held)
        if status == 124:
            seconds = self.module.params["timeout_seconds"]
            raise Refusal(
                "install_timeout",
                f"{name} did not end within {seconds} s.",
                "Look at its last words among the evidence; where it was merely slow, raise "
                "sglang_install_timeout_seconds.",
                {"output": tail(f"{output}\n{errors}"), "timeout_seconds": seconds},
            )
        if status != 0:
            raise read_failure(name, f"{output}\n{errors}", status)
        return str(output)

    def make(self) -> dict[str, Any]:
        """Raises Refusal, and leaves nothing behind then."""
        half_written = self.path.exists()
        if half_written:
            shutil.rmtree(self.path)
        installer = chosen_installer(
            self.asked.installer,
            shutil.which("uv"),
            [one.file for one in self.wheelhouse.wheels] if self.wheelhouse else [],
            self.asked.uv_version,
        )
        try:
            self.path.mkdir(mode=0o755)
            scratch = self.path / ".scratch"
            scratch.mkdir(mode=0o700)
            record = self._fill(installer, str(scratch))
            shutil.rmtree(scratch)
            record = {**record, "size_bytes": size_of(self.path)}
            self._write_record(record)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        return {**record, "half_written": half_written}

    def _fill(self, installer: str, scratch: str) -> dict[str, Any]:
        netrc = None
        if self.module.params["index_credentials"]:
            netrc = f"{scratch}/netrc"
            descriptor = os.open(netrc, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(netrc_text(self.module.params["index_credentials"]))
        # run_command adds to it and takes nothing away.
        environment = environment_of(os.environ, scratch, self.source, netrc)
        os.environ.clear()
        os.environ.update(environment)
        python = f"{self.path}/bin/python"
        self.must("venv", [self.asked.python, "-I", "-m", "venv", str(self.path)], scratch)
        requirements = self.path / "requirements.txt"
        requirements.write_text(self.release.requirements, encoding="utf-8")
        job = Job(str(self.path), str(requirements), self.source, self.release.resolve, self.release.hashed)
        if installer == "uv":
            program = self._uv(scratch)
            command = uv_command(job, program)
            said = self.must("uv", [program, "--version"], scratch)
        else:
            command = pip_command(job)
            said = " ".join(self.must("pip", [python, "-m", "pip", "--version"], scratch).split()[:2])
        self.must(installer, command, scratch)
        packages = json.loads(self.must("python", [python, "-I", "-c", _PACKAGES], scratch))
        return new_record(
            version=self.asked.version,
            digest=self.release.digest,
            installer=" ".join(said.split()[:2]),
            python=self.asked.python,
            packages=packages,
            installed_at=int(time.time()),
            size_bytes=0,
            hashed=self.release.hashed,
        )

    def _uv(self, scratch: str) -> str:
        """That of the node, or one in an environment of its own beside those of the releases."""
        on_path = shutil.which("uv")
        if on_path:
            return on_path
        pinned = f"uv=={self.asked.uv_version}" if self.asked.uv_version else "uv"
        home = self.releases / ".tools" / pinned.replace("==", "-")
        program = home / "bin" / "uv"
        if program.exists() and (home / RECORD).exists():
            return str(program)
        shutil.rmtree(home, ignore_errors=True)
        listed = Path(scratch, "uv.txt")
        listed.write_text(self._uv_line(pinned), encoding="utf-8")
        hashed = "--hash" in listed.read_text(encoding="utf-8")
        self.must("venv", [self.asked.python, "-I", "-m", "venv", str(home)], scratch)
        command = pip_command(Job(str(home), str(listed), self.source, resolve=False, hashed=hashed))
        try:
            self.must("pip", command, scratch)
        except Refusal as refusal:
            raise Refusal(
                "uv_missing",
                f"uv is not on this node, and pip could not install {pinned}: {refusal.message}",
                f"Put the wheel of {pinned} there, or set sglang_installer to pip.",
                refusal.evidence,
            ) from None
        (home / RECORD).write_text("{}\n", encoding="utf-8")
        return str(program)

    def _uv_line(self, pinned: str) -> str:
        sums = (self.wheelhouse.sums if self.wheelhouse else None) or {}
        hashes = [
            sums[one.file]
            for one in (self.wheelhouse.wheels if self.wheelhouse else ())
            if one.name == "uv" and one.file in sums and self.asked.uv_version in (None, one.version)
        ]
        return " ".join([pinned, *(f"--hash=sha256:{one}" for one in hashes)]) + "\n"

    def _write_record(self, record: dict[str, Any]) -> None:
        # The packages are on the disk before the record that vouches for them.
        self.module.run_command(["sync", "--file-system", str(self.path)])
        descriptor, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{RECORD}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(as_text(record))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).rename(self.path / RECORD)


def _packages_at(folder: str | None) -> dict[str, str]:
    record = installed_at(Path(folder)) if folder else None
    return dict((record or {}).get("packages") or {})


def install(module: AnsibleModule) -> dict[str, Any]:
    asked = asked_from(module.params, read_system(Tree(Path("/"))))
    python = read_python(module.run_command, asked.python)
    if python is None and module.check_mode:
        # It comes with packages of the distribution that a real run installs first.
        return {"changed": True, "path": None, "installer": None, "packages": None, "size_bytes": None}
    python = checked_python(asked, python)
    wheelhouse = read_wheelhouse(asked.wheelhouse) if asked.wheelhouse else None
    release = planned_release(asked, python, wheelhouse)
    job = Installation(module, asked, release, wheelhouse)
    path = str(job.path)
    before = _packages_at(module.params["compare_with"])
    if installed_at(job.path, release.digest) is not None:
        return {"changed": False, "path": path}
    if module.check_mode:
        told = {"changed": True, "path": path, "installer": None, "packages": None, "size_bytes": None}
        return {**told, "removed_half_written": job.path.exists(), "diff": package_diff(before, release.requirements)}
    # Environments are read by the service's own user, whatever root's own habit is.
    os.umask(0o022)
    with job.locked():
        if installed_at(job.path, release.digest) is not None:
            return {"changed": False, "path": path}
        record = job.make()
    return {
        "changed": True,
        "path": path,
        "installer": record["installer"],
        "packages": len(record["packages"]),
        "size_bytes": record["size_bytes"],
        "removed_half_written": record["half_written"],
        "diff": package_diff(before, release.requirements),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **RELEASE_OPTIONS,
            "index_credentials": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "machine": {"type": "str", "required": True},
                    "login": {"type": "str", "required": True},
                    "password": {"type": "str", "required": True, "no_log": True},
                },
            },
            "compare_with": {"type": "path"},
            "timeout_seconds": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**install(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
