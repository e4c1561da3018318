# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role of CUDA against a signed repository laid out as NVIDIA's: toolkits side by side, and never a driver.

One story on one host, each part going on where the one before ended. apt and dpkg are real; see
rehearsal/vendor_repository/README.md for what is not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play

NAME, ADDRESS = "gpufleet-cuda-node", "10.213.77.50"
REPOSITORIES = STATE / "repositories"
# A toolkit that asks for a driver, in a repository that apt trusts as it is.
CONTROL = """\
Package: cuda-toolkit-13-1
Version: 13.1.0-1
Architecture: all
Maintainer: Rehearsal <rehearsal@example.org>
Depends: libcuda1
Description: A toolkit that brings a driver (stand-in)
"""
MAKE_IT = f"""\
mkdir -p /srv/other/package/DEBIAN && cd /srv/other && cat >package/DEBIAN/control <<'END'
{CONTROL}END
dpkg-deb --build package toolkit.deb >/dev/null
{{ cat package/DEBIAN/control; echo "Filename: ./toolkit.deb"; echo "Size: $(stat -c %s toolkit.deb)"
   echo "SHA256: $(sha256sum toolkit.deb | cut -d' ' -f1)"; }} >Packages
echo 'deb [trusted=yes] file:///srv/other ./' >/etc/apt/sources.list.d/other.list
echo 'deb [trusted=yes] file:///srv/repositories/debian13/x86_64 /' >/etc/apt/sources.list.d/beside.list
apt-get -qq update
"""


def run(command: str, *, check: bool = True) -> str:
    done = subprocess.run(
        ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", NAME, command],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if check and done.returncode:
        pytest.fail(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def played(*hosts: str, check: bool = False, **variables: str) -> Outcome:
    extra = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    return Play(
        "--limit",
        ",".join(hosts),
        *(["--check"] if check else []),
        *extra,
        playbook="tests/integration/cuda_role.yml",
        inventory="../tests/integration/cuda_hosts.yml",
    ).finish()


def packages() -> set[str]:
    return set(run("dpkg-query --show --showformat='${db:Status-Abbrev}${Package}\\n' | sed -n 's/^ii //p'").split())


@pytest.fixture(scope="module", name="bare")
def _bare() -> Iterator[set[str]]:
    """The packages of the host before the role was there."""
    subprocess.run([ROOT / "rehearsal/vendor_repository/make-repositories"], check=True, env=ENVIRONMENT)
    node = ROOT / "rehearsal/node"
    up: list[str | Path] = [node / "up", "--name", NAME, "--address", ADDRESS, "--suite", "trixie"]
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    subprocess.run(
        [*up, "--mount", f"{REPOSITORIES}:/srv/repositories"], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL
    )
    yield packages()
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)


def test_check_mode_on_a_bare_host_predicts_and_changes_nothing(bare: set[str]) -> None:
    outcome = played("bare", check=True)
    assert outcome.status == 0, outcome.output
    assert outcome.changed > 0
    assert "cuda-toolkit-12-9 cuda-toolkit-13-0" in outcome.output
    assert packages() == bare
    assert run("ls /etc/apt/sources.list.d") == ""


REFUSALS = {
    "unknown_variable": "cuda_toolkit (closest known: cuda_toolkits)",
    "toolkits_without_mode": "cuda_toolkits: given, and cuda_mode is none",
    "brings_driver": "cuda-13-0 is a metapackage that installs NVIDIA's newest driver as well",
    "moves": "cuda-toolkit is a metapackage that follows the newest release",
    "other_key": "expected",
}


def test_what_is_refused_before_anything_is_touched(bare: set[str]) -> None:
    outcome = played(*REFUSALS)
    for host, text in REFUSALS.items():
        assert outcome.recap[host]["failed"] == 1, host
        assert outcome.recap[host]["changed"] == 0, host
        assert text in " ".join(outcome.output.split()), host
    assert packages() == bare
    assert run("ls /etc/apt/sources.list.d /etc/apt/keyrings") == "/etc/apt/keyrings:\n\n/etc/apt/sources.list.d:"


def test_a_toolkit_that_brings_a_driver_is_refused_with_its_packages(bare: set[str]) -> None:
    run(MAKE_IT)
    try:
        outcome = played("driver_behind_toolkit")
    finally:
        run("rm -rf /srv/other /etc/apt/sources.list.d/*.list /var/lib/apt/lists/*")
    said = " ".join(outcome.output.split())
    assert outcome.recap["driver_behind_toolkit"]["failed"] == 1
    assert "Installing cuda-toolkit-13-1 would install, change or remove parts of the driver: libcuda1" in said
    assert packages() == bare


def test_releases_that_are_not_there_and_disks_that_are_full_are_refused(bare: set[str]) -> None:
    outcome = played("not_to_be_had")
    assert "apt cannot install cuda-toolkit-12-4" in " ".join(outcome.output.split())
    full = " ".join(played("no_room").output.split())
    assert "expected 900000.0 GB to be left (cuda_free_bytes_after)" in full
    assert packages() == bare


def test_toolkits_side_by_side_and_no_driver(bare: set[str]) -> None:
    # As a run leaves it that is killed inside dpkg.
    run("dpkg --unpack /srv/repositories/debian13/x86_64/cuda-toolkit-13-0_*.deb")
    run("mkdir -p /var/lib/gpufleet && touch /var/lib/gpufleet/packages_begun")
    assert "cuda-toolkit-13-0" in run("dpkg --audit")
    outcome = played("bare")
    assert outcome.status == 0, outcome.output
    assert run("dpkg --audit; ls /var/lib/gpufleet") == ""
    for line in ("12.9", "13.0"):
        assert f"release {line}" in run(f"/usr/local/cuda-{line}/bin/nvcc --version")
    came = packages() - bare
    assert came and all(name.startswith("cuda-") for name in came), came
    assert not [name for name in came if "driver" in name]
    # Nobody asked for a default.
    assert run("test -e /usr/local/cuda || echo none") == "none"
    assert played("bare").changed == 0


def test_a_link_that_was_made_by_hand_is_left_alone() -> None:
    run("ln -s /usr/local/cuda-12.9 /usr/local/cuda")
    outcome = played("bare", cuda_default_toolkit="13.0")
    assert "is a link to /usr/local/cuda-12.9; expected none, or the alternative" in " ".join(outcome.output.split())
    assert run("readlink /usr/local/cuda") == "/usr/local/cuda-12.9"
    run("rm /usr/local/cuda")


def test_the_default_moves_and_a_release_goes_again(bare: set[str]) -> None:
    assert played("bare", cuda_default_toolkit="12.9").status == 0
    assert run("readlink -f /usr/local/cuda") == "/usr/local/cuda-12.9"
    outcome = played("later", cuda_default_toolkit="13.0")
    assert outcome.status == 0, outcome.output
    assert run("readlink -f /usr/local/cuda") == "/usr/local/cuda-13.0"
    left = packages() - bare
    assert left and all(name.endswith("-13-0") or "-13-0-" in name for name in left), left
    assert run("test -e /usr/local/cuda-12.9 || echo gone") == "gone"
    assert played("later", cuda_default_toolkit="13.0").changed == 0


def test_gpus_without_a_driver_are_refused_and_nothing_is_asked_of_hosts_without() -> None:
    outcome = played("proof")
    assert (outcome.status, outcome.changed) == (0, 0)
    assert "the host has no GPUs, and no toolkit is asked for" in outcome.output
    run("/srv/repositories/play-machine")
    refused = played("proof")
    assert refused.recap["proof"]["failed"] == 1
    assert "The host has GPUs and no driver is in force; SGLang 0.5.23 for CUDA 13.0 needs 580.65.06 or newer." in (
        " ".join(refused.output.split())
    )
