# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long seeded runs: --rounds says how many rounds a test takes, --seed where the dice start.

A test takes C(dice), and runs once a round, or it takes C(examples), and hypothesis draws so many a round.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import hypothesis
import pytest
from hypothesis import strategies

EXAMPLES_A_ROUND = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=25, help="rounds of each test")
    parser.addoption("--seed", type=int, default=1, help="seed of the first round")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dice" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        seeds = range(first, first + metafunc.config.getoption("--rounds"))
        metafunc.parametrize("dice", [random.Random(seed) for seed in seeds], ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture(name="examples")
def _examples(pytestconfig: pytest.Config) -> Callable[..., None]:
    """C(examples(check, strategy)) calls the check with what the strategy draws; a failure is shown at its smallest."""

    def examples(check: Callable[[Any], None], strategy: strategies.SearchStrategy[Any]) -> None:
        settings = hypothesis.settings(
            max_examples=pytestconfig.getoption("--rounds") * EXAMPLES_A_ROUND,
            deadline=None,
            # Nothing is carried from one run to the next: the seed alone decides.
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        run = settings(hypothesis.seed(pytestconfig.getoption("--seed"))(hypothesis.given(strategy)(check)))
        run()

    return examples
