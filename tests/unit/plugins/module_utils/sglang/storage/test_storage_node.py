# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node lacks for a third tier, each with the value that would do."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.node import (
    judge_node,
    node_facts,
    packages_missing,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.storage_cases import (
    PAGE_BYTES,
    asked,
    setup,
    tier,
)

TOOLS = {"ninja": True, "g++": True, "openssl/sha.h": True}
SYSTEM: dict[str, Any] = {
    "mount_point": "/srv",
    "type": "ext4",
    "read_only": False,
    "block_bytes": 4096,
    "total_bytes": 1_000_000_000_000,
    "available_bytes": 900_000_000_000,
    "files_available": 60_000_000,
}
FOLDER: dict[str, Any] = {"path": "/srv/kv", "exists": False, "is_folder": False, "pages": 0, "page_bytes": 0}


def said(system: dict[str, Any] | None = None, folder: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """What storage_info returns of a node that has all that is needed, but for what is given."""
    place = {**FOLDER, "strangers": [], **(folder or {}), "file_system": {**SYSTEM, **(system or {})}}
    return {
        "folders": [place],
        "mounts": [],
        "modules": {},
        "wheelhouse_requirements": None,
        "rdma_devices": [],
        "addresses": [],
        "tools": TOOLS,
        "family": "debian",
        **others,
    }


def judged(
    node: dict[str, Any],
    backend: str = "file",
    request: dict[str, Any] | None = None,
    requirements: str | None = None,
    packages: list[str] | None = None,
    release: str = "0.5.23",
) -> tuple[dict[str, Refusal], list[Problem]]:
    refusals, problems = judge_node(
        asked(backend, **(request or {})),
        setup(release, backend),
        tier(release, backend, request),
        node_facts(node),
        requirements,
        packages,
    )
    return {one.code: one for one in refusals}, problems


def test_a_node_that_has_it_all_is_refused_nothing() -> None:
    assert judged(said()) == ({}, [])


def test_too_little_room_is_refused_with_the_largest_cap_that_fits() -> None:
    node = said({"available_bytes": 100_000_000_000}, {"pages": 10, "page_bytes": 20_000_000_000})
    refusal = judged(node)[0]["storage_no_room"]
    largest = 120_000_000_000 - 10 * 2**30
    assert refusal.evidence["largest_max_bytes"] == largest
    assert "120.00 GB" in refusal.message and "20.00 GB of it held by pages already" in refusal.message
    assert judged(node, request={"max_bytes": largest})[0] == {}
    assert "storage_no_room" in judged(node, request={"max_bytes": largest + PAGE_BYTES})[0]


def test_without_room_for_a_page_there_is_no_cap_to_name() -> None:
    refusal = judged(said({"available_bytes": 10 * 2**30}))[0]["storage_no_room"]
    assert refusal.evidence["largest_max_bytes"] == 0
    assert "larger file system" in refusal.remedy


def test_files_are_counted_as_well_as_bytes() -> None:
    refusal = judged(said({"files_available": 1000}))[0]["storage_no_files"]
    assert refusal.evidence == {"files_available": 1000, "files_needed": 200_000_000_000 // PAGE_BYTES}
    assert str(1000 * PAGE_BYTES) in refusal.remedy
    # btrfs and others say 0 for no limit, which is not known as one.
    assert judged(said({"files_available": None}))[0] == {}


@pytest.mark.parametrize(
    ("system", "folder", "code"),
    [
        ({"read_only": True}, {}, "storage_read_only"),
        ({}, {"exists": True, "is_folder": False}, "storage_path_no_folder"),
        ({}, {"exists": True, "is_folder": True, "strangers": ["model.safetensors"]}, "storage_folder_shared"),
    ],
)
def test_folders_that_are_no_place_for_pages(system: dict[str, Any], folder: dict[str, Any], code: str) -> None:
    assert set(judged(said(system, folder))[0]) == {code}


def test_a_mount_that_is_missing_is_refused() -> None:
    mounted = said(mounts=[{"path": "/srv", "type": "ext4"}])
    assert judged(mounted, request={"mount": "/srv"})[0] == {}
    missing = said(mounts=[{"path": "/srv", "type": None}])
    assert set(judged(missing, request={"mount": "/srv"})[0]) == {"storage_mount_missing"}


def test_files_in_memory_are_said_to_be() -> None:
    refusals, problems = judged(said({"type": "tmpfs"}))
    assert refusals == {}
    assert [one.code for one in problems] == ["storage_in_memory"]
    assert "300.00 GB that the plan leaves" in problems[0].message


def test_3fs_has_to_be_a_mounted_3fs() -> None:
    folder = {"path": "/3fs/stage/kv"}
    modules = {"hf3fs_fuse.io": True}
    mounts = [{"path": "/3fs/stage", "type": "fuse.hf3fs"}]
    assert set(judged(said({}, folder, modules=modules, mounts=mounts), "hf3fs")[0]) == {"storage_mount_type"}
    assert judged(said({"type": "fuse.hf3fs"}, folder, modules=modules, mounts=mounts), "hf3fs")[0] == {}


@pytest.mark.parametrize(
    ("modules", "requirements", "wheelhouse", "missing"),
    [
        ({"mooncake.store": True}, None, None, False),
        ({"mooncake.store": False}, None, None, True),
        # Not installed yet: what will be is said by the pins.
        (None, None, None, True),
        (None, "torch==2.13.0\nmooncake-transfer-engine==0.3.9\n", None, False),
        (None, "Mooncake_Transfer_Engine-cuda13==0.3.9\n", None, False),
        (None, "torch==2.13.0\n", None, True),
        (None, None, "mooncake-transfer-engine==0.3.9\n", False),
    ],
)
def test_the_package_is_in_the_release_or_pinned(
    modules: dict[str, bool] | None, requirements: str | None, wheelhouse: str | None, missing: bool
) -> None:
    node = said(modules=modules, wheelhouse_requirements=wheelhouse)
    found = judged(node, "mooncake", requirements=requirements)[0]
    assert set(found) == ({"storage_package_missing"} if missing else set())


@pytest.mark.parametrize(
    ("device", "there", "missing"),
    [
        ("", ["mlx5_0"], False),
        ("", [], True),
        ("mlx5_0,mlx5_1", ["mlx5_0"], True),
        ('{"0": "mlx5_0", "1": "mlx5_1"}', ["mlx5_0", "mlx5_1"], False),
    ],
)
def test_rdma_needs_the_devices_that_are_named(device: str, there: list[str], missing: bool) -> None:
    extra = {"master_server_address": "m:1", "protocol": "rdma", "device_name": device}
    node = said(modules={"mooncake.store": True}, rdma_devices=there)
    found = judged(node, "mooncake", {"extra_config": extra})[0]
    assert set(found) == ({"storage_no_rdma"} if missing else set())


def test_a_service_that_does_not_answer_is_named_with_its_reason() -> None:
    silent = [{"address": "10.0.0.5:50051", "error": "[Errno 111] Connection refused"}]
    found = judged(said(modules={"mooncake.store": True}, addresses=silent), "mooncake")[0]
    assert set(found) == {"storage_unreachable"}
    assert "Connection refused" in found["storage_unreachable"].message


@pytest.mark.parametrize(
    ("family", "packages", "refused"),
    [
        ("debian", None, False),
        ("rhel", None, False),
        ("other", None, True),
        ("debian", ["g++"], True),
        ("debian", ["libssl-dev", "ninja-build"], False),
    ],
)
def test_what_compiles_comes_with_the_role_or_is_asked_for(
    family: str, packages: list[str] | None, refused: bool
) -> None:
    tools = {"ninja": False, "g++": True, "openssl/sha.h": False}
    found = judged(said(tools=tools, family=family), packages=packages)[0]
    assert set(found) == ({"storage_compiler_missing"} if refused else set())
    # Before 0.5.15 nothing is compiled for it.
    assert judged(said(tools=tools, family=family), packages=packages, release="0.5.14")[0] == {}


def test_missing_packages_have_the_names_of_the_distribution() -> None:
    tools = {"ninja": True, "g++": False, "openssl/sha.h": False}
    made = tier("0.5.23", "file")
    assert packages_missing(made, node_facts(said(tools=tools))) == ["g++", "libssl-dev"]
    assert packages_missing(made, node_facts(said(tools=tools, family="rhel"))) == ["gcc-c++", "openssl-devel"]
    assert packages_missing(made, node_facts(said(tools=tools, family="other"))) == []
    assert packages_missing(tier("0.5.14", "file"), node_facts(said(tools=tools))) == []


@pytest.mark.parametrize(
    ("modules", "requirements", "expected"),
    [
        # Where no pins are given SGLang's own dependencies are resolved, and ninja is one.
        (None, None, []),
        (None, "ninja==1.13.0\n", []),
        (None, "torch==2.13.0\n", ["ninja-build"]),
        ({}, None, ["ninja-build"]),
    ],
)
def test_ninja_comes_with_a_release_that_is_not_there_yet(
    modules: dict[str, bool] | None, requirements: str | None, expected: list[str]
) -> None:
    node = node_facts(said(tools={**TOOLS, "ninja": False}, modules=modules))
    assert packages_missing(tier("0.5.23", "file"), node, requirements) == expected
