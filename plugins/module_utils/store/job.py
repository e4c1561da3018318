# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one worker is asked to do, as it is handed over to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import Place, job_key, revision_of, suffix_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import Manifest
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.retry import Limits
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source, source_from_dict

QUICK = "quick"
FULL = "full"


@dataclass(frozen=True)
class Job:
    """One model in one revision. C(source) is None for what has to be in the store already."""

    root: str
    name: str
    revision: str | None = None
    content_sha256: str | None = None
    source: Source | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    verify: str = QUICK
    activate: bool = True
    transfer: str = "auto"
    parallel_files: int = 4
    stall_seconds: float = 30.0
    attempts: int = 6
    corrupt_attempts: int = 3
    pause_seconds: float = 1.0
    reserve_bytes: int = 0
    max_bytes_per_second: int | None = None
    first_location: int = 0
    uid: int = 0
    gid: int = 0
    file_mode: int = 0o644
    ca_file: str | None = None

    @property
    def place(self) -> Place:
        return Place(self.root, self.name)

    @property
    def limits(self) -> Limits:
        return Limits(self.attempts, self.corrupt_attempts, self.pause_seconds)

    @property
    def source_to_ask(self) -> Source:
        """The source, for those who come here only where there is one."""
        if self.source is None:
            raise AssertionError(f"{self.name} has no source that could be asked")
        return self.source

    @property
    def key(self) -> str:
        location = self.source.shown() if self.source is not None else ""
        return job_key(self.place, self.revision, self.content_sha256, location, self.include, self.exclude)

    @property
    def asked_folder(self) -> str | None:
        """Name of the revision's folder, where it can be told before the source has been asked."""
        return None if self.revision is None else f"{self.revision}{suffix_of(self.include, self.exclude)}"

    def folder_of(self, manifest: Manifest) -> str:
        return revision_of(self.revision, manifest.content_sha256, self.include, self.exclude)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "source": None if self.source is None else self.source.as_dict()}


@dataclass(frozen=True)
class Secrets:
    """What goes to the worker beside the job, and into no file that outlives its start."""

    token: str | None = None
    proxies: Mapping[str, str] | None = None


def job_from_dict(data: Mapping[str, Any]) -> Job:
    """The inverse of C(Job.as_dict)."""
    source = data["source"]
    return Job(
        **{
            **data,
            "source": None if source is None else source_from_dict(source),
            "include": tuple(data["include"]),
            "exclude": tuple(data["exclude"]),
        }
    )
