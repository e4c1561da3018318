# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of what the server runs on: the driver, CUDA, libraries, compilers, the GPU itself."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    GENERAL,
    HINT,
    RAISED,
    Failure,
    Pattern,
)

_CUDA = "PyTorch c10/cuda/CUDAException.cpp, with the words of cudaGetErrorString (CUDA 13.0)"

GPU_STACK = (
    Failure(
        "no_cuda",
        "This PyTorch was built without CUDA.",
        "Install the CUDA build of PyTorch into the server's environment, or serve with device "
        "cpu. `python -c 'import torch; print(torch.version.cuda)'` there prints None until then.",
        (
            Pattern(
                r"^AssertionError: Torch not compiled with CUDA enabled",
                "PyTorch torch/cuda/__init__.py",
                "AssertionError: Torch not compiled with CUDA enabled",
            ),
        ),
    ),
    Failure(
        "no_gpu_visible",
        "The server sees no GPU.",
        "Run `nvidia-smi` as the unit's user. If it shows the GPUs, look at CUDA_VISIBLE_DEVICES "
        "and DeviceAllow of the unit (`systemctl cat UNIT`). If not, look at the /dev/nvidia* "
        "files and the driver (`journalctl -k --grep=NVRM`).",
        (
            Pattern(
                RAISED + r"(?:No CUDA GPUs are available|Found no NVIDIA driver on your system|"
                r"CUDA driver initialization failed, you might not have a CUDA gpu|"
                r"CUDA unknown error - this may be due to an incorrectly set up environment|"
                r"No accelerator \(CUDA|No HIP GPUs are available)",
                "PyTorch c10/cuda/CUDAFunctions.cpp, torch/csrc/cuda/Module.cpp; SGLang utils/common.py (get_device)",
                "RuntimeError: No CUDA GPUs are available",
            ),
            Pattern(
                RAISED + r"(?:nvidia-smi not found\.|nvidia-smi failed \(exit code|No GPU memory values found)",
                "SGLang utils/common.py (get_nvgpu_memory_capacity)",
                "RuntimeError: nvidia-smi not found. Ensure NVIDIA drivers are installed and accessible.",
            ),
            Pattern(
                RAISED + r"CUDA error: (?:no CUDA-capable device is detected|invalid device ordinal)",
                _CUDA,
                "RuntimeError: CUDA error: no CUDA-capable device is detected",
            ),
        ),
    ),
    Failure(
        "driver_too_old",
        "The NVIDIA driver is too old for the CUDA of this PyTorch.",
        "Install a driver whose `nvidia-smi` names the CUDA of these wheels or a later one, or "
        "install wheels that were built for the driver's CUDA.",
        (
            Pattern(
                RAISED + r"The NVIDIA driver on your system is too old \(found version (?P<found_id>\d+)\)",
                "PyTorch c10/cuda/CUDAFunctions.cpp",
                "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update your "
                "GPU driver by downloading and installing a new version",
            ),
            Pattern(
                RAISED + r"(?:CUDA error: )?.*CUDA driver version is insufficient for CUDA runtime version",
                "CUDA Runtime API, cudaErrorInsufficientDriver (35)",
                "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            ),
            Pattern(
                RAISED + r"(?:CUDA error: )?.*the provided PTX was compiled with an unsupported toolchain",
                "CUDA Runtime API, cudaErrorUnsupportedPtxVersion (222)",
                "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
            ),
        ),
    ),
    Failure(
        "driver_not_ready",
        "The driver is there and not in order: its two halves differ, or the fabric of an NVSwitch machine is not up.",
        "After an update of the driver, reboot. On a machine with NVSwitch, run `systemctl status "
        "nvidia-fabricmanager`: it has to be active, in the very version of the driver (`cat "
        "/proc/driver/nvidia/version`). In a container, remove a libcuda of its own (cuda-compat) "
        "from the search path.",
        (
            Pattern(
                RAISED + r".*(?:system has unsupported display driver / cuda driver combination|"
                r"forward compatibility was attempted on non supported HW|Driver/library version mismatch)",
                "CUDA Runtime API, cudaErrorSystemDriverMismatch (803), cudaErrorCompatNotSupportedOnDevice (804); "
                "NVML NVML_ERROR_LIB_RM_VERSION_MISMATCH",
                "RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination",
            ),
            Pattern(
                RAISED + r".*(?:system not yet initialized|Error 802)",
                "CUDA Runtime API, cudaErrorSystemNotReady (802)",
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
                "calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
            ),
        ),
    ),
    Failure(
        "no_kernel_image",
        "A library was not built for this GPU.",
        "Install wheels that were built for this GPU's compute capability (`nvidia-smi "
        "--query-gpu=compute_cap --format=csv`).",
        (
            Pattern(
                RAISED + r".*no kernel image is available for execution on the device",
                "CUDA Runtime API, cudaErrorNoKernelImageForDevice (209)",
                "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
            ),
            Pattern(
                RAISED + r".*(?:device kernel image is invalid|named symbol not found)",
                "CUDA Runtime API, cudaErrorInvalidKernelImage (200), cudaErrorSymbolNotFound (500)",
                "RuntimeError: CUDA error: device kernel image is invalid",
            ),
            Pattern(
                r"^ptxas fatal\s+: Value '(?P<capability>sm_\w+)' is not defined for option 'gpu-name'",
                "CUDA Toolkit, ptxas",
                "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
            ),
        ),
    ),
    Failure(
        "gpu_fault",
        "A GPU, or a kernel that ran on it, failed.",
        "Run `journalctl -k --grep=Xid`. Without an Xid of the hardware it is the program's "
        "fault: report the traceback, and start with CUDA_LAUNCH_BLOCKING=1 to find the kernel. "
        "With one, reset the GPU (`nvidia-smi --gpu-reset -i INDEX`) or have it replaced.",
        (
            Pattern(
                RAISED + r"(?:.*\b)?CUDA error: (?P<reason>an illegal memory access was encountered|device-side assert "
                r"triggered|unspecified launch failure|misaligned address|an illegal instruction was encountered|"
                r"uncorrectable ECC error encountered|uncorrectable NVLink error detected during the execution|"
                r"Invalid access of peer GPU memory over nvlink or a hardware error|"
                r"hardware stack error|the launch timed out and was terminated|unknown error)",
                _CUDA,
                "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            ),
        ),
    ),
    # The reader of the kernel's log makes its events; the line alone ends no start.
    Failure(
        "gpu_error",
        "The driver reported an error of a GPU (Xid).",
        "Look the number up in NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors); if it is "
        "the hardware's, reset the GPU (`nvidia-smi --gpu-reset -i INDEX`) or have it replaced.",
        standing=HINT,
    ),
    Failure(
        "cuda_error",
        "A call of CUDA failed.",
        "Read the traceback in `journalctl --unit=UNIT --lines=200`, and run `journalctl -k "
        "--grep=Xid` for what the driver says of the GPU.",
        (
            Pattern(
                RAISED + r"(?:CUDA error: (?!out of memory)|CUDA driver error: )(?P<reason>.*)",
                _CUDA,
                "RuntimeError: CUDA error: operation not permitted",
            ),
        ),
        standing=GENERAL,
    ),
    Failure(
        "missing_library",
        "A shared library, or a symbol in one, is missing.",
        "Install the package that holds the library (`apt-file search NAME`, `dnf provides "
        "'*/NAME'`). After an undefined symbol or a missing version of one, install the packages "
        "that were built for each other: the pinned set of this release.",
        (
            Pattern(
                RAISED + r"(?P<library>[\w.+-]+\.so[.\d]*): cannot open shared object file",
                "glibc elf/dl-load.c",
                "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
            ),
            Pattern(
                RAISED + r"(?:\S*/)?(?P<library>[\w.+-]+\.so[.\d]*): undefined symbol: (?P<symbol>\S+)",
                "glibc elf/dl-lookup.c",
                "ImportError: /opt/sglang/lib/python3.11/site-packages/sgl_kernel/common_ops.abi3.so: undefined "
                "symbol: _ZN3c104cuda9SetDeviceEi",
            ),
            Pattern(
                RAISED + r".*version `(?P<symbol>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found",
                "glibc elf/dl-version.c",
                "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by "
                "/opt/sglang/x.so)",
            ),
        ),
    ),
    Failure(
        "missing_module",
        "A Python module is missing from the server's environment.",
        "Install the package that holds it into the server's environment, in the version that "
        "this release pins (`pip show sglang`, `pip check`).",
        (
            Pattern(
                r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'",
                "CPython Lib/importlib/_bootstrap.py",
                "ModuleNotFoundError: No module named 'sgl_kernel'",
            ),
            Pattern(
                r"^ImportError: cannot import name '(?P<name>[^']+)' from '(?P<module>[^']+)'",
                "CPython Python/ceval.c",
                "ImportError: cannot import name 'AutoVideoProcessor' from 'transformers' (/opt/x/__init__.py)",
            ),
            Pattern(
                RAISED + r"(?P<module>\S+) (?:is installed with version \S+, which is less than the minimum required "
                r"version|with minimum required version) (?P<minimum>\S+?)(?: is not installed)?\. ",
                "SGLang utils/common.py (assert_pkg_version)",
                "Exception: flashinfer_python is installed with version 0.2.1, which is less than the minimum required "
                "version 0.2.7.post1. Please uninstall the old version",
            ),
        ),
    ),
    Failure(
        "missing_compiler",
        "SGLang compiles kernels at run time and found no compiler.",
        "Install g++, ninja-build and the headers of this Python (python3-dev), and on a GPU host "
        "the CUDA toolkit with nvcc, and let PATH and CUDA_HOME of the unit name them.",
        (
            Pattern(
                r"No working C\+\+ compiler found|Failed to find C compiler\. Please specify",
                "PyTorch torch/_inductor/exc.py (InvalidCxxCompiler), Triton runtime/build.py",
                "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
                "torch._inductor.config.cpp.cxx: (None, 'g++')",
            ),
            Pattern(
                r"fatal error: Python\.h: No such file",
                "GCC, of Triton's launcher",
                "/tmp/tmpx/main.c:5:10: fatal error: Python.h: No such file or directory",
            ),
            Pattern(
                r"Could not find nvcc|Ninja is required to load C\+\+ extensions|"
                r"CUDA_HOME environment variable is not set",
                "FlashInfer jit/cpp_ext.py, PyTorch torch/utils/cpp_extension.py",
                "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
            ),
            Pattern(
                r"FileNotFoundError: .*'(?P<program>ninja|nvcc|gcc|g\+\+|c\+\+|cc)'",
                "CPython subprocess",
                "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
            ),
        ),
    ),
)
