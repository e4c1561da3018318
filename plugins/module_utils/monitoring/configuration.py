# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a configuration of Prometheus lacks to use rules and targets that lie beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import Any


def _covers(patterns: Any, paths: Iterable[str], folder: str) -> bool:
    """Whether a list of patterns names every path; a relative one is taken from the folder of the configuration."""
    given = [str(one) for one in patterns or []]
    whole = [one if one.startswith("/") else f"{folder}/{one}" for one in given]
    return all(any(fnmatch(path, pattern) for pattern in whole) for path in paths)


def _target_files(config: Mapping[str, Any], job: str) -> list[str]:
    return [
        str(file)
        for scrape in config.get("scrape_configs") or []
        if scrape.get("job_name") == job
        for sd in scrape.get("file_sd_configs") or []
        for file in sd.get("files") or []
    ]


def missing_parts(
    config: Mapping[str, Any], folder: str, rules: Iterable[str], scrapes: str, targets: Mapping[str, str]
) -> list[str]:
    """C(folder): that of the configuration. C(scrapes): a file with all jobs; C(targets): the file of each job."""
    missing = []
    if not _covers(config.get("rule_files"), rules, folder):
        missing.append("rule_files")
    if not _covers(config.get("scrape_config_files"), [scrapes], folder) and not all(
        _covers(_target_files(config, job), [file], folder) for job, file in targets.items()
    ):
        missing.append("scrape_configs")
    return missing
