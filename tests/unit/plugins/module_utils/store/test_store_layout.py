# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, job_from_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import (
    check_name,
    job_key,
    place_of,
    revision_of,
    suggested_name,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source


@pytest.mark.parametrize("root", ["", "/", "models", "/srv/../etc"])
def test_a_root_that_is_none_is_refused(root: str) -> None:
    with pytest.raises(Refusal) as refused:
        place_of(root, "tiny")
    assert refused.value.code == "store_root_invalid"


@pytest.mark.parametrize(
    ("name", "better"),
    [("Qwen/Qwen3-32B", "Qwen3-32B"), ("..", "Qwen3-32B"), ("a b", "a-b"), ("current", "Qwen3-32B"), (".x", "x")],
)
def test_a_name_that_leaves_the_store_is_refused_with_one_that_does_not(name: str, better: str) -> None:
    with pytest.raises(Refusal, match=better):
        check_name("name", name)
    check_name("name", suggested_name(name))


def test_a_part_of_a_revision_is_another_folder_than_the_revision() -> None:
    assert revision_of("v1", "f" * 64, [], []) == "v1"
    assert revision_of(None, "f" * 64, [], []) == "f" * 16
    parts = {
        revision_of("v1", "f" * 64, include, exclude) for include, exclude in ([["a"], []], [[], ["a"]], [[], ["b"]])
    }
    assert len(parts) == 3
    assert all(part.startswith("v1-") for part in parts)


def test_another_source_of_the_same_revision_goes_on_with_what_the_first_has_fetched() -> None:
    place = place_of("/srv/models", "tiny")
    assert job_key(place, "v1", None, "http://a", [], []) == job_key(place, "v1", None, "http://b", [], [])
    assert job_key(place, None, None, "http://a", [], []) != job_key(place, None, None, "http://b", [], [])
    assert job_key(place, "v1", None, "", [], ["x"]) != job_key(place, "v1", None, "", [], [])


def test_a_job_is_handed_over_whole() -> None:
    job = Job("/srv/models", "tiny", "v1", source=Source("hub", ("https://a",), "org/tiny"), exclude=("*.bin",))
    assert job_from_dict(job.as_dict()) == job
    assert job_from_dict(Job("/srv/models", "tiny").as_dict()) == Job("/srv/models", "tiny")
