# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.readiness_versions import readiness_of


@pytest.mark.parametrize(
    ("version", "path", "generates", "answers"),
    [
        ("0.4.7", "/health_generate", True, "/get_model_info"),
        ("0.4.10", "/health_generate", True, "/get_model_info"),
        ("0.5.0rc2", "/health", True, "/get_model_info"),
        ("0.5.5", "/health", True, "/get_model_info"),
        ("0.5.6", "/health", True, "/model_info"),
        ("0.5.19", "/health", True, "/model_info"),
        ("0.5.20", "/ready", False, "/model_info"),
        ("0.9.0", "/ready", False, "/model_info"),
    ],
)
def test_how_a_release_proves_that_it_is_ready(version: str, path: str, generates: bool, answers: str) -> None:
    found = readiness_of(version)
    assert (found.path, found.generates, found.answers) == (path, generates, answers)
