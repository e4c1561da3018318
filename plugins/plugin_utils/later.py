# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that are loaded without what they need.

Whoever uses one filter of a collection has Ansible load all of them (Jinja2Loader.get_with_context in
ansible/plugins/loader.py), in each process of a task anew, and from source each time, as there is no bytecode for
collections. So no file of plugins/filter imports more of the core than C(problems) while it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

CORE = "ansible_collections.gpufleet.sglang.plugins.module_utils"


def later(module: str, name: str) -> Callable[..., Any]:
    """A function of the core by the path of its module below module_utils, imported when it is called."""

    def called(*words: Any, **options: Any) -> Any:
        return getattr(import_module(f"{CORE}.{module}"), name)(*words, **options)

    return called
