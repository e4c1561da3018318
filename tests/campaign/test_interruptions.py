# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A whole provision, from a bare node with GPUs to a served one with a key, interrupted at a point that is drawn.

Each round boots the node anew, interrupts C(gpufleet.sglang.site) and now and then also the run that follows, runs it
again as anybody would, and holds the node against one that was never interrupted. --interruptions says how many rounds,
--parts which parts of the chain; a slice of one round leaves out driver, CUDA and settings.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.campaign.interruptions import chain, judging
from ansible_collections.gpufleet.sglang.tests.campaign.interruptions.points import Point, draw, recorded_tasks
from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, Outcome

KEY = "sentinel-chain-7d20b1f6ce93a4"
LOGS = ROOT / ".build/results/interruptions"
AGAIN = "make campaign SEED={seed} ARGS='--interruptions=1 --parts={parts} -k interrupted_anywhere'"
HEAD = f"{'seed':>4}  {'verdict':7}  {'re-run':>7}  {'third':>7}  interrupted by"


@dataclass
class Bench:
    """C(reference): what a node holds that was not interrupted; empty where only one round is played."""

    key_file: Path
    parts: list[str]
    rows: list[str]
    reference: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    played: int = 0

    def provision(self, *, told_all: bool = True) -> tuple[chain.Provision, Outcome]:
        run = chain.Provision(self.key_file, self.parts, told_all=told_all)
        return run, run.finish()


@dataclass
class Round:
    """Everything that the plays of a round have said, kept in a file each."""

    name: str
    outputs: list[str] = field(default_factory=list)

    def keep(self, outcome: Outcome) -> None:
        self.outputs.append(outcome.output)
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / f"{self.name}.{len(self.outputs)}.log").write_text(outcome.output, encoding="utf-8")

    def said_key(self) -> list[str]:
        return [f"the key is in the output of run {n}" for n, text in enumerate(self.outputs, 1) if KEY in text]


@pytest.fixture(scope="module", name="bench")
def fixture_bench(
    tmp_path_factory: pytest.TempPathFactory, interruptions: int, parts: list[str], rows: list[str]
) -> Iterator[Bench]:
    key_file = tmp_path_factory.mktemp("chain") / "key.json"
    key_file.touch(mode=0o600)
    key_file.write_text(json.dumps({"sglang_api_key": KEY}), encoding="utf-8")
    bench = Bench(key_file, parts, rows)
    if interruptions > 1:
        bench.reference = uninterrupted(bench)
    rows.append(HEAD)
    yield bench
    rows.append(f"interrupted provisions: {bench.passed} of {bench.played} ended in a served node")
    chain.remove()


def uninterrupted(bench: Bench) -> dict[str, str]:
    """A run that nothing interrupts, judged as all others: what it leaves, they have to leave."""
    chain.boot()
    kept = Round("uninterrupted")
    run, first = bench.provision()
    kept.keep(first)
    before = chain.look(KEY)
    again, second = bench.provision(told_all=False)
    kept.keep(second)
    found = judging.judge(first, second, before, chain.look(KEY), KEY, bench.parts) + kept.said_key()
    assert not found, "\n".join(found)
    if run.tasks() != recorded_tasks(bench.parts):
        bench.rows.append("tasks.txt is older than the roles: write it anew, see record.py beside it")
    bench.rows.append(f"uninterrupted: {run.seconds:.0f} s, then {again.seconds:.0f} s with nothing to do")
    return dict(before["contents"])


def interrupted(bench: Bench, kept: Round, points: list[Point]) -> None:
    for number, point in enumerate(points):
        run = chain.Provision(bench.key_file, bench.parts)
        reached = run.reach(point)
        outcome = chain.interrupt(run, point.kind) if reached else run.finish()
        kept.keep(outcome)
        # A run that follows passes by what the one before has done.
        assert reached or number, f"the play never came to {point}; write tasks.txt anew, see record.py beside it"


def test_a_provision_that_is_interrupted_anywhere_is_made_good_by_a_plain_run(
    bench: Bench, seed_of_interruption: int
) -> None:
    points = draw(random.Random(f"round {seed_of_interruption}"), recorded_tasks(bench.parts))
    kept = Round(f"seed{seed_of_interruption}")
    bench.played += 1
    began = time.monotonic()
    chain.boot()
    interrupted(bench, kept, points)
    run, rerun = bench.provision()
    kept.keep(rerun)
    before = chain.look(KEY)
    again, third = bench.provision(told_all=False)
    kept.keep(third)
    after = chain.look(KEY)
    found = judging.judge(rerun, third, before, after, KEY, bench.parts) + kept.said_key()
    found += judging.differs(before, bench.reference) if bench.reference else []
    again_by = AGAIN.format(seed=seed_of_interruption, parts=",".join(bench.parts))
    found += [f"the controller has the key in {place}" for place in chain.left_on_controller(bench.key_file, KEY)]
    told = ", then ".join(map(str, points))
    verdict = "FAILED" if found else "served"
    bench.rows.append(
        f"{seed_of_interruption:>4}  {verdict:7}  {run.seconds:>5.0f} s  {again.seconds:>5.0f} s  {told}"
        f" ({time.monotonic() - began:.0f} s in all)"
    )
    assert not found, "\n".join([told, *found, f"Again: {again_by}", f"Logs: {LOGS}"])
    bench.passed += 1
