# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every release with every backend: what it makes of it, or why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.storage_versions import BACKENDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.tier import (
    file_name,
    host_memory_bytes,
    settled,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.storage_cases import (
    PAGE_BYTES,
    RELEASES,
    asked,
    setup,
    tier,
)

# The first release that takes each backend in a way that can be configured.
FIRST = {"file": "0.4.10", "mooncake": "0.5.2", "nixl": "0.5.1", "hf3fs": "0.4.10", "lmcache": "0.5.2"}
MAX_SIZE = "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"


def refused(release: str, backend: str, request: dict[str, Any] | None = None, **changes: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        tier(release, backend, request, **changes)
    return caught.value


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_release_takes_a_backend_or_says_that_it_has_none(release: str, backend: str) -> None:
    if RELEASES.index(release) < RELEASES.index(FIRST[backend]):
        assert refused(release, backend).code == "storage_backend_absent"
        return
    made = tier(release, backend)
    flag = {"enable-lmcache": True} if backend == "lmcache" else {"hicache-storage-backend": backend}
    assert flag.items() <= made.arguments.items()
    # The distribution's compiler is needed where names of pages are hashed by what is compiled.
    assert made.compiles == (backend != "lmcache" and RELEASES.index(release) >= RELEASES.index("0.5.15"))
    assert (made.module is None) == (backend == "file")


@pytest.mark.parametrize("release", RELEASES[RELEASES.index("0.4.10") :])
def test_files_are_capped_by_the_server_from_0_5_14_on_and_by_the_role_always(release: str) -> None:
    made = tier(release, "file", {"min_free_bytes": 7})
    by_itself = RELEASES.index(release) >= RELEASES.index("0.5.14")
    expected = {"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": "/srv/kv"}
    if by_itself:
        # Each of the eight ranks counts its own files alone.
        expected.update({MAX_SIZE: "25000000000", "SGLANG_HICACHE_FILE_BACKEND_MIN_FREE_SPACE": "7"})
    assert made.environment == expected
    assert made.prune is not None
    assert (made.prune.folder, made.prune.max_bytes, made.prune.min_free_bytes) == ("/srv/kv", 200_000_000_000, 7)
    assert ("storage_cap_by_timer" in {one.code for one in made.problems}) == (not by_itself)


@pytest.mark.parametrize(
    ("changes", "writers"),
    [
        ({}, 8),
        ({"pipeline_parallel_size": 2, "tensor_parallel_size": 4}, 8),
        ({"latent": True}, 1),
        ({"latent": True, "token_groups": 4}, 4),
        ({"latent": True, "pipeline_parallel_size": 2, "tensor_parallel_size": 4}, 2),
    ],
)
def test_the_cap_is_divided_between_those_that_write(changes: dict[str, Any], writers: int) -> None:
    made = tier("0.5.23", "file", **changes)
    assert made.writers == writers
    assert int(made.environment[MAX_SIZE]) * writers == 200_000_000_000


def test_a_cap_below_a_page_of_each_rank_is_refused_with_the_least() -> None:
    least = 8 * PAGE_BYTES
    assert tier("0.5.23", "file", {"max_bytes": least}).environment[MAX_SIZE] == str(PAGE_BYTES)
    refusal = refused("0.5.23", "file", {"max_bytes": least - 8})
    assert (refusal.code, refusal.evidence["least_bytes"]) == ("storage_cap_below_page", least)
    assert f"Set it to {least} or more" in str(refusal)


@pytest.mark.parametrize(
    ("backend", "first"), [("file", "0.5.10"), ("mooncake", "0.5.8"), ("nixl", None), ("hf3fs", None)]
)
def test_stages_of_a_pipeline_are_refused_where_their_pages_have_the_same_names(
    backend: str, first: str | None
) -> None:
    stages: dict[str, Any] = {"pipeline_parallel_size": 2, "tensor_parallel_size": 4}
    for release in RELEASES[RELEASES.index("0.5.2") :]:
        if first is not None and RELEASES.index(release) >= RELEASES.index(first):
            tier(release, backend, **stages)
        else:
            assert refused(release, backend, **stages).code == "storage_mixes_stages"


@pytest.mark.parametrize(("release", "protocol"), [("0.5.3", "tcp"), ("0.5.12", "tcp"), ("0.5.13", "rdma")])
def test_mooncake_without_a_protocol_has_that_of_the_release_in_so_many_words(release: str, protocol: str) -> None:
    made = tier(release, "mooncake", {"extra_config": {"master_server_address": "m:1"}})
    written = json.loads(made.arguments["hicache-storage-backend-extra-config"])
    assert written == {"global_segment_size": 4 * GIB, "master_server_address": "m:1", "protocol": protocol}
    assert made.rdma == (None if protocol == "tcp" else ())


@pytest.mark.parametrize(
    ("release", "extra", "changes", "expected"),
    [
        ("0.5.23", {}, {}, 4 * GIB),
        ("0.5.23", {"global_segment_size": "64gb"}, {}, 64 * GIB),
        ("0.5.23", {"global_segment_size": 0}, {}, 0),
        ("0.5.23", {"global_segment_size": "8gb"}, {"token_groups": 4}, 32 * GIB),
        ("0.5.23", {"global_segment_size": "8gb"}, {"pipeline_parallel_size": 2}, 8 * GIB),
        ("0.5.18", {"global_segment_size": "8gb"}, {"pipeline_parallel_size": 2}, 16 * GIB),
        ("0.5.23", {"global_segment_size": "8gb", "standalone_storage": True}, {}, 0),
    ],
)
def test_segments_of_mooncake_are_counted_as_the_release_divides_them(
    release: str, extra: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    request = asked("mooncake", extra_config={"master_server_address": "m:1", **extra})
    assert host_memory_bytes(request, setup(release, "mooncake", **changes)) == expected


def test_lmcache_pins_in_every_rank_before_0_5_13_and_asks_a_daemon_from_there_on() -> None:
    before, later = setup("0.5.12", "lmcache"), setup("0.5.13", "lmcache")
    assert host_memory_bytes(asked("lmcache"), before) == 8 * 20 * GIB
    assert host_memory_bytes(asked("lmcache"), later) == 0
    inside, behind = tier("0.5.12", "lmcache"), tier("0.5.13", "lmcache", {"extra_config": {}})
    assert inside.addresses == () and behind.addresses == ("127.0.0.1:5556",)
    assert settled(inside, "/etc/sglang/x.yaml") == (
        {"enable-lmcache": True},
        {"LMCACHE_USE_EXPERIMENTAL": "True", "LMCACHE_CONFIG_FILE": "/etc/sglang/x.yaml"},
    )
    assert settled(behind, "/etc/sglang/x.yaml") == (
        {"enable-lmcache": True, "lmcache-config-file": "/etc/sglang/x.yaml"},
        {},
    )
    assert refused("0.5.12", "lmcache", {"extra_config": {}}).code == "storage_cap_missing"
    assert refused("0.5.23", "lmcache", hicache=True).code == "storage_excludes_hicache"


def test_3fs_gets_a_file_of_its_settings_with_a_share_for_each_rank() -> None:
    made = tier("0.5.23", "hf3fs", {"extra_config": {"numjobs": 4}})
    assert made.file is not None
    assert json.loads(made.file.content) == {
        "entries": 8,
        "file_path_prefix": "/3fs/stage/kv/main",
        "file_size": 50_000_000_000,
        "numjobs": 4,
    }
    # Its client registers memory below the mount point.
    assert (made.folders, made.writable, made.mounts) == (("/3fs/stage/kv",), ("/3fs/stage",), ("/3fs/stage",))
    assert refused("0.5.23", "hf3fs", {"mount": None}).code == "storage_path_missing"
    mocked = tier("0.5.23", "hf3fs", {"mount": None, "extra_config": {"use_mock_hf3fs_client": True}})
    assert (mocked.module, mocked.mount_type) == (None, None)
    name = file_name(made, "main")
    assert name is not None and name.startswith("main.storage-") and name.endswith(".json")
    assert file_name(tier("0.5.23", "hf3fs", {"extra_config": {"numjobs": 5}}), "main") != name
    arguments, environment = settled(made, f"/etc/sglang/{name}")
    assert environment == {"SGLANG_HICACHE_HF3FS_CONFIG_PATH": f"/etc/sglang/{name}"}
    assert arguments == {"hicache-storage-backend": "hf3fs"}


@pytest.mark.parametrize("changes", [{"latent": True}, {"token_groups": 2}])
def test_ranks_that_share_a_file_of_3fs_need_its_metadata_server(changes: dict[str, Any]) -> None:
    assert refused("0.5.23", "hf3fs", **changes).code == "storage_address_missing"
    made = tier("0.5.23", "hf3fs", {"extra_config": {"metadata_server_url": "http://10.0.0.5:18000"}}, **changes)
    assert made.addresses == ("10.0.0.5:18000",)


def test_nixl_takes_files_or_objects_by_its_plugin() -> None:
    objects = {"plugin": {"obj": {"active": True, "endpoint_override": "http://s3.local:9000", "bucket": "kv"}}}
    made = tier("0.5.23", "nixl", {"path": None, "extra_config": objects})
    assert (made.folders, made.addresses, made.environment) == ((), ("s3.local:9000",), {})
    assert tier("0.5.23", "nixl").environment == {"SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR": "/srv/kv"}
    assert refused("0.5.23", "nixl", {"extra_config": objects}).code == "storage_option_not_taken"
    assert refused("0.5.23", "nixl", {"path": None}).code == "storage_path_missing"
    assert refused("0.5.8", "nixl", {"extra_config": objects}).code == "storage_option_not_taken"
    named = {"plugin": {"obj": {"active": True}}}
    assert refused("0.5.23", "nixl", {"path": None, "extra_config": named}).code == "storage_bucket_missing"
    idle = {"plugin": {"posix": {"active": False}}}
    assert refused("0.5.23", "nixl", {"extra_config": idle}).code == "storage_plugin_unknown"
    codes = {one.code for one in tier("0.5.14", "nixl").problems}
    assert codes == {"storage_unbounded"} and tier("0.5.15", "nixl").problems == ()


def test_a_layout_that_mooncake_would_change_is_refused_with_what_it_becomes() -> None:
    refusal = refused("0.5.23", "mooncake", io_backend="direct", mem_layout="layer_first")
    assert refusal.code == "storage_layout_rewritten"
    assert refusal.evidence == {"io_backend": "direct", "mem_layout": "page_first_direct"}
    tier("0.5.23", "file", io_backend="direct", mem_layout="layer_first")


@pytest.mark.parametrize(
    ("request_", "changes", "code"),
    [
        ({"max_bytes": None}, {}, "storage_cap_missing"),
        ({"path": None}, {}, "storage_path_missing"),
        ({"extra_config": {"max_size": "1G"}}, {}, "storage_option_owned"),
        ({}, {"hicache": False}, "storage_without_hicache"),
        ({}, {"environment": (MAX_SIZE,)}, "storage_said_twice"),
        ({}, {"extra_arguments": ("--hicache_storage_backend",)}, "storage_said_twice"),
    ],
)
def test_what_files_cannot_be_asked_for(request_: dict[str, Any], changes: dict[str, Any], code: str) -> None:
    assert refused("0.5.23", "file", request_, **changes).code == code


def test_small_pages_and_a_cap_below_the_host_pools_are_said() -> None:
    made = tier("0.5.23", "file", {"max_bytes": 50_000_000_000}, page_size=1, page_bytes=PAGE_BYTES // 640)
    assert {one.code for one in made.problems} == {"storage_below_host_pool", "storage_small_pages"}
    assert tier("0.5.23", "file").problems == ()


def test_a_policy_and_a_mount_are_taken_by_any_backend_that_knows_them() -> None:
    made = tier("0.5.23", "file", {"prefetch_policy": "wait_complete", "mount": "/srv"})
    assert made.arguments["hicache-storage-prefetch-policy"] == "wait_complete"
    assert made.mounts == ("/srv",)
    assert refused("0.4.10", "file", {"prefetch_policy": "timeout"}).code == "storage_option_not_taken"


@pytest.mark.parametrize(
    ("backend", "extra", "code"),
    [
        ("mooncake", {}, "storage_address_missing"),
        ("mooncake", {"master_server_address": "m:1", "global_segment_size": "4 TB"}, "storage_size_malformed"),
        (
            "mooncake",
            {"master_server_address": "m:1", "protocol": "rdma", "device_name": "{mlx5_0}"},
            "storage_devices_malformed",
        ),
        ("hf3fs", {"file_size": 1}, "storage_option_owned"),
        ("hf3fs", {"metadata_server_url": "10.0.0.5"}, "storage_address_malformed"),
        ("lmcache", {"mp_port": "many"}, "storage_address_malformed"),
    ],
)
def test_what_a_backend_cannot_be_configured_with(backend: str, extra: dict[str, Any], code: str) -> None:
    assert refused("0.5.23", backend, {"extra_config": extra}).code == code


def test_a_client_of_mooncake_and_its_metadata_server_are_asked_as_well() -> None:
    extra = {"client_server_address": "127.0.0.1:50052", "metadata_server": "http://10.0.0.6:8080/metadata"}
    assert tier("0.5.7", "mooncake", {"extra_config": extra}).addresses == ("127.0.0.1:50052", "10.0.0.6:8080")
    assert refused("0.5.6", "mooncake", {"extra_config": extra}).code == "storage_option_not_taken"


def test_pages_that_move_over_tcp_are_said_to() -> None:
    assert [one.code for one in tier("0.5.23", "mooncake").problems] == ["storage_over_tcp"]
    rdma = {"master_server_address": "m:1", "protocol": "rdma"}
    assert tier("0.5.23", "mooncake", {"extra_config": rdma}).problems == ()


def test_3fs_has_room_for_a_page_in_each_file() -> None:
    refusal = refused("0.5.23", "hf3fs", {"max_bytes": 8 * PAGE_BYTES - 8})
    assert (refusal.code, refusal.evidence["least_bytes"]) == ("storage_cap_below_page", 8 * PAGE_BYTES)
