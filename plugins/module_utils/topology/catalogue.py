# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards by PCI device id, for a host without a driver, and by name, for a machine that is only on paper.

The rows are in boards.py, what CUDA sees of the memory in board_memory.py, links in board_links.py; each says where its
numbers are from.
"""

from __future__ import annotations

import difflib
import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_links import LINKS, PCIE, SXM
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.board_memory import CUDA_MEMORY
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.boards import ROWS, Board

CATALOGUE: tuple[Board, ...] = tuple(
    Board(
        name=name,
        memory_mib=memory_mib,
        compute_capability=capability,
        architecture=architecture,
        source=source,
        nvlink=nvlink,
        nominal_gb=nominal_gb,
        pci_id=pci_id,
        cuda=CUDA_MEMORY.get(name),
        links=LINKS.get(name),
    )
    for pci_id, name, memory_mib, nominal_gb, capability, architecture, source, nvlink in ROWS
)

BOARDS: dict[str, Board] = {board.pci_id: board for board in CATALOGUE if board.pci_id is not None}

# Why a well-known board is not in the catalogue.
_UNIFIED = (
    "The GPU of NVIDIA GB10 (DGX Spark) has no memory of its own: device and host pools come out of the same bytes, "
    "which a plan counts as two."
)
LEFT_OUT = {"NVIDIA GB10": _UNIFIED, "DGX Spark": _UNIFIED}

# What a name says beside the board itself.
_NOISE = frozenset({"nvidia", "geforce", "tesla", "gpu", "tensor", "core", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6"})


def board_of(pci_id: str | None) -> Board | None:
    """The board with this C(vendor:device) id, in lower-case hexadecimal digits."""
    return BOARDS.get(pci_id or "")


def board_named(text: str) -> Board:
    """The board that a person means: its name as nvidia-smi prints it, or C(H100-80GB-SXM), C(h200), C(L40S).

    A name that fits several boards, or none, is refused with those that are closest.
    """
    for board in CATALOGUE:
        if board.name == text.strip():
            return board
    asked = _words(text)
    for name, reason in LEFT_OUT.items():
        if asked == _words(name):
            raise Refusal("board_not_planned", f"{text!r} cannot be planned for. {reason}", "Expected another board.")
    exact = [board for board in CATALOGUE if asked == _words(board.name)]
    fitting = exact or [board for board in CATALOGUE if asked and asked <= _words(board.name) | _more_words(board)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = [board.name for board in fitting]
        raise Refusal(
            "board_ambiguous",
            f"{text!r} fits {len(names)} boards of the catalogue.",
            f"Expected one of {', '.join(names)}.",
            {"board": text, "fitting": names},
        )
    closest = _closest(text)
    raise Refusal(
        "board_unknown",
        f"{text!r} is no board of the catalogue.",
        (f"The closest: {', '.join(closest)}. " if closest else "")
        + "State a board that is not there as topology.gpus with name, memory_total_bytes and compute_capability.",
        {"board": text, "closest": closest},
    )


def _words(text: str) -> frozenset[str]:
    found = re.findall(r"[a-z0-9]+", text.lower())
    return frozenset(re.sub(r"^sxm\d$", "sxm", word) for word in found if word not in _NOISE)


def _more_words(board: Board) -> set[str]:
    """What people write beside a board's name: its size, and SXM or PCIe."""
    words = set() if board.nominal_gb is None else {f"{board.nominal_gb}gb"}
    if board.links is not None and board.links.form in (SXM, PCIE):
        words.add(board.links.form)
    return words


def _closest(text: str) -> list[str]:
    """By the whole name, or else by the word that tells boards apart (h300: h200, h800)."""
    plain = {_spelled(board.name): board.name for board in CATALOGUE}
    found = [plain[name] for name in difflib.get_close_matches(_spelled(text), list(plain), n=2, cutoff=0.7)]
    if not found:
        models = {word: board.name for board in reversed(CATALOGUE) for word in _words(board.name) if _is_model(word)}
        for word in sorted(filter(_is_model, _words(text))):
            found += [models[name] for name in difflib.get_close_matches(word, list(models), n=3, cutoff=0.7)]
    return list(dict.fromkeys(found))[:3]


def _spelled(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def _is_model(word: str) -> bool:
    return re.fullmatch(r"[a-z]+\d+[a-z]*|\d{4}", word) is not None
