# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.machine_on_paper import FilterModule, on_paper


def test_the_filter_gives_the_topology() -> None:
    assert len(on_paper({"board": "l40s", "count": 4})["gpus"]) == 4
    assert set(FilterModule().filters()) == {"machine_on_paper"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"board": "H300"}, "^board_unknown: .*The closest: .*NVIDIA H200"),
        ({"count": 2}, "^board_missing: "),
        ({"board": "L40S", "count": 2, "nvlink": True}, "^nvlink_not_had: "),
        ("NVIDIA H200", "^value_malformed: .*Expected a mapping"),
    ],
)
def test_refusals_are_errors_of_the_filter(said: object, told: str) -> None:
    with pytest.raises(AnsibleFilterError, match=told):
        on_paper(said)
