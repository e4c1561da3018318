# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a server and what it answers, for the gate, the burn-in and the canary alike. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer, count

# Every tokenizer has so many ids; the first ones are special in many.
TOKEN_IDS = range(16, 250)
LONGEST_KEPT_TEXT = 100_000
# managers/schedule_batch.py BaseFinishReason.to_json
FINISHED = ("length", "stop", "abort")


@dataclass(frozen=True)
class Call:
    """One request. C(seconds): how long its whole answer may take, None for as long as any request may."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Client:
    """How a server is asked. Neither C(send) nor C(send_all) raises.

    C(send_all) asks so many at a time, stops sending once C(stop) holds for an answer, and keeps the order; None for
    what was not sent. C(deadline) is that of all together, on the C(clock).
    """

    send: Callable[[Call], Answer]
    send_all: Callable[[Sequence[Call], int, Callable[[Answer], bool]], list[Answer | None]]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    deadline: float

    def left_seconds(self) -> float:
        return self.deadline - self.clock()

    def get(self, path: str, seconds: float | None = None) -> Answer:
        return self.send(Call("GET", path, None, seconds))


@dataclass(frozen=True)
class Check:
    """C(ok) None: could not be told, which is no failure. The rest says what is wrong if C(ok) is False."""

    name: str
    ok: bool | None
    found: Any
    expected: Any
    code: str = ""
    problem: str = ""
    remedy: str = ""
    rank: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "found": self.found, "expected": self.expected, "rank": self.rank}

    def failure(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.problem,
            "remedy": self.remedy,
            "rank": self.rank,
            "evidence": {"check": self.name, "found": self.found, "expected": self.expected},
            "computed": dict(self.values),
        }


@dataclass
class Proof:
    """What was found, in the order in which it was asked."""

    checks: list[Check] = field(default_factory=list)
    server: dict[str, Any] | None = None
    burn_in: dict[str, Any] | None = None
    canaries: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def failed(self) -> Check | None:
        return next((check for check in self.checks if check.ok is False), None)

    @property
    def canary(self) -> dict[str, Any] | None:
        """The one that failed, which is the last, or the first."""
        return None if not self.canaries else self.canaries[-1 if self.failed else 0]


@dataclass(frozen=True)
class Generation:
    """One finished request. C(device) and C(host): where its cached tokens came from, None if it is not said.

    C(verified): how often the target model verified drafts, None or 0 without them.
    """

    prompt_tokens: int | None
    cached_tokens: int
    completion_tokens: int
    device: int | None
    host: int | None
    text: str
    output_ids: tuple[int, ...]
    finish: str | None
    verified: int | None
    seconds: float

    @property
    def said(self) -> tuple[str, tuple[int, ...]]:
        """What has to be the same for the same prompt."""
        return self.text, self.output_ids


def generate_call(
    prompt: Sequence[int], answer_tokens: int, rank: Mapping[str, int] | None = None, seconds: float | None = None
) -> Call:
    """Greedy, and to the full length, so that equal states give equal texts. C(rank): the field that routes it."""
    body = {
        "input_ids": list(prompt),
        "sampling_params": {"temperature": 0, "max_new_tokens": answer_tokens, "ignore_eos": True},
        **(rank or {}),
    }
    return Call("POST", "/generate", body, seconds)


def read_generation(answer: Answer) -> Generation | None:
    data = answer.mapping()
    meta = data.get("meta_info")
    if not isinstance(meta, Mapping):
        return None
    details = meta.get("cached_tokens_details")
    known = details if isinstance(details, Mapping) else None
    ids = data.get("output_ids")
    text = data.get("text")
    return Generation(
        prompt_tokens=count(meta.get("prompt_tokens")),
        cached_tokens=count(meta.get("cached_tokens")) or 0,
        completion_tokens=count(meta.get("completion_tokens")) or 0,
        device=None if known is None else count(known.get("device")) or 0,
        host=None if known is None else count(known.get("host")) or 0,
        text=text[:LONGEST_KEPT_TEXT] if isinstance(text, str) else "",
        output_ids=tuple(one for one in ids if isinstance(one, int)) if isinstance(ids, list) else (),
        finish=_finish_of(meta.get("finish_reason")),
        verified=count(meta.get("spec_verify_ct")),
        seconds=answer.seconds,
    )


def _finish_of(reason: Any) -> str | None:
    kind = reason.get("type") if isinstance(reason, Mapping) else reason
    return kind if kind in FINISHED else None if kind is None else "unknown"


def unique_prompt(dice: random.Random, length: int) -> list[int]:
    return [dice.choice(TOKEN_IDS) for _unused in range(length)]
