# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""NVIDIA's own library and header, fetched into a folder of the test: the module on the one, the stand-in against both.

Nothing is installed and no setting of this system changes. Debian's package is asked for with apt and a source list of
its own; the header comes from NVIDIA's package on the Python index, through pip's own settings.
"""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.rehearsal import machine_tree
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT

# Debian 12: the packages of its driver are in non-free.
SUITE = "bookworm"
PACKAGE = "libnvidia-ml1"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HEADER = "nvidia-nvml-dev==13.5.37"
# What the stand-in has beyond the driver that Debian 12 ships, which is 535, with the release whose reference has it.
NEWER = {
    "nvmlDeviceGetNumaNodeId": "550",
    "nvmlDeviceGetGpuFabricInfoV": "550",
}


def run(*command: str, cwd: Path | None = None) -> str:
    environment = {**ENVIRONMENT, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's libnvidia-ml.so.1 of Debian's package, out of its archive."""
    folder = tmp_path_factory.mktemp("nvml")
    for name in ("lists/partial", "archives/partial", "root"):
        (folder / name).mkdir(parents=True)
    signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
    source = f"deb {signed}http://deb.debian.org/debian {SUITE} non-free non-free-firmware\n"
    (folder / "sources.list").write_text(source, encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder,
        # Without these a caller who is root would be asked for a user that can write here.
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]
    run(*apt, "update")
    run(*apt, "download", PACKAGE, cwd=folder)
    (archive,) = folder.glob(f"{PACKAGE}_*.deb")
    run("dpkg-deb", "-x", str(archive), str(folder / "root"))
    (library,) = [path for path in folder.glob("root/**/libnvidia-ml.so.*") if re.search(r"\.so\.\d+\.\d+", path.name)]
    return library


@pytest.fixture(name="standin", scope="module")
def _standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standin")
    cc = machine_tree.compiler()
    assert cc is not None
    machine_tree.build_library(folder, cc)
    return folder / machine_tree.LIBRARY


def symbols(library: Path) -> set[str]:
    listed = run("nm", "-D", "--defined-only", str(library))
    return {line.split()[2].split("@")[0] for line in listed.splitlines() if "nvml" in line}


# The system's own Python has no nvidia-ml-py, so the module has to find the one that has it, by a pattern.
@pytest.mark.parametrize("interpreter", [sys.executable, "/usr/bin/python3"])
def test_the_real_library_says_that_no_driver_is_loaded(real: Path, interpreter: str) -> None:
    """Through ansible, as a user would ask: a problem, and no traceback."""
    pattern = Path(sys.executable).parents[1] / "b*" / "python"
    command = ["ansible", "localhost", "-i", "localhost,", "-c", "local"]
    command += ["-e", f"ansible_python_interpreter={interpreter}", "-m", "gpufleet.sglang.gpu_topology_info"]
    shown = run(*command, "-a", f"nvml_library={real} python_candidates={pattern}", cwd=ROOT)
    assert "Traceback" not in shown
    result = json.loads(shown[shown.index("{") :])
    assert result["problems"][0]["code"] == "nvml_driver_not_loaded"
    assert result["problems"][0]["message"].startswith("NVML did not start: Driver Not Loaded")
    version = re.search(r"\.so\.(.*)$", real.name)
    assert version is not None
    # The library knows its own version all the same.
    assert result["driver"]["nvml_version"].endswith(version.group(1))


def test_the_stand_in_has_no_function_that_the_real_one_lacks(real: Path, standin: Path) -> None:
    known, ours = symbols(real), symbols(standin)
    assert len(known) > 300
    assert len(ours) > 50
    assert ours - known == set(NEWER)


def test_the_stand_in_has_the_signatures_of_nvidias_header(tmp_path: Path) -> None:
    """The compiler holds every declaration, structure and constant that the stand-in uses against nvml.h."""
    run(sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(tmp_path), HEADER)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/nvml.h")]
        header = Path(archive.extract(name, tmp_path))
    cc = machine_tree.compiler()
    assert cc is not None
    sources = sorted(str(path) for path in (ROOT / "rehearsal/nvml").glob("*.c"))
    given = ["-DNVML_HEADER=<nvml.h>", "-isystem", str(header.parent)]
    run(cc, "-fsyntax-only", "-Werror", "-Wall", "-Wextra", *given, *sources)
    # The same with a wrong signature has to fail, or the header was not looked at.
    wrong = tmp_path / "wrong.c"
    wrong.write_text('#include "nvml_abi.h"\nnvmlReturn_t nvmlInit_v2(int flags) { return flags; }\n', encoding="utf-8")
    check = [cc, "-fsyntax-only", *given, "-I", str(ROOT / "rehearsal/nvml"), str(wrong)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert "conflicting types" in done.stderr
