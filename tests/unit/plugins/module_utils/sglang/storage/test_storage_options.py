# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server of a storage plan is that of its memory plan."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.options import plan_storage, setup_of

PLAN: dict[str, Any] = {
    "sglang_version": "0.5.23",
    "model": {"family": "mla"},
    "arguments": {"tp-size": 4, "pp-size": 2},
    "device": {"page_size": 64, "token_groups": 2},
    "host": {
        "enabled": True,
        "io_backend": "direct",
        "mem_layout": "page_first_direct",
        "bytes_total": 1000,
        "left_bytes": 5000,
        "pools": [{"kind": "kv", "bytes_per_token": 100}, {"kind": "mamba", "bytes_per_token": 7}],
    },
}


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "storage": {"backend": "file", "path": "/srv/kv", "max_bytes": 10**9},
        "plan": PLAN,
        "instance": "main",
        "config_root": "/etc/sglang",
        "environment": [],
        "extra_arguments": [],
        "node": None,
        "requirements": None,
        "system_packages": None,
        **changes,
    }


def test_ranks_pages_and_layout_are_those_of_the_plan() -> None:
    setup = setup_of(arguments())
    assert (setup.ranks, setup.writers, setup.latent) == (8, 4, True)
    # A state is no part of a page of tokens.
    assert setup.page_bytes == 6400
    assert (setup.io_backend, setup.mem_layout) == ("direct", "page_first_direct")


def test_a_tier_is_told_in_plain_data() -> None:
    found = plan_storage(arguments())
    assert found["refusals"] == [] and found["packages"] == []
    tier = found["tier"]
    assert tier["prune"] == {"folder": "/srv/kv", "max_bytes": 10**9, "min_free_bytes": 10 * 2**30}
    assert (tier["file"], tier["modules"], tier["compiles"], tier["writers"]) == (None, [], True, 4)
    one_stage = {**PLAN, "arguments": {"tp-size": 8}}
    metadata = {"metadata_server_url": "http://10.0.0.5:18000"}
    storage = {"backend": "hf3fs", "path": "/3fs/kv", "mount": "/3fs", "max_bytes": 10**9, "extra_config": metadata}
    file = plan_storage(arguments(storage=storage, plan=one_stage))["tier"]
    assert file["file"]["path"].startswith("/etc/sglang/main.storage-")
    assert file["writable"] == ["/3fs/kv", "/3fs"]
    assert file["environment"] == {"SGLANG_HICACHE_HF3FS_CONFIG_PATH": file["file"]["path"]}
