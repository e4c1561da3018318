# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for NVIDIA's DCGM exporter: tells the counters of its file, of one GPU that is well."""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LABELS = 'gpu="0",UUID="GPU-standin",device="nvidia0",modelName="Stand-in"'


def exposition(counters: str) -> str:
    lines = []
    for row in counters.splitlines():
        if row.strip() and not row.startswith("#"):
            name, kind, text = (part.strip() for part in row.split(",", 2))
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name}{{{LABELS}}} 0"]
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--collectors", type=Path, default=Path("/etc/dcgm-exporter/default-counters.csv"))
    parser.add_argument("--address", default=":9400")
    asked = parser.parse_args()
    body = exposition(asked.collectors.read_text(encoding="utf-8")).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Says nothing of each request."""

    ThreadingHTTPServer(("", int(asked.address.rpartition(":")[2])), Handler).serve_forever()


if __name__ == "__main__":
    main()
