# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files in which boot loaders keep the kernel's command line, edited word by word. Pure.

Sources: Debian's and Ubuntu's grub-mkconfig, which sources /etc/default/grub and then /etc/default/grub.d/*.cfg; the
Boot Loader Specification (lines C(options)); kernel-install(8) and RHEL's 20-grub.install (/etc/kernel/cmdline for the
entries of kernels to come); grub2-mkconfig of RHEL 9 and 10 (GRUB_CMDLINE_LINUX of /etc/default/grub).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import (
    Argument,
    lacking,
    with_arguments,
    words_of,
)

DROP_IN = "/etc/default/grub.d/99-gpufleet-node-tuning.cfg"
GRUB_DEFAULT = "/etc/default/grub"
GRUB_FOLDER = "/etc/default/grub.d"
KERNEL_CMDLINE = "/etc/kernel/cmdline"
# Both stand in the entry that boots; only the first also in the one for recovery.
VARIABLES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
_HEAD = "# Managed by gpufleet.sglang.node_tuning; run update-grub after a change.\n"
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)=(.*)$")
_QUOTED = re.compile(
    r'^(\s*(?:export\s+)?GRUB_CMDLINE_LINUX=)(?:"([^"`\\]*)"|\x27([^\x27]*)\x27|([^\s"\x27`#\\]*))(\s*(?:#.*)?)$'
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def grub_words(texts: Iterable[str]) -> list[str]:
    """What grub-mkconfig makes of these files, one after the other: the words of both variables.

    What a shell would have to be asked for (command substitution) is taken as it stands.
    """
    values = dict.fromkeys(VARIABLES, "")
    for text in texts:
        for line in text.replace("\\\n", "").splitlines():
            match = _ASSIGNMENT.match(line)
            if match is None:
                continue
            name, written = match.groups()
            single = written.lstrip().startswith("'")
            try:
                parts = shlex.split(written, comments=True)
            except ValueError:
                parts = [written]
            value = parts[0] if parts else ""
            values[name] = value if single else _VARIABLE.sub(lambda found: values.get(found.group(1), ""), value)
    return [word for name in VARIABLES for word in words_of(values[name])]


def drop_in(arguments: Sequence[Argument], there: Sequence[str]) -> str | None:
    """The drop-in that adds what the other files lack; None where nothing is lacking."""
    missing = lacking(there, arguments)
    if not missing:
        return None
    words = " ".join(argument.text for argument in missing)
    reasons = "".join(f"# {argument.text}: {argument.reason}\n" for argument in missing if argument.reason)
    return f'{_HEAD}{reasons}GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"\n'


def with_default(text: str, arguments: Sequence[Argument]) -> str:
    """/etc/default/grub with what its GRUB_CMDLINE_LINUX lacks; the last assignment is the one that counts."""
    lines = text.splitlines(keepends=True)
    for number in range(len(lines) - 1, -1, -1):
        match = _QUOTED.match(lines[number].rstrip("\n"))
        if match is None:
            continue
        value = next((group for group in match.groups()[1:4] if group is not None), "")
        added = _with(value, arguments)
        if added != value:
            end = "\n" if lines[number].endswith("\n") else ""
            quote = "'" if match.group(3) is not None else '"'
            lines[number] = f"{match.group(1)}{quote}{added}{quote}{match.group(5)}{end}"
        return "".join(lines)
    missing = lacking(grub_words([text]), arguments)
    if not missing:
        return text
    end = "" if not text or text.endswith("\n") else "\n"
    words = " ".join(argument.text for argument in missing)
    return f'{text}{end}GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"\n'


def _with(value: str, arguments: Sequence[Argument]) -> str:
    """A line with what it lacks; its own blanks stay as they are."""
    words = words_of(value)
    more = with_arguments(words, arguments)[len(words) :]
    return value if not more else " ".join([*([value] if value.strip() else []), *more])


def with_entry_options(text: str, arguments: Sequence[Argument]) -> str:
    """An entry of the Boot Loader Specification: its last line of options gets what all of them lack."""
    words = entry_words(text)
    more = with_arguments(words, arguments)[len(words) :]
    if not more:
        return text
    lines = text.splitlines(keepends=True)
    for number in range(len(lines) - 1, -1, -1):
        if re.match(r"\s*options\s", lines[number]):
            bare = lines[number].rstrip("\n")
            end = lines[number][len(bare) :]
            lines[number] = f"{bare.rstrip()} {' '.join(more)}{end}"
            return "".join(lines)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}options {' '.join(more)}\n"


def entry_words(text: str) -> list[str]:
    return [
        word
        for line in text.splitlines()
        if re.match(r"\s*options\s", line)
        for word in words_of(line.split(None, 1)[1])
    ]


def with_cmdline(text: str, arguments: Sequence[Argument]) -> str:
    """/etc/kernel/cmdline: words, on one line or on several (comments since systemd 256)."""
    words = cmdline_words(text)
    more = with_arguments(words, arguments)[len(words) :]
    if not more:
        return text
    bare = text.rstrip("\n")
    end = text[len(bare) :] or "\n"
    return f"{bare}{' ' if bare.strip() else ''}{' '.join(more)}{end}"


def cmdline_words(text: str) -> list[str]:
    return [word for line in text.splitlines() if not line.lstrip().startswith("#") for word in words_of(line)]


def default_words(text: str) -> list[str]:
    return grub_words([text])


Edit = Callable[[str, Sequence[Argument]], str]
Words = Callable[[str], list[str]]
