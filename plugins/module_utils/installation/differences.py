# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an environment would change against another, for the diff. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import (
    normalised,
    parse_requirements,
)


def package_diff(before: Mapping[str, str], requirements: str) -> dict[str, str]:
    """Only the packages that differ: a hundred that do not would hide them. Empty where nothing does."""
    old = {normalised(name): version for name, version in before.items()}
    new = {one.name: one.version or one.specifier.lstrip("=") for one in parse_requirements(requirements)}
    # pip and setuptools are in every environment that venv makes.
    gone = set(old) - set(new) - {"pip", "setuptools", "wheel"}
    changed = sorted({name for name, version in new.items() if old.get(name) != version} | gone)
    return {
        "before_header": "installed packages",
        "after_header": "packages to be installed",
        "before": "".join(f"{name}=={old[name]}\n" for name in changed if name in old),
        "after": "".join(f"{name}=={new[name]}\n" for name in changed if name in new),
    }
