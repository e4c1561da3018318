# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a release from being installed: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

_MEANINGS: dict[str, tuple[str, str]] = {
    "builds_differ": (
        "A compiled part of the environment was built against another build of a library than the one beside it.",
        "Pin torch and the kernels as the release of SGLang names them, all of one CUDA line.",
    ),
    "hashes_missing": (
        "Requirements have no hashes where they are required, as with a wheelhouse unless said otherwise.",
        "Give the hashes, or a SHA256SUMS in the wheelhouse; or set sglang_require_hashes to false.",
    ),
    "hashes_partial": (
        "Some of the requirements have hashes and others have none, which no installer takes.",
        "Give all of them their hash, or none.",
    ),
    "import_crashed": (
        "An import ended the interpreter, as a library does that has instructions which the processor lacks.",
        "Take builds that suit the processor, the kernel and the driver.",
    ),
    "import_failed": (
        "A module of the installed release cannot be imported. The release that runs was not touched.",
        "Correct the pins or the environment as the message says.",
    ),
    "index_url_holds_credentials": (
        "The address of an index has a password in it, which argv and output would show.",
        "Give it in sglang_index_credentials.",
    ),
    "install_failed": (
        "The installer failed in a way that is not known here.",
        "Look at the end of its output, which is among the evidence.",
    ),
    "install_hash_differs": (
        "A wheel is not the one that the hash was made of.",
        "Carry the file over again, or take the requirements that belong to it.",
    ),
    "install_hash_missing": (
        "The installer wants a hash for a package that has none, such as one that another needs.",
        "Pin it with its hash.",
    ),
    "install_index_unreachable": (
        "The node does not reach the index of packages.",
        "Name one that it reaches, or install from a bundle.",
    ),
    "install_no_space": (
        "The disk was full before the environment was whole. What was written has been removed.",
        "Make room, or choose another install root.",
    ),
    "install_not_found": (
        "The index or the wheelhouse has no wheel of a package that fits the node.",
        "Look for one of the node's Python and platform.",
    ),
    "install_python_unfit": (
        "A package asks for another Python than the one of the environment.",
        "Choose an interpreter that it takes.",
    ),
    "install_root_noexec": (
        "The file system of the environments lets nothing be run.",
        "Remount it, or choose another install root.",
    ),
    "install_root_read_only": (
        "The file system of the environments cannot be written.",
        "Remount it, or choose another install root.",
    ),
    "install_root_too_small": (
        "The file system of the environments has not enough room for one more.",
        "Make room by the bytes that the message names.",
    ),
    "install_timeout": (
        "The installer did not end in the time that it was given.",
        "Look at its last words; give it more with sglang_install_timeout_seconds where it was merely slow.",
    ),
    "install_unauthorised": (
        "The index of packages wants a login.",
        "Give it in sglang_index_credentials.",
    ),
    "instance_named_as_folder": (
        "The instance has the name of a folder that the role keeps beside the instances' links.",
        "Give it another name.",
    ),
    "library_missing": (
        "A shared library that the release needs is not on the node.",
        "Install the package that the message names.",
    ),
    "library_too_old": (
        "The release was built for a newer C library than the distribution has.",
        "Take wheels for an older manylinux, or a newer distribution.",
    ),
    "module_missing": (
        "The pins lack a package that SGLang imports.",
        "Add it to them.",
    ),
    "release_python_missing": (
        "The interpreter that the environment is to be made from is not there and does not come with the packages.",
        "Name its package, or another interpreter.",
    ),
    "python_too_old": (
        "The release needs a newer Python.",
        "Choose an interpreter of the version that the message names.",
    ),
    "python_without_venv": (
        "The distribution's Python is there without venv, which Debian and Ubuntu have in a package of its own.",
        "Name that package.",
    ),
    "requirements_line": (
        "A line of the requirements is no pin of a package.",
        "Leave packages with their versions only.",
    ),
    "requirements_of_another_release": (
        "The requirements are of another release of SGLang than the one that is planned.",
        "Take those of the release, or plan the release that they pin.",
    ),
    "release_not_installed": (
        "The environment is not there, or was never finished.",
        "Install it first.",
    ),
    "uv_missing": (
        "uv was asked for, and is neither on the node nor where it could be installed from.",
        "Put its wheel into the wheelhouse, or install with pip.",
    ),
    "version_is_image_tag": (
        "The version is that of a container image, with the CUDA line in it; the package has no such version.",
        "Give the version that the message names.",
    ),
    "wheel_for_another_target": (
        "The wheelhouse has the package, but for another Python, processor or C library.",
        "Fetch wheels for the node's own.",
    ),
    "wheel_hash_differs": (
        "Requirements and wheelhouse name different hashes for the same wheel.",
        "Take both from one bundle.",
    ),
    "wheel_missing": (
        "The wheelhouse lacks a package that is pinned.",
        "Fill it anew from the same pins.",
    ),
    "wheel_not_in_sums": (
        "A wheel lies in the wheelhouse that its SHA256SUMS does not know.",
        "Carry the folder over again.",
    ),
    "wheelhouse_and_index": (
        "Both a wheelhouse and an index are given.",
        "Give one of them.",
    ),
    "wheelhouse_missing": (
        "The folder of wheels is not on the node.",
        "Mount it or carry it over; the bundle has it under wheels/<line>.",
    ),
}

CODES: dict[str, ProblemCode] = {
    code: ProblemCode("error", meaning, remedy) for code, (meaning, remedy) in _MEANINGS.items()
}
