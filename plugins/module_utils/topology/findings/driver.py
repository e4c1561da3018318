# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong between the driver and the boards: NVML's failures, and what only one side knows or says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.joined import INDEXES_DIFFER, Joined, spelled
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import (
    DISPLAY_CLASS,
    PciGpu,
    is_held_by_other,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.texts import (
    format_cpu_list,
    parse_cpu_list,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import IMPLAUSIBLE, LOST, lost_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import CRASHED, NO_ANSWER
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem

_INIT_CODES = {
    "driver_not_loaded": "nvml_driver_not_loaded",
    "lib_rm_version_mismatch": "nvml_version_mismatch",
    "no_permission": "nvml_no_permission",
    "library_not_found": "nvml_library_not_found",
    "binding_missing": "nvml_binding_missing",
}
_CALL_CODES = {
    "function_not_found": "nvml_function_missing",
    "not_supported": "nvml_not_supported",
    IMPLAUSIBLE: "nvml_answer_implausible",
}
_LOST_CODES = {"gpu_is_lost": "gpu_lost", "reset_required": "gpu_reset_required"}
_ENDED_CODES = {NO_ANSWER: "nvml_no_answer", CRASHED: "nvml_crashed"}
_MOST_PAIRS = 8


def nvml_problems(nvml: NvmlReading | None, loaded: str | None = None) -> list[Problem]:
    """What NVML did not answer. C(loaded) is the version of the kernel module, from the kernel."""
    if nvml is None:
        return []
    ended = [_ended(failure) for failure in nvml.failures if failure.error in _ENDED_CODES]
    if nvml.driver.source != "nvml":
        return ended or [_not_started(nvml, loaded)]
    lost = lost_gpus(nvml.failures)
    found = ended + [
        problem(_LOST_CODES[failure.error], f"GPU {gpu}: {_words(failure)} (first said by {failure.function}).")
        for gpu, failure in sorted(lost.items())
    ]
    # What a lost GPU does not answer beyond that needs no line of its own.
    told = [failure for failure in nvml.failures if not _is_told(failure, lost)]
    return found + _failed(told) + _versions(nvml, loaded)


def _words(failure: Failure) -> str:
    """NVML's own words, of which some end as sentences do."""
    return failure.text.rstrip(". ")


def _not_started(nvml: NvmlReading, loaded: str | None) -> Problem:
    first = nvml.failures[0]
    text = f"NVML did not start: {_words(first)}"
    if first.error == "lib_rm_version_mismatch":
        text += f"; the kernel module is {loaded or 'of unknown version'}"
        text += f" and NVML is {nvml.driver.nvml_version or 'of unknown version'}"
    elif first.error == "driver_not_loaded" and loaded is not None:
        text += f", although the kernel shows its module {loaded}: its devices below /dev are missing or barred here"
    return problem(_INIT_CODES.get(first.error, "nvml_unusable"), f"{text}.")


def _ended(failure: Failure) -> Problem:
    where = f" for GPU {failure.gpu}" if failure.gpu is not None else ""
    where += f" and {failure.peer}" if failure.peer is not None else ""
    text = f"{_words(failure)}; the question was {failure.function}{where}, and what came before it is kept."
    return problem(_ENDED_CODES[failure.error], text)


def _is_told(failure: Failure, lost: dict[int, Failure]) -> bool:
    if failure.error in _ENDED_CODES or (failure.error in LOST and failure.gpu in lost):
        return True
    # A reset that is due leaves other errors their own meaning; a loss does not.
    gone = {gpu for gpu, first in lost.items() if first.error == "gpu_is_lost"}
    silent = failure.gpu in gone or failure.peer in gone
    return silent or (failure.error in LOST and failure.peer in lost)


def _failed(failures: Sequence[Failure]) -> list[Problem]:
    """One problem for what failed alike: functions with the same error for the same GPUs share theirs."""
    by_function: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        by_function.setdefault((failure.function, failure.error, _words(failure)), []).append(failure)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for (function, error, text), group in by_function.items():
        alike.setdefault((error, text, _where(group)), []).append(function)
    codes = {**_CALL_CODES, **_LOST_CODES}
    return [
        problem(codes.get(error, "nvml_call_failed"), f"{spelled(functions)}{where}: {text}.")
        for (error, text, where), functions in alike.items()
    ]


def _where(failures: Sequence[Failure]) -> str:
    pairs = sorted({(one.gpu, one.peer) for one in failures if one.gpu is not None and one.peer is not None})
    if pairs:
        more = f" and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else ""
        return f" for GPUs {spelled(f'{one} and {two}' for one, two in pairs[:_MOST_PAIRS])}{more}"
    gpus = sorted({one.gpu for one in failures if one.gpu is not None})
    return f" for GPU {spelled(gpus)}" if gpus else ""


def _versions(nvml: NvmlReading, loaded: str | None) -> list[Problem]:
    """NVML's version is that of the driver it came with, after the number of its interface: 12.550.90.07."""
    library = (nvml.driver.nvml_version or "").partition(".")[2]
    module = loaded or nvml.driver.version
    if not library or not module or library == module:
        return []
    return [problem("nvml_version_differs", f"The kernel module is {module}, NVML is of {library}.")]


def inventory_problems(pairs: Sequence[Joined], pci_gpus: Sequence[PciGpu], answered: bool) -> list[Problem]:
    """Which GPUs there are and who knows of them."""
    found = []
    if not pairs and not pci_gpus:
        found.append(problem("no_gpu", "No NVIDIA GPU was found."))
    seen = {id(one.pci) for one in pairs}
    nameless = [one.gpu.index for one in pairs if one.gpu.pci_address is None]
    unlisted = [pci for pci in pci_gpus if id(pci) not in seen and not is_held_by_other(pci)] if answered else []
    # One of them may be what the driver lists and cannot name.
    for pci in () if nameless else unlisted:
        holder = f"kernel driver {pci.kernel_driver}" if pci.kernel_driver else "no kernel driver"
        code = "display_board_not_in_nvml" if _is_for_a_display(pci) else "gpu_not_in_nvml"
        found.append(problem(code, f"{pci.address} ({pci.pci_id}, {holder}) is not among NVML's GPUs."))
    found += _foreign(pairs, pci_gpus)
    if answered and nameless:
        open_places = [pci.address for pci in unlisted]
        among = f"of {spelled(open_places)}" if open_places else "of none that the kernel shows"
        found.append(problem("gpu_address_unknown", f"GPU {spelled(nameless)}: the driver does not say which {among}."))
    if answered and pci_gpus:
        unseen = [one.gpu.index for one in pairs if one.pci is None and one.gpu.pci_address is not None]
        if unseen:
            text = (
                f"GPU {spelled(unseen)} {'is' if len(unseen) == 1 else 'are'} not among the PCI devices of the kernel."
            )
            found.append(problem("gpu_not_on_pci", text))
    return found + ([] if answered else _from_catalogue(pairs))


def _is_for_a_display(pci: PciGpu) -> bool:
    """A board that is no server's as far as one can tell, and that no driver has taken."""
    return pci.pci_class == DISPLAY_CLASS and pci.kernel_driver is None and board_of(pci.pci_id) is None


def _foreign(pairs: Sequence[Joined], pci_gpus: Sequence[PciGpu]) -> list[Problem]:
    """Each other kernel driver with the boards that it holds."""
    indexes = {id(one.pci): one.gpu.index for one in pairs if one.pci is not None}
    held: dict[str, list[PciGpu]] = {}
    for pci in pci_gpus:
        if is_held_by_other(pci):
            held.setdefault(pci.kernel_driver or "", []).append(pci)
    found = []
    for driver, boards in held.items():
        listed = [pci for pci in boards if id(pci) in indexes]
        others = spelled(pci.address for pci in boards if id(pci) not in indexes)
        numbers = spelled(indexes[id(pci)] for pci in listed)
        named = f"GPU {numbers} ({spelled(pci.address for pci in listed)})" if listed else ""
        what = " and ".join(part for part in (named, others) if part)
        found.append(problem("gpu_foreign_driver", f"Kernel driver {driver} holds {what}."))
    return found


def _from_catalogue(pairs: Sequence[Joined]) -> list[Problem]:
    found = []
    known = [one.gpu.index for one in pairs if one.gpu.memory_source == "catalogue"]
    if known:
        names = sorted({one.gpu.name or "" for one in pairs if one.gpu.index in known})
        found.append(problem("gpu_memory_from_catalogue", f"GPU {spelled(known)}: taken to be {spelled(names)}."))
    unknown = [one.gpu for one in pairs if one.gpu.memory_source is None]
    if unknown:
        ids = spelled(sorted({gpu.pci_device_id or "" for gpu in unknown}))
        indexes = spelled(gpu.index for gpu in unknown)
        text = f"GPU {indexes}: the catalogue does not hold {ids}; {INDEXES_DIFFER}."
        found.append(problem("gpu_board_unknown", text))
    return found


def affinity_problems(pairs: Sequence[Joined]) -> list[Problem]:
    """Where the driver puts a GPU elsewhere than the kernel does, whose word is taken.

    The driver is known to leave out CPUs of a node behind one that is offline.
    """
    said: dict[str, list[int]] = {}
    for one in pairs:
        if one.nvml is None or one.pci is None or one.pci.numa_node is None:
            continue
        differs = []
        nodes, cpus = one.nvml.numa_nodes, one.nvml.cpus
        if nodes and one.pci.numa_node not in nodes:
            differs.append(f"node {format_cpu_list(nodes)} where the kernel has {one.pci.numa_node}")
        if cpus and one.pci.cpu_list and parse_cpu_list(cpus) != parse_cpu_list(one.pci.cpu_list):
            differs.append(f"CPUs {cpus} where the kernel has {one.pci.cpu_list}")
        if differs:
            said.setdefault(" and ".join(differs), []).append(one.gpu.index)
    return [
        problem("affinity_disagrees", f"GPU {spelled(gpus)}: the driver says {what}; the kernel is believed.")
        for what, gpus in said.items()
    ]
