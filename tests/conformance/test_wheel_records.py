# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of a solution against what the wheels say, as recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.compiled_for import kernel_targets
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.cuda_lines import BY_VERSION
from ansible_collections.gpufleet.sglang.plugins.module_utils.compatibility.wheels import WHEELS, Wheels
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import Target
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import target_named
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.conformance.record_wheels import ANSWERS

RECORDED: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))
RELEASES: dict[str, Any] = RECORDED["releases"]
# The library that every start needs, wherever its package keeps it.
COMMON = re.compile(r"/common_ops\.")


def test_every_examined_release_has_a_row() -> None:
    assert [wheels.version for wheels in WHEELS] == list(EXAMINED)
    assert {wheels.release for wheels in WHEELS} == set(RELEASES)


@pytest.mark.parametrize("wheels", WHEELS, ids=[wheels.release for wheels in WHEELS])
def test_pins_are_those_of_the_metadata(wheels: Wheels) -> None:
    assert RELEASES[wheels.release]["pins"] == {
        "torch": wheels.torch,
        wheels.kernel_package: wheels.kernel,
        "flashinfer_python": wheels.flashinfer,
    }


@pytest.mark.parametrize("wheels", WHEELS, ids=[wheels.release for wheels in WHEELS])
def test_interpreters_machines_and_c_library_are_those_of_the_names(wheels: Wheels) -> None:
    release, torch = RELEASES[wheels.release], RECORDED["torch"][wheels.torch]
    pythons = {python_of(tag) for tag in torch["tags"]}
    if release["tags"] != ["py3-any"]:
        pythons &= {python_of(tag) for tag in release["tags"]}
    oldest = [int(release["requires_python"].removeprefix(">=3.")), *map(python_of, release["kernel_tags"])]
    assert wheels.pythons == (max(*oldest, min(pythons)), max(pythons))
    assert set(wheels.machines) == {tag.partition("manylinux2014_")[2] for tag in release["kernel_tags"]}
    glibc = [int(text) for tag in (*torch["tags"], *release["tags"]) for text in re.findall(r"manylinux_2_(\d+)_", tag)]
    assert wheels.glibc == max(glibc)


def python_of(tag: str) -> int:
    match = re.match(r"cp3(\d+)-", tag)
    assert match is not None, tag
    return int(match.group(1))


@pytest.mark.parametrize("wheels", WHEELS, ids=[wheels.release for wheels in WHEELS])
def test_the_first_line_is_that_of_pypi(wheels: Wheels) -> None:
    torch = RECORDED["torch"][wheels.torch]
    assert wheels.default_line == torch["cuda"]
    assert wheels.torch_on_arm is torch["cuda_on_aarch64"]
    assert all(line in BY_VERSION for line in wheels.lines)


@pytest.mark.parametrize("name", [name for name in RECORDED["kernels"] if name.startswith("sgl")])
def test_kernels_are_compiled_for_what_the_table_says(name: str) -> None:
    version = name.split("-")[1]
    libraries = RECORDED["kernels"][name]["libraries"]
    (wheels,) = {wheels.kernel: wheels for wheels in WHEELS if wheels.kernel == version}.values()
    for library in filter(COMMON.search, libraries):
        found = {target_named(target) for target in libraries[library]}
        assert found == kernel_targets(wheels, BY_VERSION[wheels.default_line], "x86_64"), library


def test_kernels_at_both_ends_of_every_change_were_read() -> None:
    read = {name.split("-")[1] for name in RECORDED["kernels"] if name.startswith("sgl")}
    kernels = list(dict.fromkeys(wheels.kernel for wheels in WHEELS))
    lines = {wheels.kernel: wheels.default_line for wheels in reversed(WHEELS)}
    for older, newer in zip(kernels[:-1], kernels[1:]):
        before, after = (default_targets(kernel, lines[kernel]) for kernel in (older, newer))
        assert before == after or {older, newer} <= read, (older, newer)


def default_targets(kernel: str, line: str) -> frozenset[Target]:
    wheels = next(wheels for wheels in WHEELS if wheels.kernel == kernel)
    return kernel_targets(wheels, BY_VERSION[line], "x86_64")
