# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The script that puts values into force at boot, run by a real shell on a folder."""

import subprocess
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.boot_files import SCRIPT_TEXT, boot_items
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import text_of


def run(tmp_path: Path, lines: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    script, values = tmp_path / "node-values", tmp_path / "list"
    script.write_text(SCRIPT_TEXT)
    values.write_text(lines)
    return subprocess.run(["/bin/sh", script, values], check=False, capture_output=True, text=True, env={"PATH": path})


def test_each_value_is_written_and_comments_are_not(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("never\n")
    two.write_text("0\n")
    done = run(tmp_path, f"# head\n\n{one} madvise\n{two} 7\n{tmp_path}/gone 1\n")
    assert (done.returncode, one.read_text(), two.read_text()) == (0, "madvise\n", "7\n")
    assert done.stderr == f"<4>{tmp_path}/gone is not there\n"
    assert not (tmp_path / "gone").exists()


def test_huge_pages_that_do_not_come_fail_the_unit_with_both_figures(tmp_path: Path) -> None:
    pages = tmp_path / "nr_hugepages"
    # What is written is not what is read, as with a kernel that finds no pages.
    pages.symlink_to("/dev/null")
    after = tmp_path / "after"
    after.write_text("0\n")
    done = run(tmp_path, f"{pages} 8\n{after} 1\n")
    assert (done.returncode, after.read_text()) == (1, "1\n")
    assert done.stderr == f"<3>{pages}: 0 of 8 huge pages came; the memory is fragmented or in use\n"


def test_acs_is_left_to_setpci(tmp_path: Path) -> None:
    program = tmp_path / "setpci"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n[ "$2" != 0000:19:04.0 ]\n')
    program.chmod(0o755)
    done = run(tmp_path, "acs 0000:19:00.0 0:2c\nacs 0000:19:04.0 0:2c\n", f"{tmp_path}:/usr/bin:/bin")
    assert (tmp_path / "calls").read_text().splitlines() == [
        "-s 0000:19:00.0 ECAP_ACS+6.w=0:2c",
        "-s 0000:19:04.0 ECAP_ACS+6.w=0:2c",
    ]
    assert done.returncode == 1 and "ACS of 0000:19:04.0 could not be set" in done.stderr


def test_huge_pages_come_before_everything_and_values_before_the_servers() -> None:
    texts = {item.target: text_of(item.wanted) or "" for item in boot_items(["/a 1"], ["/b 2"])}
    early = texts["/etc/systemd/system/gpufleet-huge-pages.service"]
    assert "DefaultDependencies=no" in early and "Before=sysinit.target" in early
    late = texts["/etc/systemd/system/gpufleet-node-values.service"]
    assert "tuned.service" in late
    assert (
        "After=gpufleet-node-values.service"
        in texts["/etc/systemd/system/sglang-.service.d/50-gpufleet-node-values.conf"]
    )
    assert boot_items([], []) == []
