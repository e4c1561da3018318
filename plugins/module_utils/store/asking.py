# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of model_snapshot as a job. The group is looked up by the caller. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import check_name, place_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import check_content_sha256, source_of

# What one node asks of a mirror, and how patient it is.
_BOUNDS: dict[str, tuple[float, float]] = {
    "parallel_files": (1, 64),
    "stall_seconds": (0.2, 3600),
    "attempts": (1, 1000),
    "corrupt_attempts": (1, 100),
    "retry_pause_seconds": (0, 600),
    "reserve_bytes": (0, 1 << 60),
    "max_bytes_per_second": (1, 1 << 50),
    "poll_seconds": (0, 30),
}
_MODE = re.compile(r"0?[0-7]{3}\Z")


def job_of(options: Mapping[str, Any], gid: int) -> Job:
    """Raises Refusal for options that contradict each other or cannot be."""
    place = place_of(str(options["root"]), str(options["name"]))
    if options["revision"] is not None:
        check_name("revision", options["revision"])
    check_content_sha256(options["content_sha256"])
    for name, (least, most) in _BOUNDS.items():
        value = options.get(name)
        if value is not None and not least <= value <= most:
            raise Refusal("out_of_range", f"{name} is {value:g}.", f"Expected {least:g} to {most:g}.", {name: value})
    source = source_of(
        options["folder"], options["mirrors"], options["repository"], options["endpoints"], options["revision"]
    )
    return Job(
        root=place.root,
        name=place.name,
        revision=options["revision"],
        content_sha256=options["content_sha256"],
        source=source,
        include=tuple(options["include"]),
        exclude=tuple(options["exclude"]),
        verify=options["verify"],
        activate=options["activate"],
        transfer=options["transfer"],
        parallel_files=options["parallel_files"],
        stall_seconds=options["stall_seconds"],
        attempts=options["attempts"],
        corrupt_attempts=options["corrupt_attempts"],
        pause_seconds=options["retry_pause_seconds"],
        reserve_bytes=options["reserve_bytes"],
        max_bytes_per_second=options["max_bytes_per_second"],
        first_location=options["first_location"],
        gid=gid,
        file_mode=mode_of(options["file_mode"]),
        ca_file=options["ca_file"],
    )


def mode_of(text: str) -> int:
    """Rights of files: to be read by some, and written by root alone."""
    if _MODE.match(text) is None or int(text, 8) & 0o133 or not int(text, 8) & 0o400:
        raise Refusal(
            "out_of_range",
            f"file_mode is {text!r}.",
            "Expected 0644, 0640 or 0600: nobody but root writes to a revision.",
            {"file_mode": text},
        )
    return int(text, 8)
