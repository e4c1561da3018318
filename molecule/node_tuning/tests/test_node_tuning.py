# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on a host that it has rebooted, seen from outside the role."""

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host

RECORD = "/var/lib/gpufleet/node_tuning.json"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/proc/sys/vm/swappiness", "10"),
        ("/proc/sys/vm/zone_reclaim_mode", "0"),
        ("/proc/sys/vm/max_map_count", "1048576"),
        ("/proc/sys/vm/overcommit_memory", "0"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "477"),
        ("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance"),
    ],
)
def test_values_are_in_force_after_the_reboot(host: Host, path: str, value: str) -> None:
    assert host.file(path).content_string.strip() == value


def test_the_boot_put_them_there_and_not_the_role(host: Host) -> None:
    for unit in ("gpufleet-huge-pages.service", "gpufleet-node-values.service"):
        assert host.service(unit).is_enabled
        assert host.check_output(f"systemctl show -p Result,ActiveState --value {unit}").split() == [
            "success",
            "active",
        ]
    assert not host.check_output("systemctl --failed --no-legend --plain")


def test_the_kernel_was_given_its_arguments(host: Host) -> None:
    words = host.file("/proc/cmdline").content_string.split()
    assert words[-2:] == ["iommu=pt", "pci=realloc=off"]
    assert "quiet" in words


def test_each_argument_has_its_reason_beside_it(host: Host) -> None:
    text = host.file("/etc/default/grub.d/99-gpufleet-node-tuning.cfg").content_string
    assert "# pci=realloc=off: a second argument beside the role's own" in text
    assert "# iommu=pt: devices reach memory without translation" in text


def test_only_what_was_not_good_enough_is_in_the_file(host: Host) -> None:
    lines = host.file("/etc/sysctl.d/99-gpufleet-node-tuning.conf").content_string.splitlines()
    names = {line.split(" = ")[0] for line in lines if not line.startswith("#")}
    assert {"vm.swappiness", "vm.zone_reclaim_mode", "vm.max_map_count"} <= names
    assert not names & {"vm.overcommit_memory", "net.core.somaxconn"}


def test_swap_is_off_and_its_line_can_be_told_from_others(host: Host) -> None:
    assert len(host.file("/proc/swaps").content_string.splitlines()) == 1
    assert "#gpufleet-node-tuning# UUID=0-2 none swap" in host.file("/etc/fstab").content_string


def test_limits_are_those_of_one_unit_and_nobody_elses(host: Host) -> None:
    assert host.file("/etc/systemd/system/containerd.service.d/90-gpufleet-limits.conf").contains(
        "LimitMEMLOCK=infinity"
    )
    assert not host.run("grep -rsE '^DefaultLimit(MEMLOCK|NOFILE)' /etc/systemd").stdout


def test_the_record_is_for_root_and_holds_what_was_there(host: Host) -> None:
    file = host.file(RECORD)
    assert (file.user, file.mode) == ("root", 0o600)
    record = json.loads(file.content_string)
    before = {entry["target"]: entry["before"] for entry in record["settings"]["entries"]}
    assert before["/proc/sys/vm/swappiness"] == "60"
    assert before["/etc/sysctl.d/99-gpufleet-node-tuning.conf"] is None
    assert record["kernel"]["notes"] == {"words": ["iommu=pt", "pci=realloc=off"]}


def test_the_node_was_rebooted_once_by_the_role(host: Host) -> None:
    # The boot of the node, and that of the role.
    boots = [
        line
        for line in host.check_output("journalctl --list-boots --no-pager").splitlines()
        if re.search(r"[0-9a-f]{32}", line)
    ]
    assert len(boots) == 2
