"""The steps of NNX's sharded initialization, as people write them. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.contexts import MeshContext
from shardlint.model.mesh.meshes import MESH_MAKERS
from shardlint.model.reach import lookup
from shardlint.model.values import Api, CallResult, options
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope

SPECS = "flax.nnx.get_partition_spec"
SHARDINGS = "flax.nnx.get_named_sharding"
CONSTRAINT = "jax.lax.with_sharding_constraint"
UPDATE = "flax.nnx.update"
READING = ("get_partition_spec", "get_named_sharding")
"""The words of the first two, which show that annotations are read back."""
_PLACES = (CONSTRAINT, "jax.device_put", "jax.reshard", "jax.make_array_from_callback")


def calls(site: Site, scope: Scope, *names: str) -> Iterator[ast.Call]:
    """The calls of these functions in a scope."""
    for call in site.file.walked(scope).calls:
        found = options(site.value(call.func))
        if all(isinstance(one, Api) and one.name in names for one in found):
            yield call


def annotated_specs(site: Site, node: ast.expr, *names: str) -> bool:
    """Whether an expression surely is what one of these functions reads off annotations."""
    return all(isinstance(one, CallResult) and one.api in names for one in options(site.value(node)))


def state_of(site: Site, node: ast.expr) -> ast.Name | None:
    """The model whose state an expression is: of `nnx.state(model)`, or of `nnx.split(model)`."""
    index = None
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) != 1 or bindings[0].kind not in ("assign", "unpack") or bindings[0].value is None:
            return None
        node, index = bindings[0].value, bindings[0].index
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Name):
        return None
    wanted = "flax.nnx.state" if index is None else "flax.nnx.split"
    found = options(site.value(node.func))
    whole = index is None or index > 0
    return (
        node.args[0] if whole and all(isinstance(one, Api) and one.name == wanted for one in found) else None
    )


def made_here(site: Site, scope: Scope, name: ast.Name) -> ast.Call | None:
    """The call that makes what a name stands for, if the function itself makes it, once."""
    bindings, owner = lookup(site.file, name, name.id)
    if owner is not scope or len(bindings) != 1 or bindings[0].kind != "assign":
        return None
    return bindings[0].value if isinstance(bindings[0].value, ast.Call) else None


def places_otherwise(site: Site, scope: Scope) -> bool:
    """Whether the function, or what jits it, places arrays in some other way."""
    if next(calls(site, scope, *_PLACES), None) is not None:
        return True
    ends = site.program.flow.ends(site.file, scope.node)
    around = [wrapper.place for end in ends.found for wrapper in end.wrappers]
    return any("out_shardings" in place.text() for place in around)


def returned(site: Site, scope: Scope, name: str) -> bool:
    """Whether a function returns what it calls by this name, alone or among others."""
    for statement in site.file.walked(scope).returns:
        value = statement.value
        found = value.elts if isinstance(value, ast.Tuple) else [value]
        if isinstance(statement, ast.Return) and any(isinstance(e, ast.Name) and e.id == name for e in found):
            return True
    return False


def after(site: Site, node: ast.AST, *lines: str) -> list[Edit]:
    """An edit that writes lines behind the statement of a node; none where others share its line."""
    statement = site.file.statement(node)
    indent = indentation(site, statement)
    if indent is None:
        return []
    _, end = site.file.span(statement)
    stop = _line_end(site, end)
    rest = site.file.source.text[end:stop].strip()
    if rest and not rest.startswith("#"):
        return []
    return [Edit(stop, stop, "".join(f"\n{indent}{line}" for line in lines))]


def indentation(site: Site, statement: ast.stmt) -> str | None:
    """What stands before a statement on its line, if that is nothing but spaces."""
    start, _ = site.file.span(statement)
    before = site.file.source.text[site.file.source.offset(statement.lineno, 0) : start]
    return before if not before.strip() else None


def _line_end(site: Site, offset: int) -> int:
    text = site.file.source.text
    ends = [found for found in (text.find("\n", offset), text.find("\r", offset)) if found >= 0]
    return min(ends, default=len(text))


def under_mesh(site: Site, call: ast.Call) -> tuple[str, list[Edit]] | None:
    """The `with` line for the one mesh that is made in plain sight, and the edits that put a call under it."""
    statement = site.file.statement(call)
    text, indent = site.text(statement), indentation(site, statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) or indent is None:
        return None
    if '"""' in text or "'''" in text or "\\\n" in text or not after(site, call, ""):
        return None
    if site.program.region(site.file, call).traced != "never" and site.scope.function() is not None:
        return None
    found = mesh_line(site, call)
    if found is None:
        return None
    line, imports = found
    body = text.replace("\n", "\n    ")
    return line, [site.replace(statement, f"{line}\n{indent}    {body}"), *imports]


def mesh_line(site: Site, call: ast.Call) -> tuple[str, list[Edit]] | None:
    """The `with` line for the one mesh that is made in plain sight of a call, and the imports it needs."""
    mesh = _mesh_at(site, call)
    if mesh is None:
        return None
    if not site.allows("flax", ">=0.11"):
        return f"with {mesh}:", []
    setter, imports = site.spell("jax.set_mesh")
    return f"with {setter}({mesh}):", list(imports)


def _mesh_at(site: Site, call: ast.Call) -> str | None:
    """The name of the only mesh that is bound before a call in its own function, else in the module."""
    home = site.file.home(call)
    for scope in (home, site.file.module):
        names = {
            binding.name
            for bindings in site.file.walked(scope).bindings.values()
            for binding in bindings
            if binding.kind == "assign"
            and isinstance(binding.value, ast.Call)
            and (binding.line < call.lineno or scope is not home)
            and all(
                isinstance(one, CallResult) and one.api in MESH_MAKERS[:2]
                for one in options(site.value(binding.value))
            )
        }
        if names:
            return names.pop() if len(names) == 1 else None
    return None


def context_item(site: Site, context: MeshContext) -> ast.expr | None:
    """The expression that enters a context, if it stands in the site's file."""
    node = context.place.node
    return node if context.place.file is site.file and isinstance(node, ast.expr) else None
