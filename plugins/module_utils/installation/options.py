# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that describe an environment, in the modules that look for it and that make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import Asked
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.distribution import from_distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import OperatingSystem

RELEASE_OPTIONS: dict[str, dict[str, Any]] = {
    "install_root": {"type": "path", "required": True},
    "version": {"type": "str", "required": True},
    "device": {"type": "str", "choices": ["cuda", "cpu"], "default": "cuda"},
    "python": {"type": "path"},
    "requirements": {"type": "str"},
    "installer": {"type": "str", "choices": ["auto", "pip", "uv"], "default": "auto"},
    "uv_version": {"type": "str"},
    "wheelhouse": {"type": "path"},
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "require_hashes": {"type": "bool"},
}
# Of the modules that look for it.
LOOK_OPTIONS: dict[str, dict[str, Any]] = {
    **RELEASE_OPTIONS,
    "instance": {"type": "str", "required": True},
    "system_packages": {"type": "list", "elements": "str"},
}


def asked_from(params: Mapping[str, Any], system: OperatingSystem) -> Asked:
    own = from_distribution(system)
    # What installs has none of them before it: they are there by then.
    packages = params.get("system_packages", ())
    return Asked(
        version=params["version"],
        device=params["device"],
        python=params["python"] or own.python,
        requirements=params["requirements"],
        installer=params["installer"],
        uv_version=params["uv_version"],
        wheelhouse=params["wheelhouse"],
        index_url=params["index_url"],
        extra_index_urls=tuple(params["extra_index_urls"]),
        require_hashes=params["require_hashes"],
        system_packages=own.packages if packages is None else tuple(packages),
    )
