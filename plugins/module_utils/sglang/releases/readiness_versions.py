# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By which endpoint each release proves that it is ready, as data. Read in every wheel from 0.4.7 to 0.5.23.

Source: entrypoints/http_server.py, and is_ready of managers/tokenizer_manager.py from 0.5.20 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at


@dataclass(frozen=True)
class Readiness:
    """C(path) answers 200 once the server's own warm-up is over, and not before.

    C(generates): it then makes the server generate a token, which takes a second and more, and marks the server as
    unhealthy where that fails. C(answers): a path that is answered, without any generation, as soon as the HTTP server
    runs, which is once every rank has loaded and pinned; the warm-up comes after that. It may want the server's key.
    """

    path: str
    generates: bool
    answers: str


# To 0.4.10 /health is 200 from the first moment, and only /health_generate asks the ranks. From 0.5.0rc2 on both are
# 503 until the warm-up is over, and generate then. /ready tells the same and generates nothing.
_PROOF: tuple[tuple[str, tuple[str, bool]], ...] = (
    ("0.4.7", ("/health_generate", True)),
    ("0.5.0rc2", ("/health", True)),
    ("0.5.20", ("/ready", False)),
)
_ANSWERS = (("0.4.7", "/get_model_info"), ("0.5.6", "/model_info"))


def readiness_of(text: str) -> Readiness:
    """Of a release; the newest that was read stands for any later one."""
    version = parse_version(text)
    path, generates = value_at(_PROOF, version)
    return Readiness(path, generates, value_at(_ANSWERS, version))
