# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sandbox import denials, trial_unit, without_server

UNIT = """# made by hand
[Unit]
Description=A server
RequiresMountsFor=/srv
StartLimitBurst=5

[Service]
Type=exec
User=sglang
Environment=A=1 \\
  B=2
ExecStart=/bin/server \\
  --config x \\
; in between
  --more
Restart=on-failure
LimitMEMLOCK=infinity
ProtectSystem=strict
SystemCallFilter=@system-service \\
  userfaultfd
[Install]
WantedBy=multi-user.target
"""


def test_all_of_the_sandbox_is_kept_and_nothing_of_the_server() -> None:
    assert without_server(UNIT).splitlines() == [
        "[Unit]",
        "RequiresMountsFor=/srv",
        "[Service]",
        "User=sglang",
        "Environment=A=1 \\",
        "  B=2",
        "LimitMEMLOCK=infinity",
        "ProtectSystem=strict",
        "SystemCallFilter=@system-service \\",
        "  userfaultfd",
    ]


def test_the_trial_starts_its_own_command() -> None:
    text = trial_unit(UNIT, "/usr/bin/python3 -I x", "/run/out")
    assert text.count("ExecStart=") == 1
    assert "ExecStart=/usr/bin/python3 -I x" in text
    assert "Restart" not in text
    assert "WantedBy" not in text


def test_what_is_denied_is_said_with_what_to_do() -> None:
    said = denials(
        [
            {"what": "read", "subject": "/x", "granted": True, "error": "", "text": ""},
            {
                "what": "lock",
                "subject": "8 bytes",
                "granted": False,
                "error": "ENOMEM",
                "text": "Cannot allocate memory",
            },
            {"what": "lock", "subject": "9 bytes", "granted": False, "error": "EPERM", "text": "no"},
            {"what": "new", "subject": "y", "granted": False, "error": "", "text": "no"},
        ]
    )
    assert len(said) == 3
    assert "cannot lock 8 bytes (ENOMEM: Cannot allocate memory)" in said[0]
    assert "CAP_IPC_LOCK" in said[0]
    assert said[1] == "The server cannot lock 9 bytes (EPERM: no)."
    assert "fails at new of y" in said[2]
