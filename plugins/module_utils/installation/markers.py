# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Environment markers of requirements (PEP 508), for a Python that need not be the one that runs. Pure."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target

_TOKEN = re.compile(r"\s*(\(|\)|and\b|or\b|not\s+in\b|in\b|===|==|!=|<=|>=|~=|<|>|'[^']*'|\"[^\"]*\"|[a-zA-Z_.]+)")


def _variables(target: Target) -> dict[str, str]:
    python = f"{target.python[0]}.{target.python[1]}"
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": target.machine,
        "implementation_name": target.implementation,
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def _number(text: str) -> tuple[int, ...] | None:
    return tuple(int(part) for part in text.split(".")) if re.fullmatch(r"\d+(\.\d+)*", text) else None


def _compared(left: str, operator: str, right: str) -> bool:
    if operator in ("in", "not in"):
        return (left in right) == (operator == "in")
    first, second = _number(left), _number(right.removesuffix(".*"))
    if first is None or second is None or operator == "===":
        return (left == right) == (operator != "!=")
    if right.endswith(".*") or operator == "~=":
        head = first[: len(second)] == second if operator != "~=" else first >= second and first[:-1] == second[:-1]
        return head == (operator != "!=")
    width = max(len(first), len(second))
    a, b = first + (0,) * (width - len(first)), second + (0,) * (width - len(second))
    return {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator]


def applies(marker: str, target: Target) -> bool:
    """Whether a requirement with this marker is one of the target. A marker that cannot be read applies."""
    if not marker:
        return True
    tokens = [token.group(1) for token in _TOKEN.finditer(marker)]
    if "".join(tokens).replace(" ", "") != re.sub(r"\s+", "", marker):
        return True
    variables = _variables(target)
    position = 0

    def value() -> str:
        nonlocal position
        token = tokens[position]
        position += 1
        if token[0] in "'\"":
            return token[1:-1]
        return variables[token.replace(".", "_")]

    def atom() -> bool:
        nonlocal position
        if tokens[position] == "(":
            position += 1
            inside = either()
            position += 1
            return inside
        left = value()
        operator = re.sub(r"\s+", " ", tokens[position])
        position += 1
        return _compared(left, operator, value())

    def both() -> bool:
        nonlocal position
        result = atom()
        while position < len(tokens) and tokens[position] == "and":
            position += 1
            result = atom() and result
        return result

    def either() -> bool:
        nonlocal position
        result = both()
        while position < len(tokens) and tokens[position] == "or":
            position += 1
            result = both() or result
        return result

    try:
        return either()
    except (KeyError, IndexError):
        return True
