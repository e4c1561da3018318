# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenarios with a molecule of the test's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "run-scenarios"
# Each says so, and waits until another has begun as well.
MOLECULE = """\
#!/bin/sh
[ "$1 $2" = "test --scenario-name" ] || exit 9
echo "$3 begins in $ANSIBLE_HOME"
touch "begun-$3"
[ "$3" = alone ] || timeout 20 sh -c 'until [ "$(ls begun-* | wc -l)" -ge 2 ]; do sleep 0.05; done' || exit 8
printf '\\033[31m%s ends\\033[0m\\n' "$3"
[ "$3" != bad ]
"""


@pytest.fixture(name="project")
def fixture_project(tmp_path: Path) -> Path:
    for name in ("tools", "bin", "molecule/good", "molecule/bad", "molecule/shared"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("good", "bad"):
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    shutil.copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "bin" / "molecule").write_text(MOLECULE, encoding="utf-8")
    (tmp_path / "bin" / "molecule").chmod(0o755)
    return tmp_path


def run(project: Path, *scenarios: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, project / "tools" / "run-scenarios", "report.xml", *scenarios],
        check=False,
        cwd=project,
        env={**os.environ, "PATH": f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_scenarios_go_side_by_side_whatever_fails_and_are_counted(project: Path) -> None:
    status, output = run(project)
    assert status == 1
    for name, verdict in {"good": "passed", "bad": "failed"}.items():
        home = re.escape(str(project / ".build" / "molecule" / name))
        assert re.search(rf"─── {name}: {verdict}, \d+ s ───\n{name} begins in {home}\n.*{name} ends", output), output
    suite = next(ElementTree.parse(project / "report.xml").iter("testsuite"))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = [case for case in suite if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["bad"]
    assert "bad begins" in "".join(failed[0].itertext())


def test_one_scenario_is_shown_while_it_runs(project: Path) -> None:
    status, output = run(project, "alone")
    assert status == 0
    assert output.index("alone begins") < output.index("─── alone: passed")
