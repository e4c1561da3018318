# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Surveys in a folder of the controller: a file for each host, named for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.surveys.survey import NotASurvey, Survey, survey_of

ENDING = ".json"


@dataclass(frozen=True)
class Read:
    """One file: the host, and the survey or what is wrong with the file."""

    host: str
    survey: Survey | None
    trouble: str | None = None


def read_surveys(folder: str) -> Iterator[Read]:
    """In the order of the names. Raises OSError where there is no such folder."""
    for path in sorted(Path(folder).iterdir()):
        # Of a copy that is under way, and what editors keep; a cache of facts names its files without an ending.
        if path.name.startswith(".") or path.suffix not in ("", ENDING) or not path.is_file():
            continue
        host = path.name.removesuffix(ENDING)
        try:
            survey = survey_of(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            yield Read(host, None, f"{path}: It cannot be read: {error.strerror}.")
        except ValueError as error:
            yield Read(
                host,
                None,
                f"{path}: It is no whole JSON ({error}); expected a survey. Survey the host anew (playbook "
                "gpufleet.sglang.probe), or remove the file.",
            )
        except NotASurvey as error:
            yield Read(host, None, f"{path}: {error}")
        else:
            yield Read(survey.host or host, survey)
