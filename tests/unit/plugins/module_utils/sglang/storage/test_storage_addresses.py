# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.addresses import host_and_port
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.storage.storage_cases import tier

MASTER = {"master_server_address": "10.0.0.5:50051", "protocol": "rdma"}


@pytest.mark.parametrize(
    ("backend", "extra_config", "code", "message", "remedy"),
    [
        (
            "hf3fs",
            {"metadata_server_url": "10.0.0.5"},
            "storage_address_malformed",
            "sglang_hicache_storage.extra_config.metadata_server_url is 10.0.0.5.",
            "http://10.0.0.5:18000",
        ),
        (
            "hf3fs",
            {"metadata_server_url": "http://10.0.0.5:99999"},
            "storage_address_malformed",
            "sglang_hicache_storage.extra_config.metadata_server_url is http://10.0.0.5:99999.",
            "a port of 1 to 65535",
        ),
        (
            "mooncake",
            {**MASTER, "metadata_server": "http://10.0.0.5:x/m"},
            "storage_address_malformed",
            "sglang_hicache_storage.extra_config.metadata_server is http://10.0.0.5:x/m.",
            "a port of 1 to 65535",
        ),
        (
            "mooncake",
            {**MASTER, "device_name": '{"0": mlx5_0}'},
            "storage_devices_malformed",
            "device_name begins with a brace and is no JSON: ",
            '{"0": "mlx5_0", "1": "mlx5_1"}',
        ),
    ],
)
def test_addresses_and_devices_that_cannot_be_meant(
    backend: str, extra_config: dict[str, Any], code: str, message: str, remedy: str
) -> None:
    with pytest.raises(Refusal) as refused:
        tier("0.5.23", backend, {"extra_config": extra_config})
    assert refused.value.code == code
    assert message in refused.value.message
    assert remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("given", "scheme", "expected"),
    [
        ("http://10.0.0.5:18000/x", None, "10.0.0.5:18000"),
        ("https://store.example.org", None, "store.example.org:443"),
        ("store.example.org", "http", "store.example.org:80"),
        ("store.example.org:9000", "https", "store.example.org:9000"),
        ("http://[2001:db8::5]:9000", None, "[2001:db8::5]:9000"),
        ("store.example.org", None, None),
        ("http://[2001:db8::5", None, None),
        ("http://:9000", None, None),
        ("http://10.0.0.5:-1", None, None),
        ("", "http", None),
    ],
)
def test_host_and_port_of_an_address(given: str, scheme: str | None, expected: str | None) -> None:
    if expected is not None:
        assert host_and_port("x", given, scheme) == expected
        return
    with pytest.raises(Refusal) as refused:
        host_and_port("x", given, scheme)
    assert refused.value.code == "storage_address_malformed"
