# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.mounts import (
    Mount,
    mount_of,
    parse_mounts,
    split_address,
)

TEXT = r"""
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /srv rw - xfs /dev/nvme0n1 rw
31 22 0:31 / /srv/kv\040cache rw shared:3 master:1 - tmpfs tmpfs rw
32 22 0:32 / /srv rw - btrfs /dev/nvme1n1 rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib", Mount("/", "ext4")),
        # The later of two at one place covers the earlier.
        ("/srv", Mount("/srv", "btrfs")),
        ("/srv/kv", Mount("/srv", "btrfs")),
        ("/srv/kv cache/pages", Mount("/srv/kv cache", "tmpfs")),
        ("/srvother", Mount("/", "ext4")),
    ],
)
def test_a_path_lies_on_the_closest_mount(path: str, expected: Mount) -> None:
    assert mount_of(parse_mounts(TEXT), path) == expected


def test_addresses() -> None:
    assert split_address("10.0.0.5:50051") == ("10.0.0.5", 50051)
    assert split_address("[::1]:80") == ("::1", 80)
    for text in ("10.0.0.5", ":1", "host:0", "host:port", "host:70000"):
        with pytest.raises(ValueError, match="no host and port"):
            split_address(text)
