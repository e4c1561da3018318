# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look imports. A module's code is compiled anew in every call, which is most of what a look costs the node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.modules import startup_status_info
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.start.look.fake_node import (
    PIN,
    FakeNode,
)

COLLECTIONS = str(Path(startup_status_info.__file__).parents[5])
START = "ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start"
GRAMMAR = (f"{START}.lines.log_lines", f"{START}.lines.grammar", f"{START}.diagnosis.catalogue.catalogue")
FILES = (f"{START}.look.file_source", f"{START}.look.file_log", "zoneinfo")
HTTP = ("http.client", "ansible.module_utils.urls")
SCRIPT = """
import sys
from pathlib import Path
from ansible_collections.gpufleet.sglang.plugins.modules import startup_status_info
from {fake} import FakeNode

node = FakeNode(Path(sys.argv[1]))
{said}
assert node.look()["lines"] == {lines}
print("\\n".join(sys.modules))
"""


def loaded(folder: Path, *said: str) -> set[str]:
    """Everything that a process has imported that took one look."""
    script = SCRIPT.format(
        fake=FakeNode.__module__, said="".join(f"node.say({line!r})\n" for line in said), lines=len(said)
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        # ansible-test has Ansible itself on a path of its own.
        env={**os.environ, "PYTHONPATH": os.pathsep.join((COLLECTIONS, *sys.path))},
        check=True,
        capture_output=True,
        text=True,
    )
    return set(done.stdout.split())


def test_a_look_that_sees_no_line_imports_no_grammar(tmp_path: Path) -> None:
    assert not loaded(tmp_path) & {*GRAMMAR, *FILES, *HTTP}


def test_a_look_that_sees_a_line_imports_the_grammar(tmp_path: Path) -> None:
    """So that the test above does not look for names that are no more."""
    found = loaded(tmp_path, PIN)
    assert found >= set(GRAMMAR)
    assert not found & {*FILES, *HTTP}


@pytest.mark.parametrize("subject", ["launch", "capacity", "view", "remedies", "plugin_utils", "topology.machine"])
def test_no_look_imports_what_only_the_controller_needs(tmp_path: Path, subject: str) -> None:
    ours = {name for name in loaded(tmp_path, PIN) if ".sglang.plugins." in name}
    assert len(ours) > 30
    assert not {name for name in ours if f".{subject}." in f"{name}."}
