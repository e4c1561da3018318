# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys, tokens and passwords, taken out of what leaves a node. No I/O.

Known values are replaced wherever they stand; what only looks like a secret, or stands behind a name that says so, is
replaced as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import without_secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import plain_lines

HIDDEN = "***"
# Of a file of a key, of a variable that is named like a key, and of any other variable: a shorter text is as likely a
# word or a number, which would be taken out of every line.
SHORTEST_KEY, SHORTEST_NAMED, SHORTEST_OTHER = 4, 6, 12
# A word of a name, so that tokenizer-path and max-total-tokens are none.
_NAMED = re.compile(
    r"(?:^|[_-])(?:api[_-]?)?(?:keys?|token|secrets?|passw(?:or)?d|passphrase|credentials?|auth|bearer)(?:$|[_-](?!path|file|dir))",
    re.IGNORECASE,
)
# Settings of the server and of what it stands on. The values of all other variables may be anything.
_SHOWN = re.compile(
    r"(?:SGLANG|NCCL|CUDA|OMP|MKL|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|PYTHON|TRITON|FLASHINFER|UCX|NVSHMEM|GLOO|"
    r"GPUFLEET|NVIDIA|MALLOC|KMP)(?:_\w+|[A-Z]+)?\Z|(?:HOME|PATH|LD_LIBRARY_PATH|LD_PRELOAD|LANG|LC_ALL|TMPDIR|HF_HUB_OFFLINE|"
    r"HF_HOME|TRANSFORMERS_OFFLINE)\Z"
)
_ASSIGNMENT = re.compile(r"\A([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)
_SETTING = re.compile(r"\A(\s*(?:- )?)([A-Za-z0-9_-]+)(\s*:\s*)(.+)\Z", re.DOTALL)
# Words of Environment=: each may be quoted as a whole.
_WORD = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\S+")


def names_a_secret(name: str) -> bool:
    return _NAMED.search(name) is not None


def shown_value(name: str, value: str) -> str:
    """The value of a variable of the environment, if it is none that may hold a secret."""
    return value if _SHOWN.match(name) and not names_a_secret(name) else HIDDEN


def assignments(text: str) -> dict[str, str]:
    """The variables of an environment file, as systemd takes it; quotes are taken off, escapes stay."""
    found = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line.strip())
        if match is not None:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def variables_of_unit(text: str) -> dict[str, str]:
    """The variables that a unit file sets by itself."""
    found = {}
    for line in text.splitlines():
        if line.strip().startswith("Environment="):
            for word in _WORD.findall(line.strip().partition("=")[2]):
                match = _ASSIGNMENT.match(_unquoted(word))
                if match is not None:
                    found[match[1]] = match[2]
    return found


def secret_values(variables: Mapping[str, str], keys: Iterable[str]) -> list[str]:
    """What has to be nowhere: keys, and values of variables that are not shown. The longest first."""
    found = {key for key in keys if len(key) >= SHORTEST_KEY}
    for name, value in variables.items():
        least = SHORTEST_NAMED if names_a_secret(name) else SHORTEST_OTHER
        if shown_value(name, value) == HIDDEN and len(value) >= least:
            found.add(value)
    return sorted(found, key=lambda value: (-len(value), value))


def concealed(text: str, values: Collection[str] = ()) -> str:
    """The lines of a text without what a terminal obeys, and without secrets."""
    for value in values:
        if value in text:
            text = text.replace(value, HIDDEN)
    return without_secrets(plain_lines(text))


def concealed_in(whole: Any, values: Collection[str] = ()) -> Any:
    """The same for every text of a JSON-safe value; texts under a name of a secret go whole."""
    if isinstance(whole, Mapping):
        return {
            concealed(str(name), values): HIDDEN
            if isinstance(part, str) and part and names_a_secret(str(name))
            else concealed_in(part, values)
            for name, part in whole.items()
        }
    if isinstance(whole, (list, tuple)):
        return [concealed_in(part, values) for part in whole]
    return concealed(whole, values) if isinstance(whole, str) else whole


def shown_config(text: str, values: Collection[str] = ()) -> str:
    """The configuration of a server, in lines of C(name: value)."""
    lines = []
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match is not None and names_a_secret(match[2]):
            line = f"{match[1]}{match[2]}{match[3]}{HIDDEN}"
        lines.append(line)
    return concealed("\n".join(lines), values)


def shown_unit(text: str, values: Collection[str] = ()) -> str:
    """A unit file whose variables are shown as those of an environment file."""
    return "\n".join(_shown_line(line, values) for line in text.splitlines())


def _shown_line(line: str, values: Collection[str]) -> str:
    key, _sign, rest = line.partition("=")
    if key.strip() == "Environment":
        words = [_ASSIGNMENT.match(_unquoted(word)) for word in _WORD.findall(rest)]
        shown = [f"{one[1]}={shown_value(one[1], one[2])}" for one in words if one is not None]
        return concealed(f"{key}={' '.join(shown)}", values)
    if key.strip() in ("SetCredential", "SetCredentialEncrypted"):
        return f"{key}={rest.partition(':')[0]}:{HIDDEN}"
    # Where a key lies is no secret, and looks like one.
    return line if key.strip().startswith("LoadCredential") else concealed(line, values)
