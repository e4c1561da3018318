# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role of the driver against signed repositories, on three nodes that play machines with GPUs.

One story, each part going on where the one before ended, and each a single play over the hosts that take part in it:
refusals on bare hosts, an installation that is killed in its middle, changes of branch while GPUs are in use, packages
that somebody else left half installed, a kernel that came without a module, and the ways back. apt, dpkg, systemd and
reboots are real; see rehearsal/vendor_repository/README.md for what is not.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.driver_machines import (
    PREPARE_REFUSALS,
    REPOSITORIES,
    UNDO_REFUSALS,
    VENDOR,
    Machine,
    boot_machines,
    remove_machines,
)
from ansible_collections.gpufleet.sglang.tests.integration.plays import Outcome, Play

OLD, FIRST, LAST_OF_BRANCH, NEW = "570.195.03", "580.95.05", "580.105.08", "590.48.01"
DEBIAN = "550.163.01"


@dataclass(frozen=True)
class Fleet:
    """The hosts by name, and the folder in which what is asked of them is written."""

    switched: Machine
    bridged: Machine
    domain: Machine
    folder: Path

    def begin(self, *arguments: str, **asked: dict[str, Any]) -> Play:
        """A play on the hosts that are named, with options of the role for each."""
        hosts = {}
        for host, options in asked.items():
            entry = options.pop("entry_point", "main")
            hosts[host] = {"entry_point": entry, **{f"nvidia_driver_{name}": value for name, value in options.items()}}
        wanted = self.folder / "asked.yml"
        wanted.write_text(json.dumps({"machine": {"hosts": hosts}}), encoding="utf-8")
        return Play(
            *("-i", str(wanted), "--limit", ",".join(asked), *arguments),
            playbook="tests/integration/nvidia_driver.yml",
            inventory="../tests/integration/nvidia_driver_hosts.yml",
        )

    def play(self, *arguments: str, **asked: dict[str, Any]) -> Outcome:
        return self.begin(*arguments, **asked).finish()


def said(outcome: Outcome) -> str:
    """What was said, in one line."""
    return " ".join(outcome.output.split())


def refused(outcome: Outcome, *hosts: str) -> bool:
    """Whether these hosts ended with a failure and before anything was changed."""
    counts = [outcome.recap[host] for host in hosts]
    return all((count["failed"], count["changed"], count["unreachable"]) == (1, 0, 0) for count in counts)


def passed(outcome: Outcome, *hosts: str) -> bool:
    return all(outcome.recap[host]["failed"] + outcome.recap[host]["unreachable"] == 0 for host in hosts)


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    switched, bridged, domain = boot_machines()
    yield Fleet(switched, bridged, domain, tmp_path_factory.mktemp("asked"))
    remove_machines()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(name="mirror", scope="module")
def _mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two copies of the repository that nobody may trust, and the address by which the nodes reach them."""
    folder = tmp_path_factory.mktemp("mirror")
    for name in ("tampered", "unsigned"):
        shutil.copytree(VENDOR, folder / name)
        (folder / name / "Release.gpg").unlink()
    release = folder / "tampered/InRelease"
    release.write_text(release.read_text(encoding="ascii").replace("Label: NVIDIA", "Label: nvidia"), encoding="ascii")
    (folder / "unsigned/InRelease").unlink()
    handler = functools.partial(Quiet, directory=os.fspath(folder))
    with http.server.ThreadingHTTPServer(("10.213.77.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://10.213.77.1:{server.server_address[1]}"
        server.shutdown()


# Bare hosts -----------------------------------------------------------------------------------------------------------


def test_check_mode_on_bare_hosts_predicts_and_touches_nothing(fleet: Fleet) -> None:
    machines = (fleet.switched, fleet.bridged)
    before = [machine.fingerprint() for machine in machines]
    told = fleet.play("--check", "--diff", switched={"allow_reboot": True}, bridged={"allow_reboot": True})
    assert told.status == 0, told.output
    assert min(told.recap[host]["changed"] for host in ("switched", "bridged")) > 0
    assert f"nvidia-driver-cuda={FIRST}-*" in told.output
    assert "nvidia-open-kernel-dkms" in told.output
    assert "Reboot the host once. nouveau is loaded and holds 8 of 8 GPUs" in said(told)
    assert "Reboot the host once. nouveau is loaded and holds 2 of 2 GPUs" in said(told)
    assert told.output.count("reboot needed is True") == 2
    assert "+blacklist nouveau" in told.output
    assert [machine.fingerprint() for machine in machines] == before


def test_what_is_refused_is_said_at_once_and_nothing_is_touched(fleet: Fleet, mirror: str) -> None:
    """A host with many faults, another with a key that is a stranger's, and one whose mirror was tampered with."""
    fleet.switched.run(PREPARE_REFUSALS)
    before = fleet.switched.fingerprint(), fleet.bridged.fingerprint(), fleet.domain.packages()
    try:
        told = fleet.play(
            switched={"hold": False},
            bridged={
                "source": "folder",
                "repository_url": "/srv/repositories/debian13/x86_64",
                "key": "/srv/repositories/stranger.asc",
                "key_fingerprint": fingerprint("vendor"),
                "allow_reboot": True,
            },
            domain={"source": "mirror", "repository_url": f"{mirror}/tampered", "allow_reboot": True},
        )
        after = fleet.switched.fingerprint(), fleet.bridged.fingerprint(), fleet.domain.packages()
    finally:
        fleet.switched.run(UNDO_REFUSALS)
    assert refused(told, "switched", "bridged"), told.output
    assert told.recap["domain"]["failed"] == 1, told.output
    assert after == before
    for code, found in (
        ("driver_headers_not_there", "linux-headers-99.0.0-custom"),
        ("driver_module_would_be_unsigned", "mokutil --import"),
        ("driver_nouveau_without_reboot", "nouveau is loaded and holds 8 of 8 GPUs"),
        ("driver_no_space", "/boot has 0.00"),
        ("driver_packages_conflict", "nvidia-smi 550.163.01"),
        ("driver_unattended_upgrades", "hold"),
    ):
        assert f"[{code}]" in said(told), told.output
        assert found in said(told), told.output
    for name in ("stranger", "vendor"):
        assert fingerprint(name) in said(told), told.output
    assert f"apt does not accept {mirror}/tampered" in said(told), told.output
    assert "nvidia" not in fleet.domain.run("ls /var/lib/apt/lists | grep -v debian", check=False)


def fingerprint(name: str) -> str:
    return (REPOSITORIES / f"{name}.fingerprint").read_text(encoding="ascii").strip()


# Installations --------------------------------------------------------------------------------------------------------


def test_an_installation_that_was_killed_in_its_middle_leaves_a_record(fleet: Fleet) -> None:
    host = fleet.switched
    host.run("touch /etc/rehearsal/build-waits")
    play = fleet.begin(switched={"version": OLD, "allow_reboot": True})
    waited = "timeout 300 sh -c 'until pgrep -f \"[d]kms install\"; do sleep 0.2; done'"
    assert host.run(waited), "the module is built"
    play.kill()
    # Not only the controller is lost: the host's own package manager is killed as well, as by a power failure.
    host.run("pkill -KILL -x apt-get; pkill -KILL -x dpkg; pkill -KILL -f '[d]kms install'", check=False)
    host.run("rm /etc/rehearsal/build-waits")
    assert host.run("dpkg --audit") != ""
    assert host.record()["state"] == "installing"


def test_the_next_run_finishes_it_and_debian_s_own_driver_is_installed_beside(fleet: Fleet, mirror: str) -> None:
    """With an unsigned repository, which nothing is installed from, on the third host."""
    boots = fleet.switched.boots(), fleet.bridged.boots()
    packages = fleet.domain.packages()
    told = fleet.play(
        switched={"version": OLD, "allow_reboot": True},
        bridged={"allow_reboot": True},
        domain={"source": "mirror", "repository_url": f"{mirror}/unsigned", "allow_reboot": True},
    )
    assert passed(told, "switched", "bridged"), told.output
    assert fleet.switched.run("dpkg --audit") == ""
    assert fleet.switched.driver() == (OLD, OLD, OLD)
    assert (fleet.switched.boots(), fleet.bridged.boots()) == (boots[0] + 1, boots[1] + 1)
    assert (fleet.switched.record()["state"], fleet.switched.record()["before"]["version"]) == ("proven", None)
    assert fleet.switched.services() == ["active", "active"]

    assert fleet.bridged.driver("nvidia-smi") == (DEBIAN, DEBIAN, DEBIAN)
    assert f"Driver Version: {DEBIAN}" in fleet.bridged.run("nvidia-smi")

    assert told.recap["domain"]["failed"] == 1, told.output
    assert f"apt does not accept {mirror}/unsigned" in said(told), told.output
    assert "is not signed" in said(told), told.output
    assert fleet.domain.packages() == packages


def test_a_second_run_changes_nothing_and_a_branch_means_its_newest_release(fleet: Fleet) -> None:
    told = fleet.play(
        switched={"version": OLD, "allow_reboot": True},
        bridged={"allow_reboot": True},
        domain={"version": None, "branch": "580", "allow_reboot": True},
    )
    assert told.status == 0, told.output
    assert (told.recap["switched"]["changed"], told.recap["bridged"]["changed"]) == (0, 0), told.output
    assert fleet.domain.driver() == (LAST_OF_BRANCH, LAST_OF_BRANCH, LAST_OF_BRANCH)
    assert fleet.domain.run("cat /etc/nvidia-imex/nodes_config.cfg").split() == ["10.0.0.1", "10.0.0.2"]
    assert fleet.domain.run("systemctl is-active nvidia-imex") == "active"


# Changes --------------------------------------------------------------------------------------------------------------


def test_what_would_harm_is_refused_again_on_hosts_that_have_a_driver(fleet: Fleet) -> None:
    """GPUs in use, packages that somebody left half installed, and an older release that nobody said was meant."""
    fleet.switched.run(
        "touch /dev/nvidia0; systemd-run --unit busy --property StandardInput=file:/dev/nvidia0 sleep infinity"
    )
    following = fleet.bridged.run("sed -n 2p /srv/repositories/kernels")
    fleet.bridged.run(
        f"DEBIAN_FRONTEND=noninteractive apt-get -qq install -y linux-image-{following} >/dev/null && "
        "dpkg --unpack /srv/repositories/debian13/x86_64/cuda-toolkit-13-0-config-common_*.deb >/dev/null"
    )
    machines = (fleet.switched, fleet.bridged, fleet.domain)
    before = [machine.fingerprint() for machine in machines]
    told = fleet.play(
        switched={"version": NEW, "allow_reboot": True},
        bridged={"allow_reboot": True},
        domain={"version": FIRST, "allow_reboot": True},
    )
    fleet.switched.run("systemctl stop busy; rm /dev/nvidia0")
    assert refused(told, "switched", "bridged", "domain"), told.output
    assert "[driver_gpu_in_use]" in told.output
    assert "sleep (process and command) have GPUs open" in said(told)
    assert "half installed" in said(told)
    assert "nvidia_driver_repair: true" in said(told)
    assert "[driver_downgrade]" in told.output
    assert [machine.fingerprint() for machine in machines] == before


def test_what_is_allowed_is_done_as_far_as_it_goes_without_a_reboot(fleet: Fleet) -> None:
    """The first kernel does not let the old module go, which nothing could tell before it was tried. The second host
    boots a newer kernel next, which has neither headers nor module."""
    fleet.switched.run("echo 7 >/sys/module/nvidia/refcnt")
    machines = (fleet.switched, fleet.bridged, fleet.domain)
    boots = [machine.boots() for machine in machines]
    told = fleet.play(
        switched={"version": NEW, "remove_conflicting": True},
        bridged={"repair": True},
        domain={"version": FIRST, "allow_downgrade": True, "imex_nodes": ["10.0.0.1", "10.0.0.3"]},
    )
    assert told.status == 0, told.output
    assert [machine.boots() for machine in machines] == boots
    assert told.output.count("reboot needed is True") == 1
    assert "nvidia_driver_allow_reboot: true" in said(told)
    assert "Module nvidia is in use" in said(told)
    assert fleet.switched.driver() == (OLD, NEW, NEW)
    assert fleet.switched.record()["state"] == "reboot_due"
    assert fleet.switched.run("dpkg-query -W -f '${Package}' 'nvidia-fabricmanager*'", check=False).count("570") == 0

    assert fleet.bridged.run("dpkg --audit") == ""
    following = fleet.bridged.run("sed -n 2p /srv/repositories/kernels")
    assert fleet.bridged.module(following) == DEBIAN

    assert fleet.domain.driver() == (FIRST, FIRST, FIRST)
    assert fleet.domain.record()["before"]["version"] == LAST_OF_BRANCH
    assert fleet.domain.run("cat /etc/nvidia-imex/nodes_config.cfg").split() == ["10.0.0.1", "10.0.0.3"]


def test_with_permission_it_goes_on_at_the_reboot_and_nothing_moves_the_release(fleet: Fleet) -> None:
    boots = fleet.switched.boots()
    told = fleet.play(switched={"version": NEW, "allow_reboot": True})
    assert told.status == 0, told.output
    assert "reboot needed is False" in told.output
    assert (fleet.switched.driver(), fleet.switched.boots()) == ((NEW, NEW, NEW), boots + 1)
    record = fleet.switched.record()
    assert (record["state"], record["release"], record["before"]["version"]) == ("proven", NEW, OLD)

    assert "595.58.03" in fleet.switched.run("apt-cache madison nvidia-driver-cuda")
    assert "0 upgraded, 0 newly installed, 0 to remove" in fleet.switched.run("apt-get --simulate dist-upgrade")
    held = set(fleet.switched.run("apt-mark showhold").split())
    assert {"nvidia-driver-cuda", "nvidia-kernel-open-dkms"} <= held


def test_the_way_back_leads_to_what_was_there_before(fleet: Fleet) -> None:
    boots = fleet.switched.boots()
    told = fleet.play(switched={"entry_point": "rollback", "version": NEW})
    assert told.status == 0, told.output
    assert (fleet.switched.driver(), fleet.switched.boots()) == ((OLD, OLD, OLD), boots)
    assert fleet.switched.record()["release"] == OLD
    assert fleet.switched.services() == ["active", "active"]
