# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import (
    ExtraArguments,
    settle_extra_arguments,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts


def settle(given: dict[str, Any], release: str = "0.5.23", hicache: bool = True) -> ExtraArguments:
    return settle_extra_arguments(version_facts(release), given, hicache)


def refusal_of(given: dict[str, Any], release: str = "0.5.23") -> Refusal:
    with pytest.raises(Refusal) as refusal:
        settle(given, release)
    return refusal.value


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("mem_fraction_static", "extra_argument_owned"),
        ("--hicache-ratio", "extra_argument_owned"),
        ("tensor-parallel-size", "extra_argument_owned"),
        ("speculative-algorithm", "extra_argument_owned"),
        ("enable-dp-attention", "extra_argument_owned"),
        ("api-key", "secret_in_arguments"),
        ("ssl-keyfile-password", "secret_in_arguments"),
        ("max-total-tok", "extra_argument_shortened"),
        ("hicache-rat", "extra_argument_shortened"),
        ("schedule-pol", "extra_argument_shortened"),
        ("foo bar", "extra_argument_malformed"),
        ("a;b", "extra_argument_malformed"),
        ("hicache-storage-backend", "extra_argument_unplanned"),
        ("disaggregation-mode", "extra_argument_unplanned"),
        ("radix-cache-backend", "extra_argument_unplanned"),
        ("disable-radix-cache", "extra_argument_excludes_hicache"),
        ("dllm-algorithm", "extra_argument_excludes_hicache"),
        ("enable-int8-mamba-checkpoint", "extra_argument_excludes_hicache"),
        ("enable-flashinfer-mla", "extra_argument_absent"),
        ("shedule-policy", "extra_argument_absent"),
        *(
            (flag, "extra_argument_unplanned")
            for flag in (
                "json-model-override-args",
                "kt-method",
                "enable-weights-cpu-backup",
                "startup-weight-load-mode",
            )
        ),
    ],
)
def test_flags_that_undermine_the_plan_are_refused(flag: str, code: str) -> None:
    refusal = refusal_of({flag: "1"})
    assert refusal.code == code
    assert flag in refusal.message


@pytest.mark.parametrize("flag", ["enable-lora", "enable-symm-mem", "enable-eplb", "enable-two-batch-overlap"])
def test_flags_with_memory_of_their_own_pass_with_a_warning(flag: str) -> None:
    found = settle({flag: True})
    assert found.arguments == {flag: True}
    [warning] = found.problems
    assert (warning.code, warning.severity) == ("extra_argument_uncounted", "warning")
    assert flag in warning.message


def test_a_flag_that_a_release_takes_on_its_command_line_alone_is_refused() -> None:
    refusal = refusal_of({"lora-paths": "a=/srv/lora"}, "0.5.9")
    assert refusal.code == "extra_argument_not_in_file"
    assert refusal.message.startswith("extra_arguments holds lora-paths, which SGLang 0.5.9 takes on its command line")
    assert "a release that reads it" in refusal.remedy


@pytest.mark.parametrize("flag", ["enable-lora", "enable-memory-saver", "enable-weights-cpu-backup"])
def test_what_is_switched_off_is_as_planned(flag: str) -> None:
    found = settle({flag: False})
    assert (found.arguments, found.problems) == ({flag: False}, ())


def test_flags_of_no_concern_pass_in_their_own_spelling() -> None:
    found = settle({"--schedule_policy": "lpm", "trust-remote-code": True, "watchdog-timeout": 600, "log-level": None})
    assert found.arguments == {"schedule-policy": "lpm", "trust-remote-code": True, "watchdog-timeout": 600}
    assert found.problems == ()


def test_a_flag_of_an_older_release_that_nobody_weighed_passes_and_the_plan_says_so() -> None:
    found = settle({"enable-double-sparsity": True}, "0.5.9")
    assert found.arguments == {"enable-double-sparsity": True}
    (problem,) = found.problems
    assert (problem.code, problem.severity) == ("extra_argument_unweighed", "info")
    assert "enable-double-sparsity" in problem.message


def test_what_goes_with_no_host_tier_passes_without_one_or_when_off() -> None:
    assert settle({"disable-radix-cache": True}, hicache=False).arguments == {"disable-radix-cache": True}
    assert settle({"disable-radix-cache": False}).arguments == {"disable-radix-cache": False}


@pytest.mark.parametrize(
    ("release", "given", "expected"),
    [
        ("0.5.23", {"cuda-graph-max-bs": 64}, {"cuda-graph-max-bs-decode": 64}),
        ("0.5.19", {"cuda-graph-max-bs-decode": 64}, {"cuda-graph-max-bs": 64}),
        ("0.5.9", {"cuda-graph-bs-decode": [1, 2]}, {"cuda-graph-bs": [1, 2]}),
    ],
)
def test_renamed_flags_are_translated_and_the_plan_says_so(
    release: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = settle(given, release)
    assert found.arguments == expected
    (problem,) = found.problems
    assert (problem.code, problem.severity) == ("extra_argument_translated", "info")
    assert next(iter(given)) in problem.message
    assert next(iter(expected)) in problem.message


def test_the_same_setting_twice_is_refused() -> None:
    assert refusal_of({"cuda-graph-max-bs": 64, "cuda-graph-max-bs-decode": 32}).code == "extra_argument_twice"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"trust-remote-code": "yes"}, "extra_argument_malformed"),
        ({"schedule-policy": ["lpm", "fcfs"]}, "extra_argument_malformed"),
        ({"schedule-policy": "lpn"}, "choice_unknown"),
        ({"sampling-backend": "cutlass"}, "choice_unknown"),
    ],
)
def test_values_that_the_flag_does_not_take_are_refused(given: dict[str, Any], code: str) -> None:
    assert refusal_of(given).code == code


def test_a_choice_of_a_later_release_is_refused_by_name() -> None:
    assert settle({"schedule-policy": "routing-key"}).arguments == {"schedule-policy": "routing-key"}
    refusal = refusal_of({"schedule-policy": "routing-key"}, "0.5.3")
    assert refusal.code == "choice_unknown"
    assert "0.5.3" in refusal.message


def test_values_are_written_as_the_file_of_every_release_reads_them() -> None:
    found = settle(
        {"model-loader-extra-config": {"rope_scaling": None}, "preferred-sampling-params": '{"n": 1}'}, "0.5.3"
    )
    assert found.arguments == {
        "model-loader-extra-config": '{"rope_scaling": null}',
        "preferred-sampling-params": '{"n": 1}',
    }
