# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases beside one another on a booted node, with the real pip and uv: interrupted, refused, linked, let go.

The wheels are small ones of these names (small_wheels.py); the whole set is installed by test_rehearsal.py.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.small_wheels import (
    sglang_wheel,
    torch_wheel,
    wheel,
    write_sums,
)

PLAYBOOK = "tests/integration/releases.yml"
HOUSE = "/srv/small"
UV = "0.13.9"
PADDING_BYTES = 400_000_000
SECRET = "hunter2-Sentinel/9"
# Who makes an environment holds the lock of all of them: the module, and whatever it has started.
KILL_INSTALLERS = (
    "find /proc/[0-9]*/fd -lname '*/releases/.lock' 2>/dev/null | cut -d/ -f3 | sort -u"
    " | xargs --no-run-if-empty kill -9"
)
# Everything that any process of the node shows of itself, all the while.
WATCH = "while sleep 0.05; do cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; done > /run/seen 2>/dev/null"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    for version in ("0.5.20", "0.5.21", "0.5.22", "0.5.23"):
        sglang_wheel(folder, version)
    torch_wheel(folder, PADDING_BYTES)
    wheel(folder, "einops", "0.8.2", {"einops/__init__.py": b""}, "cp312-cp312-manylinux_2_34_x86_64")
    cache = Path(os.environ.get("GPUFLEET_CACHE", Path.home() / ".cache" / "gpufleet-sglang")) / "uv"
    if not list(cache.glob(f"uv-{UV}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache), f"uv=={UV}"]
        subprocess.run(command, check=True)
    (folder / "others").mkdir()
    shutil.copy(next(cache.glob(f"uv-{UV}-*.whl")), folder / "others")
    write_sums(folder)
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def node(house: Path) -> Iterator[ReleaseNode]:
    found = ReleaseNode("gpufleet-releases-node", "10.213.77.91", {HOUSE: house})
    found.up()
    yield found
    found.down()


def pins(folder: Path, version: str = "0.5.23", *more: str) -> dict[str, Any]:
    """What the role is asked for, with the pins in a file of the controller."""
    path = folder.parent / f"pins-{version}-{len(more)}.txt"
    path.write_text("\n".join([f"sglang=={version}", "torch==2.13.0", *more]) + "\n")
    return {"sglang_version": version, "sglang_wheelhouse": HOUSE, "sglang_requirements_file": str(path)}


def paths(node: ReleaseNode) -> list[str]:
    return node.run("ls -d /opt/sglang/releases/[0-9]* 2>/dev/null", check=False).split()


def test_check_mode_on_a_bare_node_tells_the_packages_and_does_nothing(house: Path, node: ReleaseNode) -> None:
    told = node.play(PLAYBOOK, pins(house), "--check", "--diff")
    assert told.status == 0, told.output
    assert "+torch==2.13.0" in told.output
    assert node.run("ls -d /opt/sglang", check=False) == ""


def test_an_installation_that_was_killed_is_never_used_and_made_anew(house: Path, node: ReleaseNode) -> None:
    interrupted = subprocess.Popen(
        node.command(PLAYBOOK, pins(house)),
        cwd=ROOT,
        env=node.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    # In the midst of unpacking: the package's folder is there.
    unpacking = "ls -d /opt/sglang/releases/*/lib/python*/site-packages/torch"
    while not node.run(unpacking, check=False):
        assert interrupted.poll() is None, "the installation was over before it could be killed"
        time.sleep(0.1)
    node.run(KILL_INSTALLERS, check=False)
    assert interrupted.wait() != 0
    (half,) = paths(node)
    assert node.run(f"ls {half}/installed.json", check=False) == ""
    assert node.run("ls -d /opt/sglang/main", check=False) == ""
    done = node.play(PLAYBOOK, pins(house))
    assert done.status == 0, done.output
    assert paths(node) == [half]
    record = node.record(half)
    assert record["hashed"] is True
    assert record["checks"]["cpu"]["imported"] == {"torch": "2.13.0", "sglang": "0.5.23", "sglang.launch_server": None}
    assert node.run("readlink /opt/sglang/main") == half
    assert node.run("stat -c %s /opt/sglang/main/lib/python3*/site-packages/torch/padding") == str(PADDING_BYTES)


def test_a_second_run_changes_nothing_and_imports_nothing(house: Path, node: ReleaseNode) -> None:
    again = node.play(PLAYBOOK, pins(house))
    assert again.status == 0, again.output
    assert again.changed == 0, again.output
    assert "Import what was installed" not in again.output


def test_the_service_user_reads_it_and_nobody_else_writes_it(node: ReleaseNode) -> None:
    assert (
        node.run("runuser -u sglang -- /opt/sglang/main/bin/python -c 'import sglang; print(sglang.__version__)'")
        == "0.5.23"
    )
    assert node.run("find -L /opt/sglang/main -perm /022 ! -type l | head", check=False) == ""


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "the tag of an image": ({"sglang_version": "v0.5.23-cu130"}, "tag of a container image"),
    "a missing interpreter": ({"sglang_python": "/usr/bin/python3.99"}, "/usr/bin/python3.99 does not run"),
    "a missing wheelhouse": ({"sglang_wheelhouse": "/srv/none"}, "/srv/none"),
    "pins of another release": ({"sglang_version": "0.5.22"}, "sglang==0.5.23"),
    "a password in the address": (
        {"sglang_wheelhouse": None, "sglang_index_url": f"https://n:{SECRET}@pypi.example.com/simple"},
        "sglang_index_credentials",
    ),
}


def test_what_cannot_be_installed_is_refused_before_anything_is_touched(
    house: Path, node: ReleaseNode, tmp_path: Path
) -> None:
    before = node.run("find /opt/sglang | sort | sha256sum")
    cases = {case: {**pins(house), **values} for case, (values, _expected) in REFUSED.items()}
    cases["a missing wheel"] = pins(house, "0.5.23", "numpy==2.3.0")
    cases["a wheel for another Python"] = pins(house, "0.5.23", "einops==0.8.2", "sglang==0.5.23")
    told = node.refusals(PLAYBOOK, cases, tmp_path)
    expected = {case: words for case, (_values, words) in REFUSED.items()}
    expected["a missing wheel"] = "has no wheel of numpy==2.3.0"
    expected["a wheel for another Python"] = "Python cp312"
    assert {case: words for case, words in expected.items() if words not in told[case]} == {}, told
    assert SECRET not in "".join(told.values())
    assert node.run("find /opt/sglang | sort | sha256sum") == before


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_changed_wheel_is_refused_by_its_hash_and_leaves_nothing(
    house: Path, node: ReleaseNode, installer: str
) -> None:
    target = house / "sglang-0.5.22-py3-none-any.whl"
    whole = target.read_bytes()
    try:
        # Still a wheel, only another one.
        sglang_wheel(house / "others", "0.5.22")
        wheel(house, "sglang", "0.5.22", {"sglang/__init__.py": b"print('not ours')\n"})
        if installer == "uv":
            shutil.copy(next((house / "others").glob("uv-*.whl")), house)
            write_sums_of_uv(house)
        refused = node.play(PLAYBOOK, {**pins(house, "0.5.22"), "sglang_installer": installer})
    finally:
        target.write_bytes(whole)
    assert refused.status == 2, refused.output
    assert f"{installer} found another hash" in "".join(refused.errors), refused.output
    assert "sglang==0.5.22" in "".join(refused.errors), refused.output
    assert len(paths(node)) == 1
    assert node.record("/opt/sglang/main")["sglang"] == "0.5.23"


def write_sums_of_uv(house: Path) -> None:
    """The line of uv is added; the others stay as they were when the wheels were good."""
    sums = house / "SHA256SUMS"
    kept = [line for line in sums.read_text().splitlines(keepends=True) if " uv-" not in line]
    alone = house / "others" / "SHA256SUMS"
    write_sums(house / "others")
    sums.write_text("".join(kept + [line for line in alone.read_text().splitlines(keepends=True) if " uv-" in line]))


def test_uv_from_the_wheelhouse_installs_the_same(house: Path, node: ReleaseNode) -> None:
    done = node.play(PLAYBOOK, {**pins(house, "0.5.22"), "sglang_installer": "auto", "sglang_uv_version": UV})
    assert done.status == 0, done.output
    record = node.record("/opt/sglang/main")
    assert record["installer"] == f"uv {UV}"
    assert {"sglang": "0.5.22", "torch": "2.13.0"}.items() <= record["packages"].items()
    # Compiled beforehand, as the service may not write there.
    assert node.run("ls /opt/sglang/main/lib/python3*/site-packages/sglang/__pycache__ | head -n 1")
    assert len(paths(node)) == 2


def test_old_releases_go_and_what_a_unit_or_a_process_uses_stays(house: Path, node: ReleaseNode) -> None:
    named = node.run("readlink /opt/sglang/main")
    node.run(f"printf '[Service]\\nExecStart={named}/bin/python -V\\n' > /etc/systemd/system/named.service")
    older = next(path for path in paths(node) if path != named)
    runs = "import time, signal; signal.pause()"
    node.run(f"systemd-run --quiet --unit runs {older}/bin/python -c '{runs}'")
    for version in ("0.5.21", "0.5.20"):
        done = node.play(PLAYBOOK, {**pins(house, version), "sglang_keep_releases": 0})
        assert done.status == 0, done.output
    # 0.5.21 was in force when 0.5.20 came, and is named by nothing any more.
    listed = node.play(PLAYBOOK, {**pins(house, "0.5.20"), "sglang_keep_releases": 0}, "--check")
    there = {path.rsplit("/", 1)[1].split("-")[0] for path in paths(node)}
    assert there == {"0.5.20", "0.5.22", "0.5.23"}, listed.output
    node.run("systemctl stop runs && rm /etc/systemd/system/named.service")
    listed = node.play(PLAYBOOK, {**pins(house, "0.5.20"), "sglang_keep_releases": 1}, "--check")
    assert f"{older.rsplit('/', 1)[1]} would be removed, 0.4" in listed.output.replace("\n", " "), listed.output
    assert older in paths(node)
    done = node.play(PLAYBOOK, {**pins(house, "0.5.20"), "sglang_keep_releases": 1})
    assert done.status == 0, done.output
    assert older not in paths(node)
    assert named in paths(node)


class Index(BaseHTTPRequestHandler):
    """A package index that wants a login (PEP 503)."""

    folder: Path
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        expected = "Basic " + base64.b64encode(f"node:{SECRET}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        name = self.path.rstrip("/").rsplit("/", 1)[-1]
        found = self.folder / name
        if found.is_file():
            body = found.read_bytes()
        else:
            links = [f'<a href="/files/{one.name}">{one.name}</a>' for one in self.folder.glob(f"{name}-*.whl")]
            body = "".join(links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing of it belongs among the tests' output."""


@pytest.fixture
def index(house: Path) -> Iterator[str]:
    handler = type("OneIndex", (Index,), {"folder": house, "asked": []})
    server = ThreadingHTTPServer(("10.213.77.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://10.213.77.1:{server.server_address[1]}/simple"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_password_of_an_index_is_nowhere_to_be_seen(house: Path, node: ReleaseNode, index: str) -> None:
    # The test's index has no certificate; a real one has.
    node.run("printf '[global]\\ntrusted-host = 10.213.77.1\\n' > /etc/pip.conf")
    node.run(f"systemd-run --quiet --unit watch sh -c '{WATCH}'")
    values = {
        **pins(house, "0.5.21"),
        "sglang_wheelhouse": None,
        "sglang_installer": "pip",
        "sglang_index_url": index,
        "sglang_index_credentials": [{"machine": "10.213.77.1", "login": "node", "password": SECRET}],
    }
    try:
        without = node.play(PLAYBOOK, {**values, "sglang_index_credentials": []})
        done = node.play(PLAYBOOK, values, "-vvv")
    finally:
        node.run("systemctl stop watch; rm /etc/pip.conf")
    assert without.status == 2, without.output
    assert done.status == 0, done.output
    # The controller's own command line, which this test gave it, is the one place.
    assert SECRET not in "".join(line for line in done.output.splitlines() if "ansible-playbook" not in line)
    assert node.run(f"grep --text --count {index.rsplit('/', 1)[0]} /run/seen", check=False) != "0"
    assert node.run(f"grep --text --count '{SECRET}' /run/seen", check=False) == "0"
    assert node.run(f"journalctl --no-pager | grep --count '{SECRET}'", check=False) == "0"
    assert (
        node.run(f"grep --recursive --files-with-matches '{SECRET}' /opt/sglang /etc /root /tmp /var/tmp", check=False)
        == ""
    )
