# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Node, boot


@pytest.fixture(scope="session")
def node() -> Node:
    """The rehearsal's node, booted."""
    boot()
    return Node()
