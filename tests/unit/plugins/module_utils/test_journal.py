# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    KERNEL_MATCHES,
    cursor_time,
    invocation_matches,
    is_access_log,
    is_not_after,
    journalctl_command,
    last_state,
    parse_record,
    same_record,
    without_secrets,
)

CURSOR = "s=0639b2;i=5a0;b=9cfa;m=3b9aca00;t=644c1f5d8e8a0;x=7"


def record(**fields: object) -> str:
    return json.dumps({"__CURSOR": CURSOR, "__REALTIME_TIMESTAMP": "1795962016412345", **fields})


def test_record_of_the_service() -> None:
    found = parse_record(record(MESSAGE="hello", _PID="11402", PRIORITY="6", _SYSTEMD_INVOCATION_ID="ab"))
    assert found is not None
    assert (found.message, found.pid, found.cursor, found.broken) == ("hello", 11402, CURSOR, False)
    assert found.timestamp == 1795962016.412345
    assert not found.of_manager


def test_record_of_systemd_about_the_unit() -> None:
    found = parse_record(record(MESSAGE="Started SGLang.", _PID="1", UNIT="sglang-main.service"))
    assert found is not None and found.of_manager


def test_binary_message_is_a_list_of_bytes() -> None:
    shown = "Loading: 50%\rLoading: 100% – done"
    found = parse_record(record(MESSAGE=list(shown.encode())))
    assert found is not None
    assert found.message == "Loading: 100% – done"


def test_binary_message_that_is_no_text_is_kept_readable() -> None:
    found = parse_record(record(MESSAGE=[0xFF, 0x41]))
    assert found is not None and found.message == "\ufffdA"


def test_message_of_several_lines_keeps_them() -> None:
    found = parse_record(record(MESSAGE="Traceback\n  File x\nValueError: y"))
    assert found is not None and found.message.splitlines() == ["Traceback", "  File x", "ValueError: y"]


def test_missing_fields_are_unknown() -> None:
    found = parse_record("{}")
    assert found is not None
    assert (found.message, found.timestamp, found.cursor, found.pid, found.dropped) == ("", None, None, None, None)


def test_null_message_of_a_field_too_long_is_empty() -> None:
    found = parse_record(record(MESSAGE=None))
    assert found is not None and found.message == ""


def test_field_that_occurs_twice() -> None:
    found = parse_record(record(MESSAGE=["a", [0x62, 0x0D]], _PID=["5", "6"]))
    assert found is not None
    assert (found.message, found.pid) == ("a\nb", None)


def test_line_that_is_no_record() -> None:
    assert parse_record("") is None
    assert parse_record('{"MESSAGE": "cut o') is None
    assert parse_record("[1, 2]") is None


def test_progress_bar_is_its_last_state() -> None:
    assert last_state("a\rb\rc\nd\r") == "c\nd"


def test_command_reads_one_invocation_and_what_systemd_and_journald_say_of_it() -> None:
    command = journalctl_command(invocation_matches("ab12"), cursor=CURSOR)
    assert command[0] == "journalctl" and "--output=json" in command and "--all" in command
    assert f"--cursor={CURSOR}" in command
    assert "--follow" not in command
    assert command[-7:] == [
        "_SYSTEMD_INVOCATION_ID=ab12",
        "+",
        "INVOCATION_ID=ab12",
        "_PID=1",
        "+",
        "MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e",
        "_TRANSPORT=driver",
    ]


def test_command_follows_from_the_cursor_on() -> None:
    command = journalctl_command(KERNEL_MATCHES, cursor=CURSOR, follow=True)
    assert "--follow" in command
    assert "--no-tail" in command
    assert command[-1] == "_TRANSPORT=kernel"


def test_command_since_a_time_only_without_cursor() -> None:
    matches = invocation_matches("ab12")
    assert "--since=@12.500000" in journalctl_command(matches, since=12.5)
    assert not any(word.startswith("--since") for word in journalctl_command(matches, cursor=CURSOR, since=12.5))


def test_record_is_the_same_after_it_was_flushed_from_run_to_var() -> None:
    assert same_record(CURSOR, CURSOR.replace("s=0639b2;i=5a0", "s=77;i=1"))
    assert not same_record(CURSOR, CURSOR.replace("m=3b9aca00", "m=3b9aca01"))


def test_order_of_records_is_that_of_the_clock_that_never_jumps() -> None:
    later = CURSOR.replace("m=3b9aca00", "m=3b9aca01").replace("t=644c1f5d8e8a0", "t=1")
    assert is_not_after(CURSOR, later)
    assert is_not_after(CURSOR, CURSOR)
    assert not is_not_after(later, CURSOR)
    assert not is_not_after(CURSOR, later.replace("b=9cfa", "b=0"))
    assert not is_not_after("s=1", later)


def test_time_in_a_cursor() -> None:
    assert cursor_time(CURSOR) == 0x644C1F5D8E8A0 / 1e6
    assert cursor_time("s=1;i=2") is None


def test_access_log() -> None:
    assert is_access_log(
        '[2026-11-29 14:48:22] INFO:     127.0.0.1:46850 - "GET /health HTTP/1.1" 503 Service Unavailable'
    )
    assert not is_access_log("[2026-11-29 14:48:22] INFO:     Application startup complete.")


def test_keys_do_not_leave_the_node() -> None:
    line = "server_args={'api_key': 'sk-123', 'admin_api_key': 'root', 'tp_size': 2}"
    assert without_secrets(line) == "server_args={'api_key': '***', 'admin_api_key': '***', 'tp_size': 2}"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("error: unrecognized arguments: --api-key sk-1 --foo", "error: unrecognized arguments: --api-key '***' --foo"),
        ("['--api-key', 'sk-1', '--tp', '2']", "['--api-key', '***', '--tp', '2']"),
        (
            "ServerArgs(api_key='a\\'b', admin_api_key=None, tp=1)",
            "ServerArgs(api_key='***', admin_api_key=None, tp=1)",
        ),
        ("HF_TOKEN=abc FOO=1", "HF_TOKEN='***' FOO=1"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer '***'"),
        ("token hf_ABCDEFGHIJKLMNOPQRSTUVWX is invalid", "token *** is invalid"),
        ("proxy http://me:word@proxy:3128/ refused", "proxy http://***@proxy:3128/ refused"),
        ("api_key is not set, max_total_num_tokens=5", "api_key is not set, max_total_num_tokens=5"),
    ],
)
def test_keys_in_any_form_are_hidden(line: str, shown: str) -> None:
    assert without_secrets(line) == shown
