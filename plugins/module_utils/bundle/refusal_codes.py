# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a bundle from leaving, or from being used: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

_MEANINGS: dict[str, tuple[str, str]] = {
    "bundle_differs": (
        "Files of a bundle are missing, changed, or were added after it was sealed.",
        "Carry the files over again that the message names.",
    ),
    "bundle_manifest_missing": (
        "The folder holds no bundle, or its manifest was left behind.",
        "Carry the whole folder over.",
    ),
    "bundle_manifest_unreadable": (
        "The manifest of a bundle cannot be read, or names files outside of it.",
        "Make or carry the bundle again.",
    ),
    "bundle_model_incomplete": (
        "A model in the bundle is not what its manifest says.",
        "Verify the model at its source, and make the bundle again.",
    ),
    "bundle_model_manifest": (
        "The manifest that came with a model is none.",
        "Take the one that role model_store has made.",
    ),
    "bundle_packages_missing": (
        "The repository that was asked does not have a package, or not all that it needs.",
        "Correct the names, the suite or the sources.",
    ),
    "bundle_packages_incomplete": (
        "The packages in the bundle cannot be installed from it alone.",
        "Add the packages that the message names.",
    ),
    "bundle_part_differs": (
        "A file of a bundle in the making is not what was fetched.",
        "Remove the folder that it is in, and make the bundle again.",
    ),
    "bundle_signature": (
        "The manifest's signature is missing, or is none of the keys that are trusted.",
        "Use no bundle whose maker is not known.",
    ),
    "bundle_sources_missing": (
        "There is no source of packages for the suite that is asked for.",
        "Give bundle_apt_sources.",
    ),
    "bundle_tool_missing": (
        "A program that makes or verifies bundles is not on this machine.",
        "Install what the message names.",
    ),
    "bundle_wheels_incomplete": (
        "The wheels in the bundle cannot be installed from it alone.",
        "Pin what is missing as well.",
    ),
}

CODES: dict[str, ProblemCode] = {
    code: ProblemCode("error", meaning, remedy) for code, (meaning, remedy) in _MEANINGS.items()
}
