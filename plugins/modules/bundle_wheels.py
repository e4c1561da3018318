#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_wheels
version_added: 0.1.0
short_description: Fetch the wheels of a bundle for another Python, and prove that they suffice
description:
  - Fetches wheels for the Python and the platform of the machines that the bundle is for, and writes
    C(requirements.txt) with the hash of each and C(SHA256SUMS) beside them.
  - What is not pinned exactly is resolved with uv, which judges requirements for that Python and not for the one that
    runs.
  - Then the installation is tried as it will be done there, from the folder alone and with every hash required. A
    folder that was proven is left as it is.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: partial
    details: Tells whether the folder is there and made of the same requirements.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  dest:
    description: Folder of the wheels. It is made, and what is not of it is removed.
    type: path
    required: true
  requirements:
    description: Requirements, pinned or not.
    type: str
    required: true
  resolve:
    description:
      - Whether what O(requirements) need themselves is fetched as well. Without it they have to be all that is needed,
        each with its exact version, as the role installs them.
    type: bool
    default: true
  also:
    description: >-
      Further pins to have among the wheels without being installed with the others, such as V(uv==0.13.9).
    type: list
    elements: str
    default: []
  python_version:
    description: Python of the machines, such as V(3.11).
    type: str
    required: true
  machine:
    description: Their processor.
    type: str
    choices: [x86_64, aarch64]
    default: x86_64
  glibc:
    description: >-
      Their glibc. Debian 12 has 2.36 and 13 has 2.41, Ubuntu 22.04 has 2.35 and 24.04 has 2.39, RHEL 9 has 2.34.
    type: str
    default: "2.36"
  find_links:
    description: Folders with wheels to take them from.
    type: list
    elements: str
    default: []
  no_index:
    description: Whether to ask no index, nor any folder that this machine's own settings name.
    type: bool
    default: false
  index_url:
    description: Index of packages. That of the machine's own settings if not given.
    type: str
  extra_index_urls:
    description: Further indexes, such as those of the wheels of a CUDA line.
    type: list
    elements: str
    default: []
  timeout_seconds:
    description: How long each step may take.
    type: int
    default: 7200
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.bundle_seal
"""

EXAMPLES = r"""
- name: Fetch what SGLang needs on Debian 12 with CUDA 13
  gpufleet.sglang.bundle_wheels:
    dest: /srv/bundle/wheels/cu130
    requirements: sglang==0.5.23
    python_version: "3.11"
    extra_index_urls:
      - https://download.pytorch.org/whl/cu130
"""

RETURN = r"""
wheels:
  description: Number of wheels.
  returned: always
  type: int
  sample: 207
size_bytes:
  description: What they take.
  returned: always
  type: int
  sample: 4345130510
proven_by:
  description: What has tried the installation.
  returned: always
  type: str
  sample: pip 24.2
"""

import hashlib
import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.fetching import (
    Origin,
    compile_command,
    download_command,
    prove_command,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.hashing import sha256_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import Wheelhouse
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.chosen_wheels import choose
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installer_words import read_failure
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.markers import applies
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import (
    REQUIREMENTS,
    SUMS,
    read_wheelhouse,
    text_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import (
    Requirement,
    canonical_text,
    parse_requirements,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Of what the folder was made, and that it was proven.
_MADE_OF = ".made-of"


class Fetching:
    def __init__(self, module: AnsibleModule, target: Target, scratch: str) -> None:
        self.module = module
        self.target = target
        self.scratch = Path(scratch)
        params = module.params
        self.origin = Origin(
            params["index_url"], tuple(params["extra_index_urls"]), tuple(params["find_links"]), params["no_index"]
        )

    def must(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> str:
        limit = ["timeout", "--kill-after=30", str(self.module.params["timeout_seconds"])]
        status, output, errors = self.module.run_command(
            [*limit, *command], cwd=str(self.scratch), environ_update=environment or {}
        )
        if status != 0:
            raise read_failure(name, f"{output}\n{errors}", status)
        return str(output)

    def python(self) -> str:
        """One with pip: that of the module, else of an environment that is gone afterwards."""
        if importlib.util.find_spec("pip"):
            return sys.executable
        environment = self.scratch / "environment"
        program = environment / "bin" / "python"
        if not program.exists():
            self.must("venv", [sys.executable, "-m", "venv", str(environment)])
        return str(program)

    def uv(self) -> str:
        on_path = shutil.which("uv")
        if on_path:
            return on_path
        # That of this machine, whatever the bundle is for.
        home = self.scratch / "uv"
        if not home.exists():
            command = [self.python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            self.must("pip", [*command, "--target", str(home), "uv"])
        return str(home / "bin" / "uv")

    def pinned(self, requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        """What the target needs, to the exact version."""
        if not self.module.params["resolve"]:
            return tuple(one for one in requirements if applies(one.marker, self.target))
        asked, answer = self.scratch / "asked.txt", self.scratch / "pinned.txt"
        asked.write_text(canonical_text(requirements), encoding="utf-8")
        self.must("uv", compile_command(self.uv(), str(asked), str(answer), self.origin, self.target))
        return parse_requirements(answer.read_text(encoding="utf-8"))

    def fetch(self, pins: tuple[Requirement, ...], folder: Path) -> None:
        listed = self.scratch / "fetched.txt"
        listed.write_text(canonical_text(_bare(pins)), encoding="utf-8")
        command = download_command(self.python(), str(listed), str(folder), self.origin, self.target)
        self.must("pip", command, {"PIP_CONFIG_FILE": "/dev/null"} if self.origin.no_index else None)

    def prove(self, folder: Path, asked: tuple[Requirement, ...]) -> str:
        """Raises Refusal where the folder alone does not do. What this machine is set to is no help on the far side."""
        command = prove_command(
            self.python(), str(folder / REQUIREMENTS), str(folder), str(self.scratch / "none"), self.target
        )
        try:
            self.must("pip", command, {"PIP_CONFIG_FILE": "/dev/null"})
            if self.module.params["resolve"]:
                again = self.scratch / "again.txt"
                again.write_text(canonical_text(asked), encoding="utf-8")
                alone = Origin(find_links=(str(folder),), no_index=True)
                command = compile_command(self.uv(), str(again), str(self.scratch / "proof.txt"), alone, self.target)
                self.must("uv", command, {"UV_NO_CONFIG": "1", "UV_FIND_LINKS": ""})
        except Refusal as refusal:
            raise Refusal(
                "bundle_wheels_incomplete",
                f"What was fetched cannot be installed from {folder} alone: {refusal.message}",
                refusal.remedy,
                refusal.evidence,
            ) from None
        return " ".join(self.must("pip", [self.python(), "-m", "pip", "--version"]).split()[:2])


def _bare(pins: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """Without what was judged already: markers and extras are of the resolution."""
    return tuple(Requirement(one.name, one.version, one.specifier, hashes=one.hashes) for one in pins)


def _write(folder: Path, pins: tuple[Requirement, ...], also: tuple[Requirement, ...], target: Target) -> int:
    """Requirements and sums of what is there; what is no part of it goes. Returns the number of wheels."""
    there = read_wheelhouse(str(folder))
    if there is None:
        raise AssertionError(f"{folder} was written, and cannot be read")
    sums = {one.file: sha256_of(folder / one.file) for one in there.wheels}
    known = Wheelhouse(there.wheels, sums)
    chosen = choose(_bare(pins), known, target, str(folder), hashes_required=True)
    further = choose(_bare(also), known, target, str(folder), hashes_required=True)
    kept = {one.file for one in (*chosen.wheels, *further.wheels)}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    # Only the wheel that is taken, not another of the same version for an older platform.
    digests = {one.name: sums[one.file] for one in chosen.wheels}
    hashed = (Requirement(one.name, one.version, one.specifier, hashes=(digests[one.name],)) for one in pins)
    (folder / REQUIREMENTS).write_text(canonical_text(hashed), encoding="utf-8")
    listed = "".join(f"{sums[name]}  {name}\n" for name in sorted(kept))
    (folder / SUMS).write_text(listed, encoding="utf-8")
    return len(kept)


def _made_of(params: dict[str, Any]) -> str:
    names = ("requirements", "resolve", "also", "python_version", "machine", "glibc")
    return hashlib.sha256(repr([params[name] for name in names]).encode()).hexdigest()


def _whole(folder: Path, made_of: str) -> bool:
    """Whether it was proven of the same requirements, and nothing is missing of it."""
    marker = text_of(folder / _MADE_OF)
    if marker is None or marker.split("\n")[0] != made_of:
        return False
    there = read_wheelhouse(str(folder))
    return there is not None and set(there.sums or {}) == {one.file for one in there.wheels}


def _figures(folder: Path) -> dict[str, Any]:
    wheels = list(folder.glob("*.whl"))
    marker = text_of(folder / _MADE_OF)
    return {
        "wheels": len(wheels),
        "size_bytes": sum(one.stat().st_size for one in wheels),
        "proven_by": marker.split("\n")[1] if marker else None,
    }


def make(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    major, minor = (int(part) for part in params["python_version"].split(".")[:2])
    libc = tuple(int(part) for part in params["glibc"].split(".")[:2])
    target = Target((major, minor), params["machine"], (libc[0], libc[1]))
    folder = Path(params["dest"])
    made_of = _made_of(params)
    if _whole(folder, made_of):
        return {"changed": False, **_figures(folder)}
    if module.check_mode:
        return {"changed": True, "wheels": None, "size_bytes": None, "proven_by": None}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        work = Path(scratch, "wheels")
        work.mkdir()
        fetching = Fetching(module, target, scratch)
        asked = parse_requirements(params["requirements"])
        pins = fetching.pinned(asked)
        also = parse_requirements("\n".join(params["also"]))
        fetching.fetch((*pins, *also), work)
        _write(work, pins, also, target)
        proven_by = fetching.prove(work, asked)
        (work / _MADE_OF).write_text(f"{made_of}\n{proven_by}\n", encoding="utf-8")
        work.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    return {"changed": True, **_figures(folder)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "requirements": {"type": "str", "required": True},
            "resolve": {"type": "bool", "default": True},
            "also": {"type": "list", "elements": "str", "default": []},
            "python_version": {"type": "str", "required": True},
            "machine": {"type": "str", "choices": ["x86_64", "aarch64"], "default": "x86_64"},
            "glibc": {"type": "str", "default": "2.36"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "no_index": {"type": "bool", "default": False},
            "index_url": {"type": "str"},
            "extra_index_urls": {"type": "list", "elements": "str", "default": []},
            "timeout_seconds": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**make(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
