# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What frees memory for the next start, computed from who holds it. Nothing here is ever done by itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_SIZE
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_fit import host_fit
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB, format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import GPU, HOST, NODE, PROCESS, Hold

# Less than that is not worth a sentence.
LEAST_BYTES = 64 * MIB
NAMED = 3


@dataclass(frozen=True)
class Remedy:
    """C(value) is the largest value that fits, of a remedy that sets an option."""

    code: str
    message: str
    pid: int | None = None
    path: str | None = None
    bytes: int | None = None
    value: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def remedies_of(holds: Sequence[Hold], plan: Mapping[str, Any], details: Mapping[str, Any]) -> list[Remedy]:
    """Most certain first. C(details) is an answer of memory_holders_info, which may be empty."""
    found: list[Remedy] = []
    own = {hold.pid: hold for hold in holds if hold.kind == PROCESS and hold.pid is not None}
    found.extend(_kill(hold) for hold in own.values())
    for hold in holds:
        if hold.kind == GPU and hold.pid not in own:
            found.append(_free_gpu(hold))
    short = [hold for hold in holds if hold.kind in (HOST, NODE)]
    if short:
        found.extend(_left_behind(details))
        found.extend(_largest_users(details, {hold.pid for hold in holds}))
        smaller = _smaller_pools(short, plan)
        found.extend([smaller] if smaller else [])
    if not found:
        # No process and no file has it: only the driver can.
        found.append(
            Remedy(
                "wait_for_driver",
                "The driver may still be giving it back: run the play again, and see `journalctl -k` for Xid lines "
                "if it does not come back.",
            )
        )
    return found


def _whose(hold: Hold) -> str:
    user = f" of user {hold.user}" if hold.user else ""
    return f"{hold.name or 'process'}{user}"


def _kill(hold: Hold) -> Remedy:
    if hold.state == "D":
        message = f"pid {hold.pid} ({_whose(hold)}) waits in the kernel and cannot be killed: see `journalctl -k`."
        return Remedy("wait_for_kernel", message, pid=hold.pid, bytes=hold.bytes)
    message = f"Kill pid {hold.pid} ({_whose(hold)}), which the old server left behind: `kill -KILL {hold.pid}`."
    return Remedy("kill_process", message, pid=hold.pid, bytes=hold.bytes)


def _free_gpu(hold: Hold) -> Remedy:
    if hold.pid is None:
        message = (
            f"No process is named for the memory of GPU {hold.gpu}: see `fuser -v /dev/nvidia*` on the host and in "
            f"containers; `nvidia-smi --gpu-reset -i {hold.gpu}` frees it when nobody uses that GPU."
        )
        return Remedy("find_gpu_user", message, bytes=hold.bytes)
    where = f" in container {hold.container}" if hold.container else f" in {hold.unit}" if hold.unit else ""
    message = f"Stop pid {hold.pid} ({_whose(hold)}{where}), or choose other GPUs than GPU {hold.gpu}."
    return Remedy("free_gpu", message, pid=hold.pid, bytes=hold.bytes)


def _left_behind(details: Mapping[str, Any]) -> Iterator[Remedy]:
    """Files and segments that nobody uses any more."""
    for file in details.get("files") or ():
        if file["kind"] != "memfd" and file["used_by"] == [] and file["bytes"] >= LEAST_BYTES:
            owner = f" of user {file['user']}" if file["user"] else ""
            size = format_gb(file["bytes"])
            message = f"Remove {file['path']} ({size}{owner}), which no process uses: `rm {file['path']}`."
            yield Remedy("remove_file", message, path=file["path"], bytes=file["bytes"])
    for segment in details.get("segments") or ():
        if segment["attached"] == 0 and segment["bytes"] >= LEAST_BYTES:
            message = (
                f"Remove the shared memory segment {segment['id']} ({format_gb(segment['bytes'])}), which no process "
                f"has attached: `ipcrm -m {segment['id']}`."
            )
            yield Remedy("remove_segment", message, bytes=segment["bytes"])


def _largest_users(details: Mapping[str, Any], said: set[int | None]) -> Iterator[Remedy]:
    """Who has most of the host's memory, where nothing better is known."""
    users = [one for one in details.get("memory_users") or () if one["pid"] not in said]
    large = [one for one in users if (one["held_bytes"] or 0) >= LEAST_BYTES][:NAMED]
    if large:
        names = ", ".join(
            f"{one['name'] or 'a process'} (pid {one['pid']}, user {one['user'] or 'unknown'}"
            + (f", {one['container'] or one['unit']}" if one["container"] or one["unit"] else "")
            + f") {format_gb(one['held_bytes'])}"
            for one in large
        )
        yield Remedy("see_users", f"Most host memory is held by {names}.", bytes=large[0]["held_bytes"])


# Smaller pools --------------------------------------------------------------------------------------------------------


def _smaller_pools(short: Sequence[Hold], plan: Mapping[str, Any]) -> Remedy | None:
    """What fits now, if it is less than what was planned; a server on a CPU takes its device's pools from it first."""
    host: Mapping[str, Any] = plan.get("host") or {}
    available = next((hold.available_bytes for hold in short if hold.kind == HOST), None)
    of_nodes = {
        hold.numa_node: hold.available_bytes
        for hold in short
        if hold.numa_node is not None and hold.available_bytes is not None
    }
    there = None if available is None else available - (host.get("held_by_device_bytes") or 0)
    fit = host_fit(plan, there, node_bytes=of_nodes)
    size, ratio = fit.largest_size_gb, fit.largest_ratio
    if host.get("sizing") == BY_SIZE:
        if size is None or size >= (host.get("size_gb") or 0):
            return None
        return Remedy("set_size", f"Or set hicache.size_gb to {size} or less, which fits now.", value=size)
    if ratio is None or ratio >= (host.get("ratio") or 0):
        return None
    return Remedy("set_ratio", f"Or set hicache.ratio to {ratio} or less, which fits now.", value=ratio)
