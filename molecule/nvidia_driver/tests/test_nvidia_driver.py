# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on a host that had nouveau on its GPUs, seen from outside the role."""

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host

RELEASE = "580.95.05"
PACKAGES = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-fabricmanager", "libcuda1", "libnvidia-ml1")


@pytest.mark.parametrize("name", PACKAGES)
def test_all_packages_are_of_the_exact_release(host: Host, name: str) -> None:
    package = host.package(name)
    assert package.is_installed
    assert package.version == f"{RELEASE}-1"


def test_what_the_role_installed_is_held(host: Host) -> None:
    assert set(PACKAGES[:3]) <= set(host.check_output("apt-mark showhold").split())


def test_apt_would_change_nothing_though_the_repository_has_newer_releases(host: Host) -> None:
    assert "590.48.01" in host.check_output("apt-cache madison nvidia-driver-cuda")
    planned = host.check_output("apt-get --simulate --quiet dist-upgrade")
    assert "0 upgraded, 0 newly installed, 0 to remove" in planned
    # Also without the holds: whoever lifts them by mistake finds the release pinned.
    held = " ".join(host.check_output("apt-mark showhold").split())
    host.run_expect([0], f"apt-mark unhold {held}")
    planned = host.check_output("apt-get --simulate --quiet dist-upgrade")
    host.run_expect([0], f"apt-mark hold {held}")
    assert not re.findall(r"^Inst (?:nvidia-|libcuda|libnvidia-ml).*", planned, re.MULTILINE)


def test_the_repository_is_trusted_by_its_own_key_only(host: Host) -> None:
    (sources,) = host.check_output("grep --files-with-matches --recursive x86_64 /etc/apt/sources.list.d").split()
    assert "Signed-By: /etc/apt/keyrings/" in host.file(sources).content_string
    assert host.check_output("ls /etc/apt/trusted.gpg.d").count("nvidia") == 0


def test_nouveau_is_kept_away_also_by_the_initramfs(host: Host) -> None:
    kernel = host.check_output("cat /proc/sys/kernel/osrelease")
    assert not host.file("/sys/module/nouveau").exists
    assert "blacklist nouveau" in host.file(f"/boot/initrd.img-{kernel}").content_string


def test_module_libraries_and_services_are_of_the_release(host: Host) -> None:
    assert host.file("/sys/module/nvidia/version").content_string.strip() == RELEASE
    assert f"Driver Version: {RELEASE}" in host.check_output("nvidia-smi")
    for name in ("nvidia-persistenced", "nvidia-fabricmanager"):
        service = host.service(name)
        assert (service.is_running, service.is_enabled) == (True, True), name


def test_it_went_through_one_reboot(host: Host) -> None:
    assert host.check_output("journalctl --list-boots --quiet | wc -l") == "2"


def test_the_gpus_are_described_to_container_runtimes(host: Host) -> None:
    assert host.file("/var/run/cdi/nvidia.yaml").content_string.count("- name:") == 8


def test_the_record_is_closed_and_tells_that_there_was_nothing_before(host: Host) -> None:
    record = json.loads(host.file("/var/lib/gpufleet/nvidia_driver.json").content_string)
    assert (record["state"], record["release"]) == ("proven", RELEASE)
    assert (record["before"]["version"], record["before"]["held"]) == (None, [])
