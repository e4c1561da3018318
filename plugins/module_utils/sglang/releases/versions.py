# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between SGLang releases, as data.

Every table below is read from the wheels on PyPI; the file behind each is named beside it. A value holds
from the release it stands with up to the release of the next row. Nothing outside this folder compares versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

T = TypeVar("T")

# As on PyPI, as setuptools-scm names builds between releases, and as the tags of images have it (lmsysorg/sglang), with
# the platform behind it. What follows a "+" tells builds of one version apart.
_FORM = re.compile(
    r"v?(\d+)\.(\d+)\.(\d+)(?:(rc|\.post)(\d+))?(?:\.dev(\d+))?(?:\+[a-z\d]+(?:[.-][a-z\d]+)*)?"
    r"(?:-(?:cu\d+|rocm[\d.]*|mi\d+x?|cann[\d.]+|(?:a2|a3|910b)|npu|xpu|xeon|b200|gb200|amd64|arm64|runtime))*"
)
_DEVELOPMENT = -2
_PHASES = {"rc": -1, None: 0, ".post": 1}


@dataclass(frozen=True, order=True)
class Version:
    """A release of SGLang, or a build between releases, in the order of PEP 440 and the forms that SGLang uses.

    C(0.5.0.dev1) < C(0.5.0rc2.dev1) < C(0.5.0rc2) < C(0.5.0) < C(0.5.0.post1.dev1) < C(0.5.0.post1).
    C(final): no development build; of one, C(build) is its number.
    """

    major: int
    minor: int
    patch: int
    phase: int = 0  # -2 development, -1 release candidate, 0 release, 1 post release
    number: int = 0
    final: bool = True
    build: int = 0

    def __str__(self) -> str:
        suffix = {-2: "", -1: f"rc{self.number}", 0: "", 1: f".post{self.number}"}[self.phase]
        return f"{self.major}.{self.minor}.{self.patch}{suffix}{'' if self.final else f'.dev{self.build}'}"

    @property
    def base(self) -> Version:
        """The release that a post release amends, and that a development build leads to."""
        return Version(self.major, self.minor, self.patch)

    @property
    def read_as(self) -> Version:
        """What tables are asked for: a build on the way to a release has most of what that one has."""
        return self.base if self.phase == _DEVELOPMENT else self


def parse_version(text: str) -> Version:
    """C("0.5.9") -> Version; anything that is not a version of SGLang in form is refused."""
    match = _FORM.fullmatch(str(text).strip())
    if match is None:
        raise Refusal(
            "sglang_version_malformed",
            f"sglang_version is '{text}', which is not a version number.",
            "Expected a form like 0.5.23, 0.5.0rc2, 0.4.6.post5, 0.5.24.dev12+g1a2b3c4 or v0.5.23-cu130 "
            "(quoted, so that YAML keeps it a string).",
            {"sglang_version": str(text)},
        )
    major, minor, patch, phase, number, build = match.groups()
    place = _DEVELOPMENT if build and not phase else _PHASES[phase]
    return Version(int(major), int(minor), int(patch), place, int(number or 0), build is None, int(build or 0))


# The rows of the tables are asked for time and again, hundreds of times a plan.
@cache
def _v(text: str) -> Version:
    return parse_version(text)


# Releases whose wheels were read. PyPI has 0.5.0rc2 but no 0.5.0.
_EXAMINED = (
    "0.4.7 0.4.8 0.4.9 0.4.10 0.5.0rc2 0.5.1 0.5.2 0.5.3 0.5.4 0.5.5 0.5.6 0.5.7 0.5.8 0.5.9 0.5.10 0.5.11 "
    "0.5.12 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22 0.5.23"
)
EXAMINED: tuple[Version, ...] = tuple(_v(text) for text in _EXAMINED.split())
OLDEST, NEWEST = EXAMINED[0], EXAMINED[-1]
# Releases whose real argument resolver and pools these formulas were held against (tests/conformance).
EXACT: frozenset[Version] = frozenset({_v("0.5.9"), _v("0.5.23")})


@dataclass(frozen=True)
class VersionFacts:
    """Everything about one release that a plan, a unit or a waiter depends on."""

    version: Version
    exact: bool
    examined: bool
    guard: str  # "A", "B" or "D", see guard table
    guard_reserve_bytes: int  # what the guard leaves to the rest of the machine
    host_allocation: str  # "torch_pinned" | "registered_private" | "registered_shared_mmap"
    meter: str  # where pinned bytes show: "available" | "anon" | "shmem"
    padding_page: bool  # the host pool gets one page more than asked
    smaller_than_device_is_fatal: bool
    default_ratio: float
    auto_sizes_host_pool: bool  # has --hicache-host-memory-fraction
    default_host_memory_fraction: float | None
    io_backends: tuple[str, ...]
    default_io_backend: str | None
    mem_layouts: tuple[str, ...]
    default_mem_layout: str | None
    write_policies: tuple[str, ...]
    default_write_policy: str
    prefetch_policy: str | None
    kv_cache_dtypes: tuple[str, ...]
    numa_binding: str  # what the server does by itself: "none" | "preferred" | "strict"
    numa_flag_binding: str  # what --numa-node makes it do, "none" where there is no such flag
    numa_preferred_environment: tuple[tuple[str, str], ...]  # turns strict binding into a wish; empty: cannot be had
    numa_off_environment: tuple[tuple[str, str], ...]  # keeps the server from binding by itself; empty: cannot be had
    reads_config_file: bool
    clean_stop_exit_statuses: tuple[str, ...]  # what systemd has to count as success beside 0
    multimodal_reservation_bytes: int  # taken off the KV budget of models with a vision tower


# mem_cache/memory_pool_host.py, mem_cache/pool_host/base.py
# A: one rank's request against machine-wide MemAvailable less 10 GiB.
# B: (MemAvailable less 10 GiB) // ranks on the host, sampled live by each pool.
# D: auto-sizing books pools against one snapshot per rank; an explicit ratio or size is checked like B, both under
#    the cgroup's memory.max and memory.high.
_GUARD = (("0.4.7", "A"), ("0.5.19", "B"), ("0.5.21", "D"))
GUARD_RESERVE_BYTES = 10 * (1 << 30)

# mem_cache/memory_pool_host.py, mem_cache/mmap_allocator.py
_HOST_ALLOCATION = (
    ("0.4.7", "torch_pinned"),
    ("0.5.5", "registered_private"),
    ("0.5.13", "registered_shared_mmap"),
)
_METER = {"torch_pinned": "available", "registered_private": "anon", "registered_shared_mmap": "shmem"}

# HostKVCache.__init__: rounded down to whole pages before, `size // page_size + 1` pages from 0.5.6.
_PADDING_PAGE = (("0.4.7", False), ("0.5.6", True))
# An assertion "host memory should be larger than the device memory", a warning from 0.5.15.
_SMALLER_IS_FATAL = (("0.4.7", True), ("0.5.15", False))

# server_args.py, arg_groups/fields
_IO_BACKENDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ()),
    ("0.4.10", ("direct", "kernel")),
    ("0.5.6", ("direct", "kernel", "kernel_ascend")),
)
_DEFAULT_IO_BACKEND: tuple[tuple[str, str | None], ...] = (("0.4.7", None), ("0.5.0rc2", "kernel"))
_MEM_LAYOUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ()),
    ("0.5.0rc2", ("layer_first", "page_first")),
    ("0.5.3", ("layer_first", "page_first", "page_first_direct")),
    ("0.5.6", ("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head")),
)
_DEFAULT_MEM_LAYOUT: tuple[tuple[str, str | None], ...] = (
    ("0.4.7", None),
    ("0.5.0rc2", "layer_first"),
    ("0.5.14", "page_first"),
)
WRITE_POLICIES = ("write_back", "write_through", "write_through_selective")
_DEFAULT_WRITE_POLICY = (("0.4.7", "write_through_selective"), ("0.5.2", "write_through"))
_PREFETCH_POLICY: tuple[tuple[str, str | None], ...] = (
    ("0.4.7", None),
    ("0.5.0rc2", "best_effort"),
    ("0.5.12", "timeout"),
)
_KV_CACHE_DTYPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.4.7", ("auto", "fp8_e5m2", "fp8_e4m3")),
    ("0.5.4", ("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16")),
    ("0.5.5", ("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1")),
    (
        "0.5.16",
        ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16", "fp4_e2m1"),
    ),
    ("0.5.21", ("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16")),
)
# 2.0 throughout; from 0.5.18 the flag itself defaults to None and is resolved to 2.0, from 0.5.21 as an upper bound.
DEFAULT_RATIO = 2.0
_HOST_MEMORY_FRACTION: tuple[tuple[str, float | None], ...] = (("0.4.7", None), ("0.5.21", 0.8))

# utils/numa_utils.py (numactl --membind, strict) and mem_cache/hiradix_cache.py of 0.5.8 and 0.5.9 (numa_set_preferred,
# a wish that the kernel may not fulfil). environ.py has SGLANG_AUTO_NUMA_BIND from 0.5.10, off by default to 0.5.17;
# nothing reads it before 0.5.18, so that those releases bind all the same.
_NUMA_BINDING = (("0.4.7", "none"), ("0.5.8", "preferred"), ("0.5.10", "strict"))
# server_args.py numa_node; utils/common.py numa_bind_to_node (numa_run_on_node and the kernel's own, local choice of
# memory) before utils/numa_utils.py configure_subprocess (numactl --cpunodebind --membind) came with 0.5.6.
_NUMA_FLAG_BINDING = (("0.4.7", "none"), ("0.5.2", "preferred"), ("0.5.6", "strict"))
# Without SGLANG_NUMA_BIND_V2 the scheduler binds itself through libnuma instead: its CPUs, and memory by preference.
_NUMA_PREFERRED: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("0.4.7", ()),
    ("0.5.6", (("SGLANG_NUMA_BIND_V2", "false"),)),
)
_NUMA_OFF: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("0.4.7", ()),
    ("0.5.18", (("SGLANG_AUTO_NUMA_BIND", "false"),)),
)

# server_args_config_parser.py
_CONFIG_FILE = (("0.4.7", False), ("0.5.3", True))

# managers/tokenizer_manager.py: to 0.5.18 a drained server ends itself with SIGKILL.
_CLEAN_STOP: tuple[tuple[str, tuple[str, ...]], ...] = (("0.4.7", ("SIGKILL",)), ("0.5.19", ()))

# metrics/collector.py, later observability/metrics_collector.py: sglang:hicache_host_total_tokens
_HOST_GAUGE = (("0.4.7", False), ("0.5.10", True))

# mem_cache/kv_cache_configurator.py mm_runtime_reservation_gb: SGLANG_VLM_CACHE_SIZE_MB, 100 MiB by default.
_MULTIMODAL_RESERVATION = (("0.4.7", 0), ("0.5.18", 100 << 20))


def value_at(history: Sequence[tuple[str, T]], version: Version) -> T:
    """The value of the last row that is not newer than C(version)."""
    value = history[0][1]
    version = version.read_as
    for since, candidate in history:
        if _v(since) <= version:
            value = candidate
    return value


def version_facts(text: str) -> VersionFacts:
    """Facts of one release; a release that was not read is refused by name."""
    version = parse_version(text)
    amends = version.base if version.phase == 1 and version.final else version
    if amends not in EXAMINED:
        closest = next((known for known in EXAMINED if known >= version), NEWEST)
        raise Refusal(
            "sglang_version_unknown",
            f"SGLang {version} is not known to this collection.",
            f"Known releases are {OLDEST} to {NEWEST} as published on PyPI (there is no 0.5.0); "
            f"the closest is {closest}. "
            + (
                "A newer release needs a newer gpufleet.sglang."
                if version.final
                else f"A build between releases may differ from both; plan for {closest} if you know that it does not."
            ),
            {
                "sglang_version": str(version),
                "oldest": str(OLDEST),
                "newest": str(NEWEST),
                "closest": str(closest),
            },
        )
    allocation = value_at(_HOST_ALLOCATION, version)
    fraction = value_at(_HOST_MEMORY_FRACTION, version)
    return VersionFacts(
        version=version,
        exact=version in EXACT,
        examined=version in EXAMINED,
        guard=value_at(_GUARD, version),
        guard_reserve_bytes=GUARD_RESERVE_BYTES,
        host_allocation=allocation,
        meter=_METER[allocation],
        padding_page=value_at(_PADDING_PAGE, version),
        smaller_than_device_is_fatal=value_at(_SMALLER_IS_FATAL, version),
        default_ratio=DEFAULT_RATIO,
        auto_sizes_host_pool=fraction is not None,
        default_host_memory_fraction=fraction,
        io_backends=value_at(_IO_BACKENDS, version),
        default_io_backend=value_at(_DEFAULT_IO_BACKEND, version),
        mem_layouts=value_at(_MEM_LAYOUTS, version),
        default_mem_layout=value_at(_DEFAULT_MEM_LAYOUT, version),
        write_policies=WRITE_POLICIES,
        default_write_policy=value_at(_DEFAULT_WRITE_POLICY, version),
        prefetch_policy=value_at(_PREFETCH_POLICY, version),
        kv_cache_dtypes=value_at(_KV_CACHE_DTYPES, version),
        numa_binding=value_at(_NUMA_BINDING, version),
        numa_flag_binding=value_at(_NUMA_FLAG_BINDING, version),
        numa_preferred_environment=value_at(_NUMA_PREFERRED, version),
        numa_off_environment=value_at(_NUMA_OFF, version),
        reads_config_file=value_at(_CONFIG_FILE, version),
        clean_stop_exit_statuses=value_at(_CLEAN_STOP, version),
        multimodal_reservation_bytes=value_at(_MULTIMODAL_RESERVATION, version),
    )


def meter_of(text: str) -> str:
    """Where pinned bytes show, also for a release that was not read: there as in the newest one before it."""
    return _METER[value_at(_HOST_ALLOCATION, parse_version(text))]


def has_host_gauge(text: str) -> bool:
    """Whether the server tells the size of its host tier; a release that was not read does if the newest one does."""
    return value_at(_HOST_GAUGE, parse_version(text))
