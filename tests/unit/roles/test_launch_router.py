# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "router" / "files" / "launch_router.py"


@pytest.fixture(name="launch_router", scope="module")
def _launch_router() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch_router", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arguments_are_words_of_a_command_line(launch_router: ModuleType) -> None:
    arguments = {
        "host": "0.0.0.0",
        "port": 30000,
        "dp_aware": True,
        "disable-retries": False,
        "log-level": None,
        "ca-cert-paths": ["/etc/a.pem", "/etc/b.pem"],
    }
    expected = "--host 0.0.0.0 --port 30000 --dp-aware --ca-cert-paths /etc/a.pem /etc/b.pem"
    assert launch_router.words_of(arguments) == expected.split()


def test_keys_come_from_credentials_and_files_by_their_path(launch_router: ModuleType, tmp_path: Path) -> None:
    for name, content in (("api_key", "client\n"), ("admin_api_key", "boss"), ("tls_key", "PEM"), ("other", "x")):
        (tmp_path / name).write_text(content)
    assert launch_router.words_of_credentials(tmp_path) == [
        "--api-key",
        "client",
        "--control-plane-api-keys",
        "gpufleet:gpufleet:admin:boss",
        "--tls-key-path",
        str(tmp_path / "tls_key"),
    ]
