# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.keys import KeyFile, differing, key_file_problems

GOOD = KeyFile("/k", 0, 0o100600, b"sk-0123456789\n")


def test_a_key_that_only_root_reads_is_fine() -> None:
    assert key_file_problems({"api_key": GOOD, "admin_api_key": KeyFile("/a", 0, 0o100400, b"other")}) == []


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (None, "is not there"),
        (KeyFile("/k", 0, 0o100644, b"sk-1"), "has mode 0644"),
        (KeyFile("/k", 1000, 0o100600, b"sk-1"), "belongs to user 1000"),
        (KeyFile("/k", 0, 0o100600, b"\n"), "is empty"),
        (KeyFile("/k", 0, 0o100600, b"two words"), "blanks"),
        (KeyFile("/k", 0, 0o100600, "sk-ü".encode()), "no printable ASCII"),
        (KeyFile("/k", 0, 0o100600, None), "cannot be decrypted"),
    ],
)
def test_what_is_wrong_is_said_without_the_key(file: KeyFile | None, said: str) -> None:
    (sentence,) = key_file_problems({"api_key": file})
    assert said in sentence
    assert "sk-1" not in sentence
    assert "two words" not in sentence


def test_one_key_for_both_is_refused() -> None:
    (sentence,) = key_file_problems({"api_key": GOOD, "admin_api_key": KeyFile("/a", 0, 0o100600, b"sk-0123456789")})
    assert "the same" in sentence


@pytest.mark.parametrize(
    ("running", "names"),
    [
        ({"api_key": b"sk-0123456789"}, []),
        ({"api_key": b"sk-0123456789\n\n"}, []),
        ({"api_key": b"sk-another"}, ["api_key"]),
        ({"api_key": None}, ["api_key"]),
        ({}, ["api_key"]),
    ],
)
def test_the_running_server_has_another_key(running: dict[str, bytes | None], names: list[str]) -> None:
    assert differing({"api_key": GOOD}, running) == names


def test_a_file_that_is_gone_is_no_change() -> None:
    assert differing({"api_key": None}, {"api_key": b"sk"}) == []
