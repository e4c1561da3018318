# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.environment_quote import environment_quote


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("b", '"b"'),
        ("", '""'),
        ("100 %", '"100 %"'),
        ('"b"', r'"\"b\""'),
        ("C:\\x", r'"C:\\x"'),
        ("%h$HOME;`id`", r'"%h\$HOME;\`id\`"'),
        ("it's", '"it\'s"'),
        ("grün", '"grün"'),
    ],
)
def test_systemd_passes_the_value_on_unchanged(value: str, quoted: str) -> None:
    assert environment_quote(value) == quoted


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\x00", "\x7f"])
def test_what_would_end_the_line_is_refused(character: str) -> None:
    with pytest.raises(AnsibleFilterError, match="expected one line"):
        environment_quote(f"b{character}LD_PRELOAD=evil")
