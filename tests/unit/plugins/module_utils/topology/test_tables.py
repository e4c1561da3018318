# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import SEVERITIES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import BOARDS, board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.gpu import ARCHITECTURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import CODES, problem


def test_every_problem_says_how_bad_it_is_and_what_to_do() -> None:
    for code, known in CODES.items():
        assert re.fullmatch(r"[a-z0-9_]+", code)
        assert known.severity in SEVERITIES
        assert known.meaning.endswith(".")
        assert known.remedy.endswith(".")


def test_problem_takes_severity_and_remedy_from_the_table() -> None:
    found = problem("gpu_lost", "GPU 3: GPU is lost.")
    assert (found.code, found.severity, found.message) == ("gpu_lost", "error", "GPU 3: GPU is lost.")
    assert found.remedy == CODES["gpu_lost"].remedy


def test_catalogue_is_well_formed() -> None:
    for pci_id, board in BOARDS.items():
        assert re.fullmatch(r"10de:[0-9a-f]{4}", pci_id)
        assert re.fullmatch(r"\d+\.\d", board.compute_capability)
        assert board.architecture in ARCHITECTURES.values()


def test_catalogue_knows_the_founding_board() -> None:
    board = board_of("10de:2bb5")
    assert board is not None
    assert (board.memory_bytes, board.compute_capability) == (102641958912, "12.0")
    assert board_of("10de:ffff") is None
    assert board_of(None) is None
