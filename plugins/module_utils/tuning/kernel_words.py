# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words of the kernel's command line: what is there, what contradicts, what is added and taken out. Pure.

Sources: Linux, admin-guide/kernel-parameters.txt and kernel-parameters.rst (quotes, dashes and underscores).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# Parameters that may stand several times, each time with something else to say.
_SEVERAL = frozenset(
    {"console", "earlycon", "earlyprintk", "modprobe.blacklist", "module_blacklist", "rd.driver.blacklist", "rd.lvm.lv"}
    | {"hugepages", "crashkernel", "ip", "dyndbg"}
)
# Lists of options after the first equals sign; each option of them is what counts.
_OPTIONS = frozenset({"pci", "amd_iommu", "intel_iommu", "pcie_ports"})
# What makes a word pointless: with these there is no IOMMU to be passed through, or it is not passed through.
CONTRADICTIONS: Mapping[str, tuple[str, ...]] = {
    "iommu=pt": (
        "iommu=off",
        "iommu=soft",
        "iommu=nopt",
        "iommu.passthrough=0",
        "intel_iommu=off",
        "amd_iommu=off",
    ),
}
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_ALLOWED = re.compile(r'[A-Za-z0-9_.-]+(=[^\s"$`\\\x27]*)?$')
# Who boots and from where is not this role's, nor what keeps a login or a rescue possible.
_FOREIGN = frozenset({"root", "ro", "rw", "init", "initrd", "rdinit", "BOOT_IMAGE", "systemd.unit", "single", "resume"})


@dataclass(frozen=True)
class Argument:
    """Words that belong together, such as C(hugepagesz=1G hugepages=0:4), and why they are wanted."""

    words: tuple[str, ...]
    reason: str = ""

    @property
    def text(self) -> str:
        return " ".join(self.words)


def words_of(line: str | None) -> list[str]:
    return _WORD.findall(line or "")


def key_of(word: str) -> str:
    """The kernel takes dashes for underscores in names."""
    return word.partition("=")[0].replace("-", "_")


def arguments_of(given: Iterable[tuple[str, str]]) -> tuple[Argument, ...]:
    """What a person wrote: a text is an argument, of one word or of several that belong together; and the reason."""
    found: list[Argument] = []
    for text, reason in given:
        words = tuple(text.split())
        wrong = [word for word in words if not _ALLOWED.match(word) or key_of(word) in _FOREIGN]
        if not words or wrong:
            raise Refusal(
                "kernel_argument_wrong",
                f"node_tuning_kernel_arguments has '{text}'.",
                "Expected name or name=value without quotes and blanks, and none of what decides where the machine "
                f"boots from ({', '.join(sorted(_FOREIGN))}).",
            )
        argument = Argument(words, one_line(reason))
        word = conflict([word for other in found for word in other.words], argument)
        if word is not None:
            raise Refusal(
                "kernel_argument_twice",
                f"Both {word} and {argument.text} are asked for.",
                "Ask for one of the two.",
            )
        if argument.words not in [other.words for other in found]:
            found.append(argument)
    return tuple(found)


def holds(line: Sequence[str], argument: Argument) -> bool:
    """Whether the words stand there, side by side."""
    count = len(argument.words)
    return any(tuple(line[at : at + count]) == argument.words for at in range(len(line) - count + 1))


def conflict(line: Sequence[str], argument: Argument) -> str | None:
    """The word of the line that says something else than the argument."""
    if holds(line, argument):
        return None
    for wanted in argument.words:
        against = CONTRADICTIONS.get(wanted, ())
        for word in line:
            if word in against or _says_else(wanted, word):
                return word
    return None


def _says_else(wanted: str, word: str) -> bool:
    name, value = _parts(wanted)
    other, found = _parts(word)
    if name != other:
        return False
    if name == "hugepagesz":
        # The number of pages stands behind it, and would be another one.
        return _size(found) == _size(value)
    if word == wanted or name in _SEVERAL:
        return False
    return _options_differ(value, found) if name in _OPTIONS else True


def _parts(word: str) -> tuple[str, str]:
    return key_of(word), word.partition("=")[2]


def _size(text: str) -> str:
    return text.strip().upper().removesuffix("B")


def _options_differ(wanted: str, found: str) -> bool:
    """Whether two lists of options give one of them two values: C(realloc=off) and C(realloc=on)."""
    there = {part.partition("=")[0]: part for part in found.split(",")}
    parts = wanted.split(",")
    if any(there.get(part.partition("=")[0], part) != part for part in parts):
        return True
    return {"on", "off"} <= {*parts, *there}


def with_arguments(line: Sequence[str], arguments: Iterable[Argument]) -> list[str]:
    """The line with what it lacks, at its end."""
    words = list(line)
    for argument in arguments:
        if not holds(words, argument):
            words += argument.words
    return words


def lacking(line: Sequence[str], arguments: Iterable[Argument]) -> list[Argument]:
    return [argument for argument in arguments if not holds(line, argument)]


def without_words(text: str, words: Iterable[str]) -> str:
    """A text without these words, each with the blank before it; all else stays to the byte."""
    for word in words:
        bare = re.escape(word)
        text = re.sub(rf"(?<=[\s\"\x27])({bare})(?=[\s\"\x27]|$)", "\0", f" {text}")[1:]
        text = re.sub(r"[ \t]+\0|\0[ \t]?", "", text)
    return text
