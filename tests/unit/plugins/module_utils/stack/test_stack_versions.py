# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.versions import driver_release, version_key


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("6.8.0-45-generic", "6.8.0-100-generic"),
        ("6.8.0-100-generic", "6.17.0-3-generic"),
        ("5.14.0-503.40.1.el9_5.x86_64", "5.14.0-570.12.1.el9_6.x86_64"),
        ("6.12~rc1", "6.12"),
        ("6.1.0", "6.1.0-10-amd64"),
        ("0-rescue-ffff", "5.14.0-1.el9.x86_64"),
        ("570.9.1", "570.86.10"),
        ("6.8.0-generic", "6.8.0-1"),
    ],
)
def test_the_newer_version_sorts_behind(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_a_number_of_any_length_is_compared() -> None:
    assert version_key("9" * 10_000) > version_key("1")


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("570.86.15-0ubuntu1", "570.86.15"),
        ("3:595.58.03-1.el9", "595.58.03"),
        ("535.54-1", "535.54"),
        ("580.65.06", "580.65.06"),
        ("550.163.01-4~deb12u1", "550.163.01"),
        ("12.8.93-1", None),
        ("1.17.4-1", None),
        ("", None),
        (None, None),
        ("2025.03", None),
    ],
)
def test_the_drivers_release_in_a_packages_version(version: str | None, release: str | None) -> None:
    assert driver_release(version) == release
