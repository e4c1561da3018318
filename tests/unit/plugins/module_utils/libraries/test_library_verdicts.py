# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.environment import read_environment
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.loader import missing_libraries
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.running import (
    architecture_of,
    capability_text,
    target_named,
    way_to_run,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.libraries.verdict import judged
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.libraries.elf_files import (
    ALONE,
    FAMILY,
    code_for,
    dynamic,
    elf,
    environment_of,
)

TORCH = elf({".nv_fatbin": code_for((2, 75, 0), (2, 80, 0), (2, 90, 0), (2, 100, 0), (1, 120, 0))})
HOPPER_KERNELS = elf({".nv_fatbin": code_for((2, 80, 0), (2, 90, ALONE)) * 3})
OTHER_KERNELS = elf({".nv_fatbin": code_for((2, 80, 0), (2, 89, 0), (2, 100, FAMILY), (2, 120, ALONE)) * 3})
FLASH = elf({".nv_fatbin": code_for((2, 80, 0), (2, 90, ALONE))})
FILES = {
    "torch/lib/libtorch_cuda.so": TORCH,
    "sgl_kernel/sm90/common_ops.abi3.so": HOPPER_KERNELS,
    "sgl_kernel/sm100/common_ops.abi3.so": OTHER_KERNELS,
    "sgl_kernel/flash_ops.abi3.so": FLASH,
    "numpy/core.so": elf({".text": b"code"}),
    "flashinfer_cubin/a_sm100f.cubin": elf({}, machine=190, flags=0x6006402, abi=8),
    "flashinfer_cubin/more/b_sm100f.cubin": elf({}, machine=190, flags=0x6006402, abi=8),
}


def judgement(folder: Path, files: dict[str, bytes], *capabilities: str, compiler: str | None = "/usr/bin/nvcc") -> Any:
    environment = read_environment(environment_of(folder, files))
    numbers = [number for text in capabilities if (number := architecture_of(text)) is not None]
    return judged(environment, numbers, missing_libraries(environment, folder), compiler)


def codes(found: Any) -> list[str]:
    return [problem["code"] for problem in found["problems"]]


@pytest.mark.parametrize(
    ("target", "native", "jit"),
    [
        ("sm_80", "8.0 8.6 8.9", ""),
        ("sm_86", "8.6 8.9", ""),
        ("sm_90", "9.0", ""),
        ("sm_90a", "9.0", ""),
        ("sm_100", "10.0 10.3", ""),
        ("sm_100a", "10.0", ""),
        ("sm_100f", "10.0 10.3", ""),
        ("sm_103a", "10.3", ""),
        ("sm_120", "12.0 12.1", ""),
        ("sm_120a", "12.0", ""),
        ("compute_90", "", "9.0 10.0 10.3 12.0 12.1"),
        ("compute_90a", "", "9.0"),
        ("compute_100f", "", "10.0 10.3"),
    ],
)
def test_which_gpus_run_what(target: str, native: str, jit: str) -> None:
    every = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    ways: dict[str | None, list[str]] = {}
    for capability in every:
        number = architecture_of(capability)
        assert number is not None
        ways.setdefault(way_to_run(target_named(target), number), []).append(capability)
    assert ways.get("native", []) == native.split()
    assert ways.get("jit", []) == jit.split()


@pytest.mark.parametrize("text", ["", "9", "a.b", "9.12", "-9.0", None])
def test_no_compute_capability(text: str | None) -> None:
    assert architecture_of(text) is None


def test_capabilities_are_written_as_the_driver_does() -> None:
    assert [capability_text(number) for number in (75, 90, 103)] == ["7.5", "9.0", "10.3"]


def test_a_gpu_whose_kernels_are_there_is_served(tmp_path: Path) -> None:
    found = judgement(tmp_path, FILES, "9.0", "10.3")
    hopper, ultra = found["gpus"]
    assert (hopper["served"], ultra["served"]) == (True, True)
    # Kernels of other generations are no loss: which of the two builds is loaded depends on the GPU.
    assert ultra["none"] == ["sgl_kernel/flash_ops.abi3.so", "sgl_kernel/sm90/common_ops.abi3.so"]
    assert codes(found) == []
    library = next(one for one in found["libraries"] if one["path"] == "sgl_kernel/sm100/common_ops.abi3.so")
    assert library["targets"] == ["sm_80", "sm_89", "sm_100f", "sm_120a"]
    assert library["gpus"] == {"9.0": {"way": "none", "parts": 0}, "10.3": {"way": "native", "parts": 3}}


def test_a_library_that_every_server_needs_has_to_have_code(tmp_path: Path) -> None:
    found = judgement(tmp_path, FILES, "7.5", "12.1")
    turing, spark = found["gpus"]
    assert turing["lacking"] == ["sgl_kernel/sm100/common_ops.abi3.so"]
    assert spark["jit"] == ["torch/lib/libtorch_cuda.so"]
    assert codes(found) == ["device_code_missing", "device_code_missing", "device_code_ptx_alone"]
    assert found["problems"][0]["message"] == (
        "sgl_kernel/sm100/common_ops.abi3.so is compiled for sm_80, sm_89, sm_100f, sm_120a, and not for compute "
        "capability 7.5."
    )


def test_kernels_of_one_build_serve_every_gpu(tmp_path: Path) -> None:
    found = judgement(tmp_path, {"sgl_kernel/common_ops.abi3.so": HOPPER_KERNELS}, "9.0", "10.0")
    assert [gpu["served"] for gpu in found["gpus"]] == [True, False]


def test_loose_machine_code_is_counted_by_package(tmp_path: Path) -> None:
    found = judgement(tmp_path, FILES, "9.0")
    assert found["loose_code"] == [{"package": "flashinfer_cubin", "files": 2, "targets": {"sm_100f": 2}}]


def test_without_gpus_the_code_is_reported_and_nothing_judged(tmp_path: Path) -> None:
    found = judgement(tmp_path, {**FILES, "flashinfer/__init__.so": elf({})}, compiler=None)
    assert (found["gpus"], found["problems"]) == ([], [])
    assert found["read"]["libraries"] == 6


def test_an_environment_for_the_cpu_says_so(tmp_path: Path) -> None:
    assert codes(judgement(tmp_path, {"torch/lib/libtorch_cpu.so": elf({".text": b"x"})}, "9.0")) == ["no_device_code"]


def test_libraries_that_nobody_has_are_missing(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "usr/lib/x86_64-linux-gnu/libc.so.6").write_bytes(b"")
    (tmp_path / "etc/ld.so.conf.d").mkdir(parents=True)
    (tmp_path / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n", encoding="ascii")
    (tmp_path / "etc/ld.so.conf.d/own.conf").write_text("# own\n/opt/own/lib\n", encoding="ascii")
    (tmp_path / "opt/own/lib").mkdir(parents=True)
    (tmp_path / "opt/own/lib/libown.so.2").write_bytes(b"")
    needed = ["libc.so.6", "libown.so.2", "libtorch_cuda.so", "libbeside.so", "libcuda.so.1", "libcudart.so.13"]
    files = {
        "torch/lib/libtorch_cuda.so": TORCH,
        "sgl_kernel/common_ops.abi3.so": elf(
            {**dynamic(needed, runpath="$ORIGIN/inner"), ".nv_fatbin": code_for((2, 90, 0))}
        ),
        "sgl_kernel/inner/libbeside.so": elf({}),
        "other/x.so": elf(dynamic(["libnuma.so.1"])),
    }
    found = judgement(tmp_path, files, "9.0")
    assert [(one["library"], one["of_driver"]) for one in found["missing_libraries"]] == [
        ("libcuda.so.1", True),
        ("libcudart.so.13", False),
        ("libnuma.so.1", False),
    ]
    assert codes(found) == ["driver_library_missing", "shared_library_missing", "shared_library_missing_elsewhere"]


def test_files_that_no_host_could_load_are_named(tmp_path: Path) -> None:
    found = judgement(tmp_path, {**FILES, "torch/lib/libcut.so": TORCH[:200]}, "9.0")
    assert found["read"]["unreadable"] == ["torch/lib/libcut.so"]
    assert codes(found) == ["library_unreadable"]


def test_a_link_to_a_library_counts_once_and_its_name_too(tmp_path: Path) -> None:
    folder = environment_of(
        tmp_path, {"nvidia/nccl/lib/libnccl.so.2.28": TORCH, "x/y.so": elf(dynamic(["libnccl.so.2"]))}
    )
    packages = folder / "lib/python3.11/site-packages"
    (packages / "nvidia/nccl/lib/libnccl.so.2").symlink_to("libnccl.so.2.28")
    environment = read_environment(folder)
    assert [library.path for library in environment.libraries] == ["nvidia/nccl/lib/libnccl.so.2.28", "x/y.so"]
    assert missing_libraries(environment, tmp_path) == []


def test_without_a_compiler_kernels_cannot_be_compiled_at_run_time(tmp_path: Path) -> None:
    files = {**FILES, "flashinfer/x.so": elf({}), "nvidia/cu13/bin/nvcc": b"program"}
    found = judgement(tmp_path, files, "9.0", compiler=None)
    assert codes(found) == ["compiler_missing"]
    assert found["compilers"]["wheels"] == [f"{tmp_path}/lib/python3.11/site-packages/nvidia/cu13/bin/nvcc"]
    assert "nvidia/cu13/bin/nvcc" in found["problems"][0]["message"]


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        read_environment(tmp_path)
    assert refused.value.code == "environment_missing"
