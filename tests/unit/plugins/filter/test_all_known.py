# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.filter.all_known import FilterModule, all_known

KNOWN = ["sglang_port", "sglang_version"]


def test_known_names_pass() -> None:
    assert FilterModule().filters()["all_known"](["sglang_port"], KNOWN) is True


def test_all_that_is_not_known_is_named_with_the_closest() -> None:
    told = "^variable_unknown: Unknown: sglang_prot \\(closest known: sglang_port\\); zzz\\. "
    with pytest.raises(AnsibleFilterError, match=told):
        all_known(["zzz", "sglang_prot", "sglang_version"], KNOWN)
