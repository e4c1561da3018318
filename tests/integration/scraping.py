# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's Prometheus as a process of this machine, with the configuration that the role monitoring writes."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT

SCRAPER = "scraper"
DASHBOARD = ROOT / "roles" / "monitoring" / "files" / "dashboard.json"
# What a dashboard's variables stand for when all is chosen.
EVERYTHING = {"$node": ".+", "$sglang_instance": ".+"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def panels() -> dict[str, list[str]]:
    """The expressions of each panel of the dashboard, with everything chosen."""
    found: dict[str, list[str]] = {}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in EVERYTHING.items():
                expression = expression.replace(name, value)
            found.setdefault(panel["title"], []).append(expression)
    return found


class Prometheus:
    """Scrapes hosts as the entry point C(prometheus) of the role says, which is run on this machine for it."""

    def __init__(self, folder: Path, hosts: Mapping[str, Mapping[str, Any]], **said: Any) -> None:
        self.folder = folder
        self.port = free_port()
        self.config = folder / "prometheus.yml"
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "/usr/bin/python3",
            "monitoring_prometheus_config": str(self.config),
            "monitoring_prometheus_config_managed": True,
            "monitoring_prometheus_group": "root",
            "monitoring_prometheus_service": None,
            "monitoring_files_folder": str(folder / "gpufleet"),
            "monitoring_scrape_interval_seconds": 1,
            **said,
        }
        self.inventory = folder / "hosts.json"
        self.inventory.write_text(
            json.dumps({"scrapers": {"hosts": {SCRAPER: here}}, "sglang": {"hosts": hosts}}), encoding="utf-8"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def role(self, *arguments: str) -> str:
        done = subprocess.run(
            ["ansible-playbook", "tests/integration/monitoring_prometheus.yml", "-i", str(self.inventory), *arguments],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self) -> None:
        words = [
            "prometheus",
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def ask(self, path: str, **words: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        return [(row["metric"], float(row["value"][1])) for row in self.ask("query", query=expression)["result"]]

    def value(self, expression: str) -> float | None:
        rows = self.query(expression)
        assert len(rows) < 2, rows
        return rows[0][1] if rows else None

    def until(self, told: Callable[[], Any], seconds: float = 60) -> Any:
        """What it tells as soon as that is true; a scrape is what it takes, and there is nothing that would say so."""
        deadline = time.monotonic() + seconds
        found: Any = None
        while time.monotonic() < deadline:
            try:
                found = told()
            except (urllib.error.URLError, ConnectionError):
                found = None
            if found:
                return found
            time.sleep(0.5)
        pytest.fail(f"not within {seconds} s: {found}; {(self.folder / 'log').read_text(encoding='utf-8')[-2000:]}")

    def firing(self) -> set[str]:
        return {row["labels"]["alertname"] for row in self.ask("alerts")["alerts"] if row["state"] == "firing"}
