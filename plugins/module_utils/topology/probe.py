# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One survey of the machine: the kernel is read and the driver asked, in whichever interpreter can ask it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.common.respawn import has_respawned, probe_interpreters_for_module, respawn_module

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.roots import checked_root, is_this_machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.host import read_driver_version, read_host
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.numa import read_numa_nodes
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.kernel.pci import nvidia_functions, read_pci_gpus
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import Driver
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.interpreters import (
    PYTHON_CANDIDATES,
    interpreters,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import (
    CRASHED,
    IMPORT,
    LOAD,
    NO_ANSWER,
    Call,
    nvml_process,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.reading import Failure, NvmlReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.survey import survey

TOPOLOGY_OPTIONS: dict[str, dict[str, Any]] = {
    "root": {"type": "path", "default": "/"},
    "nvml": {"type": "bool", "default": True},
    "nvml_library": {"type": "path"},
    "nvml_timeout_seconds": {"type": "float", "default": 60},
    "python_candidates": {"type": "list", "elements": "path", "default": PYTHON_CANDIDATES},
}
Outcome = tuple["NvmlReading | None", list[Problem]]


def stopped(name: str, answer: dict[str, Any]) -> Outcome:
    """Where loading the library or nvidia-ml-py already hangs or crashes."""
    return NvmlReading(Driver(), (), (), (), (Failure(name, None, answer["error"], answer["text"]),)), []


def ask(call: Call, library: str | None, root: Path, gpus_on_bus: int) -> Outcome | None:
    """What NVML says, or why it does not; None where the interpreter lacks nvidia-ml-py."""
    loaded = call(LOAD, [library])
    if loaded.get("error") in (NO_ANSWER, CRASHED):
        return stopped(LOAD, loaded)
    # Without a GPU there is no reason to have a driver, nor to have loaded it.
    expected = gpus_on_bus > 0 or library is not None
    if "error" in loaded:
        return None, [problem("nvml_library_not_found", f"{loaded['text']}.")] if expected else []
    imported = call(IMPORT, [])
    if imported.get("error") in (NO_ANSWER, CRASHED):
        return stopped(IMPORT, imported)
    if "error" in imported:
        return None
    reading = read_nvml(call, root)
    idle = not expected and reading.failures and reading.failures[0].error == "driver_not_loaded"
    return (None if idle else reading), []


def ask_driver(params: Mapping[str, Any], gpus_on_bus: int) -> Outcome:
    """What NVML says, or why it was not asked. Does not return where another interpreter has nvidia-ml-py: the module
    runs again there."""
    library = params["nvml_library"]
    root = Path(params["root"])
    if not params["nvml"]:
        return None, [problem("nvml_not_consulted", "NVML was left out by request.")]
    if library is None and not is_this_machine(root):
        why = f"The facts are read below {root}, and the NVML of this system speaks of another machine."
        return None, [problem("nvml_not_consulted", why)]
    with nvml_process(params["nvml_timeout_seconds"]) as call:
        outcome = ask(call, library, root, gpus_on_bus)
    if outcome is not None:
        return outcome
    candidates = interpreters(params["python_candidates"])
    interpreter = None if has_respawned() else probe_interpreters_for_module(candidates, "pynvml")
    if interpreter:
        respawn_module(interpreter)
    tried = ", ".join(candidates) or "no other"
    why = f"The interpreter of this module has no nvidia-ml-py; {tried} was tried beside it."
    return None, [problem("nvml_binding_missing", why)]


def checked_options(params: Mapping[str, Any]) -> Path:
    """The root; raises Refusal for what cannot be meant."""
    root = checked_root(params["root"], "proc and sys")
    # A day is no limit for a person, and what is no number fails this comparison.
    if not 0 < params["nvml_timeout_seconds"] <= 86400:
        raise Refusal(
            "timeout_out_of_range",
            f"nvml_timeout_seconds is {params['nvml_timeout_seconds']}.",
            "Give a number of seconds above 0 and up to 86400.",
        )
    return root


def probe_machine(params: Mapping[str, Any]) -> dict[str, Any]:
    """As M(gpufleet.sglang.gpu_topology_info) returns it. The whole module may run again in another interpreter, which
    has nvidia-ml-py: nothing that changes the node may come before."""
    root = checked_options(params)
    functions = nvidia_functions(root)
    pci_gpus = read_pci_gpus(root, functions)
    nvml, beforehand = ask_driver(params, len(pci_gpus))
    host = read_host(root, functions)
    machine = survey(
        host=host,
        nodes=read_numa_nodes(root, host),
        pci_gpus=pci_gpus,
        nvml=nvml,
        driver_version=read_driver_version(root),
        beforehand=beforehand,
    )
    return machine.as_dict()
