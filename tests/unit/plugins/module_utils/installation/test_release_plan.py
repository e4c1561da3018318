# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.asked import (
    Asked,
    NodePython,
    Place,
    Wheelhouse,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.release import (
    checked_place,
    checked_python,
    comes_with_packages,
    needed_bytes,
    planned_release,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target, parse_wheel
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

PYTHON = NodePython("3.11.2", Target((3, 11), "x86_64", (2, 36)), makes_environments=True)
FILES = (
    "sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl",
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
)
SUMS = {FILES[0]: "a" * 64, FILES[1]: "b" * 64}
PINS = "sglang==0.5.23\ntorch==2.13.0+cpu\n"
ASKED = Asked("0.5.23", "cpu", "/usr/bin/python3", PINS, wheelhouse="/srv/wheelhouse")


def house(*files: str, sums: dict[str, str] | None = None, requirements: str | None = None) -> Wheelhouse:
    wheels = tuple(wheel for wheel in map(parse_wheel, files or FILES) if wheel)
    return Wheelhouse(wheels, SUMS if sums is None else sums, requirements)


def refusal(asked: Asked, wheelhouse: Wheelhouse | None = None, python: NodePython = PYTHON) -> Refusal:
    with pytest.raises(Refusal) as refused:
        planned_release(asked, python, wheelhouse)
    return refused.value


def test_the_hashes_of_the_wheelhouse_are_what_is_required_in_an_air_gap() -> None:
    release = planned_release(ASKED, PYTHON, house())
    assert release.hashed
    assert not release.resolve
    assert f"--hash=sha256:{'a' * 64}" in release.requirements
    assert [one.file for one in release.wheels] == list(FILES)
    assert release.name == f"0.5.23-{release.digest[:12]}"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        # The same bytes are the same release, wherever they come from and whoever unpacks them.
        ({"wheelhouse": "/mnt/other"}, True),
        ({"installer": "uv"}, True),
        ({"requirements": "# a word\ntorch==2.13.0+cpu\nsglang==0.5.23\n"}, True),
        ({"python": "/usr/bin/python3.11"}, False),
    ],
)
def test_the_digest_is_of_what_makes_the_environment(change: dict[str, Any], same: bool) -> None:
    digests = {planned_release(asked, PYTHON, house()).digest for asked in (ASKED, replace(ASKED, **change))}
    assert (len(digests) == 1) is same


def test_another_python_or_another_wheel_is_another_release() -> None:
    newer = NodePython("3.11.2", replace(PYTHON.target, machine="aarch64"), makes_environments=True)
    asked = replace(ASKED, wheelhouse=None, requirements=f"sglang==0.5.23 --hash=sha256:{'a' * 64}")
    assert planned_release(asked, PYTHON, None).digest != planned_release(asked, newer, None).digest
    changed = house(sums={**SUMS, FILES[1]: "c" * 64})
    assert planned_release(ASKED, PYTHON, house()).digest != planned_release(ASKED, PYTHON, changed).digest


def test_an_index_counts_only_where_no_hash_says_what_is_meant() -> None:
    def digest(text: str | None, url: str) -> str:
        asked = Asked("0.5.23", "cuda", "/usr/bin/python3", text, index_url=url)
        return planned_release(asked, PYTHON, None).digest

    hashed = f"sglang==0.5.23 --hash=sha256:{'a' * 64}"
    assert digest(hashed, "https://one/simple") == digest(hashed, "https://two/simple")
    assert digest("sglang==0.5.23", "https://one/simple") != digest("sglang==0.5.23", "https://two/simple")


def test_the_requirements_of_a_bundle_are_found_beside_its_wheels() -> None:
    release = planned_release(replace(ASKED, requirements=None), PYTHON, house(requirements=PINS))
    assert release.digest == planned_release(ASKED, PYTHON, house()).digest


def test_without_pins_the_release_alone_is_resolved() -> None:
    release = planned_release(Asked("0.5.23", "cuda", "/usr/bin/python3"), PYTHON, None)
    assert (release.requirements, release.resolve, release.hashed) == ("sglang==0.5.23\n", True, False)


REFUSED: dict[str, tuple[Asked, Wheelhouse | None, str]] = {
    "version_is_image_tag": (replace(ASKED, version="v0.5.9-cu130"), None, '"0.5.9"'),
    "sglang_version_malformed": (replace(ASKED, version="latest"), None, "0.5.23"),
    "requirements_of_another_release": (replace(ASKED, version="0.5.22"), house(), "sglang==0.5.22"),
    "wheel_missing": (replace(ASKED, requirements=PINS + "einops==0.8.2\n"), house(), "einops==0.8.2"),
    "wheel_for_another_target": (
        ASKED,
        house(FILES[0].replace("cp311", "cp312"), FILES[1]),
        "sglang-0.5.23-cp312-cp312-manylinux_2_34_x86_64.whl",
    ),
    "wheel_not_in_sums": (ASKED, house(sums={FILES[0]: "a" * 64}), FILES[1]),
    "wheel_hash_differs": (
        replace(ASKED, requirements=f"sglang==0.5.23 --hash=sha256:{'f' * 64}\n"),
        house(),
        FILES[0],
    ),
    "hashes_missing": (ASKED, Wheelhouse(house().wheels), "sha256sum"),
    "hashes_partial": (
        replace(ASKED, wheelhouse=None, requirements=f"{PINS}einops==0.8.2 --hash=sha256:{'a' * 64}\n"),
        None,
        "sglang",
    ),
    "index_url_holds_credentials": (
        Asked("0.5.23", "cpu", "/usr/bin/python3", index_url="https://u:hunter2/9@pypi.example.com/simple"),
        None,
        "pypi.example.com",
    ),
    "wheelhouse_and_index": (replace(ASKED, index_url="https://pypi.org/simple"), house(), "sglang_wheelhouse"),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_an_installer_would_refuse_late_is_refused_early(code: str) -> None:
    asked, wheelhouse, named = REFUSED[code]
    found = refusal(asked, wheelhouse)
    assert found.code == code
    assert named in str(found)
    assert "hunter2" not in str(found)


def test_a_wheelhouse_without_sums_is_taken_where_it_is_said_so() -> None:
    release = planned_release(replace(ASKED, require_hashes=False), PYTHON, Wheelhouse(house().wheels))
    assert not release.hashed


def test_a_python_is_held_against_the_release() -> None:
    old = NodePython("3.10.12", Target((3, 10), "x86_64", (2, 35)), makes_environments=True)
    with pytest.raises(Refusal, match=r"3\.11 or newer") as refused:
        checked_python(ASKED, old)
    assert refused.value.code == "python_too_old"
    checked_python(replace(ASKED, version="0.5.9"), old)
    with pytest.raises(Refusal) as refused:
        checked_python(ASKED, None)
    assert refused.value.code == "release_python_missing"


def test_venv_may_come_with_the_packages() -> None:
    bare = replace(PYTHON, makes_environments=False)
    with pytest.raises(Refusal, match=r"python3\.11-venv"):
        checked_python(ASKED, bare)
    checked_python(replace(ASKED, system_packages=("python3-venv",)), bare)


def test_an_interpreter_may_come_with_the_packages() -> None:
    asked = replace(ASKED, python="/usr/bin/python3.12", system_packages=("python3.12-venv",))
    assert comes_with_packages(asked)
    assert not comes_with_packages(replace(asked, system_packages=("python3-venv",)))


PLACES = {
    "install_root_noexec": Place("/opt/sglang", 10**12, executable=False),
    "install_root_read_only": Place("/opt/sglang", 10**12, writable=False),
    "install_root_too_small": Place("/opt/sglang", 10**9),
}


@pytest.mark.parametrize("code", PLACES)
def test_a_place_that_will_not_do_is_refused(code: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked_place(PLACES[code], needed_bytes("cpu", 2 * 10**9))
    assert refused.value.code == code


def test_the_room_that_is_missing_is_said() -> None:
    with pytest.raises(Refusal, match=r"needs 3\.50 GB, 2\.50 GB more"):
        checked_place(PLACES["install_root_too_small"], needed_bytes("cpu", 2 * 10**9))
