# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The failures of a start as data: for each code how it is put into words, with a remedy that is computed. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import BY_FRACTION, RATIO_STEP
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gb
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_view import WORDS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import (
    StartupState,
    pinned_bytes,
    planned_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import signal_name


@dataclass(frozen=True)
class Case:
    """What a rule looks at. C(line): the line that told, None where the state alone did."""

    state: StartupState
    plan: Mapping[str, Any]
    line: LogEvent | None
    rank: str | None

    @property
    def text(self) -> str:
        return self.line.text if self.line is not None else ""

    def value(self, name: str) -> Any:
        return self.line.value(name) if self.line is not None else None

    @property
    def who(self) -> str:
        return f"rank {self.rank}" if self.rank else "the server"


@dataclass(frozen=True)
class Rule:
    """How one code is put into words."""

    code: str
    message: Callable[[Case], str]
    remedy: Callable[[Case], str]
    evidence: Callable[[Case], dict[str, Any]] = lambda case: {}


def _quoted(words: str) -> Callable[[Case], str]:
    """A sentence with who, then the server's own line."""
    return lambda case: f"{words.format(who=case.who[0].upper() + case.who[1:])}: {case.text}"


def _always(words: str) -> Callable[[Case], str]:
    return lambda case: words


# Host memory


def fitting_ratio(plan: Mapping[str, Any], available_bytes: int | None) -> float | None:
    """A ratio that passes the server's check, from what it said was free and from the plan, which bounds it as well.

    Guard A compares one rank with the whole machine, so what is free has to do for all ranks. B and explicit sizes
    under D divide by the ranks and read live memory; the last rank then sees its peers' pools twice
    (memory/host/guard.py). All pools of the rank with the largest ones grow with the ratio; two hundredths less make up
    for the rounding to pages.
    """
    host: Mapping[str, Any] = plan.get("host") or {}
    most, size, ranks = host.get("largest_ratio") or math.inf, host.get("bytes_per_rank"), host.get("ranks")
    ratio = host.get("ratio") or _ratio_of_tokens(plan)
    if available_bytes is None or not (ratio and size and ranks):
        return most if most < math.inf else None
    if (host.get("guard") or {}).get("variant") == "A":
        bound = available_bytes // ranks
    elif host.get("sizing") == BY_FRACTION:
        bound = available_bytes
    else:
        bound = available_bytes * ranks // (2 * ranks - 1)
    found = min(most, math.floor(ratio * bound * RATIO_STEP / size - 2) / RATIO_STEP)
    return found if found > _excluded_ratio(plan) else None


def _ratio_of_tokens(plan: Mapping[str, Any]) -> float | None:
    """What pools of a given size come to as a ratio."""
    tokens = (plan.get("host") or {}).get("tokens")
    on_device = (plan.get("device") or {}).get("max_total_num_tokens")
    return tokens / on_device if tokens and on_device else None


def _excluded_ratio(plan: Mapping[str, Any]) -> float:
    """The largest ratio that the release refuses whatever is free."""
    try:
        return 1.0 if version_facts(str(plan.get("sglang_version"))).smaller_than_device_is_fatal else 0.0
    except Refusal:
        return 0.0


def _guard_message(case: Case) -> str:
    requested, available = case.value("requested_bytes"), case.value("available_bytes")
    if requested is None:
        return f"SGLang refused to allocate the host pool of {case.who}: {case.text}"
    return (
        f"SGLang refused to allocate the host pool of {case.who}: it asks for {format_gb(requested)} and its check "
        f"lets it have {format_gb(available)}."
    )


def _guard_remedy(case: Case) -> str:
    ratio = fitting_ratio(case.plan, case.value("available_bytes"))
    if ratio is not None:
        return f"Set hicache.ratio to {ratio} or less, or free host memory."
    requested, available = case.value("requested_bytes"), case.value("available_bytes")
    if requested and available and available > 0 and not case.plan:
        return f"Ask for at most {available / requested:.0%} of it, or free host memory."
    return "No ratio fits: free host memory, lower max_total_tokens, or set hicache.enabled to false."


def _guard_evidence(case: Case) -> dict[str, Any]:
    return {
        "requested_bytes": case.value("requested_bytes"),
        "available_bytes": case.value("available_bytes"),
        "largest_ratio": fitting_ratio(case.plan, case.value("available_bytes")),
    }


def _registration_message(case: Case) -> str:
    size, reason = case.value("requested_bytes"), case.value("reason")
    detail = f" {format_gb(size)}" if size else ""
    return f"The driver refused to pin{detail} of host memory for {case.who}" + (f" ({reason})" if reason else "") + "."


def _exit_words(code: int | None) -> str:
    if code is None:
        return "vanished; its exit status is not known"
    if code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"ended with exit status {code}"


def _died_message(case: Case) -> str:
    code = case.value("exit_code")
    if code is None and case.rank is not None:
        dead = case.state.rank(case.rank)
        code = dead.exit_code if dead is not None else None
    who = f"Rank {case.rank}" if case.rank else f"The scheduler number {case.value('index')}"
    return f"{who} {_exit_words(code)} while {_doing(case)}."


def _doing(case: Case) -> str:
    dead = case.state.rank(case.rank) if case.rank else None
    stage = dead.stage if dead is not None else case.state.stage
    words = WORDS[stage]
    if stage == "host_pool" and dead is not None and dead.pinned_bytes:
        words += f" (it had {format_gb(dead.pinned_bytes)})"
    return words


def _died_remedy(case: Case) -> str:
    code = _exit_of(case)
    if code == -9:
        return (
            "SIGKILL comes from the kernel when memory runs out, or from a person: see `journalctl -k` for "
            "'Out of memory' and compare the plan with what is available."
        )
    if code in (-11, -7, -6, -4):
        return "The process crashed in native code: see its traceback in the journal and `coredumpctl`."
    return "See the last lines below and the rank's traceback in the journal."


def _exit_of(case: Case) -> int | None:
    code = case.value("exit_code")
    if code is None and case.rank is not None:
        dead = case.state.rank(case.rank)
        code = dead.exit_code if dead is not None else None
    return code


def _died_evidence(case: Case) -> dict[str, Any]:
    code = _exit_of(case)
    dead = case.state.rank(case.rank) if case.rank else None
    return {
        "exit_code": code,
        "signal": signal_name(-code) if code is not None and code < 0 else None,
        "pid": case.value("dead_pid") or (dead.pid if dead is not None else None),
        "stage": dead.stage if dead is not None else case.state.stage,
        "pinned_bytes": dead.pinned_bytes if dead is not None else None,
    }


def _memory_evidence(case: Case) -> dict[str, Any]:
    return {"pinned_bytes": pinned_bytes(case.state), "planned_bytes": planned_bytes(case.state)}


def _port(case: Case) -> str:
    argument = (case.plan.get("arguments") or {}).get("port")
    port = case.value("port") or argument
    return f"Port {port}" if port else "A port of the server"


def _oom_remedy(case: Case) -> str:
    host: Mapping[str, Any] = case.plan.get("host") or {}
    ratio = host.get("largest_ratio")
    limit = f"Set hicache.ratio to {ratio} or less" if ratio else "Lower hicache.ratio"
    return f"{limit}, or raise the memory limit of the unit; see `journalctl -k` for who held what."


RULES = {
    rule.code: rule
    for rule in (
        Rule("host_memory_guard", _guard_message, _guard_remedy, _guard_evidence),
        Rule(
            "host_pool_smaller_than_device",
            _quoted("{who} wants a host pool larger than the device pool"),
            _always("Set hicache.ratio above 1."),
        ),
        Rule(
            "registration_failed",
            _registration_message,
            _always(
                "Check that LimitMEMLOCK of the unit is infinity and that the NUMA node has the memory; lower "
                "hicache.ratio if it has not."
            ),
            lambda case: {"requested_bytes": case.value("requested_bytes"), "return_code": case.value("rc")},
        ),
        Rule(
            "no_cuda",
            _quoted("{who} needs CUDA and this PyTorch has none"),
            _always("Install the CUDA build of PyTorch, or serve with device cpu."),
        ),
        Rule(
            "gpu_out_of_memory",
            _quoted("The GPU of a rank has no memory left"),
            _always("Lower mem_fraction_static, or see which other process holds memory of that GPU."),
        ),
        Rule(
            "kv_pool_too_small",
            _quoted("No memory is left for the KV cache after the weights"),
            _always("Raise mem_fraction_static, use more GPUs or a smaller quantisation."),
        ),
        Rule(
            "bad_argument",
            _quoted("SGLang rejected its arguments"),
            _always("Correct the variables of the role; this is not a matter of memory or time."),
        ),
        Rule(
            "port_in_use",
            lambda case: f"{_port(case)} is taken by another process: {case.text}",
            _always("Stop the process that holds it (`ss -ltnp`), or choose another port."),
        ),
        Rule(
            "model_files",
            _quoted("Model files are missing, damaged or not readable by the service user"),
            _always("Compare the model folder with its manifest, and its owner and mode with the unit's User."),
        ),
        Rule(
            "missing_compiler",
            _quoted("SGLang compiles kernels at run time and found no compiler"),
            _always("Install g++ and the Python headers (and the CUDA toolkit on a GPU host)."),
        ),
        Rule(
            "warm_up_failed",
            _quoted("Every pool is there, but the server's own first request failed"),
            _always("See the error of the request in the journal; the memory plan is not at fault."),
        ),
        Rule(
            "watchdog_timeout",
            _quoted("SGLang's watchdog found a rank that no longer moves"),
            _always("See the stacks that it printed in the journal."),
        ),
        Rule(
            "oom_killer",
            lambda case: (
                "The kernel ran out of memory and killed a process of the unit"
                + (f" (rank {case.rank})" if case.rank else "")
                + f" while {_doing(case)}."
            ),
            _oom_remedy,
            _memory_evidence,
        ),
        Rule("scheduler_died", _died_message, _died_remedy, _died_evidence),
        Rule(
            "scheduler_exception",
            lambda case: f"An exception ended {case.who}: {case.text}",
            _always("See the traceback in the journal."),
            lambda case: {"exception": case.line.label if case.line is not None else None},
        ),
        Rule(
            "exception",
            lambda case: f"An exception ended {case.who}: {case.text}",
            _always("See the traceback in the journal."),
            lambda case: {"exception": case.line.label if case.line is not None else None},
        ),
    )
}
