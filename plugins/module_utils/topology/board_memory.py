# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CUDA gives as the total memory of a board: less than nvidia-smi prints, as the driver keeps some for itself.

It is total_memory of torch's device properties and the total of cudaMemGetInfo, so the most that a server can ever see
as available. It differs with the driver by up to 300 MiB, and the lowest and the highest value found are kept. A source
that rounds (GiB with two digits) counts as the smallest and the largest value that it can mean. C(issue) names a thread
on GitHub; "device properties" are C(_CudaDeviceProperties(...)) and "banner" is C(Max memory: ... GB) of Unsloth (GiB,
three digits), both with the board's full name, as printed in public logs and notebooks. Boards without such a report
are not here, and boards with ECC switched off did not count where it is on when they leave the factory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CudaMemory:
    lowest_mib: int
    highest_mib: int
    source: str


CUDA_MEMORY: dict[str, CudaMemory] = {
    "Tesla V100-SXM2-16GB": CudaMemory(16130, 16160, "device properties"),
    # 31.74 GiB.
    "Tesla V100-SXM2-32GB": CudaMemory(32496, 32506, "issue liucongg/ChatGLM-Finetuning#73 (V100 32 GB)"),
    "Tesla V100-PCIE-32GB": CudaMemory(32496, 32506, "issue liucongg/ChatGLM-Finetuning#73 (V100 32 GB)"),
    # 14.562 to 14.748 GiB; the recorded board reserves 388 of 15360 MiB.
    "Tesla T4": CudaMemory(14910, 15102, "banner; recorded nvidia-smi -q"),
    # 39.394 to 39.564 GiB.
    "NVIDIA A100-SXM4-40GB": CudaMemory(40338, 40515, "banner"),
    "NVIDIA A100-PCIE-40GB": CudaMemory(40326, 40326, "device properties"),
    # 79.151 to 79.251 GiB.
    "NVIDIA A100-SXM4-80GB": CudaMemory(81050, 81154, "banner"),
    "NVIDIA A800-SXM4-80GB": CudaMemory(81147, 81157, "issue sgl-project/sglang#1463; 85,094,825,984 bytes in a log"),
    # 23.50 and 23.53 GiB.
    "NVIDIA A30": CudaMemory(24058, 24100, "issues LHRLAB/ChatKBQA#2 and google/RB-Modulation#5"),
    # 45416 MB, and 44.549 GiB.
    "NVIDIA A40": CudaMemory(45416, 45619, "device properties; banner"),
    # 435 of 23028 MiB are reserved.
    "NVIDIA A10G": CudaMemory(22593, 22593, "recorded nvidia-smi -q"),
    # 23.588 to 23.691 GiB; 23.68 in the issue; the recorded board reserves 316 of 24576 MiB.
    "NVIDIA GeForce RTX 3090": CudaMemory(
        24153, 24261, "banner; issue vllm-project/vllm#16343; recorded nvidia-smi -q"
    ),
    # 47.431 GiB, ECC off as it leaves the factory.
    "NVIDIA RTX A6000": CudaMemory(48568, 48570, "banner"),
    "NVIDIA RTX A5000": CudaMemory(24114, 24138, "device properties"),
    # 93.016 GiB.
    "NVIDIA H100 NVL": CudaMemory(95247, 95249, "banner"),
    # 79.205 GiB.
    "NVIDIA H800 PCIe": CudaMemory(81105, 81107, "banner"),
    # 97285 MB, and 95.08 GiB.
    "NVIDIA H20": CudaMemory(97285, 97367, "device properties; issue sgl-project/sglang#10736"),
    # 81082 to 81090 MB; 79.097 to 79.179 GiB.
    "NVIDIA H100 80GB HBM3": CudaMemory(80994, 81090, "device properties; banner"),
    "NVIDIA H100 PCIe": CudaMemory(81008, 81008, "device properties"),
    # 143156 MB; 139.801 GiB.
    "NVIDIA H200": CudaMemory(143155, 143157, "device properties; banner"),
    "NVIDIA H200 NVL": CudaMemory(143155, 143157, "banner"),
    # 23.51 to 23.647 GiB; 23.52 and 23.53 in the issues.
    "NVIDIA GeForce RTX 4090": CudaMemory(
        24069, 24216, "banner; issues sgl-project/sglang#12496 and OpenMOSS/MOSS-TTSD#71"
    ),
    "NVIDIA RTX 6000 Ada Generation": CudaMemory(48622, 48622, "device properties"),
    # 44.40 GiB.
    "NVIDIA L40": CudaMemory(45460, 45471, "issue QwenLM/Qwen3-VL#2097"),
    # 44.392 to 44.521 GiB; 45589 MB; 44.42 GiB in the issue.
    "NVIDIA L40S": CudaMemory(45456, 45591, "device properties; banner; issue stepfun-ai/Step-Video-T2V#8"),
    # 22.034 to 22.168 GiB; 22.03 in the issue.
    "NVIDIA L4": CudaMemory(22553, 22701, "banner; issue ArcInstitute/evo2#190"),
    "NVIDIA B200": CudaMemory(182631, 182642, "device properties"),
    # 184.31 GiB.
    "NVIDIA GB200": CudaMemory(188728, 188739, "out-of-memory messages of torch on GB200 in public logs"),
    # 31.342 to 31.357 GiB.
    "NVIDIA GeForce RTX 5090": CudaMemory(32093, 32111, "banner"),
    # 97250 MB; 94.971 GiB; the recorded board reserves 636 of 97887 MiB.
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": CudaMemory(
        97249, 97251, "device properties; banner; recorded nvidia-smi -q"
    ),
    # 47.23 GiB.
    "NVIDIA RTX PRO 5000 Blackwell": CudaMemory(48358, 48369, "log of vLLM 0.30.0 in a public report"),
    # 267.69 GiB; 287,428,771,840 bytes.
    "NVIDIA B300 SXM6 AC": CudaMemory(274109, 274120, "log of vLLM on 8 x B300 in a public report"),
    # 276.50 GiB.
    "NVIDIA GB300": CudaMemory(283130, 283142, "torchtitan and torch on GB300 in public logs"),
}
