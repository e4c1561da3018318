# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.imports import (
    PROGRAM,
    read_imports,
    wanted_modules,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

WHERE = "/opt/sglang/releases/0.5.23-abc"


def failed(name: str, kind: str, text: str) -> Refusal:
    output = (
        f"gpufleet {json.dumps({'begun': name})}\ngpufleet {json.dumps({'failed': name, 'kind': kind, 'text': text})}\n"
    )
    with pytest.raises(Refusal) as refused:
        read_imports(output, 0, WHERE)
    return refused.value


# As the loader and Python word it.
FAILURES = {
    "libnuma.so.1: cannot open shared object file: No such file or directory": ("library_missing", "libnuma1"),
    "libcudart.so.13: cannot open shared object file: No such file or directory": ("library_missing", "CUDA line"),
    "libcuda.so.1: cannot open shared object file: No such file or directory": ("library_missing", "driver"),
    "libfoo.so.3: cannot open shared object file: No such file or directory": ("library_missing", "libfoo.so.3"),
    "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x.so)": (
        "library_too_old",
        "GLIBC_2.38",
    ),
    "common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi": ("builds_differ", "_ZN3c104cuda9SetDeviceEi"),
    "numpy.core.multiarray failed to import": ("import_failed", "multiarray"),
}


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_names_what_is_missing_and_what_to_do(text: str) -> None:
    code, named = FAILURES[text]
    found = failed("sgl_kernel", "ImportError", text)
    assert found.code == code
    assert "sgl_kernel" in found.message
    assert named in str(found)


def test_a_missing_module_is_named() -> None:
    found = failed("sglang.launch_server", "ModuleNotFoundError", "No module named 'orjson'")
    assert (found.code, found.evidence["missing"]) == ("module_missing", "orjson")


def run(tmp_path: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "good.py").write_text("__version__ = '1.2'\nprint('words of its own')\n")
    (tmp_path / "bad.py").write_text(
        "raise ImportError('libnuma.so.1: cannot open shared object file: No such file')\n"
    )
    (tmp_path / "dying.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules], check=False, capture_output=True, text=True, cwd=tmp_path
    )


def test_what_can_be_imported_is_told_with_its_version(tmp_path: Path) -> None:
    done = run(tmp_path, "json", "good")
    found = {one.name: one.version for one in read_imports(done.stdout, done.returncode, WHERE)}
    assert found["good"] == "1.2"
    assert set(found) == {"json", "good"}


def test_the_first_failure_ends_it(tmp_path: Path) -> None:
    done = run(tmp_path, "bad", "good")
    with pytest.raises(Refusal, match=r"bad needs libnuma\.so\.1"):
        read_imports(done.stdout, done.returncode, WHERE)


def test_an_import_that_ends_the_process_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "good", "dying")
    with pytest.raises(Refusal, match="The import of dying ended the process by signal 4") as refused:
        read_imports(done.stdout, done.returncode, WHERE)
    assert refused.value.code == "import_crashed"


def test_what_the_unit_runs_comes_last() -> None:
    assert wanted_modules("cuda")[-1] == wanted_modules("cpu")[-1] == "sglang.launch_server"
    assert "sgl_kernel" not in wanted_modules("cpu")
