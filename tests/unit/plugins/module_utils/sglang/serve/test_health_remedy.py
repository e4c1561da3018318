# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Client
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.gate import check_health


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (Answer(0, "no answer (SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number)"), "http://"),
        (Answer(0, "no answer (BadStatusLine: SSH-2.0-OpenSSH_9.2)"), "ss -ltnp"),
        (Answer(302, ""), "the server's own address"),
        (Answer(503, ""), "503 means that it starts"),
        (Answer(0, "no answer (ConnectionRefusedError: [Errno 111] Connection refused)"), "nobody listens"),
    ],
)
def test_who_answers_decides_what_to_do(answer: Answer, remedy: str) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    client = Client(lambda call: answer, lambda calls, at_once, stop: [answer], lambda: now[0], sleep, 10.0)
    check = check_health(client, 20.0, 10.0)
    assert check.ok is False
    assert remedy in check.remedy
