# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every alert of the role monitoring, fired and not fired by Debian's own promtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tools.alert_page import rendered, rules

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("alert_cases.yml").read_text(encoding="utf-8")
)
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}
SHORT = {"{@": '{node="n1",sglang_instance="main"', ",@": ',node="n1",sglang_instance="main"', "%": 'node="n1"'}


def series(short: dict[str, str]) -> list[dict[str, str]]:
    found = []
    for name, values in short.items():
        for mark, whole in SHORT.items():
            name = name.replace(mark, whole)
        found.append({"series": name, "values": str(values)})
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rules")
    for name, text in rendered().items():
        (made / name).write_text(text, encoding="utf-8")
    return made


def promtool(*words: str) -> str:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_file_of_rules_is_one(folder: Path) -> None:
    told = promtool("check", "rules", "--lint=all", "--lint-fatal", *(str(folder / name) for name in rendered()))
    assert sum(map(int, re.findall(r"(\d+) rules found", told))) == len(rules())


def test_every_alert_has_a_case_and_says_what_to_do() -> None:
    assert sorted(CASES) == sorted(ALERTS)
    for name, rule in ALERTS.items():
        assert set(rule["labels"]) == {"severity", "component"}, name
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        said = rule["annotations"]
        assert set(said) == {"summary", "description", "remedy", "runbook_url"}, name
        assert said["runbook_url"].endswith(f"/docs/alerts.md#{name.lower()}"), name
        assert all(said[part].endswith((".", ").")) for part in ("description", "remedy")), name


@pytest.mark.parametrize("name", CASES)
def test_it_fires_alone_with_its_text_and_not_beside_its_threshold(folder: Path, name: str) -> None:
    case, rule = CASES[name], ALERTS[name]
    words = {key: rule["annotations"][key] for key in ("remedy", "runbook_url")}
    # Where it names the instance, the case has it in full.
    words["remedy"] = case.get("remedy", words["remedy"])
    expected = {
        "exp_labels": {**case["labels"], **rule["labels"]},
        "exp_annotations": {"summary": case["summary"], "description": case["description"], **words},
    }
    fires = {
        "interval": "1m",
        "input_series": series(case["fires"]),
        "alert_rule_test": [{"eval_time": case["at"], "alertname": name, "exp_alerts": [expected]}],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": case["at"],
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}],
            }
        ],
    }
    beside = {
        "interval": "1m",
        "input_series": series(case["beside"]),
        "alert_rule_test": [{"eval_time": case["at"], "alertname": name, "exp_alerts": []}],
    }
    file = folder / f"{name}.test.yaml"
    whole = {"rule_files": sorted(rendered()), "evaluation_interval": "1m", "tests": [fires, beside]}
    file.write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
    promtool("test", "rules", str(file))
