# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Which kernel boots next, by GRUB's menu, by entries of the Boot Loader Specification, by age."""

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.bls import (
    BlsEntry,
    expanded,
    in_grubs_order,
    in_systemd_boots_order,
    parse_entry,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.boot import (
    next_boot_by_age,
    next_boot_by_grub,
    read_next_boot,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.facts import Kernel, NextBoot
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.files import Tree
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.grub import (
    chosen_entry,
    parse_environment,
    parse_menu,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.grub_script import condition, statements
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.stack.trees import (
    MACHINE_ID,
    RHEL_MENU,
    bls_entry,
    link,
    ubuntu_menu,
    write,
)

NEW, OLD = "6.17.0-22-generic", "6.17.0-20-generic"
RHEL_NEW, RHEL_OLD = "5.14.0-570.12.1.el9_6.x86_64", "5.14.0-503.40.1.el9_5.x86_64"


def kernels(*releases: str) -> list[Kernel]:
    return [Kernel(release, vmlinuz=f"/boot/vmlinuz-{release}") for release in releases]


def boot(default: str = "0", **environment: str) -> NextBoot:
    return next_boot_by_grub(parse_menu(ubuntu_menu(NEW, OLD, default), environment), [], [NEW, OLD])


# GRUB's script --------------------------------------------------------------------------------------------------------


def test_words_and_quotes() -> None:
    text = 'set a="b c" # comment\necho \'it is\' \\\n  on; menuentry \'a"b\' "c\\"d" x#y {\n}\n'
    assert list(statements(text)) == [
        ["set", "a=b c"],
        ["echo", "it is", "on"],
        ["menuentry", 'a"b', 'c"d', "x#y", "{"],
        ["}"],
    ]


@pytest.mark.parametrize("text", ["'never ended", '"never ended\\', "\\", "menuentry", "}}}}", "submenu x {", "set"])
def test_a_script_that_is_cut_off(text: str) -> None:
    assert parse_menu(text).default == "0"


def test_a_menu_that_is_nested_without_end() -> None:
    menu = parse_menu("submenu x {\n" * 5000)
    assert chosen_entry(menu.entries, "0>0>0") is None


def test_the_first_entry_is_the_default() -> None:
    assert boot() == NextBoot(NEW, "grub", "Ubuntu", "root=UUID=aaaa ro iommu=pt", False)


@pytest.mark.parametrize(
    "default",
    [
        "1>2",
        "Advanced options for Ubuntu>Ubuntu, with Linux " + OLD,
        f"gnulinux-advanced-aaaa>gnulinux-{OLD}-advanced-aaaa",
        f"1>gnulinux-{OLD}-advanced-aaaa",
    ],
)
def test_an_older_kernel_in_the_submenu(default: str) -> None:
    assert boot(default) == NextBoot(OLD, "grub", f"Ubuntu, with Linux {OLD}", "root=UUID=aaaa ro", False)
    assert boot("${saved_entry}", saved_entry=default).kernel == OLD


def test_the_saved_entry_counts_only_where_the_default_is_saved() -> None:
    assert boot("0", saved_entry="1>2").kernel == NEW
    assert boot("${saved_entry}").kernel == NEW


def test_the_next_entry_counts_once() -> None:
    chosen = boot("0", next_entry="1>2")
    assert (chosen.kernel, chosen.once) == (OLD, True)
    assert boot("1>2", next_entry="").once is False
    # A menu that was not made by grub-mkconfig may not look at it.
    text = "menuentry a {\nlinux /vmlinuz-1\n}\nmenuentry b {\nlinux /vmlinuz-2\n}\n"
    assert next_boot_by_grub(parse_menu(text, {"next_entry": "1"}), [], []) == NextBoot("1", "grub", "a")


@pytest.mark.parametrize("default", ["7", "no such entry", "1>9", "99999999999999999999", ">", ""])
def test_a_default_that_is_not_there_is_the_first_of_its_menu(default: str) -> None:
    assert boot(default).kernel == NEW


def test_an_entry_that_is_no_kernel() -> None:
    found = boot("2")
    assert (found.kernel, found.entry) == (None, "Memory test (memtest86+x64.efi)")


def test_titles_with_the_sign_that_parts_them() -> None:
    menu = parse_menu(
        "submenu 'a > b' {\nmenuentry 'c>d' {\nlinux /vmlinuz-1.2\n}\nmenuentry x {\nlinux /vmlinuz-9\n}\n}"
    )
    found = chosen_entry(menu.entries, "a >> b>c>>d")
    assert found is not None and found.kernel == "/vmlinuz-1.2"


def test_the_mapping_of_an_old_title_maps_nothing_in_grub_either() -> None:
    """grub-mkconfig compares "x$default" with a title that has no x in front, which is never the same."""
    old = f"Ubuntu, with Linux {OLD}"
    mapping = f"if [ \"x$default\" = '{old}' ]; then default='Advanced options for Ubuntu>{old}'; fi;\n"
    text = ubuntu_menu(NEW, OLD, old) + mapping
    assert next_boot_by_grub(parse_menu(text), [], []).kernel == NEW
    assert next_boot_by_grub(parse_menu(text.replace('"x$default"', '"$default"')), [], []).kernel == OLD


def test_the_menu_is_not_fooled_by_what_functions_set() -> None:
    text = (
        'set default="0"\nfunction x {\n  set default="1"\n}\nmenuentry a {\n  set default="2"\n  linux /vmlinuz-1\n}\n'
    )
    assert parse_menu(text).default == "0"


def test_an_empty_menu_boots_nothing() -> None:
    assert next_boot_by_grub(parse_menu(""), [], []) == NextBoot()


def test_the_environment_block() -> None:
    text = "# GRUB Environment Block\nsaved_entry=a\\\\b\nkernelopts=root=/dev/sda ro\n" + "#" * 900
    assert parse_environment(text) == {"saved_entry": "a\\b", "kernelopts": "root=/dev/sda ro"}
    assert parse_environment(None) == {}


# The Boot Loader Specification ----------------------------------------------------------------------------------------


def entries() -> list[BlsEntry]:
    return [
        parse_entry(f"{MACHINE_ID}-{release}.conf", bls_entry(release))
        for release in (RHEL_OLD, RHEL_NEW, f"0-rescue-{MACHINE_ID}")
    ]


def test_an_entry_of_rhel() -> None:
    entry = parse_entry(f"{MACHINE_ID}-{RHEL_NEW}.conf", bls_entry(RHEL_NEW))
    assert (entry.id, entry.kernel) == (f"{MACHINE_ID}-{RHEL_NEW}", f"/vmlinuz-{RHEL_NEW}")
    assert entry.title == f"Rocky Linux ({RHEL_NEW}) 9.6 (Blue Onyx)"
    assert expanded(entry.options, {"tuned_params": "iommu=pt"}) == "root=/dev/mapper/rl-root ro iommu=pt"
    assert expanded(entry.options, {}) == "root=/dev/mapper/rl-root ro"
    assert expanded(None, {}) is None


def test_the_newest_is_first_in_grubs_menu_and_the_rescue_image_last() -> None:
    assert [entry.version for entry in in_grubs_order(entries())] == [RHEL_NEW, RHEL_OLD, f"0-rescue-{MACHINE_ID}"]


@pytest.mark.parametrize(
    ("environment", "release"),
    [
        ({}, RHEL_NEW),
        ({"saved_entry": f"{MACHINE_ID}-{RHEL_OLD}"}, RHEL_OLD),
        ({"saved_entry": "1"}, RHEL_OLD),
        ({"saved_entry": f"Rocky Linux ({RHEL_OLD}) 9.6 (Blue Onyx)"}, RHEL_OLD),
        ({"saved_entry": f"{MACHINE_ID}-5.14.0-removed"}, RHEL_NEW),
    ],
)
def test_rhels_default(environment: dict[str, str], release: str) -> None:
    found = next_boot_by_grub(parse_menu(RHEL_MENU, environment), entries(), [])
    assert (found.kernel, found.source) == (release, "bls")


def test_entries_come_in_where_blscfg_stands() -> None:
    menu = parse_menu("menuentry first {\nlinux /vmlinuz-1\n}\nblscfg\n")
    assert next_boot_by_grub(menu, entries(), []).kernel == "1"
    assert next_boot_by_grub(parse_menu("blscfg\n" + "menuentry x {\n}\n"), entries(), []).kernel == RHEL_NEW


def test_systemd_boots_order() -> None:
    """Entries that failed last; those with a sort key first; within one key the newest."""
    made = {
        "b-10": BlsEntry("b-10", sort_key="b", version="10"),
        "a-5": BlsEntry("a-5", sort_key="a", version="5"),
        "a-10": BlsEntry("a-10", sort_key="a", version="10"),
        "a-11-bad": BlsEntry("a-11", sort_key="a", version="11", tries_left=0),
        "plain-2": BlsEntry("plain-2"),
        "plain-10": BlsEntry("plain-10"),
    }
    ordered = in_systemd_boots_order(list(made.values()))
    names = [next(name for name, entry in made.items() if entry is one) for one in ordered]
    assert names == ["a-10", "a-5", "b-10", "plain-10", "plain-2", "a-11-bad"]


def test_boot_counting_in_a_files_name() -> None:
    assert parse_entry("fedora-6.10+3-0.conf", "") == BlsEntry("fedora-6.10", tries_left=3)
    assert parse_entry("fedora-6.10+0-3.conf", "").tries_left == 0
    assert parse_entry("fedora-6.10+debug.conf", "") == BlsEntry("fedora-6.10+debug")


# Conditions -----------------------------------------------------------------------------------------------------------

FALLBACK = """\
insmod increment
if [ -n "${boot_counter}" -a "${boot_success}" = "0" ]; then
  if  [ "${boot_counter}" = "0" -o "${boot_counter}" = "-1" ]; then
    set default=1
    set boot_counter=-1
  else
    decrement boot_counter
  fi
  save_env boot_counter
fi
"""


@pytest.mark.parametrize(
    ("environment", "release"),
    [
        ({}, RHEL_NEW),
        ({"boot_success": "0", "boot_indeterminate": "0"}, RHEL_NEW),
        ({"boot_success": "0", "boot_counter": "2"}, RHEL_NEW),
        ({"boot_success": "1", "boot_counter": "0"}, RHEL_NEW),
        ({"boot_success": "0", "boot_counter": "0"}, RHEL_OLD),
        ({"boot_success": "0", "boot_counter": "-1"}, RHEL_OLD),
        ({"boot_counter": "0"}, RHEL_NEW),
    ],
)
def test_the_fallback_counts_only_where_grubenv_says_so(environment: dict[str, str], release: str) -> None:
    text = RHEL_MENU.replace("insmod part_gpt\n", FALLBACK)
    assert FALLBACK in text
    chosen = {**environment, "saved_entry": f"{MACHINE_ID}-{RHEL_NEW}"}
    assert next_boot_by_grub(parse_menu(text, chosen), entries(), []).kernel == release


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ('if [ "$grub_platform" = "efi" ]; then\nset default=1\nelse\nset default=2\nfi', "0"),  # only GRUB knows
        ("if [ -f /x ]; then set default=1; fi", "0"),
        ("if keystatus --shift; then set default=1; fi", "0"),
        ("if true; then set default=1; else set default=2; fi", "1"),
        ("if false; then set default=1; else set default=2; fi", "2"),
        ("if false; then set default=1; elif true; then set default=2; else set default=3; fi", "2"),
        ("if false\nthen\nset default=1\nelif false\nthen\nset default=2\nelse\nset default=3\nfi", "3"),
        ("if [ -f /x ]; then set default=1; elif true; then set default=2; fi", "0"),
        ("if true; then set default=1; elif true; then set default=2; fi", "1"),
        ("if false; then if true; then set default=1; fi; set default=2; fi", "0"),
        ("if true; false; then set default=1; fi", "0"),
        ("while true; do set default=1; done; set x=2; set default=$x", "2"),
        ("fi; else; then; done; set default=1", "1"),
        ('set x=1\nif [ "$x" -ge 1 ]; then set default=3; fi', "3"),
        ("set x=1\nif [ -f /x ]; then set x=2; fi\nif [ $x = 1 ]; then set default=1; fi", "0"),
        ("set x=1\nunset x\nif [ -z $x ]; then set default=1; fi", "1"),
        ("set x=4\nincrement x\nset default=$x", "5"),
        ('if [ ! -n "$saved_entry" ]; then set default=1; fi', "1"),
        ("if [ a = b -o a = a -a b != b ]; then set default=1; else set default=2; fi", "2"),
        ("if [ a = b -o a = a ]; then set default=1; fi", "1"),
        ("if [ ( a = a ) ]; then set default=1; fi", "0"),
        ("if test a = a; then set default=1; fi", "1"),
        ("if [ ]; then set default=1; fi", "0"),
    ],
)
def test_what_is_set_behind_a_condition(text: str, default: str) -> None:
    assert parse_menu(text).default == default


@pytest.mark.parametrize(
    ("word", "how", "other", "answer"),
    [
        ("1", "-eq", "01", True),
        ("1", "-ne", "1", False),
        ("1", "-lt", "2", True),
        ("2", "-le", "2", True),
        ("2", "-gt", "2", False),
        ("-1", "-ge", "-2", True),
        ("x", "-ge", "1", None),
        ("x", "!=", "y", True),
        ("x", "==", "x", True),
        ("$unknown", "=", "", None),
        ("$boot_success", "=", "", True),
    ],
)
def test_comparisons(word: str, how: str, other: str, answer: bool | None) -> None:
    assert condition(["[", word, how, other, "]"], {}, False) is answer


def test_entries_of_a_branch_that_does_not_run_are_not_in_the_menu() -> None:
    text = "if false; then\nmenuentry a {\nlinux /vmlinuz-1\n}\nfi\nmenuentry b {\nlinux /vmlinuz-2\n}\n"
    assert [entry.title for entry in parse_menu(text).entries] == ["b"]
    assert [entry.title for entry in parse_menu(text.replace("false", "[ -f /x ]")).entries] == ["a", "b"]


def test_ubuntus_boot_after_one_without_initramfs() -> None:
    text = (
        'if [ "${initrdfail}" = 2 ]; then\nset initrdfail=\nelif [ "${initrdfail}" = 1 ]; then\n'
        'set next_entry="${prev_entry}"\nset prev_entry=\nfi\n' + ubuntu_menu(NEW, OLD)
    )
    failed = parse_menu(text, {"initrdfail": "1", "prev_entry": "1>2"})
    assert (failed.default, failed.once) == ("1>2", True)
    assert parse_menu(text, {"initrdfail": "2", "prev_entry": "1>2"}).default == "0"


@pytest.mark.parametrize(("default", "once"), [("${saved_entry}", True), ("0", False)])
def test_the_saved_entry_that_an_old_grub_reboot_set_holds_once(default: str, once: bool) -> None:
    text = 'if [ "${prev_saved_entry}" ]; then\nset saved_entry="${prev_saved_entry}"\nset boot_once=true\nfi\n'
    menu = parse_menu(ubuntu_menu(NEW, OLD, default) + text, {"saved_entry": "1>2", "prev_saved_entry": "0"})
    assert (menu.default, menu.once) == ("1>2" if once else "0", once)


def test_a_script_that_grows_without_end_is_not_followed() -> None:
    text = "set x=aaaaaaaaaaaaaaaa\n" + 'set x="$x$x"\n' * 60 + "set default=1\n" + "if true\n" * 20000
    assert parse_menu(text).default == "1"


def test_a_default_in_custom_cfg(tmp_path: Path) -> None:
    taken_in = (
        "if [ -f  ${config_directory}/custom.cfg ]; then\n  source ${config_directory}/custom.cfg\n"
        'elif [ -z "${config_directory}" -a -f  $prefix/custom.cfg ]; then\n  source $prefix/custom.cfg\nfi\n'
    )
    custom = 'set default="1>2"\nsource $prefix/custom.cfg\n'
    write(tmp_path, {"boot/grub/grub.cfg": ubuntu_menu(NEW, OLD) + taken_in})
    assert read_next_boot(Tree(tmp_path), kernels(NEW, OLD)).kernel == NEW
    write(tmp_path, {"boot/grub/custom.cfg": custom})
    assert read_next_boot(Tree(tmp_path), kernels(NEW, OLD)).kernel == OLD
    write(tmp_path, {"boot/grub/grub.cfg": ubuntu_menu(NEW, OLD)})  # which does not take it in
    assert read_next_boot(Tree(tmp_path), kernels(NEW, OLD)).kernel == NEW


def test_arguments_show_variables_values_and_leave_out_unknown_ones() -> None:
    text = 'set tuned_params=iommu=pt\nif [ -z "${kernelopts}" ]; then\nset kernelopts=root=/dev/b\nfi\nblscfg\n'
    entry = parse_entry("a.conf", "linux /vmlinuz-1\noptions $kernelopts $tuned_params ${other} quiet\n")

    def arguments(environment: dict[str, str]) -> str | None:
        return next_boot_by_grub(parse_menu(text, environment), [entry], []).arguments

    assert arguments({}) == "root=/dev/b iommu=pt quiet"
    assert arguments({"kernelopts": "root=/dev/a"}) == "root=/dev/a iommu=pt quiet"
    plain = "menuentry a {\nlinux /vmlinuz-1 ro quiet $vt_handoff\n}\n"
    assert next_boot_by_grub(parse_menu(plain), [], []).arguments == "ro quiet"


# Reading --------------------------------------------------------------------------------------------------------------


def test_grub_of_debian(tmp_path: Path) -> None:
    write(tmp_path, {"boot/grub/grub.cfg": ubuntu_menu(NEW, OLD), "boot/grub/grubenv": "next_entry=1>2\n####"})
    assert read_next_boot(Tree(tmp_path), kernels(NEW, OLD)).kernel == OLD


def systemd_boot(root: Path, *, loader: str = "", **variables: str) -> Path:
    files: dict[str, str | bytes] = {"boot/loader/loader.conf": loader}
    for release in ("6.12.1", "6.12.9"):
        files[f"boot/loader/entries/debian-{release}.conf"] = (
            f"title Debian\nversion {release}\nsort-key debian\nmachine-id m\n"
            f"linux /m/{release}/linux\noptions ro quiet\n"
        )
    for name, value in variables.items():
        path = f"sys/firmware/efi/efivars/{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
        files[path] = b"\x07\0\0\0" + (value + "\0").encode("utf-16-le")
    return write(root, files)


@pytest.mark.parametrize(
    ("loader", "variables", "release", "once"),
    [
        ("timeout 3\n", {}, "6.12.9", False),
        ("default debian-6.12.1.conf\n", {}, "6.12.1", False),
        ("default *-6.12.1*\n", {}, "6.12.1", False),
        ("default debian-6.12.9.conf\n", {"LoaderEntryDefault": "debian-6.12.1.conf"}, "6.12.1", False),
        ("", {"LoaderEntryOneShot": "debian-6.12.1.conf"}, "6.12.1", True),
        ("default absent.conf\n", {}, "6.12.9", False),
    ],
)
def test_systemd_boot(tmp_path: Path, loader: str, variables: dict[str, str], release: str, once: bool) -> None:
    root = systemd_boot(tmp_path, loader=loader, **variables)
    found = read_next_boot(Tree(root), kernels("6.12.9", "6.12.1"))
    assert found == NextBoot(release, "systemd_boot", "Debian", "ro quiet", once)


def test_the_loader_that_booted_counts_where_both_are_there(tmp_path: Path) -> None:
    root = systemd_boot(tmp_path)
    write(root, {"boot/grub/grub.cfg": ubuntu_menu(NEW, OLD)})
    assert read_next_boot(Tree(root), kernels("6.12.9")).source == "grub"
    root = systemd_boot(tmp_path, LoaderInfo="systemd-boot 257.5")
    assert read_next_boot(Tree(root), kernels("6.12.9")).source == "systemd_boot"


def test_a_unified_image_is_told_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"boot/loader/entries/a.conf": "title Debian\nuki /EFI/Linux/m-6.12.9-amd64.efi\n"})
    assert read_next_boot(Tree(tmp_path), kernels("6.12.9", "6.12.9-amd64")).kernel == "6.12.9-amd64"


def test_without_a_menu_the_newest_kernel_that_has_an_image(tmp_path: Path) -> None:
    left = Kernel("6.99.0")
    assert read_next_boot(Tree(tmp_path), [left, *kernels(OLD, NEW)]) == NextBoot(NEW, "newest")
    assert read_next_boot(Tree(tmp_path), []) == NextBoot()


@pytest.mark.parametrize(
    ("default", "release"),
    [
        ("0", NEW),
        ("saved", NEW),
        (f"Advanced options for Ubuntu>Ubuntu, with Linux {OLD}", OLD),
        (f"gnulinux-advanced-aaaa>gnulinux-{OLD}-advanced-aaaa", OLD),
    ],
)
def test_the_kernel_that_the_settings_name(default: str, release: str) -> None:
    assert next_boot_by_age(default, kernels(NEW, OLD)).kernel == release


def test_a_menu_that_may_not_be_read_is_no_reason_to_believe_other_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, {"boot/grub2/grub.cfg": RHEL_MENU, "boot/loader/entries/a.conf": bls_entry(RHEL_OLD)})
    tree = Tree(root)
    real = tree.data

    def guarded(relative: str, limit: int) -> bytes | None:
        if relative.endswith("grub.cfg"):
            tree.denied.add(relative)
            return None
        return real(relative, limit)

    monkeypatch.setattr(tree, "data", guarded)
    assert read_next_boot(tree, kernels(RHEL_NEW, RHEL_OLD)) == NextBoot(RHEL_NEW, "newest")


# RHEL 8 on EFI --------------------------------------------------------------------------------------------------------


def rhel8(root: Path, *, saved: str | None = RHEL_OLD, vendor: str = "rocky", menu: str | None = RHEL_MENU) -> Path:
    environment = f"saved_entry={MACHINE_ID}-{saved}\n" if saved else "boot_success=0\n"
    files: dict[str, str | bytes] = {f"boot/efi/EFI/{vendor}/grubenv": environment + "tuned_params=iommu=pt\n"}
    if menu is not None:
        files[f"boot/efi/EFI/{vendor}/grub.cfg"] = menu
    for release in (RHEL_NEW, RHEL_OLD):
        files[f"boot/loader/entries/{MACHINE_ID}-{release}.conf"] = bls_entry(release)
    link(root, "boot/grub2/grubenv", f"../efi/EFI/{vendor}/grubenv")
    return write(root, files)


@pytest.mark.parametrize("vendor", ["rocky", "redhat", "centos", "almalinux", "fedora", "ol", "another"])
def test_the_menu_on_the_efi_partition(tmp_path: Path, vendor: str) -> None:
    found = read_next_boot(Tree(rhel8(tmp_path, vendor=vendor)), kernels(RHEL_NEW, RHEL_OLD))
    assert (found.kernel, found.source) == (RHEL_OLD, "bls")
    assert found.arguments == "root=/dev/mapper/rl-root ro iommu=pt"


def test_a_menu_that_another_distribution_left_does_not_count(tmp_path: Path) -> None:
    root = write(rhel8(tmp_path), {"boot/efi/EFI/centos/grub.cfg": ubuntu_menu(NEW, OLD)})
    assert read_next_boot(Tree(root), kernels(RHEL_NEW, RHEL_OLD)).kernel == RHEL_OLD


def test_a_stub_on_the_efi_partition_is_no_menu(tmp_path: Path) -> None:
    stub = "search --fs-uuid --set=dev aaaa\nset prefix=($dev)/grub2\nexport $prefix\nconfigfile $prefix/grub.cfg\n"
    root = rhel8(tmp_path, menu=stub)
    assert read_next_boot(Tree(root), kernels(RHEL_NEW, RHEL_OLD)).kernel == RHEL_OLD
    write(root, {"boot/grub2/grub.cfg": RHEL_MENU.replace("${saved_entry}", "0")})
    assert read_next_boot(Tree(root), kernels(RHEL_NEW, RHEL_OLD)).kernel == RHEL_NEW


@pytest.mark.parametrize(
    ("saved", "settings", "release"),
    [
        (RHEL_OLD, "", RHEL_OLD),
        (RHEL_OLD, "GRUB_DEFAULT=saved\n", RHEL_OLD),
        (RHEL_OLD, "GRUB_DEFAULT=0\n", RHEL_NEW),
        (None, "GRUB_DEFAULT=saved\n", RHEL_NEW),
    ],
)
def test_without_grub_cfg_grubenv_tells_that_grub_boots(
    tmp_path: Path, saved: str | None, settings: str, release: str
) -> None:
    root = write(rhel8(tmp_path, saved=saved, menu=None), {"etc/default/grub": settings})
    found = read_next_boot(Tree(root), kernels(RHEL_NEW, RHEL_OLD))
    assert (found.kernel, found.source, found.once) == (release, "bls", False)
    assert found.arguments == "root=/dev/mapper/rl-root ro iommu=pt"


def test_without_grub_cfg_the_next_entry_holds_once(tmp_path: Path) -> None:
    root = write(rhel8(tmp_path, menu=None), {"boot/efi/EFI/rocky/grubenv": "next_entry=0\nsaved_entry=1\n"})
    found = read_next_boot(Tree(root), kernels(RHEL_NEW, RHEL_OLD))
    assert (found.kernel, found.once) == (RHEL_NEW, True)


def test_entries_that_are_written_for_grub_are_grubs(tmp_path: Path) -> None:
    write(tmp_path, {f"boot/loader/entries/{MACHINE_ID}-{RHEL_NEW}.conf": bls_entry(RHEL_NEW)})
    found = read_next_boot(Tree(tmp_path), kernels(RHEL_NEW))
    assert (found.kernel, found.source, found.arguments) == (RHEL_NEW, "bls", "root=/dev/mapper/rl-root ro")


def test_systemd_boot_that_says_so_beside_what_grub_left(tmp_path: Path) -> None:
    root = write(systemd_boot(tmp_path, LoaderInfo="systemd-boot 257.5"), {"boot/grub/grubenv": "saved_entry=1\n"})
    assert read_next_boot(Tree(root), kernels("6.12.9", "6.12.1")).source == "systemd_boot"
