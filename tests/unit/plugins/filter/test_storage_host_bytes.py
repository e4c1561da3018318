# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host memory of a third tier, told before anything is planned."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.storage_host_bytes import storage_host_bytes


def test_it_counts_and_refuses_before_anything_is_planned() -> None:
    asked = {"backend": "mooncake", "extra_config": {"global_segment_size": "2gb"}}
    assert storage_host_bytes({}, "0.5.23") == 0
    assert storage_host_bytes(asked, "0.5.23", 8, 1, 2) == 2 * 2 * 2**30
    with pytest.raises(AnsibleFilterError, match="is 'eic'.*Nothing was changed"):
        storage_host_bytes({"backend": "eic"}, "0.5.23")
