# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which environment a request means on this node, whether it is there, and what keeps it from being installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installers import chosen_installer
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.node import (
    environments_below,
    installed_at,
    read_place,
    read_python,
    read_wheelhouse,
    unpacked_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.options import (
    asked_from,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.release import (
    checked_place,
    checked_python,
    checked_version,
    comes_with_packages,
    needed_bytes,
    planned_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.system import read_system


def look_for_release(run_command: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """As M(gpufleet.sglang.release_info) returns it; C(params) are its options, the instance among them."""
    asked = asked_from(params, read_system(Tree(Path("/"))))
    releases = Path(params["install_root"], "releases")
    link = Path(params["install_root"], params["instance"])
    there = environments_below(releases)
    found: dict[str, Any] = {
        "name": None,
        "digest": None,
        "path": f"{releases}/none",
        "installed": False,
        "checks": [],
        "link": str(link.readlink()) if link.is_symlink() else None,
        "others": [one.name for one in there],
        "python": None,
        "interpreter": asked.python,
        "system_packages": list(asked.system_packages),
        "installer": "uv" if asked.installer == "uv" else "pip",
        "needed_bytes": None,
        "free_bytes": read_place(params["install_root"]).free_bytes,
        "refusals": [],
    }
    try:
        if params["instance"] == releases.name:
            raise Refusal(
                "instance_named_as_folder",
                f"sglang_instance is {params['instance']}, which is the folder of the environments.",
                "Expected another name.",
            )
        checked_version(asked.version)
        python = read_python(run_command, asked.python)
        if python is None and comes_with_packages(asked):
            return found
        found["python"] = python.version if python else None
        python = checked_python(asked, python)
        wheelhouse = read_wheelhouse(asked.wheelhouse) if asked.wheelhouse else None
        if asked.wheelhouse and wheelhouse is None:
            raise Refusal(
                "wheelhouse_missing",
                f"There is no folder {asked.wheelhouse} on this node.",
                "Mount it or carry it over, or unset sglang_wheelhouse to install from an index.",
                {"wheelhouse": asked.wheelhouse},
            )
        release = planned_release(asked, python, wheelhouse)
        path = releases / release.name
        record = installed_at(path, release.digest)
        found.update(
            name=release.name,
            digest=release.digest,
            path=str(path),
            installed=record is not None,
            checks=sorted((record or {}).get("checks") or {}),
            others=[one.name for one in there if one.name != release.name],
            installer=chosen_installer(
                asked.installer,
                shutil.which("uv"),
                [one.file for one in wheelhouse.wheels] if wheelhouse else [],
                asked.uv_version,
            ),
        )
        if record is None:
            unpacked = unpacked_bytes(asked.wheelhouse, release.wheels) if asked.wheelhouse else None
            found["needed_bytes"] = needed_bytes(asked.device, unpacked)
            checked_place(read_place(str(releases)), found["needed_bytes"])
    except Refusal as refusal:
        found["refusals"].append(refusal.as_dict())
    return found
