# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Long seeded runs: --rounds says how many rounds a test takes, --seed where the dice start.

A test takes C(dice), and runs once a round, or it takes C(examples), and hypothesis draws so many a round. What takes
minutes a round runs less often: --interruptions. C(rows) are shown as a table when all is over.
"""

from __future__ import annotations

import random
from typing import Any, Callable

import hypothesis
import pytest
from hypothesis import strategies

from ansible_collections.gpufleet.sglang.tests.campaign.interruptions.points import PARTS

EXAMPLES_A_ROUND = 4
# A provision of a node that is interrupted takes as long as some hundred plans: of a slice there is one.
ROUNDS_AN_INTERRUPTION = 10
SLICE_ROUNDS = 100
SLICE_PARTS = "models,server"
ROWS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=25, help="rounds of each test")
    parser.addoption("--seed", type=int, default=1, help="seed of the first round")
    parser.addoption(
        "--interruptions",
        type=int,
        help=f"rounds of interrupted provisions; unless given a {ROUNDS_AN_INTERRUPTION}th of --rounds, and one of"
        f" fewer than {SLICE_ROUNDS}",
    )
    parser.addoption(
        "--parts",
        help="parts of the chain that are provisioned and interrupted, by the tags of site; unless given all of them,"
        f" and of a single round {SLICE_PARTS}",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for row in config.stash[ROWS]:
        terminalreporter.write_line(row)


@pytest.fixture(name="rows", scope="session")
def _rows(pytestconfig: pytest.Config) -> list[str]:
    """Lines that are shown when all is over."""
    return pytestconfig.stash[ROWS]


def interruptions_of(config: pytest.Config) -> int:
    asked: int | None = config.getoption("--interruptions")
    rounds: int = config.getoption("--rounds")
    return asked if asked is not None else rounds // ROUNDS_AN_INTERRUPTION if rounds >= SLICE_ROUNDS else 1


@pytest.fixture(name="interruptions", scope="session")
def _interruptions(pytestconfig: pytest.Config) -> int:
    """How many provisions are interrupted."""
    return interruptions_of(pytestconfig)


@pytest.fixture(name="parts", scope="session")
def _parts(pytestconfig: pytest.Config, interruptions: int) -> list[str]:
    """The parts of the chain, by the tags of site."""
    asked: str | None = pytestconfig.getoption("--parts")
    return (asked or (SLICE_PARTS if interruptions == 1 else ",".join(PARTS))).split(",")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dice" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        seeds = range(first, first + metafunc.config.getoption("--rounds"))
        metafunc.parametrize("dice", [random.Random(seed) for seed in seeds], ids=[f"seed{seed}" for seed in seeds])
    if "seed_of_interruption" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        last = first + interruptions_of(metafunc.config)
        metafunc.parametrize("seed_of_interruption", range(first, last), ids=lambda seed: f"seed{seed}")


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
