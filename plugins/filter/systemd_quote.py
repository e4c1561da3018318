# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: systemd_quote
version_added: 0.1.0
short_description: Quote an assignment for a systemd unit
description:
  - Quotes C(NAME=value) for C(Environment=) so that systemd passes it on unchanged. Backslashes, double quotes and
    the specifier sign C(%) are escaped, see systemd.syntax(7) and systemd.unit(5).
  - Control characters, line breaks included, are refused, as they would end the directive.
options:
  _input:
    description: The assignment.
    type: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Write an environment line
  ansible.builtin.debug:
    msg: Environment={{ 'GREETING=100 % "yes"' | gpufleet.sglang.systemd_quote }}
  # => Environment="GREETING=100 %% \"yes\""
"""

RETURN = r"""
_value:
  description: The quoted assignment.
  type: str
"""


def systemd_quote(assignment: str) -> str:
    control = next((character for character in assignment if ord(character) < 32 or ord(character) == 127), None)
    if control is not None:
        name = assignment.partition("=")[0]
        raise AnsibleFilterError(
            f"The value of {name!r} holds the control character {control!r}; a unit file takes one line a value. "
            "Remove it."
        )
    escaped = assignment.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"systemd_quote": systemd_quote}
