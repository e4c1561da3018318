# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import parse_record
from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.log_slice import LONGEST_LINE, Slice, line_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.unit_text import settings_of, unit_file


def taken(lines: int, most_lines: int = 100, most_bytes: int = 10_000, width: int = 9) -> Slice:
    part = Slice(most_lines, most_bytes)
    for number in range(lines):
        part.take(f"{number:0{width}}")
    return part


def test_a_short_log_is_whole() -> None:
    part = taken(100)
    assert part.lines() == [f"{number:09}" for number in range(100)]
    assert part.as_dict(True)["left_out_lines"] == 0


def test_the_middle_of_a_long_log_is_left_out_and_counted() -> None:
    part = taken(1000)
    lines = part.lines()
    assert lines[24] == f"{24:09}"
    assert lines[25] == "[900 lines of 9,000 bytes left out here]"
    assert lines[-1] == f"{999:09}"
    assert len(lines) == 101


def test_bytes_count_as_well() -> None:
    part = taken(1000, most_lines=10_000, most_bytes=1000)
    assert sum(len(line) + 1 for line in part.lines()) <= 1000 + len("[900 lines of 9,000 bytes left out here]") + 1
    assert part.left_out_lines == 1000 - 100


def test_a_line_that_is_too_long_says_by_how_much() -> None:
    part = taken(0)
    part.take("x" * (LONGEST_LINE + 1234))
    assert part.lines()[0].endswith("x [1,234 characters left out]")
    assert part.as_dict(False) == {**part.as_dict(False), "shortened_lines": 1, "complete": False}


def test_a_record_as_a_line() -> None:
    fields = {"MESSAGE": "hello", "_PID": "7", "_TRANSPORT": "stdout", "__REALTIME_TIMESTAMP": "1796075817262325"}
    record = parse_record(json.dumps({**fields, "_SYSTEMD_INVOCATION_ID": "a"}))
    assert record is not None
    assert line_of(record) == "2026-11-30T21:56:57.262325Z stdout[7]: hello"


UNIT = """[Unit]
Description=SGLang 0.5.23, instance main
[Service]
WorkingDirectory=/var/lib/other/main
EnvironmentFile=-/etc/other/main.env
LoadCredential=api_key:/etc/other/keys/main/api_key
ExecStart=/opt/x/bin/python -m sglang.launch_server --config /etc/other/main.yaml
"""


def test_what_a_unit_names() -> None:
    told = unit_file(UNIT)
    assert (told.release, told.config, told.state) == ("0.5.23", "/etc/other/main.yaml", "/var/lib/other/main")
    assert told.environment == ("/etc/other/main.env",)
    assert told.credentials == (("api_key", "/etc/other/keys/main/api_key"),)
    nothing = unit_file("[Service]\nExecStart=/bin/true\n")
    assert (nothing.release, nothing.config, nothing.state, nothing.environment) == (None, None, None, ())


def test_flat_settings() -> None:
    config = "# a\nport: 30000\nserved-model-name: 'my model'\nlist:\n- a\nenable-metrics: true\n"
    assert settings_of(config) == {"port": "30000", "served-model-name": "my model", "enable-metrics": "true"}
