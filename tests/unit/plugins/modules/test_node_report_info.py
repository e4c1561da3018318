# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import node_report_info


def run(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        node_report_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_this_machine_has_no_instance_and_is_described_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = run(capsys, config_root=str(tmp_path_factory.mktemp("config")), instances=[])
    assert found["instances"] == []
    documented = set(yaml.safe_load(node_report_info.RETURN))
    assert set(found) - {"changed", "invocation"} == documented
    assert set(found["topology"]) == set(node_report_info.TOPOLOGY)
    assert found["concealed"] is None


def test_what_an_incident_needs_is_the_whole_survey(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, instances=[], details=True, conceal='{"api_key": "x", "said": "--api-key abc"}')
    assert found["concealed"] == {"api_key": "***", "said": "--api-key '***'"}
    assert "gpu_links" in found["topology"]
    assert "packages" in found["stack"]
