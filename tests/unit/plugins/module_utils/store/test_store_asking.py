# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.asking import job_of, mode_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.options import SNAPSHOT_OPTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import Rights

DEFAULTS: dict[str, Any] = {name: option.get("default") for name, option in SNAPSHOT_OPTIONS.items()}


def test_defaults_make_a_job_of_what_has_to_be_there() -> None:
    job = job_of({**DEFAULTS, "name": "tiny"}, 7)
    assert (job.root, job.name, job.source, job.gid, job.file_mode) == ("/srv/models", "tiny", None, 7, 0o644)
    assert job.limits.attempts == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parallel_files", 0),
        ("stall_seconds", 0.0),
        ("attempts", 0),
        ("reserve_bytes", -1),
        ("max_bytes_per_second", 0),
        ("poll_seconds", 31),
        ("file_mode", "0666"),
        ("file_mode", "0755"),
        ("file_mode", "0044"),
        ("file_mode", "u=r"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(Refusal) as refused:
        job_of({**DEFAULTS, "name": "tiny", name: value}, 0)
    assert refused.value.code == "out_of_range"
    assert name in refused.value.message


@pytest.mark.parametrize(("text", "folder"), [("0644", 0o755), ("640", 0o750), ("0600", 0o700), ("0444", 0o755)])
def test_who_may_read_a_file_may_enter_its_folder(text: str, folder: int) -> None:
    assert Rights(0, 0, mode_of(text)).folder_mode == folder
