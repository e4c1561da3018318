# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that play machines with GPUs for the tests of the driver's role, and what is looked at on them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE

REPOSITORIES = STATE / "repositories"
VENDOR = REPOSITORIES / "debian13/x86_64"
RECORD = "/var/lib/gpufleet/nvidia_driver.json"
NODES = ROOT / "rehearsal/node"
# Name and address of each node, and its PCI devices where they are not the eight H100 that every machine has at first.
MACHINES = {
    "gpufleet-driver-switched": ("10.213.77.41", ""),
    "gpufleet-driver-bridged": ("10.213.77.42", "0000:18:00.0 10de:2331 0x030200\n0000:2a:00.0 10de:2331 0x030200\n"),
    "gpufleet-driver-domain": (
        "10.213.77.43",
        "".join(f"{domain:04x}:01:00.0 10de:2941 0x030200\n" for domain in (0x8, 0x9, 0x18, 0x19)),
    ),
}
# Everything at once that a plan refuses; Debian's own nvidia-smi among it.
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


@dataclass(frozen=True)
class Machine:
    name: str

    def run(self, command: str, *, check: bool = True) -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", self.name, command],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            pytest.fail(f"{self.name}: {command}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def record(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.run(f"cat {RECORD}"))
        return told

    def module(self, kernel: str) -> str:
        """Release of the module that is installed for a kernel."""
        return self.run(f"tr '\\0' '\\n' </lib/modules/{kernel}/updates/dkms/nvidia*.ko | sed -n s/^version=//p")

    def driver(self, package: str = "nvidia-driver-cuda") -> tuple[str, str, str]:
        """Release of the loaded module, of the package, and of the module that is installed."""
        version = self.run(f"dpkg-query -W -f '${{Version}}' {package}")
        kernel = self.run("cat /proc/sys/kernel/osrelease")
        return self.run("cat /sys/module/nvidia/version"), version.partition("-")[0], self.module(kernel)

    def services(self) -> list[str]:
        return self.run("systemctl is-active nvidia-persistenced nvidia-fabricmanager").split()

    def boots(self) -> int:
        return int(self.run("journalctl --list-boots --quiet | wc -l"))

    def packages(self) -> str:
        return self.run("dpkg-query -W")

    def fingerprint(self) -> str:
        """What must not move when a play is refused."""
        folders = "/etc/apt /etc/modprobe.d /etc/systemd/system /var/lib/gpufleet"
        files = f"find {folders} -type f -exec sha256sum {{}} + | sort"
        return self.run(f"dpkg-query -W; apt-mark showhold; {files}", check=False)


def boot_machines() -> list[Machine]:
    """Boots all of them anew, side by side."""
    subprocess.run([ROOT / "rehearsal/vendor_repository/make-repositories"], check=True, env=ENVIRONMENT)
    remove_machines()
    mount = ["--suite", "trixie", "--mount", f"{REPOSITORIES}:/srv/repositories"]
    booting = [
        subprocess.Popen(
            [NODES / "up", "--name", name, "--address", address, *mount], env=ENVIRONMENT, stdin=subprocess.DEVNULL
        )
        for name, (address, _gpus) in MACHINES.items()
    ]
    assert [boot.wait() for boot in booting] == [0] * len(booting)
    for name, (_address, gpus) in MACHINES.items():
        machine = Machine(name)
        machine.run(f"/srv/repositories/play-machine {'non-free' if 'bridged' in name else ''}")
        if gpus:
            machine.run(f"printf '%s' '{gpus}' >/etc/rehearsal/gpus && /etc/rehearsal/boot.d/50-machine")
    return [Machine(name) for name in MACHINES]


def remove_machines() -> None:
    subprocess.run([NODES / "down", *MACHINES], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
