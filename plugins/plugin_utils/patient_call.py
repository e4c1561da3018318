# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module call on a node that is repeated, within bounds, where the way to the node or the answer breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import OutOfTime

PAUSES = (1.0, 2.0, 4.0, 8.0)
# A module that was killed, or whose become was refused, may do better once more; one that is broken never does.
MOST_BROKEN_ANSWERS = 4


class GaveUp(Exception):
    """C(code) and C(message) say why; C(unreachable) whether it was the way to the node."""

    def __init__(self, code: str, message: str, remedy: str, unreachable: bool = False) -> None:
        super().__init__(f"{message} {remedy}")
        self.code = code
        self.message = message
        self.remedy = remedy
        self.unreachable = unreachable

    def as_dict(self) -> dict[str, Any]:
        """As the diagnosis of a start has it."""
        failure = {"code": self.code, "message": self.message, "remedy": self.remedy}
        return {**failure, "rank": None, "evidence": {}, "computed": {}, "causes": []}


@dataclass(frozen=True)
class Means:
    """What a patient call is made with; a test gives other ones.

    C(call) makes the call once, C(reconnect) drops what is left of a connection, C(tell) is told of every trouble: the
    sentence, and for how many seconds there has been no connection (None where there is one). C(afterwards) says what
    becomes of what was waited for, and what to do.
    """

    call: Callable[[], dict[str, Any]]
    reconnect: Callable[[], None]
    tell: Callable[[str, float | None], None]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    afterwards: str


def call_patiently(means: Means, reconnect_seconds: float) -> dict[str, Any]:
    """What the module answered, or failed with by its own word. Raises GaveUp.

    A lost connection is tried again for C(reconnect_seconds), a broken answer C(MOST_BROKEN_ANSWERS) times. The call is
    the same each time, so that one that asks from a cursor on loses nothing.
    """
    lost_since: float | None = None
    lasted: float | None = None
    attempt = broken = 0
    while True:
        asked = means.clock()
        try:
            answer = means.call()
            trouble = str(answer.get("msg", "no reason given")) if answer.get("unreachable") else None
        except AnsibleAuthenticationFailure as error:
            raise GaveUp("node_lost", f"The node does not let us in: {error}", "Check user and key.", True) from error
        except (AnsibleConnectionFailure, OutOfTime) as error:
            answer, trouble = {}, str(error)
        except AnsibleError as error:
            answer, trouble = {"failed": True, "msg": str(error), "module_stdout": ""}, None
        if trouble is not None:
            lost_since = asked if lost_since is None else lost_since
            lasted = means.clock() - lost_since
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            if lasted + pause > reconnect_seconds:
                raise GaveUp(
                    "node_lost",
                    f"The node could not be reached for {format_seconds(lasted)}: {_sentence(trouble)}",
                    means.afterwards,
                    True,
                )
        elif answer.get("failed") and not _is_own_word(answer):
            lost_since, attempt = None, 0
            broken += 1
            trouble, lasted = _broken_words(answer), None
            if _is_hopeless(answer):
                raise GaveUp(
                    "python_missing",
                    f"The node cannot run modules: {_sentence(trouble)}",
                    "Install Python there, or name it with ansible_python_interpreter.",
                )
            if broken >= MOST_BROKEN_ANSWERS:
                raise GaveUp(
                    "watch_broken",
                    f"The node gave no usable answer {broken} times in a row: {_sentence(trouble)}",
                    f"Look at memory, become and Python of the node. {means.afterwards}",
                )
            pause = PAUSES[min(broken - 1, len(PAUSES) - 1)]
        else:
            return answer
        attempt += 1
        means.tell(trouble.strip(), lasted)
        means.sleep(pause)
        means.reconnect()


def drop_connection(connection: Any) -> None:
    """What is left of it, so that the next call makes one of its own."""
    reset = getattr(connection, "reset", None)
    if reset is None:
        return
    try:
        reset()
    except Exception as error:  # a broken connection cannot always be closed; the next attempt tells
        Display().vvv(f"reset of the connection: {error}")


def _is_own_word(answer: dict[str, Any]) -> bool:
    """Whether the module said itself that it cannot, which it would say again.

    What Ansible says in its place carries what was printed, or where the module fell over. A refusal does so as well
    where it was raised inside the module, and is told by its C(failure).
    """
    return "failure" in answer or ("module_stdout" not in answer and "exception" not in answer)


def _is_hopeless(answer: dict[str, Any]) -> bool:
    words = f"{answer.get('msg', '')} {answer.get('module_stderr', '')} {answer.get('module_stdout', '')}"
    return "interpreter" in words and "not found" in words


def _broken_words(answer: dict[str, Any]) -> str:
    """What is known of an answer that is none: Ansible's sentence and the last line that the node printed."""
    words = str(answer.get("msg") or _exception_words(answer.get("exception")))
    printed = str(answer.get("module_stderr") or answer.get("module_stdout") or "").strip().splitlines()
    return f"{_sentence(words)} It ended with {printed[-1][:200]!r}." if printed else _sentence(words)


def _exception_words(found: Any) -> str:
    """The last line of a traceback, which ansible-core hands on as text or as an object of its own, by its release."""
    event = getattr(found, "event", None)
    text = getattr(event, "formatted_traceback", None) or getattr(event, "msg", None) or str(found or "")
    lines = str(text).strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
