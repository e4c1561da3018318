# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remedies for want of GPU memory. The same words of PyTorch need another move in each stage. Pure."""

from __future__ import annotations

import math

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host_fit import facts_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB, format_count, format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import (
    Case,
    Finding,
    known,
    plain,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.fraction_fit import (
    budget_bytes,
    device_room,
    fraction_in_force,
    highest_fraction,
    least_fraction,
    lowered_fraction,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.torch_memory import (
    TorchMemory,
    parse_torch_memory,
)

# Contexts of the driver and of collectives are held by nobody that is named; more than this is not.
UNEXPLAINED_BYTES = 2 * GIB
# More ranks than that share no layer.
MOST_RANKS = 64
UP, DOWN = "up", "down"


def kv_pool_too_small(case: Case) -> Finding:
    """The weights leave nothing: the fraction has to go up, or the weights have to become smaller."""
    room = device_room(case)
    fraction = fraction_in_force(case)
    now = f" under mem_fraction_static {fraction}" if fraction is not None else ""
    if room is None:
        found = plain(case)
        return Finding(found.message, found.remedy, known(mem_fraction_static_now=fraction, direction=UP))
    least, highest = least_fraction(room), highest_fraction(room)
    held = room.before_bytes - room.after_bytes
    message = (
        f"The loaded weights leave no memory for the KV cache{now}: of {format_gib(room.before_bytes)} they take "
        f"{format_gib(held)} and {format_gib(room.after_bytes)} are left."
    )
    values = known(
        mem_fraction_static_now=fraction,
        available_before_load_bytes=room.before_bytes,
        available_after_load_bytes=room.after_bytes,
    )
    if least is None or least > highest:
        ranks = _ranks_that_hold(case, held, room.before_bytes)
        short = -budget_bytes(room, highest)
        values.update(known(missing_bytes=max(0, short), ranks_that_fit=ranks))
        return Finding(
            f"{message} Even {highest} would leave {format_gib(max(0, -short))}, and the rest is needed for graphs and "
            "activations.",
            _more_gpus(ranks),
            values,
            code="weights_leave_no_room",
        )
    tokens = _tokens(case, budget_bytes(room, highest))
    values.update(
        known(direction=UP, mem_fraction_static=least, largest_mem_fraction_static=highest, tokens_at_largest=tokens)
    )
    upto = f", which gives about {format_count(tokens)} tokens" if tokens else ""
    return Finding(
        message,
        f"Raise mem_fraction_static: to {least} at least, and to {highest} at most{upto}; or use more GPUs or a "
        "smaller quantisation.",
        values,
    )


def _tokens(case: Case, budget: int) -> int | None:
    per_token = case.device.get("bytes_per_token")
    return budget // per_token if per_token and budget > 0 else None


def _more_gpus(ranks: int | None) -> str:
    if ranks is None:
        return "Use more GPUs or a smaller quantisation."
    return f"Use more GPUs, {ranks} ranks would hold the weights, or a smaller quantisation."


def _ranks_that_hold(case: Case, per_rank_bytes: int, before_bytes: int) -> int | None:
    """The least number of ranks, doubled from now, whose share of the weights leaves each what it needs beside."""
    ranks = case.host.get("ranks") or len(case.plan.get("placement") or ()) or case.state.expected.ranks
    if not ranks:
        return None
    left = max(case.device.get("reserved_bytes") or 0, before_bytes // 10)
    wanted = ranks
    while wanted <= MOST_RANKS:
        wanted *= 2
        if per_rank_bytes * ranks / wanted <= before_bytes - left:
            return int(wanted)
    return None


def gpu_out_of_memory(case: Case) -> Finding:
    """PyTorch got no memory: whose fault it is, then what the stage needs."""
    told = parse_torch_memory(case.text)
    held = _held_by_others(case, told)
    if held is not None:
        return held
    stage = "capture" if "graph failed" in case.text else case.stage
    if stage in ("boot", "load"):
        return _loading(case, told)
    if stage in ("device_pool", "capture", "host_pool"):
        return _lower(case, told, "capture_out_of_memory" if stage == "capture" else "pool_out_of_memory")
    return _lower(case, told, "runtime_out_of_memory")


def _told(told: TorchMemory) -> dict[str, object]:
    return known(
        tried_bytes=told.tried_bytes,
        free_bytes=told.free_bytes,
        total_bytes=told.total_bytes,
        missing_bytes=told.missing_bytes,
        gpu=told.gpu,
    )


def _words(told: TorchMemory) -> str:
    if told.tried_bytes is None or told.free_bytes is None:
        return ""
    return f": {format_gib(told.tried_bytes)} were asked for and {format_gib(told.free_bytes)} free"


def _held_by_others(case: Case, told: TorchMemory) -> Finding | None:
    """Another process holds what lacks. Peers of the server share no GPU, so none of them is named by such a line."""
    own = {rank.pid for rank in case.state.ranks}
    others = [(pid, size) for pid, size in told.others if pid not in own]
    missing = told.missing_bytes
    unexplained = told.unexplained_bytes or 0
    gpu = f"GPU {told.gpu}" if told.gpu is not None else "The GPU"
    if others and sum(size for _pid, size in others) >= (missing or 0):
        pid, size = max(others, key=lambda one: one[1])
        whole = sum(one for _pid, one in others)
        listed = ", ".join(f"process {one} holds {format_gib(bytes_)}" for one, bytes_ in others)
        return Finding(
            f"{gpu} of {case.who} has no memory left while {case.doing}, as other processes hold some of it: {listed}.",
            f"End process {pid} if it is no longer needed, and wait until its memory is given back.",
            {**_told(told), "pid": pid, "held_bytes": whole, "largest_holder_bytes": size},
            code="gpu_memory_held_by_others",
        )
    if not others and missing is not None and unexplained >= max(UNEXPLAINED_BYTES, missing):
        return Finding(
            f"{gpu} of {case.who} has no memory left while {case.doing}, and {format_gib(unexplained)} of it are held "
            "by no process that can be seen.",
            "See `nvidia-smi` on the host for processes of containers; if none is there, memory of a dead process is "
            "still held: `fuser -v /dev/nvidia*` names who keeps the device open, else reset the GPU.",
            {**_told(told), "held_bytes": unexplained},
            code="gpu_memory_leaked",
        )
    return None


def _loading(case: Case, told: TorchMemory) -> Finding:
    """The weights do not fit."""
    before = case.memory("before_load") or case.device.get("available_before_load_bytes") or told.total_bytes
    weights = case.device.get("weights_bytes")
    missing = told.missing_bytes
    if weights is not None and before is not None and weights > before:
        missing = max(missing or 0, weights - before)
    ranks = _ranks_that_hold(case, weights or (before or 0) + (missing or 0), before) if before else None
    of_plan = f" The plan counts {format_gib(weights)} of weights a GPU." if weights is not None else ""
    short = f", at least {format_gib(missing)} are missing" if missing else ""
    return Finding(
        f"The weights do not fit the GPU of {case.who}{_words(told)}{short}.{of_plan}",
        _more_gpus(ranks),
        {**_told(told), **known(missing_bytes=missing, weights_bytes=weights, ranks_that_fit=ranks)},
        code="weights_do_not_fit",
    )


_STAGE_WORDS = {
    "capture_out_of_memory": "while graphs were captured",
    "pool_out_of_memory": "while its pools were allocated",
    "runtime_out_of_memory": "while it ran a batch",
}


def _lower(case: Case, told: TorchMemory, code: str) -> Finding:
    """The pools leave too little beside: the fraction has to go down, or what comes beside has to become smaller."""
    room, missing = device_room(case), told.missing_bytes
    fraction = fraction_in_force(case)
    lower = None if room is None else lowered_fraction(room, missing or 0)
    values = {
        **_told(told),
        **known(direction=DOWN, mem_fraction_static_now=fraction, mem_fraction_static=lower),
    }
    message = f"The GPU of {case.who} had no memory left {_STAGE_WORDS[code]}{_words(told)}."
    beside, more = _smaller_beside(case, code)
    values.update(more)
    if lower is None and room is not None and fraction is not None:
        least = least_fraction(room)
        return Finding(
            message,
            f"{beside[0].upper()}{beside[1:]}, use more GPUs or a smaller quantisation: a mem_fraction_static that "
            "leaves enough beside leaves no KV cache"
            + (f", which needs {least} at least" if least is not None else "")
            + ".",
            known(**{**values, "direction": None, "least_mem_fraction_static": least}),
            code=code,
        )
    to = f"to {lower} or less" if lower is not None else ""
    return Finding(message, f"Lower mem_fraction_static {to}".rstrip() + f", or {beside}.", values, code=code)


def _smaller_beside(case: Case, code: str) -> tuple[str, dict[str, object]]:
    """What else takes memory in that stage, and what to make of it."""
    facts = facts_of(case.plan)
    arguments = case.plan.get("arguments") or {}
    if code == "capture_out_of_memory":
        flag = "cuda-graph-max-bs"
        if facts is not None and not has_flag(flag, facts.version):
            flag = "cuda-graph-max-bs-decode"
        now = arguments.get(flag)
        half = math.floor(now / 2) if isinstance(now, int) and now > 1 else None
        return (
            f"capture graphs of smaller batches ({flag} {half})" if half else f"capture smaller batches ({flag})",
            known(flag=flag, flag_value=half),
        )
    chunk = arguments.get("chunked-prefill-size")
    half = chunk // 2 if isinstance(chunk, int) and chunk > 1024 else None
    words = f"prefill smaller chunks (chunked-prefill-size {half})" if half else "prefill smaller chunks"
    return words, known(flag="chunked-prefill-size", flag_value=half)


def unbalanced(case: Case) -> Finding:
    """One GPU has less free than its peers before anything is loaded."""
    found = plain(case)
    least, local = case.value("least_bytes"), case.value("local_bytes")
    if least is None or local is None:
        return found
    return Finding(
        f"One GPU of the server has {format_gib(least)} free, and that of {case.who} {format_gib(local)}, before "
        "anything is loaded: another process holds memory there.",
        f"See with `nvidia-smi` who holds about {format_gib(local - least)} of one GPU, and end it.",
        {"held_bytes": local - least, "least_available_bytes": least, "available_bytes": local},
    )
