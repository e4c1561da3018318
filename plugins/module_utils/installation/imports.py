# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an environment can be imported, and what a failure means. Pure.

C(PROGRAM) runs with the environment's own interpreter; what it prints is judged here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# One line before and one after each import: one that ends the process is known by its first line alone.
PROGRAM = """\
import importlib, json, sys
for name in sys.argv[1:]:
    print("gpufleet " + json.dumps({"begun": name}), flush=True)
    try:
        module = importlib.import_module(name)
        found = {"done": name, "version": str(getattr(module, "__version__", "") or "")}
    except BaseException as error:
        found = {"failed": name, "kind": type(error).__name__, "text": str(error)[:2000]}
    print("gpufleet " + json.dumps(found), flush=True)
    if "failed" in found:
        break
"""

# pyproject.toml of the releases: the kernels are sgl-kernel, from 0.5.11 sglang-kernel, and sgl_kernel to Python.
_KERNELS = ("triton", "sgl_kernel", "flashinfer")

# Library (its name up to ".so") -> what has it. CUDA's own come with the wheels of their line, nvidia-*.
_LIBRARIES = {
    "libnuma": "libnuma1 (Debian, Ubuntu), numactl-libs (RHEL)",
    "libibverbs": "libibverbs1 (Debian, Ubuntu), libibverbs (RHEL)",
    "libgomp": "libgomp1 (Debian, Ubuntu), libgomp (RHEL)",
    "libstdc++": "libstdc++6 (Debian, Ubuntu), libstdc++ (RHEL)",
    "libGL": "libgl1 (Debian, Ubuntu), libglvnd-glx (RHEL)",
    "libglib-2.0": "libglib2.0-0 (Debian, Ubuntu), glib2 (RHEL)",
    "libsndfile": "libsndfile1 (Debian, Ubuntu), libsndfile (RHEL)",
}
_DRIVER_LIBRARIES = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
_CUDA_LIBRARIES = (
    "libcudart", "libcublas", "libcublasLt", "libcudnn", "libcufft", "libcufile", "libcupti", "libcurand",
    "libcusolver", "libcusparse", "libcusparseLt", "libnccl", "libnvJitLink", "libnvrtc", "libnvshmem_host",
    "libnvToolsExt",
)  # fmt: skip


@dataclass(frozen=True)
class Imported:
    name: str
    version: str | None


def wanted_modules(device: str) -> tuple[str, ...]:
    """What is lowest comes first, so that the error is about the cause. The last is what the unit runs."""
    return ("torch", *(_KERNELS if device == "cuda" else ()), "sglang", "sglang.launch_server")


def read_imports(output: str, status: int, environment: str, last_error: str = "") -> tuple[Imported, ...]:
    """What was imported. Raises Refusal for what cannot be."""
    done: list[Imported] = []
    begun: str | None = None
    for line in output.splitlines():
        if not line.startswith("gpufleet "):
            continue
        try:
            row = json.loads(line[len("gpufleet ") :])
        except ValueError:
            continue
        if "begun" in row:
            begun = row["begun"]
        elif "done" in row:
            done.append(Imported(row["done"], row["version"] or None))
            begun = None
        else:
            raise _failed(row["failed"], row["kind"], row["text"], environment)
    if begun is not None or status != 0:
        raise _ended(begun, status, environment, last_error)
    return tuple(done)


def _ended(name: str | None, status: int, environment: str, last_error: str) -> Refusal:
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    what = f"The import of {name}" if name else "The interpreter"
    return Refusal(
        "import_crashed",
        f"{what} ended the process {how}." + (f" It said: {last_error}" if last_error else ""),
        f"A library of {environment} does not suit this processor, kernel or driver: take builds that do.",
        {"module": name, "status": status, "environment": environment},
    )


def _failed(name: str, kind: str, text: str, environment: str) -> Refusal:
    evidence: dict[str, object] = {"module": name, "error": f"{kind}: {text}", "environment": environment}
    first = text.strip().splitlines()[0] if text.strip() else kind
    # The file that asked for it, where the loader names it.
    if match := re.search(r"(?P<library>lib[\w+.-]+?)\.so(?P<number>[.\d]*): cannot open shared object file", text):
        library = f"{match['library']}.so{match['number']}"
        return Refusal(
            "library_missing",
            f"{name} needs {library}, which the loader does not find.",
            _library_remedy(match["library"], library),
            {**evidence, "library": library},
        )
    if match := re.search(r"version [`'](?P<version>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found", text):
        return Refusal(
            "library_too_old",
            f"{name} needs {match['version']}, which the C or C++ library of this distribution is too old for.",
            "Take wheels for an older manylinux, or a newer release of the distribution.",
            {**evidence, "needs": match["version"]},
        )
    if match := re.search(r"undefined symbol: (?P<symbol>\w+)", text):
        return Refusal(
            "builds_differ",
            f"{name} needs the symbol {match['symbol']}, which the library that it was built against no longer has.",
            "torch and the kernels have to be of one build: pin the versions that the release of SGLang names, all of "
            "one CUDA line.",
            {**evidence, "symbol": match["symbol"]},
        )
    if kind == "ModuleNotFoundError" and (match := re.search(r"No module named '(?P<module>[^']+)'", text)):
        return Refusal(
            "module_missing",
            f"{name} needs the Python module {match['module']}, which is not installed.",
            "Add its package to sglang_requirements_file; without such a file all that sglang needs is installed.",
            {**evidence, "missing": match["module"]},
        )
    return Refusal(
        "import_failed",
        f"{name} cannot be imported: {kind}: {first[:400].rstrip('.')}.",
        "The release that runs is untouched. Correct the pins or sglang_environment, and run the play again.",
        evidence,
    )


def _library_remedy(library: str, full: str) -> str:
    if library in _DRIVER_LIBRARIES:
        return "It is a part of the NVIDIA driver: install the driver first (role gpufleet.sglang.nvidia_driver)."
    if library in _CUDA_LIBRARIES:
        return (
            f"{full} is of the CUDA line that these wheels were built for: install the nvidia-* wheels of that line, "
            "or wheels of the line that is installed."
        )
    if library in _LIBRARIES:
        return f"Name its package in sglang_system_packages: {_LIBRARIES[library]}."
    return "Name the package that has it in sglang_system_packages (apt-file search, dnf provides)."
