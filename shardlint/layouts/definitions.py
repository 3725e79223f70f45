"""Definitions of functions and classes, and imports."""

from __future__ import annotations

import ast
from functools import partial

from shardlint.layouts.attributes import attribute_of_value, read_member
from shardlint.layouts.names import Names
from shardlint.layouts.values import (
    ClassValue,
    Frame,
    FunctionValue,
    Library,
    ModuleValue,
    Unknown,
    Value,
)
from shardlint.model import api
from shardlint.model.values import Place
from shardlint.syntax import FileFacts


class Definitions(Names):
    """A run of definitions and imports."""

    def decorated_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """Return the function of a definition, with its decorators applied."""
        found: Value = self.make_function(node)
        for decorator in reversed(node.decorator_list):
            found = self.call_value(
                self.evaluate_expression(decorator), (found,), {}, Place(self.frame.file, decorator)
            )
        return found

    def make_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionValue:
        """The function that a definition makes."""
        arguments = node.args
        keyword_defaults = {
            one.arg: self.evaluate_expression(default)
            for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        defaults = [self.evaluate_expression(one) for one in arguments.defaults]
        return FunctionValue(node, self.frame, defaults, keyword_defaults)

    def make_class(self, node: ast.ClassDef) -> Value:
        """The class that a definition makes."""
        bases = [self.evaluate_expression(one) for one in node.bases]
        frame = self.add_frame(Frame({}, self.frame, self.frame.file, is_class=True))
        with self.enter_frame(frame):
            self.run_block(node.body)
        decorators = [self.evaluate_expression(one) for one in node.decorator_list]
        made = ClassValue(node, frame.names, bases, self.frame, decorators)
        for value in frame.names.values():
            inner = getattr(value, "function", value)
            if isinstance(inner, FunctionValue):
                inner.owner = made
        return made

    def module_named(self, dotted: str, file: FileFacts) -> Value:
        """The module of the project or of a library that a dotted name stands for."""
        if dotted.partition(".")[0] not in api.LIBRARIES:
            path = self.project.resolve_module(dotted, file.path)
            facts = self.project.facts(path) if path is not None else None
            if facts is not None:
                frame = self.run_module(facts)
                return ModuleValue(frame) if frame is not None else Unknown("a module in a circle")
        self.libraries.load_library(dotted.partition(".")[0])
        return Library(api.canonical_name(dotted))

    def import_names(self, node: ast.ImportFrom) -> None:
        """Bind what a `from` statement takes."""
        file = self.frame.file
        for alias in node.names:
            if alias.name == "*":
                module = self._module_of(node, file)
                if isinstance(module, ModuleValue):
                    module.frame.file.looked.note_all_names()
                    for name, value in module.frame.names.items():
                        if not name.startswith("_"):
                            self.bind_name(name, value)
                elif isinstance(module, Library):
                    for name in self._names_of_library(module.name):
                        self.bind_name(name.rpartition(".")[2], Library(name))
                continue
            load = partial(self._imported_member, node, alias.name, file)
            self.bind_name(alias.asname or alias.name, self.modules.make_lazy(load))

    def _module_of(self, node: ast.ImportFrom, file: FileFacts) -> Value:
        """The module that a `from` statement takes names from."""
        if not node.level:
            return self.module_named(node.module or "", file)
        path = self.project.resolve_relative(file.path, node.level, node.module or "")
        facts = self.project.facts(path) if path is not None else None
        frame = self.run_module(facts) if facts is not None else None
        return ModuleValue(frame) if frame is not None else Unknown("a module that is not here")

    def _names_of_library(self, module: str) -> list[str]:
        return [name for name in self.libraries if name.rpartition(".")[0] == module]

    def _imported_member(self, node: ast.ImportFrom, name: str, file: FileFacts) -> Value:
        module = self._module_of(node, file)
        if isinstance(module, ModuleValue):
            found = read_member(module, name)
            if name in module.frame.names:
                return found
            return self._submodule_of(node, name, file) or Unknown(f"{name} is not there")
        # A folder of the project that has no `__init__`.
        if isinstance(module, Library) and "." not in module.name and module.name not in api.LIBRARIES:
            return self._submodule_of(node, name, file) or attribute_of_value(
                self, module, name, Place(file, node)
            )
        if isinstance(module, Library):
            return attribute_of_value(self, module, name, Place(file, node))
        return Unknown("it comes from a module that is not here")

    def _submodule_of(self, node: ast.ImportFrom, name: str, file: FileFacts) -> ModuleValue | None:
        """A module of a package of the project, which a `from` statement takes from the package."""
        dotted = f"{node.module}.{name}" if node.module else name
        path = (
            self.project.resolve_relative(file.path, node.level, dotted)
            if node.level
            else self.project.resolve_module(dotted, file.path)
        )
        facts = self.project.facts(path) if path is not None else None
        frame = self.run_module(facts) if facts is not None else None
        return ModuleValue(frame) if frame is not None else None
