# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of the arguments: what argparse and the server's own checks refuse."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    GENERAL,
    Failure,
    Pattern,
)

_ARGPARSE = "CPython Lib/argparse.py (ArgumentParser.error)"
_BEFORE = r"^[\w./-]+(?: \w+)?: error: "

ARGUMENTS = (
    Failure(
        "flag_ambiguous",
        "An argument is the beginning of several flags of this release.",
        "Write the flag in full.",
        (
            Pattern(
                _BEFORE + r"ambiguous option: (?P<flag>--[\w-]+)(?:=\S*)? could match (?P<candidates>.*)$",
                _ARGPARSE,
                "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match "
                "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "flag_unknown",
        "This release does not know an argument.",
        "Leave the flag out of extra_arguments, or write the one that this release has instead "
        "(`python -m sglang.launch_server --help`).",
        (
            Pattern(
                _BEFORE + r"unrecognized arguments: (?P<flag>--[\w-]+)?(?P<rest>.*)$",
                _ARGPARSE,
                "launch_server.py: error: unrecognized arguments: --hicache-rato 2",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "flag_value_invalid",
        "An argument has a value that this release does not take.",
        "Choose one of the values that the line names.",
        (
            Pattern(
                _BEFORE + r"argument (?P<flag>--[\w-]+)[^:]*: invalid choice: '?(?P<given>[^' ]*)'? "
                r"\(choose from (?P<candidates>.*)\)$",
                _ARGPARSE,
                "launch_server.py: error: argument --hicache-io-backend: invalid choice: 'cuda' (choose from 'direct', "
                "'kernel', 'kernel_ascend')",
            ),
            Pattern(
                _BEFORE + r"argument (?P<flag>--[\w-]+)[^:]*: (?:invalid (?P<kind>\w+) value: '?(?P<given>[^']*)'?|"
                r"expected .*)$",
                _ARGPARSE,
                "launch_server.py: error: argument --hicache-size: invalid int value: '96.5'",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "flag_missing",
        "A required argument is missing.",
        "Give the argument that the line names, by its variable or in extra_arguments.",
        (
            Pattern(
                _BEFORE + r"the following arguments are required: (?P<flag>.*)$",
                _ARGPARSE,
                "launch_server.py: error: the following arguments are required: --model-path/--model",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "flags_exclude_each_other",
        "Two arguments exclude each other.",
        "Leave one of the two that the line names out.",
        (
            Pattern(
                _BEFORE + r"argument (?P<flag>--[\w-]+)[^:]*: not allowed with argument (?P<other>.*)$",
                _ARGPARSE,
                "launch_server.py: error: argument --a: not allowed with argument --b",
            ),
            Pattern(
                r"^(?:ValueError|AssertionError): (?=.*(?:mutually exclusive|cannot be (?:used|set|enabled|specified) "
                r"(?:together|with|at the same time)|(?:is|are) (?:incompatible|not compatible) with|"
                r"cannot both be|can not be (?:used|enabled) (?:together|with)))(?P<reason>.*)$",
                "SGLang server_args.py, arg_groups/*.py",
                "ValueError: --hicache-ratio and --hicache-host-memory-fraction are mutually exclusive",
            ),
        ),
        "boot",
    ),
    Failure(
        "bad_argument",
        "SGLang rejected its arguments.",
        "Correct the variable or the extra argument that the line names; this is not a matter of memory or time.",
        (
            Pattern(
                _BEFORE + r"(?P<reason>.*)$",
                _ARGPARSE,
                "launch_server.py: error: something else is wrong",
            ),
        ),
        "boot",
        standing=GENERAL,
        fatal=True,
    ),
)
