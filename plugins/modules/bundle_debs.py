#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_debs
version_added: 0.1.0
short_description: Fetch packages of Debian or Ubuntu for a bundle, with all that they need, and prove that they suffice
description:
  - Fetches packages and everything that they depend on for a suite that need not be this machine's, with an apt of its
    own that leaves the machine's alone, and makes a repository of them that apt reads from the folder.
  - Then their installation is simulated from that repository alone.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: partial
    details: Tells whether the folder is there and made of the same names.
  diff_mode:
    support: none
  platform:
    platforms: debian
options:
  dest:
    description: Folder of the repository. It is made, and what is not of it is removed.
    type: path
    required: true
  packages:
    description: Names of packages, with C(=version) where one is meant.
    type: list
    elements: str
    required: true
  suite:
    description: Suite of the machines, such as V(bookworm).
    type: str
    required: true
  architecture:
    description: Their architecture, as dpkg calls it.
    type: str
    default: amd64
  sources:
    description:
      - Lines or stanzas of sources of packages. This machine's own for Debian or Ubuntu, with its suite replaced, if
        not given.
    type: str
  status:
    description:
      - A copy of C(/var/lib/dpkg/status) of a machine as they are before; what is installed there is not fetched.
      - Without it everything is fetched that a machine without any package would need.
    type: path
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.bundle_seal
"""

EXAMPLES = r"""
- name: Fetch what the role sglang installs on Debian 12
  gpufleet.sglang.bundle_debs:
    dest: /srv/bundle/debs/bookworm
    suite: bookworm
    packages: [python3-venv, python3-dev, g++, numactl]
"""

RETURN = r"""
packages:
  description: Number of packages.
  returned: always
  type: int
  sample: 61
size_bytes:
  description: What they take.
  returned: always
  type: int
  sample: 98000000
"""

import email.utils
import hashlib
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.apt import (
    apt_options,
    own_sources,
    unresolved_refusal,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.archive import (
    Deb,
    packages_index,
    release_file,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.bundle.hashing import sha256_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_MADE_OF = ".made-of"
_ETC = Path("/etc")


class Apt:
    """One apt with a folder of its own."""

    def __init__(self, module: AnsibleModule, root: Path, status: str) -> None:
        self.module = module
        self.root = root
        for name in ("state/lists/partial", "cache/archives/partial", "etc/sources.list.d", "etc/preferences.d"):
            (root / name).mkdir(parents=True)
        (root / "etc" / "sources.list").touch()
        self.options = apt_options(str(root), module.params["architecture"], status)

    def run(self, *words: str) -> tuple[int, str]:
        status, output, errors = self.module.run_command(
            ["apt-get", *self.options, *words],
            environ_update={"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
        return status, f"{output}\n{errors}"


def _own_files() -> list[tuple[str, str]]:
    apt = _ETC / "apt"
    paths = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    return [(path.name, text) for path in paths if path.suffix in (".list", ".sources") and (text := text_of(path))]


def _sources(module: AnsibleModule) -> dict[str, str]:
    given, suite = module.params["sources"], module.params["suite"]
    if given:
        # Stanzas have fields; lines begin with what they are of.
        return {"given.list" if re.search(r"^\s*deb(-src)?\s", given, re.MULTILINE) else "given.sources": given}
    release = text_of(_ETC / "os-release") or ""
    codename = re.search(r"^VERSION_CODENAME=(\w+)", release, re.MULTILINE)
    found = own_sources(_own_files(), codename[1], suite) if codename else {}
    if not found:
        raise Refusal(
            "bundle_sources_missing",
            f"This machine has no source of {suite} of its own.",
            "Give bundle_apt_sources, such as 'deb http://deb.debian.org/debian bookworm main'.",
            {"suite": suite},
        )
    return found


def _index(module: AnsibleModule, folder: Path) -> None:
    debs = []
    for path in sorted(folder.glob("*.deb")):
        _status, control, _errors = module.run_command(["dpkg-deb", "--field", str(path)], check_rc=True)
        debs.append(Deb(path.name, control, path.stat().st_size, sha256_of(path)))
    index = packages_index(debs).encode()
    (folder / "Packages").write_bytes(index)
    text = release_file(module.params["suite"], email.utils.formatdate(usegmt=True), {"Packages": index})
    (folder / "Release").write_text(text, encoding="utf-8")


def _fetch(module: AnsibleModule, work: Path, scratch: Path, status: str) -> None:
    apt = Apt(module, scratch / "apt", status)
    for name, text in _sources(module).items():
        (apt.root / "etc" / "sources.list.d" / name).write_text(text, encoding="utf-8")
    code, output = apt.run("update")
    if code != 0:
        raise unresolved_refusal(
            "bundle_packages_missing", "The sources of packages cannot be read", output, "Correct bundle_apt_sources."
        )
    code, output = apt.run("install", "--yes", "--download-only", *module.params["packages"])
    if code != 0:
        raise unresolved_refusal(
            "bundle_packages_missing",
            f"{module.params['suite']} does not have all of what is asked for",
            output,
            "Correct the names in bundle_packages, or give sources that have them.",
        )
    for path in (apt.root / "cache" / "archives").glob("*.deb"):
        # An epoch is escaped in the name, which a path in an index may not be.
        shutil.move(str(path), work / path.name.replace("%3a", "_"))


def _prove(module: AnsibleModule, folder: Path, scratch: Path, status: str) -> None:
    apt = Apt(module, scratch / "proof", status)
    (apt.root / "etc" / "sources.list.d" / "bundle.list").write_text(
        f"deb [trusted=yes] file:{folder} ./\n", encoding="utf-8"
    )
    _code, updated = apt.run("update")
    code, output = apt.run("install", "--yes", "--simulate", *module.params["packages"])
    if code != 0:
        raise unresolved_refusal(
            "bundle_packages_incomplete",
            f"The packages in {folder} cannot be installed from it alone",
            f"{updated}\n{output}",
            "Make the bundle again; where packages are named by version, name what they need as well.",
        )


def _made_of(module: AnsibleModule) -> str:
    params = module.params
    status = text_of(Path(params["status"]), 64 << 20) if params["status"] else ""
    names = [sorted(params["packages"]), params["suite"], params["architecture"], params["sources"], status]
    return hashlib.sha256(repr(names).encode()).hexdigest()


def _figures(folder: Path) -> dict[str, Any]:
    debs = list(folder.glob("*.deb"))
    return {"packages": len(debs), "size_bytes": sum(one.stat().st_size for one in debs)}


def make(module: AnsibleModule) -> dict[str, Any]:
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Refusal(
                "bundle_tool_missing",
                f"{program} is not on this machine.",
                "Make the packages of a bundle on Debian or Ubuntu, or leave bundle_packages empty.",
                {"program": program},
            )
    folder = Path(module.params["dest"])
    made_of = _made_of(module)
    if (text_of(folder / _MADE_OF) or "").strip() == made_of:
        return {"changed": False, **_figures(folder)}
    if module.check_mode:
        return {"changed": True, "packages": None, "size_bytes": None}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as name:
        scratch = Path(name)
        work = scratch / "debs"
        work.mkdir()
        status = module.params["status"] or str(scratch / "status")
        Path(scratch, "status").touch()
        _fetch(module, work, scratch, status)
        _index(module, work)
        _prove(module, work, scratch, status)
        (work / _MADE_OF).write_text(f"{made_of}\n", encoding="utf-8")
        work.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    return {"changed": True, **_figures(folder)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "suite": {"type": "str", "required": True},
            "architecture": {"type": "str", "default": "amd64"},
            "sources": {"type": "str"},
            "status": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**make(module))
    except Refusal as refusal:
        module.fail_json(**refusal.as_result())


if __name__ == "__main__":
    main()
