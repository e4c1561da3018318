# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a server and what it answers, for the gate and the canary alike. No I/O."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Every tokenizer has so many ids; the first ones are special in many.
TOKEN_IDS = range(16, 250)


@dataclass(frozen=True)
class Answer:
    """C(status) 0: no HTTP answer came; C(body) says why."""

    status: int
    body: str

    def data(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


# (method, path, JSON body or None) -> Answer. It raises nothing.
Ask = Callable[[str, str, "Mapping[str, Any] | None"], Answer]


@dataclass(frozen=True)
class Check:
    """C(ok) None: could not be told, which is no failure; C(problem) says why or what to do."""

    name: str
    ok: bool | None
    found: Any
    expected: Any
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "found": self.found, "expected": self.expected}


@dataclass
class Proof:
    """What was found, in the order in which it was asked."""

    checks: list[Check] = field(default_factory=list)
    canary: dict[str, Any] | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)

    @property
    def failed(self) -> Check | None:
        return next((check for check in self.checks if check.ok is False), None)


def error_of(answer: Answer) -> str:
    """The server's words, shortened."""
    data = answer.data()
    if isinstance(data, Mapping):
        inner = data.get("error")
        message = inner.get("message") if isinstance(inner, Mapping) else data.get("message")
        if message:
            return f"{answer.status}: {message}"[:300]
    return f"{answer.status}: {answer.body.strip()}"[:300]


@dataclass(frozen=True)
class Generation:
    """One finished request. C(device) and C(host): where its cached tokens came from, None if it is not said."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    device: int | None
    host: int | None
    text: str
    output_ids: tuple[int, ...]


def generate_body(prompt: Sequence[int], answer_tokens: int) -> dict[str, Any]:
    """Greedy, and to the full length, so that equal states give equal texts."""
    return {
        "input_ids": list(prompt),
        "sampling_params": {"temperature": 0, "max_new_tokens": answer_tokens, "ignore_eos": True},
    }


def read_generation(answer: Answer) -> Generation | None:
    data = answer.data()
    if answer.status != 200 or not isinstance(data, Mapping) or not isinstance(data.get("meta_info"), Mapping):
        return None
    meta = data["meta_info"]
    details = meta.get("cached_tokens_details")
    known = details if isinstance(details, Mapping) else {}
    return Generation(
        prompt_tokens=int(meta.get("prompt_tokens") or 0),
        cached_tokens=int(meta.get("cached_tokens") or 0),
        completion_tokens=int(meta.get("completion_tokens") or 0),
        device=int(known.get("device") or 0) if known else None,
        host=int(known.get("host") or 0) if known else None,
        text=str(data.get("text") or ""),
        output_ids=tuple(data.get("output_ids") or ()),
    )


def unique_prompt(dice: random.Random, length: int) -> list[int]:
    return [dice.choice(TOKEN_IDS) for _unused in range(length)]
