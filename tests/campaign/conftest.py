# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long seeded runs: --rounds says how many rounds a test takes, --seed where the dice start."""

from __future__ import annotations

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=25, help="rounds of each test")
    parser.addoption("--seed", type=int, default=1, help="seed of the first round")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dice" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        seeds = range(first, first + metafunc.config.getoption("--rounds"))
        metafunc.parametrize("dice", [random.Random(seed) for seed in seeds], ids=[f"seed{seed}" for seed in seeds])
