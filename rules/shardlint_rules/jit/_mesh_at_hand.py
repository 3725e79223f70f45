"""A mesh that code has at hand and does not use: a parameter, or one that the function enters further down."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.contexts import BRING_A_MESH
from shardlint.model.reach import field_of, lookup
from shardlint.model.signatures import JITS
from shardlint.model.values import Api, CallResult, Function, Place, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import walk

_KNOWN = ("with mesh", "set_mesh", "use_mesh")
_SETTING = ("set_mesh", "use_mesh", "enter_context", "__enter__")
_ANNOTATED = regex(r"(?<!\w)Mesh\b")
_FROM_CONTEXT = regex(r"thread_resources|physical_mesh|get_\w*mesh|current_\w*mesh|abstract_mesh|global")
_SPEC = "jax.sharding.PartitionSpec"


@dataclass(frozen=True)
class MeshParameter:
    """A parameter that is a mesh, and the function it is of. `always`: it is never None, and nothing rebinds it."""

    name: str
    owner: Scope
    always: bool


def returns_spec(site: Site, node: ast.expr) -> bool:
    """Whether an expression is what a function of the project, annotated so, gives for a spec."""
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        values = [binding.value for binding in bindings if binding.kind == "assign"]
        return bool(bindings) and all(
            isinstance(value, ast.Call) and returns_spec(site, value) for value in values or [None]
        )
    if not isinstance(node, ast.Call):
        return False
    callee = site.value(node.func)
    if not isinstance(callee, Function) or isinstance(callee.node, ast.Lambda) or callee.node.returns is None:
        return False
    given = site.program.value(callee.place.file, callee.node.returns)
    return isinstance(given, Api) and given.name == _SPEC


def ignored_parameter(site: Site) -> MeshParameter | None:
    """The mesh that the functions around a call are given and, as far as is seen, nobody enters."""
    parameter = _parameter(site)
    if parameter is None:
        return None
    contexts = site.program.call_context(site.file, site.decorated or site.call) if site.api in JITS else None
    if (
        (contexts or site.program.around(site.file, site.call)).contexts
        or parameter.owner.name.startswith("test")
        or not _given_there(site, parameter)
        or _enters(site, parameter.owner)
        or _brought(site, parameter.owner)
        or _others_enter(site, parameter.owner)
    ):
        return None
    return parameter


def _parameter(site: Site) -> MeshParameter | None:
    for scope in site.scope.outward():
        if scope.kind not in ("function", "lambda"):
            continue
        assert isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        args = scope.node.args
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            bindings, owner = lookup(site.file, site.call, arg.arg)
            if owner is not scope or not _is_mesh(site, arg):
                continue
            every = site.file.bindings(scope, arg.arg)
            written = [site.text(one.value) for one in every if one.kind != "param" and one.value is not None]
            if any(_FROM_CONTEXT.search(text) for text in written):
                return None
            only = len(every) == 1 and [one.kind for one in bindings] == ["param"]
            annotation = site.text(arg.annotation) if arg.annotation is not None else ""
            default = every[0].value if every else None
            optional = "None" in annotation or "Optional" in annotation or default is not None
            return MeshParameter(arg.arg, scope, only and not optional)
    return None


def _is_mesh(site: Site, arg: ast.arg) -> bool:
    if arg.annotation is None:
        return arg.arg == "mesh"
    parts = [
        site.value(part) for part in walk(arg.annotation) if isinstance(part, ast.Name | ast.Attribute)
    ]
    known = [one.name for one in parts if isinstance(one, Api) and one.name.endswith("Mesh")]
    if known:
        return "jax.sharding.Mesh" in known
    text = isinstance(arg.annotation, ast.Constant) and isinstance(arg.annotation.value, str)
    return text and _ANNOTATED.search(site.text(arg.annotation)) is not None


# guards


def _given_there(site: Site, parameter: MeshParameter) -> bool:
    """Whether nothing on the way to the call asks about meshes, but for whether this one was given at all."""
    inner: ast.AST = site.syntax
    for outer in site.file.ancestors(site.syntax):
        match outer:
            case ast.Try() if inner in outer.body and outer.handlers:
                return False
            case ast.If() | ast.IfExp() | ast.While() if inner is not outer.test and about_meshes(
                site, outer.test
            ):
                then = outer.body if isinstance(outer.body, list) else [outer.body]
                if _is_none(outer.test, parameter.name) is not (inner not in then):
                    return False
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                before = [part for part in outer.body if isinstance(part, ast.If) and part is not inner]
                early = [part for part in before if part.lineno < site.call.lineno and _leaves(part.body)]
                if any(
                    about_meshes(site, part.test) and not _is_none(part.test, parameter.name)
                    for part in early
                ):
                    return False
        if outer is parameter.owner.node:
            break
        inner = outer
    return True


def about_meshes(site: Site, test: ast.expr) -> bool:
    """Whether a test says something of meshes or shardings."""
    text = site.text(test).lower()
    return "mesh" in text or "shard" in text


def _is_none(test: ast.expr, name: str) -> bool | None:
    """True where a test holds only if a name is None, False where only if it is not; None where it says neither."""
    match test:
        case ast.Name(id=found) if found == name:
            return False
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=found)) if found == name:
            return True
        case ast.Compare(left=ast.Name(id=found), ops=[op], comparators=[ast.Constant(value=None)]) if (
            found == name
        ):
            return isinstance(op, ast.Is | ast.Eq)
        case ast.BoolOp(op=ast.And()):
            told = [_is_none(part, name) for part in test.values]
            return next((one for one in told if one is not None), None)
    return None


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


# who enters a mesh


def _managers(site: Site, file: FileFacts, root: ast.AST) -> Iterator[ast.With | ast.AsyncWith]:
    """The `with` blocks below a node that put a mesh into context."""
    for node in walk(root):
        if isinstance(node, ast.With | ast.AsyncWith) and _entered(site, file, node) is not None:
            yield node


def _entered(site: Site, file: FileFacts, node: ast.With | ast.AsyncWith) -> ast.expr | None:
    """What a `with` enters that surely is a mesh."""
    file.walked(file.scope_at(node.lineno))
    for item in node.items:
        found = site.program.contexts.manager(Place(file, item.context_expr))
        if found is not None and found.kind in _KNOWN:
            return item.context_expr
    return None


def _enters(site: Site, owner: Scope) -> bool:
    """Whether the functions around the call enter a mesh somewhere, or something that may."""
    if any(word in site.text(owner.node) for word in _SETTING) or any(_managers(site, site.file, owner.node)):
        return True
    return _may_be_entered(site, None)


def _may_be_entered(site: Site, last: ast.AST | None) -> bool:
    """Whether a `with` or decorator around the call, up to a node, may set a mesh."""
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.With | ast.AsyncWith) and any(
            site.program.contexts.manager(Place(site.file, item.context_expr)) is not None
            for item in outer.items
        ):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and any(
            "mesh" in site.text(decorator).lower() for decorator in outer.decorator_list
        ):
            return True
        if outer is last:
            break
    return False


def _brought(site: Site, owner: Scope) -> bool:
    """Whether a function around the call is the body of something that brings its mesh (`shard_map`)."""
    for scope in site.scope.outward():
        if scope.kind in ("function", "lambda"):
            ends = site.program.flow.ends(site.file, scope.node)
            if any(wrapper.api in BRING_A_MESH for end in ends.found for wrapper in end.wrappers):
                return True
        if scope is owner:
            break
    return False


def _others_enter(site: Site, owner: Scope) -> bool:
    """Whether a file that names the function, tests aside, enters meshes: it may run what it gets there."""
    name = owner.name
    if owner.kind == "lambda" or (name.startswith("__") and owner.parent is not None):
        name = owner.parent.name if owner.parent is not None else name
    for file in (site.file, *site.program.project.importing(site.file.path, name)):
        if file is None:
            return True
        if (
            not site.program.project.is_test(file.path)
            and file.says("mesh")
            and (
                any(file.says(f".{word}(") or file.says(f" {word}(") for word in _SETTING[:2])
                or any(_managers(site, file, file.tree))
            )
        ):
            return True
    return False


# a mesh entered further down


@dataclass(frozen=True)
class EnteredLater:
    """A `with` below, in the same block or around it, that enters a mesh and reads what the call gives."""

    line: int
    mesh: str | None


def entered_later(site: Site) -> EnteredLater | None:
    """The mesh that a function enters only after an eager constraint, for what it gives."""
    function = site.scope.function()
    bound = _bound(site)
    if function is None or bound is None or site.region.proven:
        return None
    if site.program.around(site.file, site.call).contexts or _may_be_entered(site, function.node):
        return None
    inner: ast.AST = site.file.statement(site.syntax)
    for outer in site.file.ancestors(inner):
        block: list[ast.stmt] = getattr(outer, field_of(outer, inner), [])
        below = [later for later in block if later.lineno > getattr(inner, "lineno", 0)]
        for later in below:
            if isinstance(later, ast.With | ast.AsyncWith):
                found = _entered(site, site.file, later)
                if found is not None and _reads(site, later, bound):
                    return EnteredLater(later.lineno, _mesh_text(site, found))
        if outer is function.node:
            break
        inner = outer
    return None


def _bound(site: Site) -> str | None:
    parent = site.file.parent(site.syntax)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _reads(site: Site, block: ast.With | ast.AsyncWith, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name for part in block.body for node in walk(part)
    )


def _mesh_text(site: Site, entered: ast.expr) -> str | None:
    """How the mesh is written that a `with` enters, if that means the same at the call."""
    if isinstance(entered, ast.Call):
        value = site.value(entered)
        if not any(isinstance(option, CallResult) and option.api for option in options(value)) or not entered.args:
            return None
        entered = entered.args[0]
    base: ast.expr = entered
    while isinstance(base, ast.Attribute):
        base = base.value
    if not isinstance(base, ast.Name):
        return None
    here, _ = lookup(site.file, site.call, base.id)
    there, _ = lookup(site.file, entered, base.id)
    return site.text(entered) if here and here == there else None
