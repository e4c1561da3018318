# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What a Python source can print, as templates: `Load weight begin. avail mem={get_available_gpu_memory:.2f} GB`.

Found are the texts of logging calls, prints, warnings, process titles and words of progress bars, in every form that
Python has: literals, f-strings, %-formats (also with the arguments of the logging call), str.format, concatenations,
and names that such a text was given before in the same function. A hole keeps the last name of its expression, its
conversion and its format.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_CALLS = re.compile(
    r"^(?:info|warning|warn|error|critical|exception|fatal|log|print\w*|\w*_once|\w*log\w*_on_rank0|rank0_log|rank0_print"
    r"|tqdm\w*|trange|set_description|setproctitle|warn_\w+)$"
)
_PERCENT = re.compile(r"%(?:\((\w+)\))?([-#0 +]*\d*(?:\.\d+)?)([sdifgrxeXc%])")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}:!]*)(![rsa])?(?::([^{}]*))?\}")
# A text may be put together from several alternatives; more than these are not one line any more.
MOST = 12
_DEEPEST = 6
Names = Mapping[str, Sequence[ast.expr]]


@dataclass(frozen=True)
class Template:
    """C(how): the name of the call that prints it."""

    how: str
    text: str


def templates_of(source: str) -> list[Template]:
    return list(_visit(ast.parse(source), {}))


def _visit(node: ast.AST, names: Names) -> Iterator[Template]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        names = {**names, **_texts_of_names(node)}
    if isinstance(node, ast.Call) and _CALLS.match(_name(node.func)):
        yield from (Template(_name(node.func), text) for text in _printed(node, names))
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, names)


def _printed(call: ast.Call, names: Names) -> list[str]:
    """The first argument that is a text, with the arguments behind it put into a %-format."""
    words = [keyword.value for keyword in call.keywords if keyword.arg in ("desc", "msg", "message")]
    for place, argument in enumerate([*call.args, *words]):
        texts = _texts(argument, names)
        if texts:
            rest = call.args[place + 1 :]
            return [_percent(text, rest) if rest and _PERCENT.search(text) else text for text in texts]
    return []


def _texts_of_names(function: ast.AST) -> dict[str, list[ast.expr]]:
    """What names are given in a function, with what is added to them later."""
    given: dict[str, list[ast.expr]] = {}
    added: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.IfExp, ast.Call)):
                given.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            added.setdefault(node.target.id, []).append(node.value)
    for name, pieces in added.items():
        for first in list(given.get(name, ()))[:3]:
            whole: ast.expr = first
            for piece in pieces:
                whole = ast.BinOp(whole, ast.Add(), piece)
            given[name].append(whole)
    return given


def _name(node: ast.AST) -> str:
    """The last name in an expression, which says what it holds."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.BinOp):
        return _name(node.left)
    return _name(node.value) if isinstance(node, ast.Subscript) else ""


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _plain(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


def _hole(name: str, conversion: str = "", form: str = "") -> str:
    return "{" + re.sub(r"\W", "", name) + conversion + (f":{form}" if form else "") + "}"


def _texts(node: ast.expr, names: Names, depth: int = 0) -> list[str]:
    """The texts that an expression may be; none if it is something else."""
    if depth > _DEEPEST:
        return []
    if isinstance(node, ast.Constant):
        return [_escaped(node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return _joined(node, names, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _texts(node.left, names, depth + 1), _texts(node.right, names, depth + 1)
        if not left and not right:
            return []
        before, behind = left or [_hole(_name(node.left))], right or [_hole(_name(node.right))]
        return [one + other for one in before for other in behind][:MOST]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        given = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
        return [_percent(text, given) for text in _texts(node.left, names, depth + 1)]
    if isinstance(node, ast.IfExp):
        one, other = _texts(node.body, names, depth + 1), _texts(node.orelse, names, depth + 1)
        return one + other if one and other else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return [_BRACES.sub(_formatted, _plain(text)) for text in _texts(node.func.value, names, depth + 1)]
    if isinstance(node, ast.Name):
        others = {name: value for name, value in names.items() if name != node.id}
        return [text for given in names.get(node.id, ()) for text in _texts(given, others, depth + 1)][:MOST]
    return []


def _joined(node: ast.JoinedStr, names: Names, depth: int) -> list[str]:
    texts = [""]
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces = [_escaped(str(part.value))]
        elif isinstance(part, ast.FormattedValue):
            conversion = "" if part.conversion == -1 else f"!{chr(part.conversion)}"
            form = _form(part.format_spec)
            known = [] if conversion or form else _texts(part.value, names, depth + 1)
            pieces = known or [_hole(_name(part.value), conversion, form)]
        texts = [text + piece for text in texts for piece in pieces][:MOST]
    return texts


def _form(node: ast.expr | None) -> str:
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)


def _percent(text: str, given: Sequence[ast.expr]) -> str:
    """A %-format with its arguments named."""
    text, rest, done, place = _plain(text), list(given), "", 0
    for found in _PERCENT.finditer(text):
        done += _escaped(text[place : found.start()])
        place = found.end()
        key, form, kind = found.groups()
        if kind == "%":
            done += "%"
            continue
        name = key or (_name(rest.pop(0)) if rest else "")
        done += _hole(name, "!r" if kind == "r" else "", form + ("" if kind in "sr" else kind))
    return done + _escaped(text[place:])


def _formatted(found: re.Match[str]) -> str:
    if found.group(0) in ("{{", "}}"):
        return found.group(0)
    return _hole(found.group(1) or "", found.group(2) or "", found.group(3) or "")
