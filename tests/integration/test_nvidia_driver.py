# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role of the driver against a signed repository laid out as NVIDIA's, on a node that plays a machine with GPUs.

One story on one host, each part going on where the one before ended: refusals on a bare host, an installation that is
killed in its middle, a change of branch while GPUs are in use, packages that somebody else left half installed, and the
way back. apt, dpkg, systemd and reboots are real; see rehearsal/vendor_repository/README.md for what is not.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play

NAME, ADDRESS = "gpufleet-driver-node", "10.213.77.41"
REPOSITORIES = STATE / "repositories"
RECORD = "/var/lib/gpufleet/nvidia_driver.json"
OLD, NEW, OTHER = "570.195.03", "590.48.01", "580.95.05"


@dataclass(frozen=True)
class Machine:
    def run(self, command: str, *, check: bool = True) -> str:
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

    def record(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.run(f"cat {RECORD}"))
        return told

    def driver(self) -> tuple[str, str, str]:
        """Release of the loaded module, of the package, and of the module that is installed."""
        query = "dpkg-query -W -f '${Version}' nvidia-driver-cuda"
        on_disk = "tr '\\0' '\\n' </lib/modules/$(cat /proc/sys/kernel/osrelease)/updates/dkms/nvidia.ko"
        return (
            self.run("cat /sys/module/nvidia/version"),
            self.run(query).removesuffix("-1"),
            self.run(f"{on_disk} | sed -n s/^version=//p"),
        )

    def boots(self) -> int:
        return int(self.run("journalctl --list-boots --quiet | wc -l"))

    def fingerprint(self) -> str:
        """What must not move when a play is refused."""
        folders = "/etc/apt /etc/modprobe.d /etc/systemd/system /var/lib/gpufleet"
        files = f"find {folders} -type f -exec sha256sum {{}} + | sort"
        return self.run(f"dpkg-query -W; apt-mark showhold; {files}", check=False)


def begin(*arguments: str, **variables: Any) -> Play:
    wanted = json.dumps({f"nvidia_driver_{name}": value for name, value in variables.items()})
    return Play(
        *arguments,
        "-e",
        wanted,
        playbook="tests/integration/nvidia_driver.yml",
        inventory="../tests/integration/nvidia_driver_hosts.yml",
    )


def driver(*arguments: str, **variables: Any) -> Outcome:
    return begin(*arguments, **variables).finish()


def said(outcome: Outcome) -> str:
    """What was said, in one line."""
    return " ".join(outcome.output.split())


@pytest.fixture(name="machine", scope="module")
def _machine() -> Iterator[Machine]:
    subprocess.run([ROOT / "rehearsal/vendor_repository/make-repositories"], check=True, env=ENVIRONMENT)
    node = ROOT / "rehearsal/node"
    up = [str(node / "up"), "--name", NAME, "--address", ADDRESS, "--suite", "trixie"]
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    subprocess.run(
        [*up, "--mount", f"{REPOSITORIES}:/srv/repositories"], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL
    )
    machine = Machine()
    machine.run("/srv/repositories/play-machine")
    yield machine
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)


@pytest.fixture(name="served")
def _served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A copy of the repository, and the address by which the node reaches it."""
    folder = tmp_path / "repository"
    shutil.copytree(REPOSITORIES / "debian13/x86_64", folder)
    handler = functools.partial(Quiet, directory=os.fspath(folder))
    with http.server.ThreadingHTTPServer(("10.213.77.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://10.213.77.1:{server.server_address[1]}/"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


# A bare host ----------------------------------------------------------------------------------------------------------


def test_check_mode_on_a_bare_host_predicts_and_touches_nothing(machine: Machine) -> None:
    before = machine.fingerprint()
    told = driver("--check", "--diff", allow_reboot=True)
    assert told.status == 0, told.output
    assert told.changed > 0
    assert f"nvidia-driver-cuda={OTHER}-*" in told.output
    assert "Reboot the host once. nouveau is loaded and holds 8 of 8 GPUs" in said(told)
    assert "reboot needed is True" in told.output
    assert "+blacklist nouveau" in told.output
    assert machine.fingerprint() == before


PREPARE_REFUSALS = """\
set -e
echo 1 >/etc/rehearsal/secure-boot && /etc/rehearsal/boot.d/50-machine
sed -i 's/^Components: .*/& non-free/' /etc/apt/sources.list.d/debian.sources && apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y nvidia-smi >/dev/null
mkdir -p /tmp/boot && cp -a /boot/. /tmp/boot/ && mount -t tmpfs -o size=1m boot /boot && cp -a /tmp/boot/. /boot/
echo kernel >/boot/vmlinuz-99.0.0-custom && mkdir -p /lib/modules/99.0.0-custom/kernel && update-grub
touch /usr/bin/unattended-upgrade
echo 'APT::Periodic::Unattended-Upgrade "1";' >/etc/apt/apt.conf.d/20auto-upgrades
echo 'Unattended-Upgrade::Origins-Pattern { "origin=*"; };' >/etc/apt/apt.conf.d/50unattended-upgrades
systemctl unmask --quiet apt-daily-upgrade.timer
"""
UNDO_REFUSALS = """\
set -e
systemctl mask --quiet apt-daily-upgrade.timer
rm -r /usr/bin/unattended-upgrade /etc/apt/apt.conf.d/20auto-upgrades /etc/apt/apt.conf.d/50unattended-upgrades
umount /boot && rm -r /tmp/boot /lib/modules/99.0.0-custom && update-grub
dpkg --purge nvidia-smi libnvidia-ml1 >/dev/null 2>&1
sed -i 's/ non-free//' /etc/apt/sources.list.d/debian.sources && apt-get -qq update
rm /etc/rehearsal/secure-boot && /etc/rehearsal/boot.d/50-machine
"""


def test_every_refusal_is_said_at_once_and_nothing_is_touched(machine: Machine) -> None:
    machine.run(PREPARE_REFUSALS)
    try:
        before = machine.fingerprint()
        told = driver(hold=False)
        assert (told.status, told.changed) == (2, 0), told.output
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
        assert machine.fingerprint() == before
    finally:
        machine.run(UNDO_REFUSALS)


def test_a_key_with_another_fingerprint_is_refused_with_both(machine: Machine) -> None:
    before = machine.fingerprint()
    told = driver(key="/srv/repositories/stranger.asc", allow_reboot=True)
    assert (told.status, told.changed) == (2, 0), told.output
    for name in ("stranger", "vendor"):
        assert (REPOSITORIES / f"{name}.fingerprint").read_text(encoding="ascii").strip() in said(told), told.output
    assert machine.fingerprint() == before


def test_a_repository_that_was_tampered_with_is_refused(machine: Machine, served: tuple[Path, str]) -> None:
    folder, address = served
    release = folder / "InRelease"
    release.write_text(release.read_text(encoding="ascii").replace("Label: NVIDIA", "Label: nvidia"), encoding="ascii")
    (folder / "Release.gpg").unlink()
    packages = machine.run("dpkg-query -W")
    told = driver(source="mirror", repository_url=address, allow_reboot=True)
    assert told.status == 2, told.output
    assert f"apt does not accept {address}" in said(told), told.output
    assert machine.run("dpkg-query -W") == packages
    assert "nvidia" not in machine.run("ls /var/lib/apt/lists | grep -v debian", check=False)


# An installation that is killed ---------------------------------------------------------------------------------------


def test_an_installation_that_was_killed_in_its_middle_is_finished_by_the_next_run(machine: Machine) -> None:
    machine.run("touch /etc/rehearsal/build-waits")
    play = begin(version=OLD, allow_reboot=True)
    waited = "timeout 300 sh -c 'until pgrep -f \"[d]kms install\"; do sleep 0.2; done'"
    assert machine.run(waited), "the module is built"
    play.kill()
    # Not only the controller is lost: the host's own package manager is killed as well, as by a power failure.
    machine.run("pkill -KILL -x apt-get; pkill -KILL -x dpkg; pkill -KILL -f '[d]kms install'", check=False)
    machine.run("rm /etc/rehearsal/build-waits")
    assert machine.run("dpkg --audit") != ""
    assert machine.record()["state"] == "installing"

    boots = machine.boots()
    told = driver(version=OLD, allow_reboot=True)
    assert told.status == 0, told.output
    assert machine.run("dpkg --audit") == ""
    assert machine.driver() == (OLD, OLD, OLD)
    assert machine.boots() == boots + 1
    assert (machine.record()["state"], machine.record()["before"]["version"]) == ("proven", None)
    assert machine.run("systemctl is-active nvidia-persistenced nvidia-fabricmanager").split() == ["active", "active"]

    again = driver(version=OLD, allow_reboot=True)
    assert (again.status, again.changed) == (0, 0), again.output


# A change of branch, across the one whose packages lost its number ----------------------------------------------------


def test_gpus_in_use_are_not_taken_away(machine: Machine) -> None:
    machine.run("touch /dev/nvidia0; systemd-run --unit busy --property StandardInput=file:/dev/nvidia0 sleep infinity")
    before = machine.fingerprint()
    told = driver(version=NEW, allow_reboot=True)
    machine.run("systemctl stop busy; rm /dev/nvidia0")
    assert (told.status, told.changed) == (2, 0), told.output
    assert "[driver_gpu_in_use]" in told.output
    assert "sleep" in said(told)
    assert machine.fingerprint() == before


def test_without_permission_it_ends_before_the_reboot_and_with_it_goes_on_there(machine: Machine) -> None:
    """The kernel does not let the old module go, which nothing could tell before it was tried."""
    machine.run("echo 7 >/sys/module/nvidia/refcnt")
    boots = machine.boots()
    told = driver(version=NEW, remove_conflicting=True)
    assert told.status == 0, told.output
    assert "reboot needed is True" in told.output
    assert "nvidia_driver_allow_reboot: true" in said(told)
    assert "Module nvidia is in use" in said(told)
    assert (machine.driver(), machine.boots()) == ((OLD, NEW, NEW), boots)
    assert machine.record()["state"] == "reboot_due"
    assert machine.run("dpkg-query -W -f '${Package}' 'nvidia-fabricmanager*'", check=False).count("570") == 0

    told = driver(version=NEW, allow_reboot=True)
    assert told.status == 0, told.output
    assert "reboot needed is False" in told.output
    assert (machine.driver(), machine.boots()) == ((NEW, NEW, NEW), boots + 1)
    record = machine.record()
    assert (record["state"], record["release"], record["before"]["version"]) == ("proven", NEW, OLD)


def test_the_pin_and_the_holds_outlast_an_upgrade_of_the_host(machine: Machine) -> None:
    assert "595.58.03" in machine.run("apt-cache madison nvidia-driver-cuda")
    assert "0 upgraded, 0 newly installed, 0 to remove" in machine.run("apt-get --simulate dist-upgrade")
    assert {"nvidia-driver-cuda", "nvidia-kernel-open-dkms"} <= set(machine.run("apt-mark showhold").split())


# What somebody else left behind ---------------------------------------------------------------------------------------


def test_packages_that_somebody_left_half_installed_are_completed_only_when_asked(machine: Machine) -> None:
    machine.run("dpkg --unpack /srv/repositories/debian13/x86_64/cuda-toolkit-13-0-config-common_*.deb >/dev/null")
    before = machine.fingerprint()
    told = driver(version=NEW)
    assert (told.status, told.changed) == (2, 0), told.output
    assert "half installed" in said(told)
    assert "nvidia_driver_repair: true" in said(told)
    assert machine.fingerprint() == before
    told = driver(version=NEW, repair=True)
    assert told.status == 0, told.output
    assert machine.run("dpkg --audit") == ""


# The way back ---------------------------------------------------------------------------------------------------------


def test_a_downgrade_has_to_be_meant(machine: Machine) -> None:
    before = machine.fingerprint()
    told = driver(version=OTHER)
    assert (told.status, told.changed) == (2, 0), told.output
    assert "[driver_downgrade]" in told.output
    assert machine.fingerprint() == before


def test_the_way_back_leads_to_what_was_there_before(machine: Machine) -> None:
    boots = machine.boots()
    told = driver("-e", "entry_point=rollback", version=NEW)
    assert told.status == 0, told.output
    assert (machine.driver(), machine.boots()) == ((OLD, OLD, OLD), boots)
    assert machine.record()["release"] == OLD
    assert machine.run("systemctl is-active nvidia-persistenced nvidia-fabricmanager").split() == ["active", "active"]
