# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names, addresses and serial numbers replaced by pseudonyms that stay the same through a document. No I/O.

Nodes are numbered in the order of their names, so that the same nodes get the same numbers again. Loopback and wildcard
addresses say nothing of a network and stay, and so do digests, addresses on the PCI bus and releases.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# A name in a text, with what follows it in the same word.
_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PARTS = re.compile(r"([_.-])")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f.]{0,15}(?:%[\w.-]+)?(?![\w:])")
_MAC = re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4,18}(?![\w:-])")
_UUID = re.compile(r"(?<![\w-])(?:GPU-|MIG-)?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])")
_ID = re.compile(r"(?<![\w])[0-9a-f]{32}(?![\w])")
# Keys under which a whole text is an identity.
_IDENTITY = re.compile(r"(?:\A|_)(?:serial|serial_number|uuid|machine_id|boot_id|invocation_id)\Z")
# Keys whose texts are words of the document's own form, whatever a host is called.
_FIXED = frozenset(
    ("kind", "state", "severity", "code", "stage", "label", "verdict", "outcome", "result", "device", "meter", "source")
    + ("load_state", "active_state", "sub_state", "exec_main_code", "job")
)
# Keys whose texts have four numbers and are no addresses.
_RELEASE = re.compile(r"(?:version|release|releases|kernel|loaded|user_space|pci_address)\Z")
# Words that hosts are called and texts are full of: replaced where they are the name of a node, not in sentences.
_COMMON = frozenset(
    (
        "node",
        "nodes",
        "host",
        "hosts",
        "gpu",
        "gpus",
        "main",
        "server",
        "servers",
        "worker",
        "workers",
        "master",
        "head",
        "localhost",
        "local",
        "default",
        "all",
        "none",
        "test",
        "cuda",
        "cpu",
        "linux",
        "debian",
        "ubuntu",
        "sglang",
        "root",
        "system",
        "true",
        "false",
        "good",
        "bad",
    )
)
_NUMBERS = re.compile(r"(\d+)")


@dataclass
class Pseudonyms:
    """What stands for what; C(names) are those of nodes, and of the machines behind them."""

    names: dict[str, str]
    found: dict[str, dict[str, str]] = field(default_factory=dict)
    # Most texts of a fleet are those of many of its nodes.
    texts: dict[tuple[str, bool], str] = field(default_factory=dict)

    def of(self, kind: str, text: str) -> str:
        known = self.found.setdefault(kind, {})
        return known.setdefault(text.lower(), f"{kind}-{len(known) + 1}")


def pseudonyms_of(names: Iterable[tuple[str, Iterable[str]]]) -> Pseudonyms:
    """C(names): each node with the other names that its machine goes by."""
    ordered = sorted(names, key=lambda one: [int(part) if part.isdigit() else part for part in _keyed(one[0])])
    digits = max(3, len(str(len(ordered))))
    known: dict[str, str] = {}
    for number, (name, others) in enumerate(ordered, start=1):
        told = f"node-{number:0{digits}}"
        for one in (name, *others, *(one.split(".")[0] for one in (name, *others) if not _is_address(one))):
            known.setdefault(one.lower(), told)
    return Pseudonyms(known)


def _keyed(name: str) -> list[str]:
    """Texts and numbers in turn, so that no number is compared with a text."""
    return _NUMBERS.split(name.lower())


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def redacted(whole: Any, known: Pseudonyms, key: str = "") -> Any:
    """Every text of a JSON-safe value, names of dictionaries included where they are no words."""
    if isinstance(whole, Mapping):
        return {_name(str(name), known): redacted(part, known, str(name)) for name, part in whole.items()}
    if isinstance(whole, (list, tuple)):
        return [redacted(part, known, key) for part in whole]
    if not isinstance(whole, str) or not whole or key in _FIXED:
        return whole
    if _IDENTITY.search(key):
        return known.of("id", whole)
    if key in ("node", "hostname", "address"):
        return known.names.get(whole.lower()) or redacted_text(whole, known)
    return redacted_text(whole, known, addresses=_RELEASE.search(key) is None)


def _name(name: str, known: Pseudonyms) -> str:
    """A host may be called as a part of the document is; with a digit, a dot or a colon it is none of its form."""
    return redacted_text(name, known) if any(mark.isdigit() or mark in ".:" for mark in name) else name


def redacted_text(text: str, known: Pseudonyms, addresses: bool = True) -> str:
    before = known.texts.get((text, addresses))
    if before is None:
        before = known.texts[text, addresses] = _redacted_text(text, known, addresses)
    return before


def _redacted_text(text: str, known: Pseudonyms, addresses: bool) -> str:
    text = _UUID.sub(lambda found: known.of("id", found[0]), text)
    text = _ID.sub(lambda found: known.of("id", found[0]), text)
    text = _MAC.sub(lambda found: known.of("mac", found[0]), text)
    if addresses:
        text = _IPV4.sub(lambda found: _address(found[0], known), text)
        if ":" in text:
            text = _IPV6.sub(lambda found: _address(found[0], known), text)
    return _WORD.sub(lambda found: _named(found[0], known), text) if known.names else text


def _address(text: str, known: Pseudonyms) -> str:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if address.is_loopback or address.is_unspecified:
        return text
    return known.names.get(text.lower()) or known.of("address", str(address))


def _named(word: str, known: Pseudonyms) -> str:
    """A word with every name in it replaced, and the domain behind it left out; the longest name counts."""
    lowered = word.lower()
    if lowered in known.names:
        return word if lowered in _COMMON else known.names[lowered]
    if not _PARTS.search(word):
        return word
    parts = _PARTS.split(word)
    for size in range(len(parts) - 2, 0, -2):
        for start in range(0, len(parts) - size + 1, 2):
            name = "".join(parts[start : start + size]).lower()
            if name in known.names and name not in _COMMON:
                before, after = "".join(parts[:start]), parts[start + size :]
                if after and after[0] == "." and not after[1].isdigit():
                    after = _behind_domain(after)
                return f"{before}{known.names[name]}{''.join(after)}"
    return word


def _behind_domain(parts: list[str]) -> list[str]:
    """What is left behind C(.example.org), which tells whose node it is."""
    rest = list(parts)
    while len(rest) > 1 and rest[0] == ".":
        rest = rest[2:]
    return rest
