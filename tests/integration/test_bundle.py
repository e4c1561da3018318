# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bundle made on this machine, carried to a node with no way out, and used there.

A small set stands for the gigabytes: wheels of a few bytes by the names of sglang and torch, a real one of the
rehearsal's wheelhouse beside them, and one real package of Debian that the node does not have.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, Outcome
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.small_wheels import sglang_wheel, torch_wheel

PACKAGE = "tree"
REAL = "orjson"
WHERE = "/srv/bundle"


def pin(name: str) -> str:
    lines = (ROOT / "rehearsal" / "wheelhouse" / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def make(values: dict[str, Any], *arguments: str) -> Outcome:
    done = subprocess.run(
        ["ansible-playbook", "gpufleet.sglang.bundle", "-i", "localhost,", "-e", json.dumps(values), *arguments],
        check=False,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Outcome(done.returncode, done.stdout)


@dataclass(frozen=True)
class Keys:
    """A ring of secret keys of its own, and the public keys that are trusted."""

    home: Path
    fingerprints: tuple[str, str]

    def export(self, fingerprint: str, to: Path) -> None:
        command = ["gpg", "--homedir", str(self.home), "--yes", "--output", str(to), "--export", fingerprint]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    # A socket of the agent lies there, whose path may not be long.
    home = Path("/tmp/gpufleet-bundle-keys")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--passphrase", ""]
    for name in ("Bundles", "Somebody else"):
        subprocess.run([*gpg, "--quick-gen-key", name, "ed25519", "sign"], check=True, capture_output=True)
    listed = subprocess.run([*gpg, "--list-keys", "--with-colons"], check=True, capture_output=True, text=True).stdout
    fingerprints = [line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")]
    yield Keys(home, (fingerprints[0], fingerprints[1]))
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("carried")
    found = {name: base / name for name in ("bundle", "keys", "wheels")}
    for folder in found.values():
        folder.mkdir(mode=0o755)
    sglang_wheel(found["wheels"], "0.5.23")
    torch_wheel(found["wheels"])
    wheelhouse = subprocess.run(
        [ROOT / "rehearsal" / "wheelhouse" / "make-wheelhouse"], check=True, capture_output=True, text=True
    ).stdout.strip()
    shutil.copy(next(Path(wheelhouse).glob(f"{REAL}-*.whl")), found["wheels"])
    return found


@pytest.fixture(scope="module")
def node(places: dict[str, Path]) -> Iterator[ReleaseNode]:
    mounts = {WHERE: places["bundle"], "/srv/keys": places["keys"]}
    found = ReleaseNode("gpufleet-releases-bundle", "10.213.77.92", mounts)
    found.up()
    yield found
    found.down()


def asked(places: dict[str, Path], *more: str) -> dict[str, Any]:
    pins = places["wheels"].parent / f"pins-{len(more)}.txt"
    pins.write_text("\n".join(["sglang==0.5.23", "torch==2.13.0", pin(REAL), *more]) + "\n")
    return {
        "bundle_path": str(places["bundle"]),
        "bundle_lines": [
            {"name": "small", "requirements_file": str(pins), "find_links": [str(places["wheels"])], "no_index": True}
        ],
        "bundle_packages": [PACKAGE],
        "bundle_apt_status": str(places["wheels"].parent / "status"),
        # Building it takes longer than all the rest; the gate builds it in a stage of its own.
        "bundle_collection": False,
    }


@pytest.fixture(scope="module")
def bundle(places: dict[str, Path], node: ReleaseNode, keys: Keys) -> Outcome:
    # What the machines have already is not carried.
    (places["wheels"].parent / "status").write_text(node.run("cat /var/lib/dpkg/status") + "\n")
    keys.export(keys.fingerprints[0], places["keys"] / "bundles.gpg")
    keys.export(keys.fingerprints[1], places["keys"] / "others.gpg")
    ENVIRONMENT["GNUPGHOME"] = str(keys.home)
    try:
        return make({**asked(places), "bundle_sign_with": keys.fingerprints[0]})
    finally:
        del ENVIRONMENT["GNUPGHOME"]


def test_a_wheel_that_is_nowhere_keeps_the_bundle_from_leaving(places: dict[str, Path]) -> None:
    refused = make({**asked(places, "einops==0.8.2"), "bundle_packages": []})
    assert refused.status == 2, refused.output
    assert "einops==0.8.2" in "".join(refused.errors), refused.output
    assert [path for path in places["bundle"].rglob("*") if path.is_file()] == []


def test_a_package_that_is_nowhere_keeps_the_bundle_from_leaving(places: dict[str, Path]) -> None:
    values = {**asked(places), "bundle_lines": [], "bundle_packages": ["no-such-package"]}
    del values["bundle_apt_status"]
    refused = make(values)
    assert refused.status == 2, refused.output
    assert "no-such-package" in "".join(refused.errors), refused.output


def test_the_bundle_says_what_is_in_it(bundle: Outcome, places: dict[str, Path]) -> None:
    assert bundle.status == 0, bundle.output
    assert "wheels/small" in bundle.output
    manifest = json.loads((places["bundle"] / "bundle.json").read_text())
    names = [Path(one["path"]).name for one in manifest["files"]]
    assert sum(name.endswith(".whl") for name in names) == 3
    assert any(name.startswith(f"{PACKAGE}_") for name in names)
    assert "--hash=sha256:" in (places["bundle"] / "wheels" / "small" / "requirements.txt").read_text()


def test_a_second_run_makes_nothing_anew(bundle: Outcome, places: dict[str, Path], keys: Keys) -> None:
    assert bundle.status == 0, bundle.output
    again = make({**asked(places), "bundle_sign_with": keys.fingerprints[0]})
    assert again.status == 0, again.output
    assert again.changed == 0, again.output


def test_a_node_without_a_way_out_installs_from_it(bundle: Outcome, node: ReleaseNode) -> None:
    assert bundle.status == 0, bundle.output
    assert node.run(f"command -v {PACKAGE}", check=False) == ""
    values = {"bundle_path": WHERE, "bundle_keyring": "/srv/keys/bundles.gpg"}
    used = node.play("gpufleet.sglang.bundle_use", values)
    assert used.status == 0, used.output
    wanted = {
        "sglang_version": "0.5.23",
        "sglang_wheelhouse": f"{WHERE}/wheels/small",
        "sglang_requirements_file": None,
        "sglang_system_packages": [PACKAGE],
    }
    done = node.play("tests/integration/releases.yml", wanted)
    assert done.status == 0, done.output
    assert node.run(f"command -v {PACKAGE}")
    record = node.record("/opt/sglang/main")
    assert record["hashed"] is True
    assert f"{REAL}=={record['packages'][REAL]}" == pin(REAL)
    assert node.play("gpufleet.sglang.bundle_use", values).changed == 0
    assert node.play("tests/integration/releases.yml", wanted).changed == 0


def test_a_bundle_of_somebody_else_is_refused(bundle: Outcome, node: ReleaseNode) -> None:
    assert bundle.status == 0, bundle.output
    refused = node.play(
        "gpufleet.sglang.bundle_verify", {"bundle_path": WHERE, "bundle_keyring": "/srv/keys/others.gpg"}
    )
    assert refused.status == 2, refused.output
    assert "signature" in "".join(refused.errors), refused.output


@pytest.mark.parametrize("damage", ["removed", "one byte changed", "added"])
def test_a_bundle_that_changed_on_its_way_is_refused_by_name(
    bundle: Outcome, places: dict[str, Path], node: ReleaseNode, damage: str
) -> None:
    assert bundle.status == 0, bundle.output
    folder = places["bundle"] / "wheels" / "small"
    victim = next(folder.glob(f"{REAL}-*.whl"))
    whole = victim.read_bytes()
    added = folder / "added-1.0-py3-none-any.whl"
    try:
        if damage == "removed":
            victim.unlink()
        elif damage == "added":
            added.write_bytes(b"x")
        else:
            victim.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
        refused = node.play("gpufleet.sglang.bundle_verify", {"bundle_path": WHERE})
    finally:
        victim.write_bytes(whole)
        added.unlink(missing_ok=True)
    assert refused.status == 2, refused.output
    named = added.name if damage == "added" else victim.name
    assert named in "".join(refused.errors), refused.output
    assert node.play("gpufleet.sglang.bundle_verify", {"bundle_path": WHERE}).status == 0


def test_the_wheels_are_those_of_the_target_and_not_of_this_python(bundle: Outcome, places: dict[str, Path]) -> None:
    assert bundle.status == 0, bundle.output
    (real,) = (places["bundle"] / "wheels" / "small").glob(f"{REAL}-*.whl")
    assert "-cp311-" in real.name
    assert sys.version_info[:2] != (3, 11) or "-cp311-" in real.name
