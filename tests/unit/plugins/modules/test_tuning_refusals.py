# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What a node does not let be changed, and what is said then."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning import node as node_file
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_reading import read_kernel_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.modules.kernel_arguments import write_menu
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.tuning.nodes import debian


def refused(task: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        task()
    return caught.value


def failing(status: int, says: str) -> Callable[..., tuple[int, str, str]]:
    return lambda *_words, **_options: (status, "", says)


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "etc").symlink_to("other")
    (tmp_path / "other").symlink_to("etc")
    refusal = refused(lambda: Node(tmp_path, failing(1, "")).path("/etc/fstab"))
    assert (refusal.code, refusal.message) == ("tuning_path_circle", "/etc is a circle of links.")
    assert refusal.remedy == "Correct these links."


def test_what_lies_in_the_place_of_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "unit").write_text("mine", encoding="utf-8")
    refusal = refused(lambda: Node(tmp_path, failing(1, "")).read("link", "/etc/unit"))
    assert (refusal.code, refusal.message) == ("tuning_no_link", "/etc/unit is there and no symbolic link.")
    assert "Expected a link, or nothing there" in refusal.remedy


def test_what_cannot_be_written_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("no folder", encoding="utf-8")
    refusal = refused(lambda: Node(tmp_path, failing(1, "")).write("link", "/etc/unit", "/dev/null"))
    assert refusal.code == "tuning_write_failed"
    assert refusal.message in (
        "/etc/unit could not be changed: Not a directory.",
        "/etc/unit could not be changed: File exists.",
    )
    assert "what was changed until here is recorded" in refusal.remedy


def test_a_command_that_fails_is_shown_with_what_it_said() -> None:
    # The root is this machine's own, and the command is not run.
    refusal = refused(
        lambda: Node(Path("/"), failing(32, "mount point not mounted\n")).write("shm", "/dev/shm", 2 << 30)
    )
    assert refusal.code == "tuning_command_failed"
    assert refusal.message == "'mount -o remount,size=2097152k /dev/shm' ended with 32: mount point not mounted."
    assert refusal.evidence["rc"] == 32


def test_two_runs_do_not_tune_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_file, "_LOCK_SECONDS", 0)
    record = "/var/lib/gpufleet/node_tuning.json"

    def second() -> None:
        with Node(tmp_path, failing(1, "")).locked(record):
            raise AssertionError

    with Node(tmp_path, failing(1, "")).locked(record):
        refusal = refused(second)
    assert refusal.code == "tuning_in_progress"
    assert refusal.message.startswith("Another run has been tuning this node for")
    assert f"lsof {tmp_path}/var/lib/gpufleet" in refusal.remedy


@pytest.mark.parametrize(
    ("status", "says", "code", "message", "remedy"),
    [
        (
            1,
            "Generating grub configuration file ...\n/etc/default/grub: 3: Syntax error: Unterminated quoted string",
            "kernel_menu_failed",
            "' ended with 1: /etc/default/grub: 3: Syntax error: Unterminated quoted string.",
            "the menu is written then",
        ),
        (
            0,
            "done",
            "kernel_arguments_not_in_menu",
            "' has written the menu, and the entry that boots next does not have iommu=pt.",
            "GRUB_CMDLINE_LINUX_DEFAULT",
        ),
    ],
)
def test_a_menu_is_believed_only_when_it_is_there_and_says_so(
    status: int, says: str, code: str, message: str, remedy: str, tmp_path: Path
) -> None:
    node = Node(debian(tmp_path), failing(status, says))
    facts = read_kernel_facts(node.tree)
    module: Any = SimpleNamespace(run_command=failing(status, says))
    plan: Any = SimpleNamespace(words=("iommu=pt", "quiet"))
    refusal = refused(lambda: write_menu(module, node, facts, plan))
    assert refusal.code == code
    assert refusal.message.endswith(message)
    assert remedy in refusal.remedy
