# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import (
    choices_of,
    flag_absence,
    has_flag,
    known_flags,
    lifetimes,
    taken_from_file,
    takes,
    translation,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, parse_version

OLD, NEW = parse_version("0.5.9"), parse_version("0.5.23")


def test_a_flag_is_there_from_its_first_release_to_its_last() -> None:
    assert [str(version) for version in EXAMINED if has_flag("disable-hicache-numa-detect", version)] == [
        "0.5.8",
        "0.5.9",
    ]
    assert all(has_flag("attention-backend", version) for version in EXAMINED)
    assert has_flag("numa-node", parse_version("0.5.2")) and not has_flag("numa-node", parse_version("0.5.1"))


def test_a_flag_that_was_away_in_between_has_two_lives() -> None:
    assert len(lifetimes("hierarchical-sparse-attention-extra-config")) == 2
    assert not has_flag("hierarchical-sparse-attention-extra-config", parse_version("0.5.10"))


def test_a_post_release_has_the_flags_of_what_it_amends() -> None:
    assert has_flag("disable-hicache-numa-detect", parse_version("0.5.9.post1"))


@pytest.mark.parametrize(
    ("flag", "release", "words"),
    [
        ("cuda-graph-max-bs", "0.5.20", ("ended with SGLang 0.5.19", "use cuda-graph-max-bs-decode")),
        ("cuda-graph-max-bs-decode", "0.5.9", ("begins with SGLang 0.5.14", "use cuda-graph-max-bs")),
        ("enable-flashinfer-cutlass-moe", "0.5.23", ("ended", "moe-runner-backend: flashinfer_cutlass")),
        ("disable-piecewise-cuda-graph", "0.5.20", ("ended", "cuda-graph-backend-prefill: disabled")),
        ("shedule-policy", "0.5.23", ("no release", "the closest is schedule-policy")),
    ],
)
def test_absence_names_the_release_and_what_to_use(flag: str, release: str, words: tuple[str, ...]) -> None:
    said = flag_absence(flag, parse_version(release))
    assert said is not None
    for word in words:
        assert word in said


def test_what_is_there_is_not_absent() -> None:
    assert flag_absence("cuda-graph-max-bs", parse_version("0.5.19")) is None
    assert flag_absence("schedule-policy", OLD) is None


@pytest.mark.parametrize(
    ("flag", "value", "release", "expected"),
    [
        ("cuda-graph-max-bs", 64, "0.5.20", {"cuda-graph-max-bs-decode": 64}),
        ("cuda-graph-max-bs-decode", 64, "0.5.9", {"cuda-graph-max-bs": 64}),
        # There, but its deprecated alias keeps it out of the file.
        ("cuda-graph-max-bs-decode", 64, "0.5.19", {"cuda-graph-max-bs": 64}),
        ("mamba-scheduler-strategy", "extra_buffer", "0.5.23", {"mamba-radix-cache-strategy": "extra_buffer"}),
        ("max-micro-batch-size", 4, "0.5.23", {"pp-max-micro-batch-size": 4}),
        ("pp-max-micro-batch-size", 4, "0.5.3", {"max-micro-batch-size": 4}),
        (
            "disable-cuda-graph",
            True,
            "0.5.23",
            {"cuda-graph-backend-decode": "disabled", "cuda-graph-backend-prefill": "disabled"},
        ),
        ("disable-cuda-graph", False, "0.5.23", {}),
        ("disable-cuda-graph", True, "0.5.14", None),
        ("enable-flashinfer-mla", True, "0.5.23", None),
        ("schedule-policy", "lpm", "0.5.23", None),
    ],
)
def test_renamed_flags_are_translated_where_they_mean_the_same(
    flag: str, value: object, release: str, expected: dict[str, object] | None
) -> None:
    found = translation(flag, value, parse_version(release))
    assert found == expected
    assert all(taken_from_file(name, parse_version(release)) for name in found or ())


def test_what_a_flag_takes() -> None:
    assert [takes(flag) for flag in ("trust-remote-code", "schedule-policy", "cuda-graph-bs-decode")] == [
        "nothing",
        "value",
        "list",
    ]


def test_choices_follow_the_release() -> None:
    assert "hpc_ops" not in (choices_of("attention-backend", OLD) or ())
    assert "triton" in (choices_of("attention-backend", OLD) or ())
    assert choices_of("model-path", NEW) is None
    assert "page_head" not in (choices_of("hicache-mem-layout", parse_version("0.5.5")) or ())


def test_flags_that_begin_alike_are_those_of_the_release() -> None:
    assert "cuda-graph-max-bs" in known_flags(OLD, "cuda-graph-max")
    assert "cuda-graph-max-bs" not in known_flags(NEW, "cuda-graph-max")
