# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who says a line: SGLang's prefix, what other programs write before it, and the titles of its processes.

A server in a container, or under a logging configuration of its own (SGLANG_LOGGING_CONFIG_PATH), has other words in
front: a time, a level, the name of a module or of a container. What may stand there is a head, and is read from left to
right, token by token, so that a sentence that quotes a line of SGLang's is never taken for that line.
"""

from __future__ import annotations

import re

# Rank of a server that has only one; its lines carry no rank part.
SOLE_RANK = "TP0"

# Order of the parts: DP TP PP to 0.4.9, DP TP EP PP to 0.5.5, DP PP TP EP to 0.5.8, with ATTN_CP and MOE_DP between
# since (managers/scheduler.py, run_scheduler_process). A part stands there if its size is above one.
_RANK_PART = r"(?:ATTN_CP|MOE_DP|DP|PP|TP|EP)\d{1,6}"
# utils/common.py configure_logger; `SGLANG_LOG_MS` adds the milliseconds.
_PREFIX = re.compile(rf"\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{3}})?((?: {_RANK_PART})*)\] ")
# Before 0.4 a time without a date, or the number of the GPU; and what people leave of a prefix that they shorten.
_SHORTER = re.compile(
    rf"\[(?=[^\]])(?:\d\d:\d\d:\d\d)?(?: ?(?:gpu|gpu_id|rank)=(?P<gpu>\d{{1,6}}))?(?P<parts>(?: ?{_RANK_PART})*)\] "
)
# managers/scheduler.py setproctitle; spaces of the prefix become underscores.
_TITLE = re.compile(rf"^sglang::scheduler((?:_{_RANK_PART})*)\s*$")
_PART = re.compile(_RANK_PART)
# What may stand before a line, and longer than any of it.
HEAD_CHARACTERS = 400
# A token that only a log has makes a head of what surrounds it.
_SURE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[\d.,Z+:-]*"
    r"|\[[^\[\]]{1,120}\]"
    r"|\([A-Za-z]\w{0,60} pid=[^()]{1,120}\)"
    r"|(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b:?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [\w.@/-]{1,120}(?:\[\d{1,10}\])?:"
    r"|[\w./-]{1,120} {1,40}\|"
)
# `stdout F` of a container runtime, a module, function and line number, a process id, separators.
_FILLER = re.compile(
    r"\s{1,40}|(?:stdout|stderr) [FP]\b|[A-Za-z_][\w.<>]{0,160}:(?:[\w<>]{1,80}:)?(?:\d{1,7}\b:?)?"
    r"|[A-Za-z_][\w.<>]{0,160}(?= [|-] )|\d{1,10}\b|[|>:-]"
)
_JSON = re.compile(r"^\{.{0,380}\"(?:message|msg|event)\": ?\"$", re.DOTALL)
_BAR = re.compile(r"%(?:\|| Completed \|)")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


def rank_from_title(title: str) -> str | None:
    """C(sglang::scheduler_DP0_TP1) -> C(DP0 TP1); C(sglang::scheduler) -> C(TP0); None for any other process."""
    match = _TITLE.match(title)
    if match is None:
        return None
    return " ".join(_PART.findall(match.group(1))) or SOLE_RANK


def pipeline_stage(rank: str) -> int:
    """C(PP1 TP0) -> 1; 0 for a rank of a server without stages."""
    return next((int(part[2:]) for part in rank.split() if part.startswith("PP")), 0)


def without_colours(message: str) -> str:
    """A terminal's colours, which a program writes that was given one."""
    return _COLOUR.sub("", message) if "\x1b" in message else message


def split_prefix(message: str) -> tuple[bool, str | None, str]:
    """(has SGLang's prefix, rank label, rest of the line); what stands before the prefix is left out."""
    match = _PREFIX.match(message)
    if match is None and "[20" in message[:HEAD_CHARACTERS]:
        match = _PREFIX.search(message, 0, HEAD_CHARACTERS)
        if match is not None and not _may_precede(message[: match.start()]):
            match = None
    if match is not None:
        return True, match.group(1).strip() or None, message[match.end() :]
    match = _SHORTER.match(message)
    if match is not None:
        gpu, parts = match.group("gpu"), match.group("parts").strip()
        return True, f"TP{gpu}" if gpu else parts or None, message[match.end() :]
    return False, None, message


def _may_precede(text: str) -> bool:
    """Whether SGLang's prefix may follow: a bar that was not ended by a line feed stands before it at times."""
    return is_head(text) or _BAR.search(text) is not None


def is_head(text: str) -> bool:
    """Whether a line of SGLang's own may begin behind this text."""
    if not text:
        return True
    if len(text) > HEAD_CHARACTERS:
        return False
    place, sure = 0, False
    while place < len(text):
        token = _SURE.match(text, place)
        sure = sure or token is not None
        token = token or _FILLER.match(text, place)
        if token is None:
            return _JSON.match(text) is not None
        place = token.end()
    return sure
