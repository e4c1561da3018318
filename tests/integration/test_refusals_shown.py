# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every refusal, made to happen: tasks of roles and playbooks in one play, a host a case, without a node or a change;
codes by the tests that state them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.tests.refusals.codes import listed_tests, stated
from ansible_collections.gpufleet.sglang.tests.refusals.role_tasks import cases, said
from ansible_collections.gpufleet.sglang.tests.refusals.shown import codes_not_shown, task_not_shown


@pytest.fixture(name="shown", scope="module")
def _shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("refusals")
    return said(folder)


@pytest.mark.parametrize("name", sorted(cases()))
def test_a_task_refuses_with_these_words(name: str, shown: dict[str, dict[str, str]]) -> None:
    assert task_not_shown(cases()[name], shown.get(name)) is None


def test_each_code_is_stated_by_its_test_with_what_to_do(tmp_path: Path) -> None:
    assert codes_not_shown(stated(sorted(set(listed_tests().values())), tmp_path)) == []
