# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.monitoring.configuration import missing_parts

FOLDER = "/etc/prometheus"
RULES = [f"{FOLDER}/gpufleet/rules/{name}.yml" for name in ("host", "sglang")]
SCRAPES = f"{FOLDER}/gpufleet/scrape.yml"
TARGETS = {job: f"{FOLDER}/gpufleet/targets/{job}.json" for job in ("sglang", "dcgm")}


def jobs(*names: str) -> list[dict[str, Any]]:
    return [{"job_name": name, "file_sd_configs": [{"files": [f"gpufleet/targets/{name}.json"]}]} for name in names]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ["rule_files", "scrape_configs"]),
        ({"rule_files": None, "scrape_configs": None}, ["rule_files", "scrape_configs"]),
        ({"rule_files": [f"{FOLDER}/gpufleet/rules/*.yml"], "scrape_config_files": ["gpufleet/*.yml"]}, []),
        ({"rule_files": ["gpufleet/rules/*.yml"], "scrape_configs": jobs("sglang", "dcgm")}, []),
        ({"rule_files": RULES, "scrape_configs": jobs("sglang")}, ["scrape_configs"]),
        ({"rule_files": RULES[:1], "scrape_configs": jobs("sglang", "dcgm")}, ["rule_files"]),
        ({"rule_files": RULES, "scrape_configs": [{"job_name": "sglang"}]}, ["scrape_configs"]),
    ],
)
def test_what_a_configuration_lacks(config: dict[str, Any], expected: list[str]) -> None:
    assert missing_parts(config, FOLDER, RULES, SCRAPES, TARGETS) == expected
