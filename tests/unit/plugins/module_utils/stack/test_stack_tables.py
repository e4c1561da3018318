# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The table of problem codes: each is stated somewhere, and each has a whole sentence and a remedy."""

import re
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack import problem_codes

SOURCES = Path(problem_codes.__file__).resolve().parent


def stated() -> set[str]:
    found = set()
    for path in SOURCES.glob("*findings.py"):
        found |= set(re.findall(r'problem\(\s*"(\w+)"', path.read_text(encoding="utf-8")))
    return found


def test_every_code_is_stated_and_every_stated_code_exists() -> None:
    assert stated() == set(problem_codes.CODES)


@pytest.mark.parametrize("code", sorted(problem_codes.CODES))
def test_meaning_and_remedy_are_sentences(code: str) -> None:
    entry = problem_codes.CODES[code]
    assert entry.severity in SEVERITIES
    for text in (entry.meaning, entry.remedy):
        assert text[0].isupper() or text.startswith(("nouveau", "/dev/shm")), text
        assert text.endswith("."), text
