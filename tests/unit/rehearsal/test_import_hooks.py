# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.shim.rehearsal_cpu import import_hooks


@pytest.fixture(name="module_name")
def fixture_module_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "gpufleet_hooked"
    (tmp_path / f"{name}.py").write_text("told = ['executed']\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield name
    sys.modules.pop(name, None)


def test_after_sees_the_executed_module_once(module_name: str) -> None:
    seen: list[ModuleType] = []
    import_hooks.after(module_name, seen.append)
    assert seen == []
    module = importlib.import_module(module_name)
    importlib.import_module(module_name)
    assert seen == [module]
    assert module.told == ["executed"]
    # It keeps its own loader, which gives its source to tracebacks.
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert isinstance(loader, importlib.abc.InspectLoader)
    assert module.__loader__ is loader
    assert loader.get_source(module_name) == "told = ['executed']\n"


def test_before_is_called_while_the_module_is_not_there(module_name: str) -> None:
    present: list[bool] = []
    import_hooks.before(module_name, lambda: present.append(module_name in sys.modules))
    importlib.import_module(module_name)
    assert present == [False]


def test_two_hooks_on_one_module(module_name: str) -> None:
    order: list[str] = []
    import_hooks.after(module_name, lambda module: order.append("after"))
    import_hooks.before(module_name, lambda: order.append("before"))
    importlib.import_module(module_name)
    assert order == ["before", "after"]


def test_a_module_that_is_not_there_stays_missing(module_name: str) -> None:
    import_hooks.after(module_name + "_absent", lambda module: pytest.fail("there is nothing to hook"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module_name + "_absent")
