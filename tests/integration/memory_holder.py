# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on a node as a unit and holds memory there as a rank of SGLang does: shared, anonymous, touched.

    memory_holder.py MEGABYTES [STEPS SECONDS [usr1]]

Tells systemd that it is ready once all of it lies in memory. SIGTERM makes it give the memory back in STEPS over
SECONDS, at once unless said; then it ends. With usr1 it waits for SIGUSR1 after that, as a server that drains.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
import time

MB = 10**6


def tell_ready() -> None:
    """sd_notify(3)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\0"))
        notify.send(b"READY=1")


def main() -> None:
    size = int(sys.argv[1]) * MB
    steps, seconds = (int(sys.argv[2]), float(sys.argv[3])) if len(sys.argv) > 3 else (1, 0.0)
    # Blocked and not handled, so that it cannot come before it is waited for.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    parts = [mmap.mmap(-1, size // steps) for _step in range(steps)]
    for part in parts:
        for start in range(0, len(part), mmap.PAGESIZE):
            part[start] = 1
    tell_ready()
    signal.sigwait({signal.SIGTERM})
    if sys.argv[4:]:
        signal.sigwait({signal.SIGUSR1})
    for part in parts:
        part.close()
        time.sleep(seconds / steps)


if __name__ == "__main__":
    main()
