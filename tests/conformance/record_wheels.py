# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record what the wheels of SGLang, PyTorch and SGLang's kernels say that they need and for what they are built.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_wheels --wheels FOLDER [--kernels FOLDER]

SGLang's own wheels are read from C(FOLDER). pip is asked for the metadata of the PyTorch wheels that they demand, and
for the names of all wheels of the packages, which say for which interpreters, machines and C libraries there are any;
it downloads none. C(--kernels): a folder with wheels of compiled kernels, whose architectures are read as the
collection reads them on a node; what was recorded of other wheels before stays.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.device_code import device_code_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.elf_file import opened_elf

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "oracle" / "wheels.json"
_WHEEL = re.compile(r"^sglang-([^-]+)-")
# Of the extras that a release may split its needs into, those that serve NVIDIA GPUs.
_EXTRAS = re.compile(r"extra == ['\"](?:srt|runtime-common)['\"]")
_PINNED = re.compile(r"^(torch|sgl-kernel|sglang-kernel|flashinfer_python)(?:\[\w+\])?==([^\s;,]+)\s*(?:;\s*(.*))?$")


def pip(*arguments: str) -> str:
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
        done = subprocess.run(
            [*command, "--target", target, *arguments], capture_output=True, text=True, check=False, timeout=300
        )
    return done.stdout + done.stderr


def names_of(package: str) -> list[str]:
    """Every wheel of a package, by its name: what pip says it looked at for a version that does not exist."""
    told = pip("-vvv", f"{package}==99999")
    stem = package.replace("-", "_")
    return sorted({name.replace("%2B", "+") for name in re.findall(rf"/({stem}-[^/\s]+\.whl)", told)})


def tags_of(names: Iterable[str], version: str) -> list[str]:
    """The tags of the wheels of one version for Linux, without free-threaded interpreters."""
    found = set()
    for name in names:
        _package, told, python, abi, platform = name[: -len(".whl")].split("-", 4)
        if told == version and not abi.endswith("t") and ("linux" in platform or platform == "any"):
            found.add(f"{python}-{platform}")
    return sorted(found)


def torch_of(version: str, names: Iterable[str]) -> dict[str, Any]:
    """The CUDA release whose runtime a build of PyTorch asks for, and whether it does so on aarch64 too."""
    # Three equal signs compare as text, so that no build with a local label of its own counts as the release.
    told = pip("--quiet", "--only-binary", ":all:", "--report", "-", f"torch==={version}")
    (install,) = json.loads(told[told.index("{") : told.rindex("}") + 1])["install"]
    for need in install["metadata"].get("requires_dist", []):
        match = re.match(r"(?:cuda-toolkit\[[\w,]+\]|nvidia-cuda-runtime-cu\d+)==(\d+\.\d+)", need)
        if match is not None:
            on_arm = 'platform_machine == "x86_64"' not in need
            return {"cuda": match.group(1), "cuda_on_aarch64": on_arm, "tags": tags_of(names, version)}
    raise SystemExit(f"No CUDA release among the needs of torch {version}")


def release_of(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    pins = {}
    for line in metadata.get_all("Requires-Dist", []):
        match = _PINNED.match(line)
        if match is not None and (match.group(3) is None or _EXTRAS.search(match.group(3))):
            pins[match.group(1)] = match.group(2)
    return {
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "requires_python": metadata["Requires-Python"],
        "pins": pins,
    }


def kernels_of(wheel: Path) -> dict[str, Any]:
    libraries = {}
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name in archive.namelist():
            if ".so" in name:
                with opened_elf(Path(archive.extract(name, folder))) as elf:
                    code = device_code_of(elf) if elf is not None else None
                if code:
                    libraries[name] = sorted({target.name for part in code for target in part})
    return {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(), "libraries": libraries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--kernels", type=Path)
    arguments = parser.parse_args()
    before = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.is_file() else {}
    releases = {
        match.group(1): release_of(wheel)
        for wheel in sorted(arguments.wheels.glob("sglang-*.whl"))
        if (match := _WHEEL.match(wheel.name)) is not None
    }
    sglang, torch = names_of("sglang"), names_of("torch")
    kernels = {package: names_of(package) for package in ("sgl-kernel", "sglang-kernel")}
    for version, release in releases.items():
        release["tags"] = tags_of(sglang, version)
        for package, names in kernels.items():
            if package in release["pins"]:
                release["kernel_tags"] = tags_of(names, release["pins"][package])
    versions = sorted({release["pins"]["torch"] for release in releases.values()})
    answers = {
        "releases": releases,
        "torch": {version: torch_of(version, torch) for version in versions},
        "kernels": {
            **before.get("kernels", {}),
            **{
                wheel.name: kernels_of(wheel)
                for wheel in sorted((arguments.kernels or Path("/nonexistent")).glob("*.whl"))
            },
        },
    }
    ANSWERS.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
