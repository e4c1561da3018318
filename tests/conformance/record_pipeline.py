# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read out of SGLang's wheels which model classes run over pipeline stages, and write them to oracle/pipeline.json.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_pipeline sglang-0.4.7-....whl ...

Nothing of SGLang is imported. C(support_pp) of model_executor/model_runner.py asks whether the C(forward) of the class
takes C(pp_proxy_tensors), and the pools of a stage are those of C(getattr(model, "start_layer", 0)) and C(end_layer):
both are looked for in the class, in what it inherits, and in what it hands every unknown name to.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.tests.conformance.record_classes import entry_classes

TARGET = Path(__file__).resolve().parent / "oracle" / "pipeline.json"
# No stages at all; stages that keep their own layers; stages that each keep the caches of all layers.
NONE, OWN, ALL = "none", "own", "all"
MODELS = "sglang/srt/models/"


@dataclass
class Module:
    """The classes of one model file, and the names that it takes from others."""

    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class Models:
    """All model files of a release, by the name of their module."""

    modules: dict[str, Module]

    def line(self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[Any]:
        """(module, class) of a class and of all that it inherits, nearest first."""
        found = self._find(module, name)
        if found is None or found in seen:
            return
        yield found
        where, own = found
        for base in self.modules[where].classes[own].bases:
            if isinstance(base, ast.Name):
                yield from self.line(where, base.id, seen | {found})

    def _find(self, module: str, name: str) -> tuple[str, str] | None:
        known = self.modules.get(module)
        if known is None:
            return None
        if name in known.classes:
            return module, name
        return self._find(*known.imported[name]) if name in known.imported else None

    def kind(self, module: str, name: str) -> str:
        if not self.takes_stages(module, name):
            return NONE
        return OWN if self.tells_layers(module, name) else ALL

    def takes_stages(self, module: str, name: str) -> bool:
        """Whether the C(forward) in force takes what the stage before hands on."""
        for where, own in self.line(module, name):
            for method in _methods(self.modules[where].classes[own]):
                if method.name == "forward":
                    return any(arg.arg == "pp_proxy_tensors" for arg in (*method.args.args, *method.args.kwonlyargs))
        inner = self._inner(module, name)
        return inner is not None and self.takes_stages(*inner)

    def tells_layers(self, module: str, name: str) -> bool:
        """Whether the outermost object tells the first layer of its stage."""
        if any(_names_first_layer(self.modules[where].classes[own]) for where, own in self.line(module, name)):
            return True
        inner = self._inner(module, name)
        return inner is not None and self.tells_layers(*inner)

    def _inner(self, module: str, name: str) -> tuple[str, str] | None:
        """The class of the attribute to which C(__getattr__) hands every name, in a class that is no torch module."""
        for where, own in self.line(module, name):
            node = self.modules[where].classes[own]
            if any(method.name == "__getattr__" for method in _methods(node)):
                for made in ast.walk(node):
                    if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call):
                        target, maker = made.targets[0], made.value.func
                        if isinstance(target, ast.Attribute) and isinstance(maker, ast.Name):
                            return where, maker.id
        return None


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef)]


def _names_first_layer(node: ast.ClassDef) -> bool:
    for item in ast.walk(node):
        if isinstance(item, ast.FunctionDef) and item.name == "start_layer":
            return True
        if (
            isinstance(item, ast.Attribute)
            and item.attr == "start_layer"
            and isinstance(item.ctx, ast.Store)
            and isinstance(item.value, ast.Name)
            and item.value.id == "self"
        ):
            return True
    return False


def parsed(source: str) -> Module:
    tree, found = ast.parse(source), Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang.srt.models."):
            origin = str(node.module).removeprefix("sglang.srt.models.")
            found.imported.update({alias.asname or alias.name: (origin, alias.name) for alias in node.names})
    found.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return found


def read_wheel(path: Path) -> dict[str, str]:
    """How each model class that a release registers runs over pipeline stages."""
    modules: dict[str, Module] = {}
    entries: list[tuple[str, str]] = []
    with zipfile.ZipFile(path) as archive:
        for file in archive.namelist():
            if file.startswith(MODELS) and file.endswith(".py"):
                source = archive.read(file).decode("utf-8", errors="replace").lstrip("\ufeff")
                module = file.removeprefix(MODELS).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
                modules[module] = parsed(source)
                entries += [(module, name) for name in sorted(entry_classes(source))]
    models = Models(modules)
    return {name: models.kind(module, name) for module, name in entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheels", nargs="+", type=Path)
    wheels = sorted(parser.parse_args().wheels, key=lambda path: parse_version(path.name.split("-")[1]))
    releases, classes = [], dict[str, list[list[str]]]()
    for path in wheels:
        release = path.name.split("-")[1]
        releases.append({"sglang": release, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
        for name, kind in read_wheel(path).items():
            changes = classes.setdefault(name, [])
            if not changes or changes[-1][1] != kind:
                changes.append([release, kind])
    lines = [f"  {json.dumps(name)}: {json.dumps(changes)}" for name, changes in sorted(classes.items())]
    text = json.dumps({"releases": releases}, indent=1)[:-2] + ',\n "classes": {\n' + ",\n".join(lines) + "\n }\n}\n"
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET.name}: {len(classes)} classes of {len(wheels)} releases")


if __name__ == "__main__":
    main()
