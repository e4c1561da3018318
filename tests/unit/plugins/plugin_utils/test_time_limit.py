# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from ansible_collections.gpufleet.sglang.plugins.plugin_utils.time_limit import OutOfTime, at_most


def test_what_hangs_is_ended_with_the_process_that_it_waits_for() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def hang() -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]))
        try:
            started[0].wait()
        except Exception:  # as a connection plugin does, which must not swallow it
            pytest.fail("the limit was swallowed")

    with pytest.raises(OutOfTime, match=r"no answer for 0\.2 s"), at_most(0.2):
        hang()
    assert started[0].wait() == -signal.SIGKILL


def test_processes_that_were_there_before_are_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as before:
        with pytest.raises(OutOfTime), at_most(0.05):
            signal.pause()
        assert before.poll() is None


def test_what_ends_in_time_leaves_no_alarm_behind() -> None:
    with at_most(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_an_error_passes_and_leaves_no_alarm_behind() -> None:
    with pytest.raises(ValueError, match="of its own"), at_most(60):
        raise ValueError("of its own")
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_the_time_limit_of_the_task_itself_is_left_in_force() -> None:
    def of_the_task(number: int, frame: object) -> None:
        raise AssertionError("nothing waits here")

    signal.signal(signal.SIGALRM, of_the_task)
    try:
        with at_most(60):
            assert signal.getsignal(signal.SIGALRM) is of_the_task
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_other_threads_run_without_a_limit() -> None:
    done = []

    def work() -> None:
        with at_most(0.0001):
            done.append(signal.getitimer(signal.ITIMER_REAL))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [(0.0, 0.0)]
