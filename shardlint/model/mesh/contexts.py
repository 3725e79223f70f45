"""Which mesh is in context at a place: `with` blocks and setters in lexical order, then through callers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from shardlint.model import api
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.flow import Flow
from shardlint.model.function_uses import FunctionUses
from shardlint.model.joint_files import imported_files
from shardlint.model.mesh.mesh_annotations import SaidMeshes
from shardlint.model.mesh.meshes import MESH_MAKERS, Mesh, mesh_of
from shardlint.model.needs import Circular, Memo
from shardlint.model.values import (
    Api,
    CallResult,
    Function,
    Parameter,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope

ContextKind = Literal["with mesh", "set_mesh", "use_mesh", "abstract", "unknown"]
SET_KINDS: tuple[ContextKind, ...] = ("set_mesh", "use_mesh")
"""A mesh set as jax.set_mesh does, which `with mesh:` does not."""
_DEPTH = 8
# What runs under these has a mesh from their arguments, whatever the caller's context is.
BRING_A_MESH = (
    "jax.shard_map",
    "flax.nnx.shard_map",
    "jax.sharding.auto_axes",
    "jax.sharding.explicit_axes",
    "jax.experimental.maps.xmap",
    "haliax.named_jit",
    api.USER_JIT,
)


@dataclass(frozen=True)
class MeshContext:
    """One mesh put into context: how, which mesh (None when not known), and where."""

    kind: ContextKind
    mesh: Mesh | None
    place: Place


@dataclass(frozen=True)
class Context:
    """All mesh contexts a place can run under.

    `contexts` is every one met on any way to the place; `bare` is True when some way has none at all;
    `complete` is False when there may be ways, or context managers, that we cannot see.
    """

    contexts: tuple[MeshContext, ...]
    bare: bool
    complete: bool

    @property
    def never(self) -> bool:
        """Proven: no mesh is in context, on any way."""
        return self.complete and not self.contexts

    def only(self, *kinds: ContextKind) -> bool:
        """Proven: on every way there is a mesh in context and all are of these kinds. Not of code nothing leads to."""
        return (
            self.complete
            and not self.bare
            and bool(self.contexts)
            and all(context.kind in kinds for context in self.contexts)
        )


class Contexts:
    """Answers for places of a program."""

    def __init__(self, evaluator: Evaluator, flow: Flow) -> None:
        self.evaluator = evaluator
        self.flow = flow
        self.said = SaidMeshes(evaluator)
        needs = flow.project.needs
        self._callers_of: Circular[tuple[ast.AST, bool], Context] = Circular(needs, _DEPTH)
        self._elsewhere: Memo[int, bool] = Memo(needs)
        self._imported: Memo[Path, bool] = Memo(needs)

    def context(self, file: FileFacts, node: ast.AST) -> Context:
        """The mesh contexts of a node."""
        return self._contexts_at_node(file, node, False)

    def surrounding_contexts(self, file: FileFacts, node: ast.AST) -> Context:
        """Every mesh context open at a node on any way, the outer ones of nested ones too."""
        return self._contexts_at_node(file, node, True)

    def contexts_of_calls(self, place: Place) -> Context:
        """Every mesh context open where a function is called: a definition, or what an expression (`jit(f)`) makes."""
        if isinstance(place.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            ends = self.flow.ends(place.file, place.node)
        else:
            ends = self.flow.calls(place)
        return self._merge_contexts(ends, True)

    def _contexts_at_node(self, file: FileFacts, node: ast.AST, nested: bool) -> Context:
        lexical = list(self.entered_contexts(file, node))
        if any(isinstance(outer, ast.GeneratorExp) for outer in file.ancestors(node)):
            return Context(tuple(lexical), not lexical, False)  # it runs where it is read
        if nested:
            outer = self._contexts_of_callers(file, node, True)
            inner = tuple(context for context in lexical if context.kind != "unknown")
            whole = outer.complete and len(inner) == len(lexical)
            return Context((*inner, *outer.contexts), outer.bare and not inner, whole)
        if lexical:
            # The innermost decides; an unknown context manager around may or may not set a mesh.
            known = [context for context in lexical if context.kind != "unknown"]
            if known:
                return Context((known[0],), False, lexical[0].kind != "unknown")
            outer = self._contexts_of_callers(file, node, False)
            return Context(outer.contexts, outer.bare, False)
        return self._contexts_of_callers(file, node, False)

    def _contexts_of_callers(self, file: FileFacts, node: ast.AST, nested: bool) -> Context:
        function = file.evaluation_scope(node).enclosing_function()
        if function is None:
            return Context((), True, not self._may_be_set_elsewhere(file))

        def merge_callers() -> Context:
            result = self._merge_contexts(self.flow.ends(file, function.node), nested)
            return Context(result.contexts, result.bare, False) if _runs_later(file, function) else result

        return self._callers_of.answer_query(
            (function.node, nested), merge_callers, lambda too_long: Context((), False, not too_long)
        )

    def _merge_contexts(self, uses: FunctionUses, nested: bool) -> Context:
        """The contexts of all the places that run a function, as one."""
        contexts: list[MeshContext] = []
        bare = False
        complete = uses.complete and any(end.kind == "called" for end in uses.found)
        for end in uses.found:
            if end.kind != "called":
                continue
            if any(wrapper.api in BRING_A_MESH for wrapper in end.wrappers):
                complete = False
            at_call = self._contexts_at_node(end.place.file, end.place.node, nested)
            contexts += [context for context in at_call.contexts if context not in contexts]
            bare = bare or at_call.bare
            complete = complete and at_call.complete
        return Context(tuple(contexts), bare, complete)

    def entered_contexts(self, file: FileFacts, node: ast.AST) -> Iterator[MeshContext]:
        """Contexts inside the node's own function, innermost first: `with` blocks, decorators, earlier setters."""
        home = file.evaluation_scope(node).enclosing_function()
        inner: ast.AST = node
        for outer in file.ancestors(node):
            if isinstance(outer, ast.With | ast.AsyncWith) and not isinstance(inner, ast.withitem):
                for item in reversed(outer.items):
                    found = self.context_of_manager(Place(file, item.context_expr))
                    if found is not None:
                        yield found
            if home is not None and outer is home.node:
                if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from self._contexts_of_decorators(file, outer)
                break
            inner = outer
        yield from self._contexts_of_setters(file, node)

    def _contexts_of_decorators(
        self, file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[MeshContext]:
        for decorator in node.decorator_list:
            name = file.source_text(decorator).lower()
            if "mesh" in name:  # `@with_mesh(...)`, `@jtu.with_explicit_mesh(...)`: sets some mesh
                yield MeshContext("unknown", None, Place(file, decorator))

    def _contexts_of_setters(self, file: FileFacts, node: ast.AST) -> Iterator[MeshContext]:
        """`jax.set_mesh(mesh)` as a statement holds from there on; in the same function, or at module level."""
        position = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        function = file.evaluation_scope(node).enclosing_function()
        own: list[ast.Call] = []
        before: list[ast.Call] = []
        for mention in file.find_mentions("set_mesh"):
            call = file.parent(mention)
            if not isinstance(call, ast.Call) or not isinstance(file.parent(call), ast.Expr | ast.Assign):
                continue
            where = file.evaluation_scope(call).enclosing_function()
            if where is function and (call.lineno, call.col_offset) < position:
                own.append(call)
            elif where is None and function is not None:
                before.append(call)
        if not own and not before and self._set_by_imports(file):
            yield MeshContext("unknown", None, Place(file, node))
            return
        for calls in (own, before):
            found = [(call, self.context_of_manager(Place(file, call))) for call in reversed(calls)]
            for call, context in found:
                if context is None:
                    continue
                # Of several the last one holds, if it surely ran before; what a function meets depends on its calls.
                sure = calls is own and file.statement_in_block(call, file.evaluation_scope(call)) is not None
                alone = sure or len(found) == 1
                yield context if alone else MeshContext(context.kind, None, context.place)

    def _set_by_imports(self, file: FileFacts) -> bool:
        """Return whether a module that a file imports sets a global mesh, which the code of the file then has."""
        if not self.flow.project.is_named_anywhere(file.path, "set_mesh"):
            return False
        return self._imported.get_or_make(file.path, lambda: self._found_in_imports(file))

    def _found_in_imports(self, file: FileFacts) -> bool:
        setting = {
            other.path
            for other in self.flow.project.files_with_attribute(file, "set_mesh")
            if other is not None and other is not file and _sets_at_import(other)
        }
        seen, level = {file.path}, [file]
        for _ in range(_DEPTH if setting else 0):
            level = [other for one in level for other in imported_files(self.evaluator.linker, one)]
            level = [other for other in {one.path: one for one in level}.values() if other.path not in seen]
            seen.update(other.path for other in level)
            if not seen.isdisjoint(setting):
                return True
        return False

    def _may_be_set_elsewhere(self, file: FileFacts) -> bool:
        """Return whether a mesh may be set globally in another way: `__enter__`, an ExitStack, a function that sets
        it.
        """
        if any(map(file.contains_text, ("enter_context", ".__enter__(", "thread_resources"))):
            return True
        if self._sets_in_function(file):
            return True
        project = self.flow.project
        if not project.is_named_anywhere(file.path, "set_mesh"):
            return False
        return self._elsewhere.get_or_make(project.file_set_number(file.path), lambda: self._set_in_a_function(file))

    def _set_in_a_function(self, file: FileFacts) -> bool:
        project = self.flow.project
        return any(
            other is None or (not _is_test(other, project.root) and self._sets_in_function(other))
            for other in project.files_with_attribute(file, "set_mesh")
        )

    def _sets_in_function(self, file: FileFacts) -> bool:
        """Return whether a function of the file sets a mesh and leaves it set. Its earlier callers are not known."""
        for mention in file.find_mentions("set_mesh"):
            if (
                not isinstance(mention, ast.Name | ast.Attribute)
                or file.evaluation_scope(mention).enclosing_function() is None
            ):
                continue
            call = file.parent(mention)
            if not isinstance(call, ast.Call) or not isinstance(file.parent(call), ast.withitem):
                return True
        return False

    def context_of_manager(self, place: Place) -> MeshContext | None:
        """Return the effect of a context manager on the mesh; None if it surely has none."""
        value = self.evaluator.value(place)
        kinds = [self._context_of_value(option, place) for option in options(value)]
        known = [kind for kind in kinds if kind is not None]
        if not known:
            return None
        if len(known) == len(kinds) == 1:
            return known[0]
        alike = len(known) == len(kinds) and len({one.kind for one in known}) == 1
        return MeshContext(known[0].kind if alike else "unknown", None, place)

    def _context_of_value(self, value: Value, place: Place) -> MeshContext | None:
        if isinstance(value, CallResult):
            if value.api in MESH_MAKERS:
                return MeshContext("with mesh", mesh_of(value, self.evaluator), place)
            kind = api.MESH_CONTEXTS.get(value.api)
            if kind is not None and value.call is not None:
                argument = value.call.argument_for("mesh", ("mesh",))
                mesh = None
                if argument is not None:
                    mesh = mesh_of(self.evaluator.value(argument, value.call.environment), self.evaluator)
                return MeshContext(kind, mesh, place)
            if isinstance(value.by, Api):
                return None if _is_harmless_context(value.by.name) else MeshContext("unknown", None, place)
        if isinstance(value, Unknown | Transformed | Function | Parameter):
            text = place.source_text()
            # A name that says mesh, on its own, is a mesh entered the old way.
            if isinstance(place.node, ast.Name | ast.Attribute) and text.rpartition(".")[2].lower().endswith(
                "mesh"
            ):
                return MeshContext("with mesh", None, place)
        if self.said.is_mesh_expression(place):
            return MeshContext("with mesh", None, place)
        if isinstance(place.node, ast.Call):
            callee = self.evaluator.value(Place(place.file, place.node.func))
            if isinstance(callee, Api) and _is_harmless_context(callee.name):
                return None
        return MeshContext("unknown", None, place)


def _sets_at_import(file: FileFacts) -> bool:
    """Return whether importing a module sets a global mesh, also in the body of a class."""
    return any(
        isinstance(call := file.parent(mention), ast.Call)
        and call.func is mention
        and isinstance(file.parent(call), ast.Expr | ast.Assign)
        and file.evaluation_scope(call).enclosing_function() is None
        and not any("__name__" in file.source_text(one.test) for one in file.ancestors(call) if isinstance(one, ast.If))
        for mention in file.find_mentions("set_mesh")
    )


def _runs_later(file: FileFacts, function: Scope) -> bool:
    """Return whether a call only creates a generator, which runs where it is read, or a coroutine, which runs where it
    is awaited.
    """
    if isinstance(function.node, ast.AsyncFunctionDef):
        return True
    return any(isinstance(found, ast.Yield | ast.YieldFrom) for found in file.walk_scope(function).returns)


def _is_test(file: FileFacts, root: Path) -> bool:
    inside = file.path.relative_to(root) if root in file.path.parents else file.path
    return any(part.startswith("test") or part.endswith("_test.py") for part in inside.parts[-3:])


def _is_harmless_context(name: str) -> bool:
    if name in api.HARMLESS_CONTEXTS:
        return True
    return name.partition(".")[0] in (
        "torch",
        "tensorflow",
        "warnings",
        "threading",
        "time",
        "os",
        "io",
        "zipfile",
        "h5py",
    )
