# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The markup of Ansible's documentation as Markdown.

The marks are those of https://docs.ansible.com/ansible/latest/dev_guide/ansible_markup.html.
"""

from __future__ import annotations

import re

_MARK = re.compile(
    # Their arguments may hold parentheses, when these are escaped;
    r"\b(?:(?P<code>O|V|E|RV|P)\((?P<escaped>(?:\\.|[^\\)])*)\)"
    # those of the others end at the first one.
    r"|(?P<plain>[ICBUMLR])\((?P<text>[^)]*)\))"
)
_RULE = "HORIZONTALLINE"


def to_markdown(text: str) -> str:
    """A paragraph as Markdown; what is not marked stands for itself."""
    parts, end = [], 0
    for mark in _MARK.finditer(text):
        parts += [_prose(text[end : mark.start()]), _marked(mark)]
        end = mark.end()
    return "".join([*parts, _prose(text[end:])]).replace(_RULE, "\n\n---\n\n")


def code(text: str) -> str:
    """A span of code, whatever is in it."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def cell(text: str) -> str:
    """Markdown as the cell of a table: the bar divides cells, in spans of code as well, and a row is one line."""
    return text.replace("|", r"\|").replace("\n\n", "<br>").replace("\n", " ")


def _prose(text: str) -> str:
    # An underscore within a word marks nothing, and no text here has another.
    return re.sub(r"([*<`])", r"\\\1", text)


def _marked(mark: re.Match[str]) -> str:
    if mark["code"]:
        content = re.sub(r"\\(.)", r"\1", mark["escaped"])
        if mark["code"] == "P":
            return code(content.split("#")[0])
        # An option of another plugin or entry point is named before it: gpufleet.sglang.memory_plan#module:speculative.
        return code(content.split("#")[1].split(":", 1)[1] if _names_another(mark["code"], content) else content)
    text = mark["text"]
    if mark["plain"] in "LR":
        label, target = (part.strip() for part in text.split(",", 1))
        return f"[{_prose(label)}]({target})" if mark["plain"] == "L" else _prose(label)
    forms = {"I": f"*{_prose(text)}*", "B": f"**{_prose(text)}**", "U": f"<{text}>"}
    return forms.get(mark["plain"], code(text))


def _names_another(mark: str, content: str) -> bool:
    return mark in ("O", "RV") and bool(re.match(r"[a-z0-9_.]+#\w+:", content))
