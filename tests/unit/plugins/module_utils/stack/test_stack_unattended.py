# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Upgrades that come in by themselves: apt's settings, the patterns of unattended-upgrades, dnf-automatic."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.apt_conf import parse, read_apt_conf
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import (
    OperatingSystem,
    Package,
    Pin,
    UnattendedUpgrades,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.unattended import (
    Repository,
    listed,
    matches,
    offers,
    pinned,
    read_unattended,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import link, write

DEBIAN = OperatingSystem("debian", "12", "bookworm", "debian", "x86_64", "apt")
RHEL = OperatingSystem("rocky", "9.6", None, "rhel", "x86_64", "dnf")
DRIVER = Package(
    "nvidia-driver", "595.58.03-1", "amd64", "nvidia-graphics-drivers", "driver", driver_release="595.58.03"
)
ON = 'APT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n'
DEFAULTS = """\
// comment "with quotes"
Unattended-Upgrade::Origins-Pattern {
        "origin=Debian,codename=${distro_codename},label=Debian";
        "origin=Debian,codename=${distro_codename}-security,label=Debian-Security";
};
Unattended-Upgrade::Package-Blacklist {
    // "linux-";
};
"""
NVIDIA = "Origin: NVIDIA\nLabel: NVIDIA CUDA\nSuite: debian12\nCodename: debian12\n"
LISTS = "var/lib/apt/lists"
VENDOR = f"{LISTS}/developer.download.nvidia.com_compute_cuda_repos_debian12_x86%5f64"


def conf(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    parse(text, found)
    return found


# apt.conf -------------------------------------------------------------------------------------------------------------


def test_the_ways_to_write_a_setting() -> None:
    text = """
    APT::Periodic::Enable "1"; # comment
    APT { Periodic { Unattended-Upgrade "7"; }; };
    A::List { "x"; "y // no comment"; };
    A::List:: "z";
    /* B "1"; */
    C "\\"quoted\\"";
    """
    assert conf(text) == {
        "apt::periodic::enable": ["1"],
        "apt::periodic::unattended-upgrade": ["7"],
        "a::list": ["x", "y // no comment", "z"],
        "c": ['"quoted"'],
    }


def test_a_later_value_replaces_and_clear_takes_away() -> None:
    assert conf('A "1"; A "2";') == {"a": ["2"]}
    assert conf('A::B "1"; A::C "2"; AB "3"; #clear A;') == {"ab": ["3"]}


@pytest.mark.parametrize("text", ['A "', "A {", "}}}}", ";;;", '"', "#clear", "/*", "A::B", "{ { {", "\0"])
def test_settings_that_are_cut_off(text: str) -> None:
    assert conf(text) == {}


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/apt/apt.conf.d/99last": 'A "99";',
            "etc/apt/apt.conf.d/10first": 'A "10"; B "10";',
            "etc/apt/apt.conf.d/50x.dpkg-old": 'B "old";',
            "etc/apt/apt.conf.d/60y.conf": 'C "60";',
            "etc/apt/apt.conf": 'D "1";',
        },
    )
    assert read_apt_conf(Tree(tmp_path)) == {"a": ["99"], "b": ["10"], "c": ["60"], "d": ["1"]}


# Patterns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "answer"),
    [
        ("origin=Debian,codename=${distro_codename},label=Debian", True),
        ("o=Debian,n=bookworm", True),
        ("o=${distro_id}", True),
        ("origin=*", True),
        ("origin=Debian,codename=${distro_codename}-security", False),
        ("origin=NVIDIA", False),
        ("site=deb.debian.org", True),
        ("component=main", None),  # not known of a repository
        ("component=main,origin=NVIDIA", False),
        ("what=ever", None),
        ("nonsense", None),
        ("origin=${unknown}", None),
        ("", False),
    ],
)
def test_which_repositories_a_pattern_allows(pattern: str, answer: bool | None) -> None:
    repository = Repository("Debian", "Debian", "oldstable", "bookworm", "deb.debian.org")
    assert matches(pattern, repository, DEBIAN) is answer


@pytest.mark.parametrize(
    ("patterns", "answer"),
    [
        (["nvidia-"], True),
        (["nvidia-driver$"], True),
        (["driver"], False),  # matched from the start
        ([".*driver"], True),
        (["(nvidia"], False),  # broken
        (["(n+)+(n+)+$"], False),  # could be tried for ever
        (["linux-", "libnvidia"], False),
        ([], False),
    ],
)
def test_the_black_list(patterns: list[str], answer: bool) -> None:
    assert listed(patterns, "nvidia-driver") is answer


@pytest.mark.parametrize(
    ("packages", "pin", "priority", "answer"),
    [
        ("nvidia-driver", "version 595.58.03-1", 1000, True),
        ("nvidia-*", "version 595.58.03*", 1000, True),
        ("src:*nvidia*:any src:cuda-drivers:any", "version 595.58.03-1", 1000, True),
        ("src:nvidia-driver:any", "version 595.58.03-1", 1000, False),
        ("nvidia-driver:amd64", "version 595.58.03-1", 600, True),
        ("nvidia-*", "version 595.*", 1000, False),  # the branch goes on
        ("nvidia-*", "version 595.58.03-1", 500, False),
        ("nvidia-*", "version 595.58.03-1", None, False),
        ("nvidia-*", "version 580.65.06-1", 1000, False),
        ("nvidia-*", "origin developer.download.nvidia.com", 1000, False),
        ("cuda-*", "version 595.58.03-1", 1000, False),
    ],
)
def test_whether_a_pin_keeps_exactly_what_is_installed(
    packages: str, pin: str, priority: int | None, answer: bool
) -> None:
    assert pinned(DRIVER, [Pin(packages, pin, priority, "x")]) is answer


LIST = "Package: nvidia-driver\nArchitecture: amd64\nVersion: 595.58.03-1\nSize: 1\n\nPackage: x\nVersion: 9\n"


@pytest.mark.parametrize(
    ("package", "installed", "answer"),
    [
        ("nvidia-driver", "595.58.03-1", True),
        ("nvidia-driver", "580.65.06-1", True),
        ("nvidia-driver", "600.10-1", False),
        ("driver", "1", False),
        ("x", "1", True),
        ("absent", "1", False),
    ],
)
def test_whether_a_repository_offers_a_package(package: str, installed: str, answer: bool) -> None:
    assert offers(LIST, package, installed) is answer


# unattended-upgrades --------------------------------------------------------------------------------------------------


def host(root: Path, *settings: str, vendor: bool = True) -> Path:
    files: dict[str, str | bytes] = {"usr/bin/unattended-upgrade": "program"}
    for number, text in enumerate(settings):
        files[f"etc/apt/apt.conf.d/{number}0x"] = text
    if vendor:
        files |= {f"{VENDOR}_Packages": LIST, f"{VENDOR}_InRelease": NVIDIA}
    return write(root, files)


def asked(root: Path, *packages: Package, pins: tuple[Pin, ...] = ()) -> UnattendedUpgrades:
    return read_unattended(Tree(root), DEBIAN, packages, pins)


def test_not_installed(tmp_path: Path) -> None:
    found = asked(tmp_path, DRIVER)
    assert (found.tool, found.installed, found.enabled, found.covers_driver) == (
        "unattended-upgrades",
        False,
        False,
        False,
    )


@pytest.mark.parametrize(
    "settings",
    ["", 'APT::Periodic::Unattended-Upgrade "0";', ON + 'APT::Periodic::Enable "0";'],
)
def test_switched_off(tmp_path: Path, settings: str) -> None:
    found = asked(host(tmp_path, settings), DRIVER)
    assert (found.installed, found.enabled, found.covers_driver) == (True, False, False)


def test_a_masked_timer_switches_it_off(tmp_path: Path) -> None:
    root = host(tmp_path, ON, DEFAULTS)
    assert asked(root, DRIVER).enabled is True
    link(root, "etc/systemd/system/apt-daily-upgrade.timer", "/dev/null")
    assert asked(root, DRIVER).enabled is False


@pytest.mark.parametrize("folder", ["usr/lib/systemd/system", "lib/systemd/system"])
def test_a_timer_that_is_not_enabled_switches_it_off(tmp_path: Path, folder: str) -> None:
    root = host(tmp_path, ON, DEFAULTS)
    write(root, {f"{folder}/apt-daily-upgrade.timer": "[Timer]\n"})
    assert asked(root, DRIVER).enabled is False
    link(root, "etc/systemd/system/timers.target.wants/fstrim.timer", f"/{folder}/fstrim.timer")
    assert asked(root, DRIVER).enabled is False
    wanted = "etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer"
    link(root, wanted, f"/{folder}/apt-daily-upgrade.timer")
    assert asked(root, DRIVER).enabled is True
    link(root, "etc/systemd/system/apt-daily-upgrade.timer", "/dev/null")
    assert asked(root, DRIVER).enabled is False


def test_a_timer_that_the_vendor_wires_up_needs_no_link_of_the_administrator(tmp_path: Path) -> None:
    root = write(host(tmp_path, ON, DEFAULTS), {"usr/lib/systemd/system/apt-daily-upgrade.timer": "[Timer]\n"})
    link(root, "usr/lib/systemd/system/timers.target.wants/apt-daily-upgrade.timer", "../apt-daily-upgrade.timer")
    assert asked(root, DRIVER).enabled is True


def test_a_masked_service_switches_it_off(tmp_path: Path) -> None:
    root = host(tmp_path, ON, DEFAULTS)
    link(root, "etc/systemd/system/apt-daily-upgrade.service", "/dev/null")
    assert asked(root, DRIVER).enabled is False


def test_debians_defaults_leave_the_vendors_driver_alone(tmp_path: Path) -> None:
    found = asked(host(tmp_path, ON, DEFAULTS), DRIVER)
    assert (found.enabled, found.covers_driver) == (True, False)
    assert found.reason == "No repository that upgrades are allowed from has the driver."


@pytest.mark.parametrize("pattern", ["origin=*", "origin=NVIDIA", "site=developer.download.nvidia.com", "l=NVIDIA*"])
def test_a_pattern_that_takes_the_vendors_repository_in(tmp_path: Path, pattern: str) -> None:
    root = host(tmp_path, ON, DEFAULTS, f'Unattended-Upgrade::Origins-Pattern:: "{pattern}";')
    found = asked(root, DRIVER)
    assert found.covers_driver is True
    assert "nvidia-driver" in str(found.reason)


def test_ubuntus_older_way_to_name_origins(tmp_path: Path) -> None:
    root = host(tmp_path, ON, 'Unattended-Upgrade::Allowed-Origins { "NVIDIA:debian12"; };')
    assert asked(root, DRIVER).covers_driver is True
    root = host(tmp_path, ON, 'Unattended-Upgrade::Allowed-Origins { "Debian:debian12"; };')
    assert asked(root, DRIVER).covers_driver is False


@pytest.mark.parametrize(("suite", "covers"), [("noble-security", True), ("noble-updates", False)])
def test_ubuntus_own_driver_by_ubuntus_defaults(tmp_path: Path, suite: str, covers: bool) -> None:
    defaults = """Unattended-Upgrade::Allowed-Origins {
        "${distro_id}:${distro_codename}";
        "${distro_id}:${distro_codename}-security";
        "UbuntuESM:${distro_codename}-infra-security";
//      "${distro_id}:${distro_codename}-updates";
};"""
    archive = f"{LISTS}/archive.ubuntu.com_ubuntu_dists_{suite}"
    root = host(tmp_path, ON, defaults, vendor=False)
    write(
        root,
        {
            f"{archive}_restricted_binary-amd64_Packages": "Package: nvidia-driver\nVersion: 595.58.03-1\n",
            f"{archive}_main_binary-amd64_Packages": "Package: bash\nVersion: 5\n",
            f"{archive}_InRelease": (
                "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n"
                f"Origin: Ubuntu\nLabel: Ubuntu\nSuite: {suite}\nCodename: noble\nMD5Sum:\n abc 1 x\n"
            ),
        },
    )
    noble = OperatingSystem("ubuntu", "24.04", "noble", "debian", "x86_64", "apt")
    assert read_unattended(Tree(root), noble, [DRIVER], ()).covers_driver is covers


def test_what_keeps_the_driver_out(tmp_path: Path) -> None:
    everything = 'Unattended-Upgrade::Origins-Pattern { "origin=*"; };'
    root = host(tmp_path / "a", ON, everything)
    held = Package("nvidia-driver", "595.58.03-1", kind="driver", held=True)
    assert asked(root, held).covers_driver is False
    assert asked(root, held, DRIVER).covers_driver is True
    pin = Pin("nvidia-driver", "version 595.58.03-1", 1001, "x")
    assert asked(root, DRIVER, pins=(pin,)).covers_driver is False
    root = host(tmp_path / "b", ON, everything, 'Unattended-Upgrade::Package-Blacklist { "nvidia-"; };')
    assert asked(root, DRIVER).covers_driver is False
    strict = 'Unattended-Upgrade::Package-Whitelist { "bash"; }; Unattended-Upgrade::Package-Whitelist-Strict "true";'
    assert asked(host(tmp_path / "c", ON, everything, strict), DRIVER).covers_driver is False


def test_what_cannot_be_decided(tmp_path: Path) -> None:
    root = host(tmp_path, ON, DEFAULTS, vendor=False)
    assert asked(root, DRIVER).covers_driver is None
    assert asked(root, Package("linux-image-amd64", "1", kind="kernel")).covers_driver is None


# dnf-automatic --------------------------------------------------------------------------------------------------------


def rhel(root: Path, settings: str | None, *timers: str) -> Path:
    root.mkdir(exist_ok=True)
    if settings is not None:
        write(root, {"etc/dnf/automatic.conf": settings})
    for timer in timers:
        write(root, {f"usr/lib/systemd/system/{timer}": "[Timer]\n"})
        link(root, f"etc/systemd/system/timers.target.wants/{timer}", f"/usr/lib/systemd/system/{timer}")
    return root


APPLY = "[commands]\nupgrade_type = default\napply_updates = yes\n"


@pytest.mark.parametrize(
    ("settings", "timers", "enabled", "covers"),
    [
        (None, (), False, False),
        (APPLY, (), False, False),
        (APPLY, ("dnf-automatic.timer",), True, True),
        (APPLY, ("dnf5-automatic.timer",), True, True),
        (APPLY.replace("yes", "no"), ("dnf-automatic.timer",), False, False),
        (APPLY.replace("yes", "no"), ("dnf-automatic-install.timer",), True, True),
        (APPLY, ("dnf-automatic-notifyonly.timer",), False, False),
        (APPLY.replace("default", "security"), ("dnf-automatic.timer",), True, None),
    ],
)
def test_dnf_automatic(
    tmp_path: Path, settings: str | None, timers: tuple[str, ...], enabled: bool, covers: bool | None
) -> None:
    found = read_unattended(Tree(rhel(tmp_path, settings, *timers)), RHEL, [DRIVER], ())
    assert (found.tool, found.enabled, found.covers_driver) == ("dnf-automatic", enabled, covers)


def test_dnf_automatics_timer_that_is_there_and_not_enabled_or_masked(tmp_path: Path) -> None:
    root = write(rhel(tmp_path, APPLY), {"usr/lib/systemd/system/dnf-automatic.timer": "[Timer]\n"})
    assert read_unattended(Tree(root), RHEL, [DRIVER], ()).enabled is False
    link(root, "etc/systemd/system/timers.target.wants/dnf-automatic.timer", "/usr/lib/systemd/system/x")
    assert read_unattended(Tree(root), RHEL, [DRIVER], ()).enabled is True
    link(root, "etc/systemd/system/dnf-automatic.timer", "/dev/null")
    assert read_unattended(Tree(root), RHEL, [DRIVER], ()).enabled is False


def test_dnf_automatic_and_a_lock(tmp_path: Path) -> None:
    tree = Tree(rhel(tmp_path, APPLY, "dnf-automatic.timer"))
    locked = Package("nvidia-driver", "3:595.58.03-1.el9", kind="driver", held=True)
    assert read_unattended(tree, RHEL, [locked], ()).covers_driver is False
    assert read_unattended(tree, RHEL, [], ()).covers_driver is None


def test_another_system_has_none_that_is_known(tmp_path: Path) -> None:
    assert read_unattended(Tree(tmp_path), OperatingSystem("arch"), [], ()) == UnattendedUpgrades()
