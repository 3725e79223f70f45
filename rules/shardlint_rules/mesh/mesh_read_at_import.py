"""SL346."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Api, Function, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule, Takes, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import child_nodes, parameters_with_defaults
from shardlint_rules.mesh._import_time_code import (
    globals_none_until_bound,
    set_while_importing,
    when_run_at_import,
)

_AMBIENT = ("jax.sharding.get_abstract_mesh", "jax.sharding.get_mesh")


class MeshReadAtImport(Rule):
    """The mesh is read while modules are imported, before the program sets it.

    The value stays None, or an empty mesh. Code that skips its constraints if there is no mesh skips them in every run.
    Nothing is raised.

    ## Reports
    - `imported-value` (likely): `from state import _MESH`, if `_MESH` is None until a function of that module sets it
      (`global _MESH`).
    - `called-at-import` (likely): a call at import of a function that returns such a global, or of
      `jax.sharding.get_abstract_mesh()`. The call is in a parameter default, in a class body, at module level, or in a
      decorator of a function of the module.

    ## Write instead
    Read the mesh when the function is called: in its body, or inside the wrapper that a decorator returns. In place of
    `from state import _MESH` write `import state`, and read `state._MESH` in the function.

    ## Limits
    Not reported: functions that create the mesh or raise, meshes that are set during an import, and modules that are
    imported inside functions.
    """

    code = "SL346"
    name = "mesh-read-at-import"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("called-at-import", "imported-value")
    assumptions: ClassVar[Mapping[str, str]] = dict.fromkeys(
        likely, "The program sets the mesh after its imports."
    )
    triggers = (
        Lines(r"[^#\n]*mesh\w*\(\)", r"[^#\n]*Mesh\w*\(\)", saying=("mesh", "Mesh")),
        Lines(r"from\s[^#\n]*import\s[^#\n]*(?:mesh|MESH)\b", saying=("mesh", "MESH")),
        Takes("mesh", "global_mesh", "device_mesh", "jax_mesh"),
    )
    in_tests = False
    fixes = "none"

    @detector("line", "parameter", finds="called-at-import")
    def report_call(self, site: Site) -> Finding | None:
        """The first call of a statement, or of a default, that gives the mesh."""
        found = (self._report_read(site, call) for call in _find_own(site) if not call.args and not call.keywords)
        return next((one for one in found if one is not None), None)

    def _report_read(self, site: Site, call: ast.Call) -> Finding | None:
        """A call that gives the mesh, where it runs as the module is imported."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if "mesh" not in name.lower():
            return None
        what = _describe_mesh_read(site, call)
        when = when_run_at_import(site, call) if what is not None else None
        if what is None or when is None:
            return None
        return site.finding(
            call,
            f"`{site.shown(call)}` returns no mesh here: it runs at import, before the program sets one.",
            label="runs at import",
            help="read the mesh in the function that uses it",
            why=f"{what}, and this call runs when {when}",
        )

    @detector("line", finds="imported-value")
    def find_copies(self, site: Site) -> Iterator[Finding]:
        """Names that are taken from a module while they are still None."""
        statement = site.syntax
        if not isinstance(statement, ast.ImportFrom) or site.file.evaluation_scope(statement).kind != "module":
            return
        for alias in statement.names:
            if "mesh" not in alias.name.lower():
                continue
            name = alias.asname or alias.name
            file = _imported_module_file(site, statement)
            if file is None or alias.name not in globals_none_until_bound(file):
                continue
            if not any(
                isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and _is_name_of_module(site, one, name)
                for one in site.file.find_mentions(name)
            ) or set_while_importing(site, file, alias.name):
                continue
            yield site.finding(
                alias,
                f"`{name}` stays None: the import copies it before a function of {file.path.name} sets it.",
                label="None at import",
                help=f"import the module, and read its `{alias.name}` in the function that uses it",
                why=f"`{alias.name}` is None in {file.path.name} until a function rebinds the global",
            )


def _find_own(site: Site) -> Iterator[ast.Call]:
    """The calls of a statement, without those in lambdas and blocks; of a parameter those of its default."""
    statement = site.syntax
    parts: list[ast.AST] = []
    if isinstance(statement, ast.arg):
        owner = site.file.parent(statement)
        arguments = getattr(owner, "args", owner)
        parts = list(_find_default(arguments, statement)) if isinstance(arguments, ast.arguments) else []
    elif isinstance(statement, ast.If | ast.While):
        parts = [statement.test]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return):
        parts = [statement]
    while parts:
        node = parts.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        parts += child_nodes(node)


def _find_default(arguments: ast.arguments, parameter: ast.arg) -> Iterator[ast.expr]:
    return (default for one, default in parameters_with_defaults(arguments) if one is parameter and default is not None)


def _describe_mesh_read(site: Site, call: ast.Call) -> str | None:
    """Return a description of the value that a call reads, if it is a mesh that is set later."""
    found = options(site.value(call.func))
    if len(found) != 1:
        return None
    getter = found[0]
    if isinstance(getter, Api):
        ambient = getter.name in _AMBIENT and site.is_named_anywhere("set_mesh")
        return "no mesh is set while modules are imported" if ambient else None
    if not isinstance(getter, Function) or not isinstance(getter.node, ast.FunctionDef):
        return None
    file, name = getter.place.file, _find_returned(getter.node)
    if name is None or name not in globals_none_until_bound(file) or set_while_importing(site, file, name):
        return None
    return f"`{name}` of {file.path.name} is None until a function sets it"


def _find_returned(getter: ast.FunctionDef) -> str | None:
    """The name that a function gives, where it does nothing but that."""
    body = [
        one
        for one in getter.body
        if not isinstance(one, ast.Global)
        and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    match body:
        case [ast.Return(value=ast.Name(id=name))]:
            return name
    return None


def _imported_module_file(site: Site, statement: ast.ImportFrom) -> FileFacts | None:
    """The file of the module that something is taken from."""
    project, name = site.program.project, statement.module or ""
    here = site.file.path
    path = (
        project.resolve_relative(here, statement.level, name)
        if statement.level
        else project.resolve_module(name, here)
    )
    return project.facts(path) if path is not None else None


def _is_name_of_module(site: Site, use: ast.Name, name: str) -> bool:
    bindings, _ = lookup_bindings(site.file, use, name)
    return any(binding.kind == "from" for binding in bindings)
