# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a function when a named module is imported, without importing it now."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module through the other finders, once, and lets a hook act on the spec that they found."""

    def __init__(self, name: str, act: Callable[[importlib.machinery.ModuleSpec], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self._act(spec)
        return spec


class _Loader(importlib.abc.Loader):
    """Another loader, followed by a hook on the loaded module."""

    def __init__(self, loader: importlib.abc.Loader, hook: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader, for those who ask it for sources or resources.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook(module)


def after(name: str, hook: Callable[[ModuleType], None]) -> None:
    """Calls ``hook(module)`` right after the module has been executed."""

    def act(spec: importlib.machinery.ModuleSpec) -> None:
        if spec.loader is not None:
            spec.loader = _Loader(spec.loader, hook)

    sys.meta_path.insert(0, _Finder(name, act))


def before(name: str, hook: Callable[[], None]) -> None:
    """Calls ``hook()`` right before the module is executed, if it exists at all."""
    sys.meta_path.insert(0, _Finder(name, lambda spec: hook()))
