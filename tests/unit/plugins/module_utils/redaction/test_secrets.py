# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.secrets import (
    assignments,
    concealed,
    concealed_in,
    names_a_secret,
    secret_values,
    shown_config,
    shown_unit,
    shown_value,
    variables_of_unit,
)


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "api_key", "admin-api-key", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "ssl-keyfile-password", "auth"],
)
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    ["max-total-tokens", "tokenizer-path", "SGLANG_HICACHE_RATIO", "ssl-keyfile", "monkey", "key_file", "author"],
)
def test_names_of_none(name: str) -> None:
    assert not names_a_secret(name)


def test_of_variables_only_those_of_the_server_are_shown() -> None:
    shown = {"OMP_NUM_THREADS": "8", "SGLANG_DEBUG": "1", "LD_LIBRARY_PATH": "/opt/x", "HF_HUB_OFFLINE": "1"}
    hidden = {"HF_TOKEN": "abc", "SGLANG_API_KEY": "x", "HTTPS_PROXY": "http://me:pw@proxy", "COMPANY": "any"}
    assert all(shown_value(name, value) == value for name, value in shown.items())
    assert all(shown_value(name, value) == "***" for name, value in hidden.items())


UNIT = """[Service]
Environment=HOME=/srv "MY_PASSWORD=open sesame" OMP_NUM_THREADS=8
Environment='OTHER=a b'
SetCredential=api_key:letmein
LoadCredential=api_key:/etc/sglang/keys/main/api_key
ExecStart=/x/python -m sglang.launch_server --api-key clear-text-key --config /etc/sglang/main.yaml"""


def test_a_unit_shows_what_it_runs_and_no_value_that_may_be_secret() -> None:
    assert variables_of_unit(UNIT) == {
        "HOME": "/srv",
        "MY_PASSWORD": "open sesame",
        "OMP_NUM_THREADS": "8",
        "OTHER": "a b",
    }
    shown = shown_unit(UNIT)
    assert "Environment=HOME=/srv MY_PASSWORD=*** OMP_NUM_THREADS=8" in shown
    assert "Environment=OTHER=***" in shown
    assert "SetCredential=api_key:***" in shown
    assert "/etc/sglang/keys/main/api_key" in shown
    for secret in ("open sesame", "letmein", "clear-text-key"):
        assert secret not in shown


def test_a_configuration_keeps_all_but_secrets() -> None:
    shown = shown_config("max-total-tokens: 4096\nssl-keyfile-password: pw\nadmin-api-key: 'k1'\nport: 1\n")
    assert shown == "max-total-tokens: 4096\nssl-keyfile-password: '***'\nadmin-api-key: '***'\nport: 1"


def test_what_keys_hold_is_nowhere() -> None:
    variables = assignments(
        'HF_TOKEN="short1"\nCOMPANY=a-long-value-of-some-kind\nPIN=12345678\nOMP_NUM_THREADS=8\n# no\n'
    )
    values = secret_values(variables, ["sentinel-key", "ab"])
    assert values == ["a-long-value-of-some-kind", "sentinel-key", "short1"]
    said = concealed("x sentinel-key y short1 z 12345678 \x1b[31mred", values)
    assert said == "x *** y *** z 12345678 red"


def test_every_text_of_a_document_is_gone_through() -> None:
    whole = {"a": ["sentinel-key", {"api_key": "other", "max_total_num_tokens": 5, "token": 7}], "sentinel-key": None}
    assert concealed_in(whole, ["sentinel-key"]) == {
        "a": ["***", {"api_key": "***", "max_total_num_tokens": 5, "token": 7}],
        "***": None,
    }
