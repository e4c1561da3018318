# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The builder of machines: what a profile may say, what is refused, and how a folder is brought to it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.rehearsal.machine_parts import keys
from ansible_collections.gpufleet.sglang.rehearsal.machine_parts.entries import Entry, Link

MACHINES = Path(machine_tree.__file__).parent / "machines"
PROFILES = sorted(path.stem for path in MACHINES.glob("*.yml"))


def profile(name: str) -> machine_tree.Profile:
    return machine_tree.load_profile(MACHINES / f"{name}.yml")


def entries(name: str, **changes: Any) -> dict[str, Entry]:
    return machine_tree.entries_of({**profile(name), **changes})


def paths_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# The folder -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROFILES)
def test_building_again_changes_nothing_and_keeps_the_folder(tmp_path: Path, name: str) -> None:
    dest = tmp_path / "machine"
    assert machine_tree.build_tree(profile(name), dest) > 0
    before = dest.stat().st_ino
    times = {path: path.lstat().st_mtime_ns for path in dest.rglob("*")}
    assert machine_tree.build_tree(profile(name), dest) == 0
    assert dest.stat().st_ino == before
    assert {path: path.lstat().st_mtime_ns for path in dest.rglob("*")} == times


@pytest.mark.parametrize("name", PROFILES)
def test_every_link_of_a_tree_leads_somewhere_inside(name: str) -> None:
    found = entries(name)
    folders = {str(parent) for path in found for parent in Path(path).parents}
    for path, entry in found.items():
        # A driver's folder holds links to its devices only, so a driver without any leaves no folder.
        if isinstance(entry, Link):
            assert entry.target in found or entry.target in folders, path


def test_another_profile_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    dest, fresh = tmp_path / "machine", tmp_path / "fresh"
    machine_tree.build_tree(profile("gb200-nvl4-node"), dest)
    machine_tree.build_tree(profile("no-gpu"), dest)
    machine_tree.build_tree(profile("no-gpu"), fresh)
    assert paths_of(dest) == paths_of(fresh)


def test_what_lies_in_the_way_of_an_entry_is_replaced(tmp_path: Path) -> None:
    machine_tree.build_tree(profile("no-gpu"), tmp_path)
    wanted = paths_of(tmp_path)
    (tmp_path / "proc/meminfo").unlink()
    (tmp_path / "proc/meminfo").mkdir()
    (tmp_path / "proc/cmdline").unlink()
    (tmp_path / "proc/cmdline").symlink_to("meminfo")
    (tmp_path / "sys/class/dmi/id").unlink()
    (tmp_path / "sys/class/dmi/id").write_text("x", encoding="utf-8")
    assert machine_tree.build_tree(profile("no-gpu"), tmp_path) == 3
    assert paths_of(tmp_path) == wanted
    assert (tmp_path / "proc/cmdline").read_text(encoding="utf-8").startswith("BOOT_IMAGE=")


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    with pytest.raises(machine_tree.ProfileError, match="was not made by machine_tree.py"):
        machine_tree.build_tree(profile("no-gpu"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_initramfs_is_no_older_than_the_configuration_it_holds(tmp_path: Path) -> None:
    machine_tree.build_tree(profile("founding"), tmp_path)
    initramfs = tmp_path / "boot/initrd.img-6.17.0-20-generic"
    assert initramfs.stat().st_mtime >= (tmp_path / "etc/modprobe.d/blacklist-nouveau.conf").stat().st_mtime


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    program = [sys.executable, machine_tree.__file__]
    dest = str(tmp_path / "machine")
    done = subprocess.run(
        [*program, str(MACHINES / "gh200.yml"), dest, "--library", "no"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "gh200" in done.stdout
    assert (tmp_path / "machine" / "machine.nvml").is_file()
    refused = subprocess.run([*program, str(tmp_path / "x.yml"), dest], capture_output=True, text=True, check=False)
    assert (refused.returncode, "x.yml" in refused.stderr) == (1, True)
    assert "Traceback" not in refused.stderr


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format: 1\nname: box\n", "of format 1, and this builder reads format 2"),
        ("name: box\n", "says no format"),
        ("[]\n", "says no format"),
        ("format: 2\nname: other\n", "expected box"),
        ("format: 2\nname: box\nlike: box\n", "in a circle"),
        ("format: 2\nname: box\nnuma_node: []\n", "unknown key numa_node; did you mean numa_nodes"),
    ],
)
def test_a_profile_that_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "parts").symlink_to(MACHINES / "parts")
    path = tmp_path / "box.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(machine_tree.ProfileError, match=message):
        machine_tree.load_profile(path)


def set_at(found: Any, where: list[Any], value: Any) -> None:
    for key in where[:-1]:
        found = found[key]
    found[where[-1]] = value


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (["speling"], 1, "unknown key speling"),
        (["host", "kernal"], "6", "unknown key host.kernal; did you mean kernel"),
        (["driver", "colour"], "open", "unknown key driver.colour"),
        (["numa_nodes", 0, "cpu"], "0", "unknown key numa_nodes.0.cpu; did you mean cpus"),
        (["boards", "l40s", "nvml", "ecc_volatil"], [0, 0], "boards.l40s.nvml.ecc_volatil; did you mean ecc_volatile"),
        (["devices", 1, "numanode"], 0, "devices.1.numanode; did you mean numa_node"),
        (["gpus"], {0: {"nvml": {"mode": 1}}}, "gpus.0.nvml.mode"),
        (["gpus"], {2: {}}, "gpus names GPU 2; there are 2"),
        (["cgroup"], {"limits": {"/a": {"memory": 1}}}, "cgroup.limits./a.memory"),
        (["cgroup"], {"layout": "v3"}, "cgroup.layout is v3"),
        (["stack"], {"kernels": {"6.1": {"header": True}}}, "stack.kernels.6.1.header; did you mean headers"),
        (["stack"], {"os": "beos"}, "stack.os is beos"),
        (["stack"], {"boots_next": "7.0"}, "boots_next is 7.0"),
        (["devices", 0, "board"], "a-board", "is a a-board, which boards lacks"),
        (["devices", 1, "path"], "pci0000:00/0000:00:01.0", "two different things"),
        (["devices", 1, "path"], "pci0001:00/0001:00:01.0", "host bridge that host_bridges lacks"),
        (["host"], [], "host is no mapping"),
    ],
)
def test_what_is_wrong_in_a_profile_is_named(where: list[Any], value: Any, message: str) -> None:
    broken = profile("kvm-guest")
    set_at(broken, where, value)
    with pytest.raises(machine_tree.ProfileError, match=message):
        machine_tree.entries_of(broken)


def test_a_missing_part_is_named() -> None:
    broken = profile("kvm-guest")
    del broken["host_bridges"]
    with pytest.raises(machine_tree.ProfileError, match="the key host_bridges is missing"):
        machine_tree.entries_of(broken)


def test_every_key_and_every_profile_is_described() -> None:
    text = (MACHINES / "README.md").read_text(encoding="utf-8")
    known = set().union(
        *(found for name, found in vars(keys).items() if name.isupper() and isinstance(found, frozenset))
    )
    known |= set().union(*keys.SECTIONS.values())
    assert [word for word in sorted(known | set(PROFILES)) if f"`{word}`" not in text] == []


# What a profile takes over --------------------------------------------------------------------------------------------


def test_like_takes_over_what_is_not_said_anew(tmp_path: Path) -> None:
    for name in ("parts", "kvm-guest.yml"):
        (tmp_path / name).symlink_to(MACHINES / name)
    (tmp_path / "own.yml").write_text(
        "format: 2\nname: own\nsummary: Mine\nlike: kvm-guest\nhost: {kernel: 6.9.1}\n"
        "boards: {l40s: {nvml: {memory_total_mib: 1024}}}\ngpus: {1: {width_now: 4}}\n",
        encoding="utf-8",
    )
    own = machine_tree.load_profile(tmp_path / "own.yml")
    assert (own["summary"], own["host"]["kernel"], own["host"]["vendor"]) == ("Mine", "6.9.1", "QEMU")
    found = machine_tree.entries_of(own)
    assert str(found["machine.nvml"]).count(f"memory_total = {1 << 30}") == 2
    widths = [found[f"sys/devices/pci0000:00/0000:00:02.{n}/0000:0{n + 1}:00.0/current_link_width"] for n in (0, 1)]
    assert widths == ["16", "4"]
    # The file that was taken over is as it was.
    assert profile("kvm-guest")["host"]["kernel"] == "6.1.0-26-cloud-amd64"


def test_one_entry_may_stand_for_several_nodes() -> None:
    found = entries("gb200-nvl4-node")
    assert found["sys/devices/system/node/online"] == "0-33"
    assert found["sys/devices/system/node/has_cpu"] == "0-1"
    assert found["sys/devices/system/node/has_memory"] == "0-2,10,18,26"
    assert found["sys/devices/system/node/has_normal_memory"] == "0-1"
    assert str(found["sys/devices/system/node/node18/distance"]).split()[:3] == ["120", "80", "255"]
