# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.file_reading import read_files, read_segments
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import (
    BY_ENVIRONMENT,
    BY_FOLDER,
    BY_UNIT,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.process_reading import (
    Instance,
    memory_users,
    pids_in,
    read_host,
    read_nodes,
    read_process,
    still_there,
    strays,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.idle.node_tree import NodeTree

GROUP = "/system.slice/sglang-main.service"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> NodeTree:
    return NodeTree(tmp_path)


def test_a_process_is_read_whole(tree: NodeTree) -> None:
    tree.process(201, "sglang::scheduler_TP0", shmem_kb=1000, anon_kb=24, group=GROUP, ticks=500)
    process = read_process(tree.root, 201, BY_UNIT)
    assert process is not None
    assert (process.name, process.user, process.unit) == ("sglang::scheduler_TP0", "root", "sglang-main.service")
    assert (process.shmem_bytes, process.held_bytes, process.state) == (1_024_000, 1_048_576, "S")
    assert process.started_at == 1_795_973_111.0
    assert read_process(tree.root, 999) is None


def test_processes_of_a_group_and_of_those_below_it(tree: NodeTree) -> None:
    tree.group(GROUP, 201, 202)
    tree.group(f"{GROUP}/payload", 203)
    assert sorted(pids_in(tree.root, GROUP)) == [201, 202, 203]
    assert pids_in(tree.root, "/system.slice/none.service") == ()
    assert pids_in(tree.root, None) == ()


def test_strays_of_the_instance_are_told_from_those_of_others(tree: NodeTree) -> None:
    tree.process(201, "sglang::scheduler_TP0", group=GROUP, cwd="/var/lib/sglang/main")
    tree.process(301, "sglang::scheduler_TP0", group="/user.slice/session-3.scope", cwd="/var/lib/sglang/main")
    tree.process(302, "sglang::scheduler_TP0", group="/system.slice/sglang-b.service", cwd="/var/lib/sglang/b")
    tree.process(303, "python3 -m helper", environ={"GPUFLEET_GENERATION": "old"})
    tree.process(304, "python3 -m helper", environ={"INVOCATION_ID": "5f1c"})
    tree.process(305, "python3 -m helper", environ={"GPUFLEET_GENERATION": "of another"}, cwd="/var/lib/sglang/main")
    tree.process(306, "", cwd="/var/lib/sglang/main")
    tree.process(307, "sglang::detokenizer", state="Z", cwd="/var/lib/sglang/main")
    instance = Instance("5f1c", ("new", "old"), "/var/lib/sglang/main")
    found = strays(tree.root, instance, {201}, own_pid=1)
    assert {process.pid: process.belongs for process in found} == {
        301: BY_FOLDER,
        302: None,
        303: BY_ENVIRONMENT,
        304: BY_ENVIRONMENT,
    }


def test_no_process_is_anyones_where_the_unit_names_nothing(tree: NodeTree) -> None:
    tree.process(301, "sglang::scheduler_TP0", cwd="/", environ={"GPUFLEET_GENERATION": "x"})
    (found,) = strays(tree.root, Instance(working_directory="/"), (), own_pid=1)
    assert found.belongs is None


def test_a_number_that_went_to_another_process_is_not_the_stray(tree: NodeTree) -> None:
    tree.process(301, "sglang::scheduler_TP0", ticks=500)
    process = read_process(tree.root, 301, BY_FOLDER)
    assert process is not None
    now = still_there(tree.root, process)
    assert now is not None and now.belongs == BY_FOLDER
    tree.process(301, "sglang::scheduler_TP0", ticks=900)
    assert still_there(tree.root, process) is None


def test_largest_users_of_shared_memory_come_first(tree: NodeTree) -> None:
    tree.process(1, "a", shmem_kb=10)
    tree.process(2, "b", shmem_kb=0, anon_kb=900)
    tree.process(3, "c", shmem_kb=500)
    tree.process(4, "d")
    processes = [found for found in (read_process(tree.root, pid) for pid in (1, 2, 3, 4)) if found is not None]
    assert [process.pid for process in memory_users(processes, 3)] == [3, 1, 2]


def test_host_and_nodes_are_read(tree: NodeTree) -> None:
    tree.meminfo(MemTotal=1000, MemFree=400, MemAvailable=600, Cached=200, AnonPages=100, Slab=50, Shmem=70, Mlocked=5)
    tree.node(0, MemTotal=500, MemFree=300, Shmem=60)
    tree.node(1, MemTotal=500, MemFree=100, Shmem=10)
    tree.write("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "10\n")
    tree.write("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "4\n")
    host = read_host(tree.root)
    assert (host.available_bytes, host.shmem_bytes, host.mlocked_bytes) == (600 << 10, 70 << 10, 5 << 10)
    assert host.unaccounted_bytes == 250 << 10
    nodes = read_nodes(tree.root, host.available_bytes)
    assert [(node.node, node.free_bytes, node.shmem_bytes) for node in nodes] == [
        (0, 300 << 10, 60 << 10),
        (1, 100 << 10, 10 << 10),
    ]
    assert [node.available_bytes for node in nodes] == [450 << 10, 150 << 10]
    (pages,) = nodes[1].hugepages
    assert (pages.used_bytes, pages.free_bytes) == (6 << 21, 4 << 21)


def test_a_root_without_anything_says_nothing(tmp_path: Path) -> None:
    assert read_host(tmp_path).available_bytes is None
    assert read_nodes(tmp_path, None) == ()
    assert read_files(tmp_path, [1]) == ()
    assert read_segments(tmp_path) == ()


def test_a_file_is_told_with_those_that_map_it_or_have_it_open(tree: NodeTree) -> None:
    mapped, opened, left = (tree.shared_file(name, 2 << 20) for name in ("mapped", "opened", "left"))
    tree.shared_file("small", 4096)
    status = mapped.stat()
    device = f"{status.st_dev >> 8 & 0xFFF:02x}:{status.st_dev & 0xFF:02x}"
    tree.process(1, "a", maps=f"7f00-7f01 rw-s 00000000 {device} {status.st_ino}     /dev/shm/mapped\n")
    tree.process(2, "b")
    tree.open_file(2, 5, opened)
    files = read_files(tree.root, [1, 2])
    assert {file.path: file.used_by for file in files} == {
        "/dev/shm/mapped": (1,),
        "/dev/shm/opened": (2,),
        "/dev/shm/left": (),
    }
    assert left.stat().st_blocks * 512 == next(file.bytes for file in files if file.path == "/dev/shm/left")


def test_name_of_a_file_that_anybody_chose_can_be_shown(tree: NodeTree) -> None:
    # No UTF-8, and what a terminal would obey.
    tree.shared_file("a\x1b[31m\n\udcff", 2 << 20)
    (file,) = read_files(tree.root, [])
    assert file.path == "/dev/shm/a\\x1b[31m\\n\\udcff"
    assert file.path.isprintable()


def test_segments_of_this_node_have_their_users_name(tree: NodeTree) -> None:
    head = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap"
    rows = ["0 7 600 4194304 101 101 0 0 0 0 0 1 1 1 2097152 0", "0 8 600 4096 101 101 0 0 0 0 0 1 1 1 4096 0"]
    tree.write("proc/sysvipc/shm", "\n".join([head, *rows]) + "\n")
    (segment,) = read_segments(tree.root)
    assert (segment.id, segment.bytes, segment.user, segment.attached) == (7, 2 << 20, "root", 0)
