# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: environment_quote
version_added: 0.1.0
short_description: Quote a value for a file of environment variables
description:
  - Quotes the value of C(NAME=value) in a file that systemd reads through C(EnvironmentFile=), so that the service gets
    it unchanged. Backslashes, double quotes, backticks and dollar signs are escaped, see systemd.exec(5).
  - Control characters, line breaks included, are refused, as they would end the assignment.
options:
  _input:
    description: The value.
    type: str
    required: true
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Write a line of the environment
  ansible.builtin.debug:
    msg: GREETING={{ '100 % "yes" for $5' | gpufleet.sglang.environment_quote }}
  # => GREETING="100 % \"yes\" for \$5"
"""

RETURN = r"""
_value:
  description: The quoted value.
  type: str
"""


def environment_quote(value: str) -> str:
    control = next((character for character in value if ord(character) < 32 or ord(character) == 127), None)
    if control is not None:
        raise AnsibleFilterError(
            f"The value holds the control character {control!r}; expected one line. Remove it from sglang_environment."
        )
    return '"' + re.sub(r'([\\"`$])', r"\\\1", value) + '"'


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"environment_quote": environment_quote}
