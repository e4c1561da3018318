# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version as PythonVersion

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    EXAMINED,
    meter_of,
    parse_version,
    version_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.grammar import (
    grammar_is_read,
    grammar_of,
    grammar_read_as,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.result import release_problems


def test_releases_sort_by_phase() -> None:
    texts = ["0.5.0", "0.4.10", "0.5.0rc2", "0.4.9", "0.5.0.post1", "0.5.10", "0.5.9"]
    ordered = sorted(parse_version(text) for text in texts)
    assert [str(version) for version in ordered] == [
        "0.4.9",
        "0.4.10",
        "0.5.0rc2",
        "0.5.0",
        "0.5.0.post1",
        "0.5.9",
        "0.5.10",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0.5",
        "vv0.5.9",
        "0.5.9-dev",
        "latest",
        "nightly-dev-20260101-1a2b3c4",
        "0.5.23.1",
        "0.5.9rc",
        "0.5.9.dev",
        "0.5.9+",
        "0.5.9-windows",
        "0.5.9\n0.5.10",
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refusal:
        parse_version(text)
    assert refusal.value.code == "sglang_version_malformed"
    assert text in refusal.value.message


# Every post release and release candidate of the releases that were read, as PyPI lists them.
PUBLISHED = (
    "0.4.7.post1 0.4.8.post1 0.4.9.post1 0.4.9.post2 0.4.9.post3 0.4.9.post4 0.4.9.post5 0.4.9.post6 0.4.10.post1 "
    "0.4.10.post2 0.5.0rc0 0.5.0rc1 0.5.0rc2 0.5.1.post1 0.5.1.post2 0.5.1.post3 0.5.2rc0 0.5.2rc1 0.5.2rc2 0.5.3rc0 "
    "0.5.3rc2 0.5.3.post1 0.5.3.post2 0.5.3.post3 0.5.4.post1 0.5.4.post2 0.5.4.post3 0.5.5.post1 0.5.5.post2 "
    "0.5.5.post3 0.5.6.post1 0.5.6.post2 0.5.8.post1 0.5.10rc0 0.5.10.post1 0.5.12.post1 0.5.13.post1 0.5.15.post1"
)


def test_all_published_forms_are_understood_and_ordered_as_pep_440_has_it() -> None:
    texts = [*PUBLISHED.split(), *map(str, EXAMINED), "0.5.24.dev3", "0.5.6.post1.dev7", "0.5.3rc2.dev1", "0.5.24"]
    assert sorted(texts, key=parse_version) == sorted(texts, key=PythonVersion)
    assert [str(parse_version(text)) for text in texts] == texts


@pytest.mark.parametrize("text", [text for text in PUBLISHED.split() if ".post" in text])
def test_a_post_release_is_planned_as_what_it_amends_with_a_warning(text: str) -> None:
    facts, amended = version_facts(text), version_facts(text.partition(".post")[0])
    assert replace(facts, version=amended.version, examined=True, exact=amended.exact) == amended
    # What is not exact is told by the plan (version_not_verified).
    assert not facts.exact
    assert (grammar_is_read(text), grammar_read_as(text)) == (False, str(amended.version))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v0.5.9", "0.5.9"),
        ("v0.5.9-cu130", "0.5.9"),
        ("v0.5.10.post1-cu129-amd64", "0.5.10.post1"),
        ("v0.5.6-rocm700-mi35x", "0.5.6"),
        ("v0.5.9-cann8.5.0-a3", "0.5.9"),
        ("0.5.23+cu129", "0.5.23"),
        ("0.5.24.dev20260101+g1234", "0.5.24.dev20260101"),
        ("0.5.6.post3.dev12+gabc.d20251201", "0.5.6.post3.dev12"),
    ],
)
def test_tags_of_images_and_builds_are_understood(text: str, version: str) -> None:
    assert parse_version(text) == parse_version(version)
    assert str(parse_version(text)) == version


@pytest.mark.parametrize(
    ("text", "meter", "lines"),
    [
        ("0.5.24.dev20260101+g1234", "shmem", "0.5.23"),
        ("0.5.13.dev5", "shmem", "0.5.13"),
        ("0.5.5.dev1", "anon", "0.5.5"),
        ("0.5.5.post4.dev1", "anon", "0.5.5"),
        ("0.5.10.post1", "anon", "0.5.10"),
    ],
)
def test_a_build_is_watched_as_the_release_that_it_leads_to(text: str, meter: str, lines: str) -> None:
    assert (meter_of(text), grammar_is_read(text), grammar_read_as(text)) == (meter, False, lines)
    assert grammar_of(text).rows == grammar_of(lines).rows
    assert [problem["code"] for problem in release_problems(text)] == ["release_not_read"]


@pytest.mark.parametrize(
    ("text", "closest"),
    [("0.5.24.dev1", "0.5.23"), ("0.5.20.dev1", "0.5.20"), ("0.5.10.post1.dev2", "0.5.11")],
)
def test_a_build_between_releases_is_not_planned(text: str, closest: str) -> None:
    with pytest.raises(Refusal) as refusal:
        version_facts(text)
    assert (refusal.value.code, refusal.value.evidence["closest"]) == ("sglang_version_unknown", closest)
    assert f"plan for {closest} if you know" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "closest"), [("0.6.0", "0.5.23"), ("0.5.24", "0.5.23"), ("0.5.0", "0.5.1"), ("0.4.6", "0.4.7")]
)
def test_unknown_release_is_refused_with_the_range(text: str, closest: str) -> None:
    with pytest.raises(Refusal) as refusal:
        version_facts(text)
    assert refusal.value.code == "sglang_version_unknown"
    assert refusal.value.evidence["closest"] == closest
    assert "0.4.7 to 0.5.23" in str(refusal.value)


def test_post_release_has_the_facts_of_what_it_amends() -> None:
    facts = version_facts("0.5.3.post1")
    assert (facts.examined, facts.exact, facts.guard) == (False, False, "A")


# Read from the wheels: memory_pool_host.py, pool_host/base.py, environ.py, tokenizer_manager.py, http_server.py.
@pytest.mark.parametrize(
    ("text", "guard", "meter", "padding", "fatal", "layout", "numa", "clean_stop"),
    [
        ("0.4.7", "A", "available", False, True, None, "none", ("SIGKILL",)),
        ("0.5.4", "A", "available", False, True, "layer_first", "none", ("SIGKILL",)),
        ("0.5.5", "A", "anon", False, True, "layer_first", "none", ("SIGKILL",)),
        ("0.5.6", "A", "anon", True, True, "layer_first", "none", ("SIGKILL",)),
        ("0.5.9", "A", "anon", True, True, "layer_first", "preferred", ("SIGKILL",)),
        ("0.5.12", "A", "anon", True, True, "layer_first", "strict", ("SIGKILL",)),
        ("0.5.13", "A", "shmem", True, True, "layer_first", "strict", ("SIGKILL",)),
        ("0.5.14", "A", "shmem", True, True, "page_first", "strict", ("SIGKILL",)),
        ("0.5.15", "A", "shmem", True, False, "page_first", "strict", ("SIGKILL",)),
        ("0.5.18", "A", "shmem", True, False, "page_first", "strict", ("SIGKILL",)),
        ("0.5.19", "B", "shmem", True, False, "page_first", "strict", ()),
        ("0.5.20", "B", "shmem", True, False, "page_first", "strict", ()),
        ("0.5.21", "D", "shmem", True, False, "page_first", "strict", ()),
        ("0.5.23", "D", "shmem", True, False, "page_first", "strict", ()),
    ],
)
def test_facts_change_where_the_source_did(
    text: str,
    guard: str,
    meter: str,
    padding: bool,
    fatal: bool,
    layout: str | None,
    numa: str,
    clean_stop: tuple[str, ...],
) -> None:
    facts = version_facts(text)
    found = (
        facts.guard,
        facts.meter,
        facts.padding_page,
        facts.smaller_than_device_is_fatal,
        facts.default_mem_layout,
        facts.numa_binding,
        facts.clean_stop_exit_statuses,
    )
    assert found == (guard, meter, padding, fatal, layout, numa, clean_stop)


# Read from the wheels: utils/common.py, utils/numa_utils.py, managers/scheduler.py, mem_cache/hiradix_cache.py.
@pytest.mark.parametrize(
    ("text", "by_itself", "by_flag", "softened_by", "switched_off_by"),
    [
        ("0.5.1", "none", "none", (), ()),
        ("0.5.2", "none", "preferred", (), ()),
        ("0.5.5", "none", "preferred", (), ()),
        ("0.5.6", "none", "strict", ("SGLANG_NUMA_BIND_V2",), ()),
        ("0.5.8", "preferred", "strict", ("SGLANG_NUMA_BIND_V2",), ()),
        ("0.5.10", "strict", "strict", ("SGLANG_NUMA_BIND_V2",), ()),
        ("0.5.17", "strict", "strict", ("SGLANG_NUMA_BIND_V2",), ()),
        ("0.5.18", "strict", "strict", ("SGLANG_NUMA_BIND_V2",), ("SGLANG_AUTO_NUMA_BIND",)),
        ("0.5.23", "strict", "strict", ("SGLANG_NUMA_BIND_V2",), ("SGLANG_AUTO_NUMA_BIND",)),
    ],
)
def test_numa_binding_and_its_switches_follow_the_release(
    text: str, by_itself: str, by_flag: str, softened_by: tuple[str, ...], switched_off_by: tuple[str, ...]
) -> None:
    facts = version_facts(text)
    assert (facts.numa_binding, facts.numa_flag_binding) == (by_itself, by_flag)
    assert tuple(name for name, _value in facts.numa_preferred_environment) == softened_by
    assert tuple(name for name, _value in facts.numa_off_environment) == switched_off_by


def test_write_policy_and_fraction_follow_the_release() -> None:
    assert version_facts("0.5.1").default_write_policy == "write_through_selective"
    assert version_facts("0.5.2").default_write_policy == "write_through"
    assert version_facts("0.5.20").default_host_memory_fraction is None
    assert version_facts("0.5.21").default_host_memory_fraction == 0.8


def test_every_examined_release_has_facts() -> None:
    for version in EXAMINED:
        facts = version_facts(str(version))
        assert facts.version == version
        assert facts.default_mem_layout is None or facts.default_mem_layout in facts.mem_layouts
        assert facts.default_io_backend is None or facts.default_io_backend in facts.io_backends
        assert facts.default_write_policy in facts.write_policies
