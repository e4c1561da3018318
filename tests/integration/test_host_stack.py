# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""host_stack_info on a booted Debian over real ssh, held against the programs that know: modinfo, dkms, dpkg, apt,
systemctl. The kernel, its modules and dkms are Debian's own packages; only the driver's package is made here.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.apt_conf import read_apt_conf
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.elf import read_module_info
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE

NAME, ADDRESS = "gpufleet-stack-node", "10.213.77.200"
SUITE = os.environ.get("GPUFLEET_NODE_SUITE", "trixie")
DRIVER = "580.65.06"
# What modinfo makes of the parameters is a text of its own, and these it computes.
COMPUTED = ("filename", "sig_id", "sig_key", "sig_hashalgo", "signature", "signer")


@dataclass(frozen=True)
class Host:
    def run(self, command: str, *, check: bool = True, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", NAME, command],
            check=False,
            capture_output=True,
            input=stdin,
        )
        output = done.stdout.decode("utf-8", "replace")
        if check and done.returncode:
            pytest.fail(f"{command}: {output}{done.stderr.decode('utf-8', 'replace')}")
        return output.strip()

    def send(self, folder: Path, to: str) -> None:
        """Everything in a folder of this machine into one of the host."""
        packed = subprocess.run(["tar", "-C", folder, "-cf", "-", "."], check=True, capture_output=True).stdout
        self.run(f"mkdir -p {to} && tar -C {to} -xf - --no-same-owner", stdin=packed)

    def read(self, *arguments: str) -> dict[str, Any]:
        """What the module returns there."""
        connection = f"-F {shlex.quote(str(STATE / 'ssh_config'))} -o BatchMode=yes"
        command = ["ansible", "all", "-i", f"{NAME},", "-o", "-m", "gpufleet.sglang.host_stack_info", *arguments]
        command += [
            "-u",
            "root",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
            f"--ssh-common-args={connection}",
        ]
        done = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        assert " | SUCCESS => " in done.stdout, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout.partition(" => ")[2])
        return result


def codes(result: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in result["problems"]]


@pytest.fixture(name="host", scope="module")
def _host() -> Iterator[Host]:
    node = ROOT / "rehearsal/node"
    arguments = ["--name", NAME, "--address", ADDRESS, "--suite", SUITE]
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    subprocess.run([node / "up", *arguments], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    yield Host()
    subprocess.run([node / "down", NAME], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)


def apt(*words: str, folder: Path | None = None) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(name="debian", scope="module")
def _debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's packages, unpacked side by side: kernel, dkms, unattended-upgrades."""
    folder = tmp_path_factory.mktemp("debian")
    image = f"linux-image-cloud-{apt('dpkg', '--print-architecture').strip()}"
    if "Depends" not in apt("apt-cache", "depends", image):
        apt("apt-get", "update", "-qq")
    found = re.search(r"Depends: (linux-image-\S+)", apt("apt-cache", "depends", image))
    assert found, f"{image} depends on no kernel"
    apt("apt-get", "download", "-qq", found[1], "dkms", "unattended-upgrades", folder=folder)
    for package in sorted(folder.glob("*.deb")):
        kind = "kernel" if package.name.startswith("linux-image") else package.name.partition("_")[0]
        apt("dpkg-deb", "-x", str(package), str(folder / kind))
    return folder


@pytest.fixture(name="release", scope="module")
def _release(debian: Path) -> str:
    (image,) = (debian / "kernel/boot").glob("vmlinuz-*")
    return image.name.partition("-")[2]


# What the host is by itself -------------------------------------------------------------------------------------------


def test_a_bare_host(host: Host) -> None:
    result = host.read()
    assert result["changed"] is False
    assert (result["os"]["id"], result["os"]["codename"]) == ("debian", SUITE)
    assert (result["os"]["package_manager"], result["os"]["container"]) == ("apt", "podman")
    assert result["os"]["architecture"] == host.run("uname -m")
    assert result["running_kernel"] == host.run("uname -r")
    assert (result["kernels"], result["packages"], result["dkms"]) == ([], [], [])
    assert (result["reboot"]["required"], result["unreadable"]) == (False, [])
    assert {problem["severity"] for problem in result["problems"]} <= {"info", "warning"}


def test_memory_is_what_the_host_tells(host: Host) -> None:
    result = host.read("--check")
    size, used = host.run("df -B1 --output=size,used /dev/shm | tail -1").split()
    assert result["memory"]["shm"] == {"path": "/dev/shm", "size_bytes": int(size), "used_bytes": int(used)}
    assert result["memory"]["page_bytes"] == int(host.run("getconf PAGESIZE"))
    assert result["memory"]["swap"]["swappiness"] == int(host.run("cat /proc/sys/vm/swappiness"))
    zones = host.run("cat /proc/buddyinfo").splitlines()
    assert len(result["memory"]["free_by_order"]) == len(zones)
    assert len(result["memory"]["free_by_order"][0]["orders"]) == len(zones[0].split()) - 4


def shown(host: Host, name: str) -> tuple[str, str]:
    """systemd's own word on a default limit."""
    text = host.run(f"systemctl show -p DefaultLimit{name} -p DefaultLimit{name}Soft")
    words = dict(line.split("=", 1) for line in text.splitlines())
    return words[f"DefaultLimit{name}Soft"], words[f"DefaultLimit{name}"]


def told(limit: dict[str, Any], unit: str) -> tuple[str, str]:
    def word(kind: str) -> str:
        return "infinity" if limit[f"{kind}_unlimited"] else str(limit[f"{kind}{unit}"])

    return word("soft"), word("hard")


def test_limits_are_systemds(host: Host) -> None:
    limits = host.read()["limits"]
    assert told(limits["memlock"]["services"], "_bytes") == shown(host, "MEMLOCK")
    assert re.match(r"^/proc/\d+/limits$", limits["memlock"]["services"]["source"])
    # The container's own ceiling for open files may lie below systemd's default for the hard limit.
    assert told(limits["nofile"]["services"], "")[0] == shown(host, "NOFILE")[0]

    drop_in = "/etc/systemd/system.conf.d/50-sglang.conf"
    text = "[Manager]\\nDefaultLimitMEMLOCK=64M:infinity\\nDefaultLimitNOFILE=4096:8192\\n"
    host.run(f"mkdir -p $(dirname {drop_in}) && printf '{text}' >{drop_in} && systemctl daemon-reload")
    changed = host.read()["limits"]
    assert changed["memlock"]["services"]["source"] == changed["nofile"]["services"]["source"] == drop_in
    assert told(changed["memlock"]["services"], "_bytes") == shown(host, "MEMLOCK") == (str(64 << 20), "infinity")
    assert told(changed["nofile"]["services"], "") == shown(host, "NOFILE") == ("4096", "8192")


# Kernel modules -------------------------------------------------------------------------------------------------------


def test_modules_are_read_as_by_modinfo(host: Host, debian: Path, tmp_path: Path) -> None:
    """A sample of Debian's modules, some of them compressed: fields in their order, and who signed."""
    modules = sorted((debian / "kernel").rglob("*.ko"))[::20]
    for number, module in enumerate(modules):
        packed = number % 4 == 0
        data = module.read_bytes()
        name = f"{module.name}.xz" if packed else module.name
        (tmp_path / name).write_bytes(lzma.compress(data, check=lzma.CHECK_CRC32, preset=0) if packed else data)
    host.send(tmp_path, "/tmp/modules")
    names = sorted(path.name for path in tmp_path.iterdir())
    output = host.run(f"cd /tmp/modules && for file in {' '.join(names)}; do modinfo -0 ./$file; printf '==='; done")
    answers = output.split("===")[:-1]
    assert len(answers) == len(names) >= 40
    signers = set()
    for name, answer in zip(names, answers):
        lines = [(line.partition("=")[0], line.partition("=")[2]) for line in answer.split("\0") if "=" in line]
        told_by = dict(lines)
        info = read_module_info(Tree(tmp_path), name)
        assert info is not None, name
        expected = [line for line in lines if line[0] not in COMPUTED and not line[0].startswith("parm")]
        assert sorted(field for field in info.fields if not field[0].startswith("parm")) == sorted(expected)
        assert (info.signature.signer if info.signature else None) == told_by.get("signer")
        signers.add(told_by.get("signer"))
    assert None not in signers, "Debian signs its modules"


def test_a_module_that_dkms_builds_and_installs(host: Host, debian: Path, release: str, tmp_path: Path) -> None:
    """The real dkms, with a module of the kernel in the place of what it would compile."""
    (module,) = (debian / "kernel").rglob("ena.ko")
    source = f"nvidia-{DRIVER}"
    (tmp_path / "usr/src" / source).mkdir(parents=True)
    (tmp_path / "boot/grub").mkdir(parents=True)
    (tmp_path / "usr/src" / source / "nvidia.c").write_bytes(module.read_bytes())
    (tmp_path / "usr/src" / source / "dkms.conf").write_text(
        f'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="{DRIVER}"\nBUILT_MODULE_NAME[0]="nvidia"\n'
        'DEST_MODULE_LOCATION[0]="/updates/dkms"\nMAKE[0]="cp nvidia.c nvidia.ko"\nCLEAN="true"\nSTRIP[0]="no"\n',
        encoding="utf-8",
    )
    (tmp_path / f"boot/vmlinuz-{release}").write_bytes(b"image")
    host.send(tmp_path, "/")
    host.send(debian / "dkms", "/")
    headers = f"/usr/src/linux-headers-{release}"
    host.run(
        f"mkdir -p {headers}/include /lib/modules/{release}/kernel && echo all: >{headers}/Makefile"
        f" && touch {headers}/.config /lib/modules/{release}/modules.order /lib/modules/{release}/modules.builtin"
        f" && ln -s {headers} /lib/modules/{release}/build"
    )

    for command, state in (("add", "added"), ("build", "built"), ("install", "installed")):
        kernel = "" if command == "add" else f"-k {release}"
        host.run(f"dkms {command} nvidia/{DRIVER} {kernel}")
        result = host.read()
        (entry,) = result["dkms"]
        place = "" if command == "add" else f", {entry['kernel']}, {entry['architecture']}"
        assert host.run("dkms status") == f"nvidia/{DRIVER}{place}: {entry['state']}"
        assert entry["state"] == state

    (found,) = result["kernels"]
    assert (found["release"], found["vmlinuz"]) == (release, f"/boot/vmlinuz-{release}")
    assert (found["headers_installed"], found["headers_path"]) == (True, headers)
    nvidia = found["nvidia_module"]
    assert nvidia["path"] == f"/lib/modules/{release}/updates/dkms/nvidia.ko"
    assert (
        f"{release}/{host.run(f'modinfo -k {release} -F filename nvidia').partition(release + '/')[2]}"
        in nvidia["path"]
    )
    for field, name in (("version", "version"), ("license", "license"), ("signer", "signer")):
        assert (nvidia[field] or "") == host.run(f"modinfo -k {release} -F {name} nvidia")
    assert (nvidia["signed"], nvidia["source"]) == (True, "dkms")


# Packages -------------------------------------------------------------------------------------------------------------


MAKE_PACKAGE = """\
set -e
make() {
  mkdir -p /tmp/debs/$1/DEBIAN
  printf 'Package: %s\\nVersion: %s\\nArchitecture: all\\nMaintainer: x <x@example.org>\\nDescription: x\\n' "$1" "$2" \
    >/tmp/debs/$1/DEBIAN/control
  [ -z "$3" ] || printf '#!/bin/sh\\nexit 1\\n' | install -m 755 /dev/stdin /tmp/debs/$1/DEBIAN/postinst
  dpkg-deb --build --root-owner-group /tmp/debs/$1 /tmp/debs/$1.deb >/dev/null
}
make nvidia-driver-580 580.65.06-0ubuntu1
make nvidia-dkms-580-open 580.65.06-0ubuntu1 fails
make nvidia-utils-580 580.65.06-0ubuntu1
make libnvidia-compute-580 570.86.10-0ubuntu1
make python3-unrelated 1
dpkg -i /tmp/debs/nvidia-driver-580.deb /tmp/debs/libnvidia-compute-580.deb /tmp/debs/python3-unrelated.deb
dpkg -i /tmp/debs/nvidia-dkms-580-open.deb || true
dpkg --unpack /tmp/debs/nvidia-utils-580.deb
apt-mark hold nvidia-driver-580
"""


def test_packages_as_dpkg_and_apt_tell_them(host: Host) -> None:
    host.run(MAKE_PACKAGE)
    result = host.read()
    states = host.run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' '*nvidia*'").splitlines()
    found = [f"{entry['name']} {entry['version']} {entry['status']}" for entry in result["packages"]]
    assert found == sorted(states)
    assert [entry["name"] for entry in result["packages"] if entry["held"]] == host.run("apt-mark showhold").split()
    assert {entry["name"]: entry["status"] for entry in result["packages"]} == {
        "libnvidia-compute-580": "installed",
        "nvidia-dkms-580-open": "half-configured",
        "nvidia-driver-580": "installed",
        "nvidia-utils-580": "unpacked",
    }
    assert result["driver"]["releases"]["packages"] == ["570.86.10", DRIVER]
    assert {"package_half_installed", "driver_packages_differ"} <= set(codes(result))


def test_unattended_upgrades_as_debian_ships_them(host: Host, debian: Path, tmp_path: Path) -> None:
    host.send(debian / "unattended-upgrades", "/")
    host.run("cd /usr/share/unattended-upgrades && cp 20auto-upgrades 50unattended-upgrades /etc/apt/apt.conf.d/")
    # The image masks the timer, as its nodes have no way out; masked, nothing starts it.
    assert host.run("systemctl is-enabled apt-daily-upgrade.timer", check=False) == "masked"
    upgrades = host.read()["unattended_upgrades"]
    assert (upgrades["installed"], upgrades["enabled"], upgrades["covers_driver"]) == (True, False, False)
    host.run("systemctl unmask apt-daily-upgrade.timer")
    upgrades = host.read()["unattended_upgrades"]
    assert (upgrades["installed"], upgrades["enabled"], upgrades["covers_driver"]) == (True, True, None)

    # The same settings as apt itself makes of these files.
    copied = host.run("tar -C / -cf - etc/apt | base64 -w0")
    packed = subprocess.run(["base64", "-d"], input=copied.encode(), check=True, capture_output=True).stdout
    subprocess.run(["tar", "-C", tmp_path, "-xf", "-"], input=packed, check=True)
    conf = read_apt_conf(Tree(tmp_path))
    dump = re.findall(r'^(\S+) "(.*)";$', host.run("apt-config dump"), re.MULTILINE)
    for name in ("Unattended-Upgrade::Origins-Pattern", "APT::Periodic::Unattended-Upgrade"):
        expected = [value for key, value in dump if key.rstrip(":") == name and value]
        assert conf[name.lower()] == expected != []

    host.run("apt-mark hold nvidia-dkms-580-open nvidia-utils-580 libnvidia-compute-580")
    assert host.read()["unattended_upgrades"]["covers_driver"] is False


# An ordinary user -----------------------------------------------------------------------------------------------------


def test_without_root_what_may_not_be_read_is_named(host: Host, release: str) -> None:
    menu = f'set default="0"\nmenuentry Debian {{\nlinux /boot/vmlinuz-{release} ro iommu=pt\n}}\n'
    host.run("mkdir -p /boot/grub && cat >/boot/grub/grub.cfg && chmod 600 /boot/grub/grub.cfg", stdin=menu.encode())
    host.run("useradd --create-home ops")
    as_root = host.read()
    assert (as_root["next_boot"]["kernel"], as_root["next_boot"]["source"]) == (release, "grub")
    assert as_root["next_boot"]["arguments"] == "ro iommu=pt"
    as_user = host.read("--become", "--become-user", "ops")
    assert "/boot/grub/grub.cfg" in as_user["unreadable"]
    assert "not_readable" in codes(as_user)
    assert (as_user["next_boot"]["kernel"], as_user["next_boot"]["source"]) == (release, "newest")
    assert as_user["packages"] == as_root["packages"]
