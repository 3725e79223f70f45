"""Imports: the module or name that an import statement brings, a library's or the project's."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.model import api
from shardlint.model.values import Api, ModuleValue, Unknown, Value, choose_value
from shardlint.source.import_graph import imports_by_root_name
from shardlint.syntax import Binding, FileFacts

if TYPE_CHECKING:
    from shardlint.model.evaluator.evaluate import Evaluator


class Linker:
    """Follows imports, for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._starred_open: set[tuple[FileFacts, str]] = set()

    def imported_value(self, file: FileFacts, binding: Binding) -> Value:
        """Return the value that `from module import name` binds."""
        alias = binding.node
        statement = file.parent(alias)
        assert isinstance(alias, ast.alias)
        assert isinstance(statement, ast.ImportFrom)
        module = self.imported_module(file, statement)
        if isinstance(module, ModuleValue):
            member = self.module_member(module.file, alias.name)
            if isinstance(member, Unknown):
                dotted = f"{statement.module}.{alias.name}" if statement.module else alias.name
                if statement.level:
                    submodule = self.evaluator.project.resolve_relative(file.path, statement.level, dotted)
                else:
                    submodule = self._path_of_module(dotted, file)
                return self._module_value(submodule) or member
            return member
        if isinstance(module, Api):
            dotted = f"{module.written}.{alias.name}" if module.written else alias.name
            # A folder without __init__.py is a package too: its files are found under their whole names.
            in_library = module.written.partition(".")[0] in api.LIBRARIES
            submodule = None if in_library else self._path_of_module(dotted, file)
            return self._module_value(submodule) or self.library_api(dotted)
        return Unknown(f"{alias.name} is imported from a module that is not here")

    def imported_module(self, file: FileFacts, statement: ast.ImportFrom) -> Value:
        """The module a `from` statement takes names from."""
        if statement.level:
            path = self.evaluator.project.resolve_relative(file.path, statement.level, statement.module or "")
            return self._module_value(path) or Unknown("a relative import of a module that is not here")
        return self.find_module(statement.module or "", file)

    def find_module(self, dotted: str, file: FileFacts) -> Value:
        """A module by absolute name: a library, or a file of the project."""
        if dotted.partition(".")[0] not in api.LIBRARIES:
            found = self._module_value(self._path_of_module(dotted, file))
            if found is not None:
                return found
        return Api(api.canonical_name(dotted), dotted)

    def _path_of_module(self, dotted: str, file: FileFacts) -> Path | None:
        """The project's file of an absolute name; the root itself may be the package that it begins with."""
        project = self.evaluator.project
        path = project.resolve_module(dotted, file.path)
        head, _, rest = dotted.partition(".")
        if path is not None or not rest or project.module_in_root(rest) is None:
            return path
        named = (one for binding in file.module_imports for one in _imported_module_names(file, binding))
        known = imports_by_root_name(named, head, lambda name: project.module_in_root(name) is not None)
        return project.module_in_root(rest) if known else None

    def library_api(self, dotted: str) -> Api:
        """A dotted name of a library, under its canonical name."""
        return self.configured_api(dotted) or Api(api.canonical_name(dotted), dotted)

    def own_function(self, file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Api | None:
        """A function of the project, or a method, that the settings say something of."""
        own, home = self.evaluator.own, file.evaluation_scope(node)
        if not (own.jits or own.meshes) or home.kind not in ("module", "class"):
            return None
        name = f"{home.name}.{node.name}" if home.kind == "class" else node.name
        return self.configured_api(f"{self.evaluator.project.module_name(file.path)}.{name}")

    def configured_api(self, dotted: str) -> Api | None:
        """A function that the settings say something of."""
        own = self.evaluator.own
        name = api.USER_JIT if dotted in own.jits else api.USER_MESH if dotted in own.meshes else None
        return Api(name, dotted) if name is not None else None

    def _module_value(self, path: Path | None) -> Value | None:
        if path is None:
            return None
        facts = self.evaluator.project.facts(path)
        return ModuleValue(facts) if facts is not None else Unknown("a module that does not parse")

    def module_member(self, file: FileFacts, name: str) -> Value:
        """A name of a module, as its importers see it."""
        return self.evaluator.answer_query((file, name), lambda: self._member_of_module(file, name))

    def _member_of_module(self, file: FileFacts, name: str) -> Value:
        bindings = [b for b in file.bindings(file.module, name) if b.kind not in ("declared", "delete")]
        if not bindings:
            starred = self.starred_member(file, name)
            if starred is not None:
                return starred
            if file.path.name == "__init__.py":
                submodule = self._module_value(self.evaluator.project.resolve_relative(file.path, 1, name))
                if submodule is not None:
                    return submodule
            return Unknown(f"{name} is not in {file.path.name}")
        if all(file.statement_in_block(b.node, file.module) is not None for b in bindings):
            bindings = bindings[-1:]
        return choose_value([self.evaluator.evaluate_binding(file, binding) for binding in bindings])

    def starred_member(self, file: FileFacts, name: str) -> Value | None:
        """A name that `from module import *` may bring; None where no such import has it."""
        if (file, name) in self._starred_open:
            return None  # modules that import all of each other
        self._starred_open.add((file, name))
        try:
            return self._member_by_star_import(file, name)
        finally:
            self._starred_open.discard((file, name))

    def _member_by_star_import(self, file: FileFacts, name: str) -> Value | None:
        libraries: list[Api] = []
        out_of_sight = False
        for binding in reversed(file.bindings(file.module, "*")):
            statement = file.parent(binding.node)
            assert isinstance(statement, ast.ImportFrom)
            module = self.imported_module(file, statement)
            if isinstance(module, ModuleValue) and module.file is not file:
                if self._exports_name(module.file, name):
                    return self.module_member(module.file, name)
            elif not isinstance(module, Api):
                out_of_sight = True
            elif api.has_name(module.written, name):
                return self.library_api(f"{module.written}.{name}")
            else:
                libraries.append(module)
        if not libraries or (hasattr(builtins, name) and name not in api.BUILTINS_OF_LIBRARIES):
            return None
        if out_of_sight or len(libraries) > 1 or hasattr(builtins, name) or name.startswith("_"):
            return Unknown(f"{name} may come from `from {libraries[0].written} import *`")
        return self.library_api(f"{libraries[0].written}.{name}")  # nothing else binds it

    def _exports_name(self, file: FileFacts, name: str) -> bool:
        """Return whether `from module import *` imports a name of a module of the project."""
        listed = [one.value for one in file.bindings(file.module, "__all__") if one.kind == "assign"]
        if len(listed) == 1 and isinstance(listed[0], ast.List | ast.Tuple):
            return any(isinstance(one, ast.Constant) and one.value == name for one in listed[0].elts)
        if name.startswith("_"):
            return False
        return bool(file.bindings(file.module, name)) or self.starred_member(file, name) is not None


def _imported_module_names(file: FileFacts, binding: Binding) -> Iterator[str]:
    """The modules that an import of a file's own block may bring, by absolute name."""
    statement = file.parent(binding.node)
    if isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
        yield statement.module
        yield f"{statement.module}.{binding.name}"
    elif isinstance(binding.node, ast.alias) and isinstance(statement, ast.Import):
        yield binding.node.name
