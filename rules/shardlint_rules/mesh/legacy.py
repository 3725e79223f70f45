"""`with mesh:` and what reads it. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from shardlint.facts import FileFacts
from shardlint.program.contexts import MeshContext
from shardlint.program.meshes import MESH_MAKERS, spec_of
from shardlint.program.values import Api, Made, Place, Wrapped, options
from shardlint.rule import Edit
from shardlint.site import Site
from shardlint_rules.mesh.axis_types import CONSTRAINTS, axis_types

# What reads the mesh of `with mesh:` and not the one of jax.set_mesh, by a word that shows it.
_READ_THE_OLD = {
    "pjit": "pjit, which reads its specs against `with mesh:` only",
    "thread_resources": "thread_resources, which jax.set_mesh does not fill",
    "haliax": "haliax, which reads the mesh of `with mesh:`",
}
_JITS = ("jit", "filter_jit")
_FLAX = "flax before 0.12.2, which reads the mesh of `with mesh:`"


_withs: WeakKeyDictionary[FileFacts, list[ast.With | ast.AsyncWith]] = WeakKeyDictionary()


def entered(site: Site) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The `with` items of the file that enter a mesh itself, in no particular order."""
    file = site.file
    if file not in _withs:
        for scope in file.inner_scopes(file.module):
            file.walked(scope)
        _withs[file] = [node for node in file.evaluated() if isinstance(node, ast.With | ast.AsyncWith)]
    for node in _withs[file]:
        yield from items(site, node)


def items(
    site: Site, node: ast.With | ast.AsyncWith
) -> Iterator[tuple[ast.With | ast.AsyncWith, ast.withitem, MeshContext]]:
    """The items of one `with` statement that enter a mesh itself."""
    site.file.walked(site.file.home(node))
    for item in node.items:
        found = site.program.contexts.manager(Place(site.file, item.context_expr))
        if found is not None and found.kind == "with mesh":
            yield node, item, found


def surely_a_mesh(site: Site, node: ast.expr) -> bool:
    """Whether an expression is a mesh made in the text."""
    return all(isinstance(one, Made) and one.api in MESH_MAKERS for one in options(site.value(node)))


def moves_with(site: Site, node: ast.With | ast.AsyncWith) -> list[str]:
    """What must change together with a `with mesh:` when it becomes `with jax.set_mesh(mesh):`."""
    project = site.program.project
    found = [why for word, why in _READ_THE_OLD.items() if project.anywhere(word)]
    if project.anywhere("flax") and not site.runs("flax", ">=0.12.2"):
        found.append(_FLAX)
    if any(_eager_bare(site, call) for call in _calls(node)):
        found.append(
            "a constraint by a bare spec outside jit, which raises under jax.set_mesh for a fresh array"
        )
    return found


def _calls(node: ast.With | ast.AsyncWith) -> Iterator[ast.Call]:
    todo: list[ast.AST] = list(node.body)
    while todo:
        part = todo.pop()
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(part, ast.Call):
            yield part
        todo.extend(ast.iter_child_nodes(part))


def _eager_bare(site: Site, call: ast.Call) -> bool:
    for option in options(site.value(call.func)):
        if not isinstance(option, Api) or option.name not in CONSTRAINTS:
            continue
        given = [
            *call.args[1:2],
            *(one.value for one in call.keywords if one.arg == CONSTRAINTS[option.name]),
        ]
        evaluator = site.program.evaluator
        if any(spec_of(one, evaluator) is not None for node in given for one in options(site.value(node))):
            return True
    return False


def _on_the_host(site: Site, node: ast.With | ast.AsyncWith) -> bool:
    """Whether a block runs untraced: for certain, or nobody is seen to call it and it runs jitted functions."""
    traced = site.program.region(site.file, node).traced
    if traced != "unknown":
        return traced == "never"
    for call in _calls(node):
        for option in options(site.value(call.func)):
            if isinstance(option, Wrapped) and option.api.name.rpartition(".")[2] in _JITS:
                return True
    return False


def to_set_mesh(site: Site, context: MeshContext) -> list[Edit] | None:
    """Edits that make `with mesh:` a `with jax.set_mesh(mesh):`, where nothing else must move with it."""
    node = context.place.node
    item = site.file.parent(node) if context.place.file is site.file else None
    statement = site.file.parent(item) if item is not None else None
    if not isinstance(item, ast.withitem) or not isinstance(statement, ast.With | ast.AsyncWith):
        return None
    if context.mesh is None or axis_types(site, context.mesh) != "auto" or item.optional_vars is not None:
        return None
    if not site.runs("jax", ">=0.7.1") or not _on_the_host(site, statement):
        return None
    if moves_with(site, statement):
        return None
    name, imports = site.spell("jax.set_mesh")
    return [site.replace(node, f"{name}({site.text(node)})"), *imports]
