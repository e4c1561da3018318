# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One tolerated call of NVML: an answer of the expected shape, or None and a failure that says why.

Which errors are quiet, that is give None without a failure, is decided where a call is made. The rule: "not supported"
is quiet for what whole families of boards lack (MIG, ECC, NVLink, fabric, ...) and for what containers and guests may
not ask (processes), since null is the full truth then. It is no quiet error for what every board has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Callable, Protocol, TypeVar

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import GONE, Call
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure

T = TypeVar("T")
# Turns a plain answer into a value; raises ValueError, TypeError or KeyError for what no driver would say.
Shape = Callable[[Any], T]
# A function and its arguments.
Question = tuple[str, tuple[Any, ...]]

# What boards may lack.
LACKING = ("not_supported",)
# The library or nvidia-ml-py is too old for this form of a question, so an older form may do.
TOO_OLD = ("function_not_found", "argument_version_mismatch", "deprecated", "TypeError")
# An answer that no driver would give.
IMPLAUSIBLE = "implausible"
# What nvidia-ml-py raises for texts that are none.
UNDECODABLE = ("UnicodeDecodeError", "UnicodeError")
# The board as a whole is gone, not only one answer.
LOST = ("gpu_is_lost", "reset_required")


class Ask(Protocol):
    def __call__(
        self,
        shape: Shape[T],
        name: str,
        *arguments: Any,
        gpu: int | None = None,
        peer: int | None = None,
        quiet: Collection[str] = (),
        older: Sequence[Question] = (),
    ) -> T | None: ...


def asker(call: Call, failures: list[Failure]) -> Ask:
    """A function that asks one question and notes its failure.

    C(older) are other forms of the question, for libraries that are too old for the first. A GPU which was called lost
    is not asked again: every further question would wait for it and fail.
    """
    lost: set[int] = set()

    def ask(
        shape: Shape[T],
        name: str,
        *arguments: Any,
        gpu: int | None = None,
        peer: int | None = None,
        quiet: Collection[str] = (),
        older: Sequence[Question] = (),
    ) -> T | None:
        if gpu in lost or peer in lost:
            return None
        first = (name, call(name, arguments))
        reply = first[1]
        for other, other_arguments in older:
            if reply.get("error") not in TOO_OLD:
                break
            name, reply = other, call(other, other_arguments)
        if reply.get("error") in TOO_OLD:
            name, reply = first
        error, text = reply.get("error"), str(reply.get("text") or reply.get("error"))
        if error in UNDECODABLE:
            error, text = IMPLAUSIBLE, "The answer is a text that cannot be decoded"
        if error is None:
            try:
                return shape(reply.get("value"))
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                error, text = IMPLAUSIBLE, f"The answer was {one_line(str(reply.get('value')), 60)}"
        if error not in quiet and error != GONE:
            failures.append(Failure(name, gpu, error, text, peer))
        if error == "gpu_is_lost" and gpu is not None and peer is None:
            lost.add(gpu)
        return None

    return ask


def lost_gpus(failures: Sequence[Failure]) -> dict[int, Failure]:
    """The GPUs that are lost or need a reset, each with the failure that first said so.

    A question about a pair does not tell which of the two is lost. Where one of them is known to be, that is the
    answer; else it is the GPU that all such pairs have in common, if there is but one.
    """
    found: dict[int, Failure] = {}
    pairs = []
    for failure in failures:
        if failure.error not in LOST or failure.gpu is None:
            continue
        if failure.peer is None:
            found.setdefault(failure.gpu, failure)
        else:
            pairs.append(failure)
    open_pairs = [pair for pair in pairs if pair.gpu not in found and pair.peer not in found]
    if open_pairs:
        common = set.intersection(*({pair.gpu, pair.peer} for pair in open_pairs))
        for gpu in common if len(common) == 1 else ():
            if gpu is not None:
                found[gpu] = open_pairs[0]
    return found


# Shapes of answers ----------------------------------------------------------------------------------------------------


def anything(value: Any) -> Any:
    """A handle, or that a call went well at all."""
    return value


def text(value: Any) -> str | None:
    if not isinstance(value, str):
        raise TypeError
    return one_line(value) or None


def whole(low: int, high: int, unknown: Collection[int] = ()) -> Shape[int | None]:
    """A number from C(low) to C(high); C(unknown) are those that stand for "not known"."""

    def shape(value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        if value in unknown:
            return None
        if not low <= value <= high:
            raise ValueError
        return value

    return shape


def named(names: dict[int, str]) -> Shape[str | None]:
    """The name of a number; None for numbers that are newer than this table."""

    def shape(value: Any) -> str | None:
        return names.get(required(value, 0, 2**32 - 1))

    return shape


def required(value: Any, low: int, high: int) -> int:
    """A number that has to be there."""
    number = whole(low, high)(value)
    if number is None:
        raise ValueError
    return number


def flag(value: Any) -> bool:
    return bool(required(value, 0, 1))


def counted(value: Any) -> int:
    """How many things a list holds."""
    if not isinstance(value, list):
        raise TypeError
    return len(value)


def bit_mask(value: Any) -> tuple[int, ...]:
    """Positions of the ones in a mask of 64-bit words."""
    if not isinstance(value, list):
        raise TypeError
    return set_bits([required(word, 0, 2**64 - 1) for word in value])


def set_bits(words: Sequence[int], width: int = 64) -> tuple[int, ...]:
    found = []
    for place, word in enumerate(words):
        while word:
            lowest = word & -word
            found.append(place * width + lowest.bit_length() - 1)
            word ^= lowest
    return tuple(found)
