# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the arguments that a kernel shall get to the files of its loader, and what is left to be done. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import FILE, Item, file_state, text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_facts import (
    GRUB_BLS,
    GRUB_DEFAULT_FILE,
    GRUB_DROP_IN,
    SYSTEMD_BOOT,
    KernelFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import (
    Argument,
    conflict,
    lacking,
    without_words,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.loader_files import (
    DROP_IN,
    GRUB_DEFAULT,
    KERNEL_CMDLINE,
    Edit,
    Words,
    cmdline_words,
    default_words,
    drop_in,
    entry_words,
    grub_words,
    with_cmdline,
    with_default,
    with_entry_options,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.record import Section
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.settled import settled

# What the record keeps beside the files.
WORDS, THEIRS, LEAVING = "words", "words_of_others", "leaving"
MENU_PENDING, BOOT = "menu_pending", "changed_in_boot"
_WORDS = re.compile(r"[\s\"']+")
_WITH_MENU = (GRUB_DROP_IN, GRUB_DEFAULT_FILE)


@dataclass(frozen=True)
class KernelPlan:
    """C(words): all that this role has the loader say. C(theirs): by path, those of them that others had put into a
    file before they were ours. C(with_menu): whether a menu has to follow a change."""

    items: tuple[Item, ...]
    words: tuple[str, ...]
    with_menu: bool
    theirs: Mapping[str, list[str]] = field(default_factory=dict)

    def notes(self, former: Mapping[str, Any]) -> dict[str, Any]:
        """What the record has to hold while files change: also what was ours until now."""
        words = list(dict.fromkeys([*former.get(WORDS, ()), *self.words]))
        return {**former, WORDS: words, **({THEIRS: dict(self.theirs)} if self.theirs else {})}


def _edits(facts: KernelFacts) -> list[tuple[str, Edit, Words]]:
    """The shared files of the loader, and how each of them is read and edited."""
    found: list[tuple[str, Edit, Words]] = []
    if facts.loader in (GRUB_BLS, GRUB_DEFAULT_FILE) and GRUB_DEFAULT in facts.files:
        found.append((GRUB_DEFAULT, with_default, default_words))
    if facts.loader in (GRUB_BLS, SYSTEMD_BOOT):
        if KERNEL_CMDLINE in facts.files:
            found.append((KERNEL_CMDLINE, with_cmdline, cmdline_words))
        found += [(path, with_entry_options, entry_words) for path in facts.entries]
    return found


def base_of(section: Section, path: str, text: str) -> str:
    """The text of a shared file without the words that it has from us."""
    known = section.entries.get(f"{FILE}:{path}")
    if known is None:
        return text
    entry = settled(known, {"text": text})
    before = text_of(entry.before) or ""
    if text == text_of(entry.ours):
        return before
    kept = set(before.replace('"', " ").replace("'", " ").split())
    return without_words(text, [word for word in entry.words if word not in kept])


def others_grub_texts(facts: KernelFacts) -> dict[str, str]:
    """What grub-mkconfig sources, but for our own drop-in, in its order."""
    names = [path for path in facts.files if path.endswith(".cfg") and path != DROP_IN]
    return {path: facts.files[path] for path in [GRUB_DEFAULT, *sorted(names)] if path in facts.files}


def _refuse_conflict(arguments: Iterable[Argument], line: Sequence[str], path: str) -> None:
    for argument in arguments:
        word = conflict(line, argument)
        if word is not None:
            raise Refusal(
                "kernel_argument_conflict",
                f"{path} has the kernel argument {word}, which somebody else set, and {argument.text} is asked for.",
                f"Take {word} out of {path} when it is not meant any more, or do not ask for {argument.text}.",
                {"path": path, "found": word, "wanted": argument.text},
            )


def plan_kernel(arguments: Sequence[Argument], facts: KernelFacts, section: Section) -> KernelPlan:
    """What the files of the loader have to hold; with no arguments, nothing of ours."""
    words = tuple(word for argument in arguments for word in argument.words)
    if arguments and facts.loader in _WITH_MENU and facts.menu is None:
        raise Refusal(
            "kernel_menu_tool_missing",
            "/etc/default/grub is there, and neither update-grub nor grub-mkconfig, which make GRUB's menu of it.",
            "Install the package that has it (grub2-common, or grub2-tools), or remove /etc/default/grub where another "
            "loader boots this node.",
        )
    items: list[Item] = []
    theirs: dict[str, list[str]] = {}
    if facts.loader == GRUB_DROP_IN:
        there = grub_words(others_grub_texts(facts).values())
        for path, own in others_grub_texts(facts).items():
            _refuse_conflict(arguments, grub_words([own]), path)
        text = drop_in(arguments, there)
        if text is not None:
            items.append(Item(FILE, DROP_IN, file_state(text)))
    else:
        theirs = _theirs(words, facts, section)
        items += _shared(arguments, words, facts, section, theirs)
    return KernelPlan(tuple(items), words, facts.loader in _WITH_MENU, theirs)


def _theirs(words: Sequence[str], facts: KernelFacts, section: Section) -> dict[str, list[str]]:
    """Of the words that are to be ours, what each file says by itself. A file that comes later, with words that are
    ours by then, has them from us: a new kernel's entry is made from what the others say."""
    ours = section.notes.get(WORDS, ())
    found = {path: list(known) for path, known in section.notes.get(THEIRS, {}).items()}
    for path, _edit, read in _edits(facts):
        text = facts.files[path]
        if f"{FILE}:{path}" in section.entries:
            there = [word for word in read(base_of(section, path, text)) if word in words]
        else:
            there = [word for word in read(text) if word in words and word not in ours]
        found[path] = list(dict.fromkeys([*found.get(path, ()), *there]))
    return {path: known for path, known in found.items() if known}


def _shared(
    arguments: Sequence[Argument],
    words: tuple[str, ...],
    facts: KernelFacts,
    section: Section,
    theirs: Mapping[str, Sequence[str]],
) -> list[Item]:
    gone = [word for word in section.notes.get(WORDS, ()) if word not in words]
    items = []
    for path, edit, read in _edits(facts):
        text = facts.files[path]
        known = f"{FILE}:{path}" in section.entries
        # A kernel that was installed since has its entry from what the others said.
        stray = [word for word in gone if word not in theirs.get(path, ())]
        base = base_of(section, path, text) if known else without_words(text, stray)
        _refuse_conflict(arguments, read(base), path)
        goal = edit(base, arguments)
        # Where somebody added words behind ours, the same words stand there in another order.
        if sorted(_WORDS.split(goal)) == sorted(_WORDS.split(text)) and not lacking(read(text), arguments):
            goal = text
        if goal != base:
            items.append(Item(FILE, path, {"text": goal}, words, base))
        elif not known and base != text:
            items.append(Item(FILE, path, {"text": base}, kept=False))
    return items


def menu_is_due(plan: KernelPlan, facts: KernelFacts, section: Section, changes: bool) -> bool:
    """Whether GRUB's menu has to be written anew: also where a run was killed before it came to that."""
    if not plan.with_menu:
        return False
    if changes or section.notes.get(MENU_PENDING):
        return True
    if facts.next_words is None:
        return False
    return any(word not in facts.next_words for word in plan.words)


def words_leaving(plan: KernelPlan, facts: KernelFacts, section: Section) -> tuple[str, ...]:
    """Words that were ours, are wanted no more, and that the running kernel still has."""
    former = [*section.notes.get(WORDS, ()), *section.notes.get(LEAVING, ())]
    kept = {*plan.words, *_others_words(facts, section)}
    return tuple(dict.fromkeys(word for word in former if word not in kept and word in facts.running))


def _others_words(facts: KernelFacts, section: Section) -> set[str]:
    if facts.loader == GRUB_DROP_IN:
        return set(grub_words(others_grub_texts(facts).values()))
    return {word for path, _edit, read in _edits(facts) for word in read(base_of(section, path, facts.files[path]))}


def words_lacking(arguments: Sequence[Argument], facts: KernelFacts) -> tuple[str, ...]:
    """What the running kernel was not told."""
    return tuple(argument.text for argument in lacking(facts.running, arguments))


def refuse_not_taken(missing: Sequence[str], facts: KernelFacts, notes: Mapping[str, object]) -> None:
    """A reboot came, and the arguments did not: another reboot would not bring them either."""
    changed_in = notes.get(BOOT)
    if missing and changed_in and facts.boot_id and changed_in != facts.boot_id:
        raise Refusal(
            "kernel_arguments_not_taken",
            f"The node was booted since its loader's files were changed, and the kernel was not told "
            f"{', '.join(missing)}: /proc/cmdline does not have it.",
            "Look which loader and which entry boot this node (bootctl, efibootmgr, grub-editenv list); the files that "
            "were changed are those of "
            + facts.loader
            + ". Restore with node_tuning_state=absent where it is not used.",
            {"lacking": list(missing), "loader": facts.loader},
        )
