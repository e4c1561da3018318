# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prints what it is told through a pipe, line by line; stands in for a server where only its log matters.

talker.py PIPE: C(!noise LINES_PER_SECOND SECONDS) prints that many lines meanwhile, C(!flood LINES) as fast as it can
and before anything else, C(!exit STATUS) ends it, any other line is printed as it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

PAUSE_SECONDS = 0.05
LINE = "[2026-11-30 04:00:00 TP0] Decode batch. #running-req: 1, #token: {}, token usage: 0.00, cuda graph: True\n"


def noise(rate: int, seconds: float) -> None:
    began = time.monotonic()
    said = 0
    while said < rate * seconds:
        due = min(int((time.monotonic() - began + PAUSE_SECONDS) * rate), int(rate * seconds))
        sys.stdout.write("".join(LINE.format(number) for number in range(said, due)))
        sys.stdout.flush()
        said = due
        time.sleep(PAUSE_SECONDS)


def main() -> None:
    pipe = Path(sys.argv[1])
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    # Open for writing as well, so that the pipe never ends and nothing that is written to it is lost.
    with os.fdopen(os.open(pipe, os.O_RDWR), encoding="utf-8") as told:
        for line in told:
            words = line.split()
            if words and words[0] == "!noise":
                threading.Thread(target=noise, args=(int(words[1]), float(words[2])), daemon=True).start()
            elif words and words[0] == "!flood":
                sys.stdout.write("".join(LINE.format(number) for number in range(int(words[1]))))
                sys.stdout.flush()
            elif words and words[0] == "!exit":
                os._exit(int(words[1]))
            else:
                sys.stdout.write(line)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
