# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.cgroup_mounts import (
    Mount,
    parse_mounts,
    parse_own_paths,
    read_hierarchies,
    service_path,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.trees import write

V2 = Mount(2, "sys/fs/cgroup")


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0", V2),
        ("none /cgroup/unified cgroup2 rw 0 0", Mount(2, "cgroup/unified")),
        (
            "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpuacct,cpu 0 0",
            Mount(1, "sys/fs/cgroup/cpu,cpuacct", "/", ("cpu",)),
        ),
        (
            "none /dev/cpuset cgroup rw,relatime,cpuset,noprefix,release_agent=/sbin/x 0 0",
            Mount(1, "dev/cpuset", "/", ("cpuset",), ""),
        ),
        ("none /dev/cpuset cpuset rw 0 0", Mount(1, "dev/cpuset", "/", ("cpuset",), "")),
        (
            "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate",
            V2,
        ),
        # Without optional fields, in a container that sees its own part only.
        (
            "41 30 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory",
            Mount(1, "sys/fs/cgroup/memory", "/docker/abc", ("memory",)),
        ),
        ("none /my\\040groups cgroup2 rw 0 0", Mount(2, "my groups")),
        ("cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0", None),
        ("tmpfs /sys/fs/cgroup tmpfs ro,mode=755 0 0", None),
        ("none /../../etc cgroup2 rw 0 0", None),
        ("cgroup2", None),
        ("- - -", None),
        ("1 2 3 - cgroup2 x y", None),
    ],
)
def test_one_line_of_mounts(line: str, mount: Mount | None) -> None:
    assert parse_mounts(line) == ((mount,) if mount else ())


def test_own_groups_by_controller() -> None:
    text = "12:cpu,cpuacct:/a\n7:cpuset:/b:c\n1:name=systemd:/d\n0::/e\nrubbish\n"
    assert parse_own_paths(text) == {"cpu": "/a", "cpuacct": "/a", "cpuset": "/b:c", "name=systemd": "/d", "": "/e"}
    assert parse_own_paths(None, "/jobs/1") == {"cpuset": "/jobs/1"}
    assert parse_own_paths("7:cpuset:/b", "/jobs/1") == {"cpuset": "/b"}


@pytest.mark.parametrize(
    ("own", "path"),
    [
        (None, None),
        ("/", None),
        ("/docker/abc", "/docker/abc"),
        ("/machine.slice/box.scope", "/machine.slice/box.scope"),
        ("/user.slice/user-0.slice/session-1.scope", None),
        ("/init.scope", None),
        # The limits of the service that runs this are its own; those of the slice are not.
        ("/system.slice/ansible-pull.service", "/system.slice"),
        ("/system.slice", "/system.slice"),
        ("/system.slice/system-box.slice/box@1.service", "/system.slice"),
        # Nor are those of a job, be it of a batch system that is a service itself.
        ("/system.slice/slurmstepd.scope/job_1/step_extern/user/task_0", "/system.slice"),
        ("/slurm/uid_1000/job_1/step_0/task_0", None),
        ("/pbspro.slice/pbspro-1.slice", None),
        ("/../../outside", None),
    ],
)
def test_which_groups_of_this_process_speak_for_services(own: str | None, path: str | None) -> None:
    assert service_path(own) == path


def folders(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


def test_lines_of_descent_go_from_the_root_to_the_service(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "proc/self/cgroup": "0::/machine.slice/box.scope",
            "sys/fs/cgroup/cgroup.controllers": "cpuset memory",
        },
    )
    found = read_hierarchies(root)
    assert sorted(found) == ["cpuset", "memory"]
    assert found["memory"].lines == (
        ("sys/fs/cgroup", "sys/fs/cgroup/system.slice"),
        ("sys/fs/cgroup", "sys/fs/cgroup/machine.slice", "sys/fs/cgroup/machine.slice/box.scope"),
    )


def test_version_1_takes_its_controllers_from_version_2(tmp_path: Path) -> None:
    mounts = (
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
        "cgroup /sys/fs/cgroup/gone cgroup rw,cpu 0 0"
    )
    root = write(tmp_path, {"proc/mounts": mounts, "sys/fs/cgroup/unified/cgroup.controllers": "cpuset memory"})
    found = read_hierarchies(folders(root, "sys/fs/cgroup/memory"))
    assert {name: hierarchy.mount.version for name, hierarchy in found.items()} == {"memory": 1, "cpuset": 2}


def test_a_mount_of_the_whole_comes_before_one_of_a_part(tmp_path: Path) -> None:
    mountinfo = (
        "50 25 0:26 /docker/abc /var/lib/box/cgroup rw - cgroup2 cgroup2 rw\n"
        "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    )
    root = folders(write(tmp_path, {"proc/self/mountinfo": mountinfo}), "var/lib/box/cgroup", "sys/fs/cgroup")
    assert read_hierarchies(root)["memory"].mount.folder == "sys/fs/cgroup"


def test_a_part_is_seen_below_its_own_root(tmp_path: Path) -> None:
    files = {
        "proc/self/mountinfo": "41 30 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory",
        "proc/self/cgroup": "4:memory:/docker/abc/inner",
    }
    root = folders(write(tmp_path, files), "sys/fs/cgroup/memory")
    assert read_hierarchies(root)["memory"].lines == (
        ("sys/fs/cgroup/memory",),
        ("sys/fs/cgroup/memory", "sys/fs/cgroup/memory/inner"),
    )


def test_a_session_in_a_job_has_no_line_of_its_own(tmp_path: Path) -> None:
    files = {
        "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0",
        "sys/fs/cgroup/cgroup.controllers": "memory",
    }
    found = read_hierarchies(write(tmp_path, files))
    assert found["memory"].lines == (("sys/fs/cgroup", "sys/fs/cgroup/system.slice"),)


def test_a_container_that_is_a_service_has_the_limits_of_its_view(tmp_path: Path) -> None:
    group = "/system.slice/docker-abc.scope"
    files = {
        "proc/self/mountinfo": f"41 30 0:29 {group} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory",
        "proc/self/cgroup": f"4:memory:{group}",
    }
    root = folders(write(tmp_path, files), "sys/fs/cgroup/memory")
    assert read_hierarchies(root)["memory"].lines == (("sys/fs/cgroup/memory",),)


def test_without_a_list_of_mounts_the_usual_places_are_tried(tmp_path: Path) -> None:
    assert read_hierarchies(tmp_path) == {}
    root = folders(tmp_path, "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/memory", "sys/fs/cgroup/systemd")
    found = read_hierarchies(root)
    assert {name: hierarchy.mount.folder for name, hierarchy in found.items()} == {
        "cpu": "sys/fs/cgroup/cpu,cpuacct",
        "memory": "sys/fs/cgroup/memory",
    }
    write(root, {"sys/fs/cgroup/cgroup.controllers": "memory"})
    assert read_hierarchies(root)["memory"].mount.version == 2


def test_a_mount_with_a_name_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    long = "x" * 5000
    write(
        tmp_path,
        {
            "proc/self/mountinfo": f"30 1 0:26 / /{long} rw - cgroup2 cgroup2 rw\n"
            "31 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "sys/fs/cgroup/cgroup.controllers": "memory",
        },
    )
    assert [one.mount.folder for one in read_hierarchies(tmp_path).values()] == ["sys/fs/cgroup"]
