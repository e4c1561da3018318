# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.filter.with_closest import with_closest

KNOWN = ["sglang_hicache_ratio", "sglang_hicache_size_gb", "sglang_port"]


def test_a_typing_error_is_answered_with_what_was_meant() -> None:
    assert with_closest("sglang_hicache_rato", KNOWN) == "sglang_hicache_rato (closest known: sglang_hicache_ratio)"


def test_nothing_close_adds_nothing() -> None:
    assert with_closest("zzz", KNOWN) == "zzz"
