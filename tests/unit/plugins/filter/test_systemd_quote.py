# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.systemd_quote import systemd_quote


@pytest.mark.parametrize(
    ("assignment", "quoted"),
    [
        ("A=b", '"A=b"'),
        ("A=100 %", '"A=100 %%"'),
        ('A="b"', r'"A=\"b\""'),
        ("A=C:\\x", r'"A=C:\\x"'),
        ("A=%h$HOME;`id`", '"A=%%h$HOME;`id`"'),
        ("A=grün", '"A=grün"'),
    ],
)
def test_systemd_passes_the_value_on_unchanged(assignment: str, quoted: str) -> None:
    assert systemd_quote(assignment) == quoted


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\x00", "\x7f"])
def test_what_would_end_the_directive_is_refused_by_name(character: str) -> None:
    with pytest.raises(AnsibleFilterError, match="'A'"):
        systemd_quote(f"A=b{character}ExecStart=evil")
