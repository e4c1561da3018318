# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

WIDTH = 100


class ActionModule(ActionBase):
    """Prints a titled block of lines as they are, without the quoting that C(debug) adds."""

    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            argument_spec={
                "title": {"type": "str", "required": True},
                "lines": {"type": "list", "elements": "str", "required": True},
            }
        )
        title, lines = arguments["title"], arguments["lines"]
        rule = "─" * max(4, WIDTH - len(title) - 4)
        Display().display(
            "\n".join([f"── {title} {rule}", *(f"  {line}" if line else "" for line in lines), "─" * WIDTH])
        )
        result.update(changed=False, title=title, lines=lines)
        return result
