# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate with a make of the test's own, whose stages do what the test says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

GATE = Path(__file__).resolve().parents[3] / "tools" / "gate"
STAGES = (
    *("acceptance-rehearsal", "molecule-rehearsal", "molecule-roles", "acceptance-nodes"),
    *("lint", "docs", "conformance", "campaign", "units", "sanity", "units-oldest", "sanity-oldest"),
)
FIRST = ("acceptance-rehearsal", "acceptance-nodes", "lint")
SUITE = '<testsuites><testsuite tests="%d" failures="%d" errors="0" skipped="%d"/></testsuites>'


class Project:
    """A folder with the gate, and a make whose stages are scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / ".build" / "results"
        for name in ("tools", "bin", "stages"):
            (folder / name).mkdir()
        shutil.copy(GATE, folder / "tools" / "gate")
        self.script(folder / "bin" / "make", f'exec "{folder}/stages/$2"')
        for name in STAGES:
            self.stage(name, f"echo {name} says")

    def script(self, path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def stage(self, name: str, text: str) -> None:
        self.script(self.folder / "stages" / name, text)

    def start(self, *stages: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.folder / "tools" / "gate", *stages],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *stages: str) -> tuple[int, str]:
        process = self.start(*stages)
        output, _errors = process.communicate(timeout=60)
        return process.returncode, output


@pytest.fixture(name="project")
def fixture_project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def wait_for(path: str) -> str:
    return f"timeout 20 sh -c 'until [ -e {path} ]; do sleep 0.05; done'"


def test_the_lanes_go_side_by_side_and_each_output_is_in_one_piece(project: Project) -> None:
    project.stage("acceptance-rehearsal", f"echo one; touch waits; {wait_for('computes')} && echo two")
    project.stage("sanity", f"echo three; {wait_for('waits')} && {wait_for('also')} && touch computes; echo four >&2")
    project.stage("acceptance-nodes", f"touch also; {wait_for('computes')}")
    status, output = project.run()
    assert status == 0, output
    assert re.search(r"═══ acceptance-rehearsal: 1 passed, 0 failed, \d+ s ═══\none\ntwo\n", output), output
    assert re.search(r"═══ sanity: 1 passed, 0 failed, \d+ s ═══\nthree\nfour\n", output), output
    assert output.endswith("\n12 passed, 0 failed\n")


def test_tests_are_counted_out_of_a_stages_own_files(project: Project) -> None:
    files = {"units.modules": (5, 1, 2), "units.controller": (7, 0, 0), "units-oldest": (3, 0, 0)}
    for name, numbers in files.items():
        stage = name.split(".", maxsplit=1)[0]
        script = project.folder / "stages" / stage
        before = script.read_text(encoding="utf-8")
        project.stage(stage, f"{before}\necho '{SUITE % numbers}' >.build/results/{name}.xml")
    status, output = project.run("units", "units-oldest")
    assert status == 1
    assert re.search(r"^units +9 +1 +2 ", output, re.MULTILINE), output
    assert re.search(r"^units-oldest +3 +0 +0 ", output, re.MULTILINE), output
    assert output.endswith("\n12 passed, 1 failed, 2 skipped\n")


def test_every_stage_runs_whatever_fails_and_a_failure_outside_of_tests_counts(project: Project) -> None:
    project.stage("lint", "exit 3")
    project.stage("docs", f"echo '{SUITE % (4, 0, 0)}' >.build/results/docs.xml; exit 1")
    project.stage("conformance", "echo '<testsuites><tests' >.build/results/conformance.xml; kill -KILL $$")
    status, output = project.run()
    assert status == 1
    for stage, passed in {"lint": 0, "docs": 4, "conformance": 0}.items():
        assert re.search(rf"^{stage} +{passed} +1 ", output, re.MULTILINE), output
    assert output.endswith("\n13 passed, 3 failed\n")


def test_files_of_an_earlier_run_do_not_count(project: Project) -> None:
    project.results.mkdir(parents=True)
    (project.results / "lint.xml").write_text(SUITE % (9, 9, 9), encoding="utf-8")
    assert project.run("lint")[1].endswith("\n1 passed, 0 failed\n")


def test_a_gate_that_is_ended_shows_what_it_has_and_leaves_nothing_running(project: Project) -> None:
    for stage in FIRST:
        project.stage(stage, f"echo {stage} begins; sleep 600 & echo $! >{stage}.pid; wait")
    gate = project.start()
    logs = [project.results / f"{stage}.log" for stage in FIRST]
    pids = [project.folder / f"{stage}.pid" for stage in FIRST]
    deadline = time.monotonic() + 30
    while not all(path.is_file() and path.read_text(encoding="utf-8") for path in (*logs, *pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    gate.terminate()
    output, _errors = gate.communicate(timeout=60)
    assert gate.returncode == 1
    for stage in FIRST:
        assert re.search(rf"═══ {stage}: stopped, \d+ s ═══\n{stage} begins\n", output), output
    assert output.endswith("\n0 passed, 12 failed\n")
    for path in pids:
        state = Path("/proc", path.read_text(encoding="utf-8").strip(), "stat")
        # A child that nobody has waited for yet has ended all the same.
        assert not state.is_file() or state.read_text(encoding="utf-8").split()[2] == "Z"
