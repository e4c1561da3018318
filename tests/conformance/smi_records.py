# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What C(nvidia-smi -q -x) printed of one GPU, as a machine file of the NVML stand-in."""

import xml.etree.ElementTree as xml
from collections.abc import Iterator

MIB = 1 << 20
ARCHITECTURES = {"Turing": 6, "Ampere": 7, "Ada Lovelace": 8}
VIRTUALIZATION = {"None": "NONE", "Pass-Through": "PASSTHROUGH"}
# Of a setting that the board lacks nvidia-smi prints one of these.
ABSENT = (None, "N/A", "[N/A]", "")


def text_of(gpu: xml.Element, path: str) -> str | None:
    found = gpu.findtext(path)
    return None if found in ABSENT else found


def mib(text: str | None) -> int | None:
    """C(81920 MiB) -> bytes."""
    return None if text is None else int(text.split()[0]) * MIB


def on(text: str | None) -> bool | None:
    return None if text is None else text in ("Enabled", "Yes")


def pair(gpu: xml.Element, now: str, later: str) -> tuple[bool, bool] | None:
    current, pending = on(text_of(gpu, now)), on(text_of(gpu, later))
    return None if current is None or pending is None else (current, pending)


def number(text: str | None) -> int | None:
    """C(16x), C(P8), C(65 %) and C(4) -> the number."""
    digits = "".join(filter(str.isdigit, text or ""))
    return int(digits) if digits else None


def processes(gpu: xml.Element) -> list[tuple[int, str, str, int | None]]:
    """Process id, kind (C, G or both), name and bytes."""
    return [
        (
            int(entry.findtext("pid") or 0),
            entry.findtext("type") or "",
            entry.findtext("process_name") or "",
            mib(text_of(entry, "used_memory")),
        )
        for entry in gpu.findall("processes/process_info")
    ]


def _facts(gpu: xml.Element) -> Iterator[tuple[str, object]]:
    link = "pci/pci_gpu_link_info"
    yield "name", text_of(gpu, "product_name")
    yield "uuid", text_of(gpu, "uuid")
    yield "address", text_of(gpu, "pci/pci_bus_id")
    yield "minor", text_of(gpu, "minor_number")
    yield "architecture", ARCHITECTURES.get(text_of(gpu, "product_architecture") or "")
    yield "persistence", {True: 1, False: 0}.get(on(text_of(gpu, "persistence_mode")) or False)
    yield "compute_mode", {"Default": 0}.get(text_of(gpu, "compute_mode") or "")
    yield "performance_state", number(text_of(gpu, "performance_state"))
    yield "virtualization", VIRTUALIZATION.get(gpu.findtext("gpu_virtualization_mode/virtualization_mode") or "")
    for key in ("total", "reserved", "used"):
        yield f"memory_{key}", mib(text_of(gpu, f"fb_memory_usage/{key}"))
    yield "pcie_generation", number(text_of(gpu, f"{link}/pcie_gen/current_link_gen"))
    yield "pcie_generation_max", number(text_of(gpu, f"{link}/pcie_gen/max_link_gen"))
    yield "pcie_generation_gpu_max", number(text_of(gpu, f"{link}/pcie_gen/max_device_link_gen"))
    yield "pcie_width", number(text_of(gpu, f"{link}/link_widths/current_link_width"))
    yield "pcie_width_max", number(text_of(gpu, f"{link}/link_widths/max_link_width"))
    load = number(text_of(gpu, "utilization/gpu_util"))
    yield "utilization", None if load is None else f"{load} 0"
    for key, modes in (
        ("ecc", pair(gpu, "ecc_mode/current_ecc", "ecc_mode/pending_ecc")),
        ("mig", pair(gpu, "mig_mode/current_mig", "mig_mode/pending_mig")),
    ):
        yield key, None if modes is None else f"{int(modes[0])} {int(modes[1])}"
    rows = [text_of(gpu, f"remapped_rows/remapped_row_{key}") for key in ("corr", "unc", "pending", "failure")]
    if rows[0] is not None:
        yield "remapped_rows", f"{rows[0]} {rows[1]} {int(rows[2] == 'Yes')} {int(rows[3] == 'Yes')}"
    slices = gpu.findall("mig_devices/mig_device")
    if slices:
        yield "mig_devices_max", 7
    for place, one in enumerate(slices):
        ids = f"{one.findtext('gpu_instance_id')} {one.findtext('compute_instance_id')}"
        yield f"mig.{place}", f"MIG-{place} {ids} {mib(one.findtext('fb_memory_usage/total'))} slice {place}"
    for key, letter in (("processes", "C"), ("graphics_processes", "G")):
        listed = [f"{pid}:{size}" for pid, kind, _name, size in processes(gpu) if letter in kind]
        yield key, ",".join(listed) or None


def machine_file(log: xml.Element) -> str:
    """The GPU of the log as GPU 0 of a machine."""
    gpu = log.find("gpu")
    assert gpu is not None
    major, minor = (int(part) for part in (log.findtext("cuda_version") or "0.0").split("."))
    lines = ["[system]", f"driver_version = {log.findtext('driver_version')}", "nvml_version = 0"]
    lines += [f"cuda_version = {major * 1000 + minor * 10}"]
    lines += [f"process.{pid} = {name.split()[0]}" for pid, _kind, name, _size in processes(gpu)]
    lines += ["", "[gpu 0]", *(f"{key} = {value}" for key, value in _facts(gpu) if value is not None)]
    return "\n".join(lines) + "\n"
