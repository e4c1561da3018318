# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The survey of a bare node and of the 8-GPU machine that it plays, told as one story."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Node, Outcome, boot, play

ENVIRONMENT = "/opt/gpufleet/probe"
MACHINE = "/usr/local/share/rehearsal/machine"


def probe(*arguments: str) -> Outcome:
    return play(*arguments, playbook="gpufleet.sglang.probe")


@pytest.fixture(scope="module")
def bare() -> Node:
    boot(anew=True)
    return Node()


@pytest.fixture(scope="module")
def surveyed(bare: Node) -> Outcome:
    return probe()


def test_check_mode_makes_no_environment_and_still_tells(bare: Node) -> None:
    told = probe("--check", "--limit", "founding")
    assert (told.status, told.changed) == (0, 0), told.output
    assert "95.6 GiB each (usual for the board)" in told.output
    assert bare.run(f"ls {ENVIRONMENT}", check=False) == ""


def test_a_host_without_an_index_of_packages_is_surveyed_all_the_same(bare: Node) -> None:
    told = probe(
        "--limit", "founding", "-e", "probe_wheelhouse=/srv/none", "-e", f"probe_environment={ENVIRONMENT}-none"
    )
    assert told.status == 0, told.output
    assert told.recap["founding"]["rescued"] == 1
    assert "no Python interpreter" in told.output or "has no nvidia-ml-py" in told.output, told.output
    assert re.search(r"Set\s+probe_wheelhouse", told.output), told.output


def test_the_probe_measures_with_an_environment_of_its_own(surveyed: Outcome, bare: Node) -> None:
    assert surveyed.status == 0, surveyed.output
    assert "Traceback" not in surveyed.output
    assert "DEPRECATION" not in surveyed.output
    assert "NVML answered" in surveyed.output
    assert "8 x NVIDIA RTX PRO 6000 Blackwell Server Edition, 95.6 GiB each, compute" in surveyed.output
    assert "PIX, over the switch, peer access ok: 0+1 2+3 4+5 6+7" in surveyed.output
    assert "node 1: CPUs 64-127,192-238,240-255, 811.6 GB, 198.0 GB available, GPU 4-7" in surveyed.output
    assert bare.run(f"ls {ENVIRONMENT}/bin/python")


def test_the_second_survey_changes_nothing(surveyed: Outcome) -> None:
    again = probe()
    assert (again.status, again.changed) == (0, 0), again.output


def test_a_host_with_grave_problems_can_be_refused(surveyed: Outcome, bare: Node) -> None:
    bare.run(
        f"cp -r {MACHINE} /tmp/lost && printf '[faults]\\nDeviceGetMemoryInfo = GPU_IS_LOST gpu=3\\n'"
        " >> /tmp/lost/machine.nvml"
    )
    library = "probe_nvml_library=/tmp/lost/lib/libnvidia-ml.so.1"
    lost = ("--limit", "founding", "-e", "probe_root=/tmp/lost", "-e", library)
    told = probe(*lost)
    assert told.status == 0, told.output
    assert re.search(r"Error +GPU 3: .*lost", told.output), told.output
    assert "not for a server as they are: GPU 3" in told.output
    refused = probe(*lost, "-e", "probe_refuse_at=error")
    assert refused.status == 2, refused.output
    # Those hosts are the ones whose survey is needed.
    assert "not for a server as they are: GPU 3" in refused.output
    assert "gpu_lost" in "".join(refused.errors)
