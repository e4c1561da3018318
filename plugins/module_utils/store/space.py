# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a model fits on the disk before a byte of it is written. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb, format_gb_to_free
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


@dataclass(frozen=True)
class Disk:
    """A file system as statvfs(3) tells of it. C(free_files) is None where it has no fixed number of files."""

    path: str
    free_bytes: int
    free_files: int | None


@dataclass(frozen=True)
class Need:
    """C(total_bytes) of the model, of which so many are in the partial download or another revision already."""

    total_bytes: int
    there_bytes: int
    shared_bytes: int
    files: int

    @property
    def missing_bytes(self) -> int:
        return max(0, self.total_bytes - self.there_bytes - self.shared_bytes)


def check_space(name: str, need: Need, disk: Disk, reserve_bytes: int) -> None:
    """Raises Refusal where the rest of the model and the reserve do not fit."""
    evidence: dict[str, object] = {
        "total_bytes": need.total_bytes,
        "there_bytes": need.there_bytes,
        "shared_bytes": need.shared_bytes,
        "missing_bytes": need.missing_bytes,
        "free_bytes": disk.free_bytes,
        "reserve_bytes": reserve_bytes,
    }
    lack = need.missing_bytes + reserve_bytes - disk.free_bytes
    if need.missing_bytes and lack > 0:
        raise Refusal(
            "store_disk_full",
            f"{name} needs {format_gb(need.missing_bytes)} more on {disk.path} "
            f"({format_gb(need.total_bytes)} in all, {format_gb(need.there_bytes + need.shared_bytes)} there already), "
            f"and {format_gb(reserve_bytes)} are to stay free; {format_gb(disk.free_bytes)} are free.",
            f"Free {format_gb_to_free(lack)} there: model_prune lists what no unit uses. Nothing was written.",
            {**evidence, "lacking_bytes": lack},
        )
    if disk.free_files is not None and disk.free_files < need.files * 3 + 16:
        raise Refusal(
            "store_disk_files",
            f"{disk.path} can hold {disk.free_files:,} more files; {name} has {need.files:,}, each with a note while "
            "it is fetched.",
            "Remove files there, or use a file system with more inodes. Nothing was written.",
            {**evidence, "free_files": disk.free_files},
        )
