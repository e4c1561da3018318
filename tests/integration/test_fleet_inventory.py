# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin that groups hosts by their surveys, over ansible-inventory. It needs no node."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, play
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.surveys.kept import H200, kept, problem

NOW = int(time.time())
WEEK = 604800
PRO = {"board": "rtx-pro-6000-server", "count": 4, "numa_nodes": 1, "memory_gb": 512}
OWN: dict[str, Any] = {
    "compose": {"size": "fleet_gpu_count * gpus_wanted_of_each"},
    "groups": {"ready": "fleet_health == 'ok' and fleet_facts == 'fresh'"},
    "keyed_groups": [{"key": "fleet_problems", "prefix": "problem"}],
}


def write(path: Path, said: Any) -> None:
    path.write_text(said if isinstance(said, str) else json.dumps(said), encoding="utf-8")


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Four hosts, of which one was never surveyed."""
    surveys = tmp_path / "surveys"
    surveys.mkdir()
    write(surveys / "gpu-1.json", kept("gpu-1", taken_at=NOW))
    broken = (problem("fabric_not_ready", "error"), problem("numa_balancing_on", "warning"))
    write(surveys / "gpu-2.json", kept("gpu-2", taken_at=NOW - WEEK - 60, problems=broken))
    write(surveys / "gpu-3.json", kept("gpu-3", PRO, taken_at=NOW, driver="595.58.03"))
    hosts = {"sglang": {"hosts": dict.fromkeys([f"gpu-{n}" for n in range(1, 5)]), "vars": {"gpus_wanted_of_each": 2}}}
    write(tmp_path / "hosts.yml", yaml.safe_dump(hosts))
    configure(tmp_path)
    return tmp_path


def configure(folder: Path, **said: Any) -> None:
    write(folder / "zz-fleet.yml", {"plugin": "gpufleet.sglang.fleet", "surveys": "surveys", **said})


def asked(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-inventory", "-i", folder / "hosts.yml", "-i", folder / "zz-fleet.yml", *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, **(environment or {})},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def listed(folder: Path, **environment: str) -> tuple[dict[str, list[str]], dict[str, Any], str]:
    """The hosts of each group of the plugin's, the variables of each host, and what was said beside them."""
    done = asked(folder, "--list", environment=environment)
    assert done.returncode == 0, done.stderr
    # What nodes have said is no template: ansible-inventory marks it where it is in a list.
    document = json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))
    variables = document.pop("_meta")["hostvars"]
    groups = {name: group["hosts"] for name, group in document.items() if "hosts" in group and name != "sglang"}
    return groups, variables, " ".join(done.stderr.split())


def test_hosts_are_grouped_by_what_they_are_and_how_they_are(folder: Path) -> None:
    configure(folder, **OWN)
    groups, variables, said = listed(folder)
    assert groups == {
        "gpu_model_h200": ["gpu-1", "gpu-2"],
        "gpu_model_rtx_pro_6000_server": ["gpu-3"],
        "gpu_count_8": ["gpu-1", "gpu-2"],
        "gpu_count_4": ["gpu-3"],
        "gpu_memory_140gib": ["gpu-1", "gpu-2"],
        "gpu_memory_96gib": ["gpu-3"],
        "architecture_hopper": ["gpu-1", "gpu-2"],
        "architecture_blackwell": ["gpu-3"],
        "numa_2x4": ["gpu-1", "gpu-2"],
        "numa_1x4": ["gpu-3"],
        "driver_580": ["gpu-1", "gpu-2"],
        "driver_595": ["gpu-3"],
        "health_ok": ["gpu-1", "gpu-3"],
        "health_error": ["gpu-2"],
        "health_unknown": ["gpu-4"],
        "facts_fresh": ["gpu-1", "gpu-3"],
        "facts_stale": ["gpu-2"],
        "facts_unknown": ["gpu-4"],
        "ready": ["gpu-1", "gpu-3"],
        "problem_fabric_not_ready": ["gpu-2"],
        "problem_numa_balancing_on": ["gpu-2"],
    }
    assert variables["gpu-2"]["fleet_problems"] == ["fabric_not_ready", "numa_balancing_on"]
    assert variables["gpu-3"]["size"] == 8
    assert variables["gpu-1"]["fleet_host_memory_bytes"] == 2048 * 10**9
    assert "WARNING" not in said
    assert "|--@gpu_model_h200:" in asked(folder, "--graph").stdout


def test_what_to_group_by_and_names_of_one_s_own(folder: Path) -> None:
    configure(folder, group_by=["gpu_count", "facts"], group_prefix="fleet_", max_age=2 * WEEK)
    groups, _variables, _said = listed(folder)
    assert sorted(groups) == ["fleet_facts_fresh", "fleet_facts_unknown", "fleet_gpu_count_4", "fleet_gpu_count_8"]


def test_bad_files_are_named_and_hide_no_other(folder: Path) -> None:
    surveys = folder / "surveys"
    whole = json.dumps(kept("gpu-2"))
    write(surveys / "gpu-2.json", whole[: len(whole) // 2])
    write(surveys / "gpu-4.json", {"name": "a package"})
    write(surveys / "gone.json", kept("gone"))
    groups, _variables, said = listed(folder)
    assert groups["gpu_model_h200"] == ["gpu-1"]
    assert groups["health_unknown"] == ["gpu-2", "gpu-4"]
    for words in (
        "gpu-2.json: It is no whole JSON",
        "gpu-4.json: It holds name",
        "1 hosts that the inventory does not",
    ):
        assert words in said
    configure(folder, add_hosts=True)
    assert listed(folder)[0]["gpu_model_h200"] == ["gpu-1", "gone"]

    configure(folder, strict=True)
    done = asked(folder, "--list", environment={"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"})
    assert done.returncode != 0
    assert "gpu-2.json: It is no whole JSON" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"survys": "x"}, "survys is no option of gpufleet.sglang.fleet; the closest is surveys"),
        ({"surveys": "none"}, "none: It cannot be read: No such file or directory; expected the folder"),
        ({"group_by": ["colour"]}, "colour"),
        ({"strict": True, "compose": {"x": "nothing_of_the_kind"}}, "nothing_of_the_kind"),
    ],
)
def test_wrong_options_are_named(folder: Path, said: dict[str, Any], words: str) -> None:
    configure(folder, **said)
    assert words in " ".join(asked(folder, "--list").stderr.split())


def test_what_the_surveys_say_is_cached_and_their_age_is_not(folder: Path) -> None:
    kept_in = folder / "cache"
    configure(folder, cache=True, cache_plugin="ansible.builtin.jsonfile", cache_connection=str(kept_in), **OWN)
    first = listed(folder)
    [cached] = kept_in.iterdir()
    for path in (folder / "surveys").iterdir():
        path.unlink()
    assert listed(folder) == first
    # The rest of the week passes.
    text = cached.read_text(encoding="utf-8")
    assert str(NOW) in text
    cached.write_text(text.replace(str(NOW), str(NOW - WEEK - 60)), encoding="utf-8")
    assert listed(folder)[0]["facts_stale"] == ["gpu-1", "gpu-2", "gpu-3"]
    assert asked(folder, "--list", "--flush-cache").returncode == 0
    assert "gpu_model_h200" not in listed(folder)[0]


def test_a_thousand_hosts(tmp_path: Path) -> None:
    surveys = tmp_path / "surveys"
    surveys.mkdir()
    names = [f"gpu-{number:04}" for number in range(1, 1001)]
    for number, name in enumerate(names):
        write(surveys / f"{name}.json", kept(name, PRO if number % 2 else H200, taken_at=NOW))
    write(tmp_path / "hosts.yml", yaml.safe_dump({"sglang": {"hosts": dict.fromkeys(names)}}))
    configure(tmp_path)
    began = time.monotonic()
    groups, variables, _said = listed(tmp_path)
    print(f"\n1,000 hosts grouped in {time.monotonic() - began:.1f} s")
    assert [len(groups[name]) for name in ("gpu_model_h200", "gpu_count_4", "health_ok")] == [500, 500, 1000]
    assert len(variables) == 1000


def test_what_the_role_keeps_is_what_the_plugin_reads(tmp_path: Path) -> None:
    """The survey of this very machine, by both ways at once."""
    hosts = {"sglang_probe": {"hosts": {"here": {"ansible_connection": "local", "ansible_become": False}}}}
    write(tmp_path / "hosts.yml", yaml.safe_dump(hosts))
    facts = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts")}
    done = play(
        "-e",
        json.dumps(
            {
                "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                "probe_create_environment": False,
                "probe_save": str(tmp_path / "surveys"),
                "probe_cache_facts": True,
            }
        ),
        playbook="gpufleet.sglang.probe",
        inventory=os.path.relpath(tmp_path / "hosts.yml", ROOT / "inventories"),
        environment={**ENVIRONMENT, **facts},
    )
    assert done.status == 0, done.output
    configure(tmp_path, fact_cache=False)
    of_folder, variables, said = listed(tmp_path)
    assert of_folder["facts_fresh"] == ["here"]
    assert "WARNING" not in said
    write(tmp_path / "zz-fleet.yml", {"plugin": "gpufleet.sglang.fleet"})
    of_cache, cached, _said = listed(tmp_path, **facts)
    assert of_cache == of_folder
    shown = {name: value for name, value in variables["here"].items() if name.startswith("fleet_")}
    assert shown == {name: value for name, value in cached["here"].items() if name.startswith("fleet_")}
    assert listed(tmp_path)[0]["facts_unknown"] == ["here"]
