"""SL654."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.libraries.einshard import Expression
from shardlint.model.values import Api, options
from shardlint.rules_api.imports import spell_bare_names
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import Scope, last_name
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.einshard._plan import SharedMesh, shared_mesh
from shardlint_rules.einshard.calls import MAKE, SHARD, shape_of_sharded, written_call

_NAMES = ("mesh", "device_mesh")
_SHARDING = {"jax.sharding.NamedSharding": "NamedSharding", "jax.sharding.PartitionSpec": "P"}
_WHY = "all arrays move to one mesh, and a size that its axes do not divide raises"


class EinshardToNamedSharding(Rule):
    """Each `einshard` call of a file creates its own mesh.

    From jax 0.9.2 a jit that takes arrays of two `einshard` calls often raises `IndivisibleError`. A mesh of `einshard`
    has an axis for each element of the expression. The axes are named by position (`a0`, `a1`), so a constraint or
    `psum` cannot use names with a meaning.

    The rule is a codemod: it rewrites `einshard` to `device_put` with a NamedSharding, on one mesh for the file.

    ## Reports
    - proven, only with `--select SL654`: each `einshard(x, expression)` and `make_sharding(expression)` outside traced
      code, if the expression is a known string. All calls of a file are rewritten together.

    ## Write instead
    In each function, create the mesh before its first use. jax treats meshes with the same devices and axis names as
    equal.

    ## Fix
    Unsafe: all arrays move to one mesh, and a size that its axes do not divide raises. There is no fix:

    - if the expressions need meshes of different shapes
    - if an expression has two stars, because the mesh sizes are then roots of the device count
    - if a sharded dimension follows an ellipsis of unknown length
    - if the file already uses all names for the mesh.
    """

    code = "SL654"
    name = "einshard-to-named-sharding"
    harm = Harm.REMOVED
    default = False
    releases: ClassVar[Mapping[str, str]] = {"einshard": ">=0.2"}
    triggers = (Calls(SHARD, MAKE),)
    where = "host"
    fixes = "unsafe"

    @detector("call")
    def report_call(self, site: Site) -> Finding | None:
        """A call that makes a mesh of its own."""
        one = _parse_call(site)
        if one is None:
            return None
        calls = list(_find_calls(site))
        mesh = shared_mesh(call.parsed for call in calls)
        reason = "" if isinstance(mesh, SharedMesh) else mesh
        fix = self._write_fix(site, calls, mesh) if isinstance(mesh, SharedMesh) else None
        raises = site.allows("jax", ">=0.9.2")
        return site.finding(
            site.call.func,
            "A jit that takes arrays of two "
            f"`{last_name(site.call.func)}` calls may raise: each call makes its own mesh.",
            why=f"on {site.release('jax')} arrays of two such meshes can raise IndivisibleError"
            if raises
            else "",
            help=f"make a mesh and write `jax.device_put(x, NamedSharding(mesh, spec))` by hand: {reason}"
            if reason
            else "make one mesh for the file and write `jax.device_put(x, NamedSharding(mesh, spec))`",
            fix=fix,
        )

    def _write_fix(self, site: Site, calls: list[_Call], mesh: SharedMesh) -> Fix | None:
        name = next((one for one in _NAMES if not list(site.file.find_mentions(one))), None)
        if name is None or any(_is_inside_argument(one, calls) for one in calls):
            return None
        types = {"jax.sharding.AxisType": "AxisType"} if site.allows("jax", ">=0.9") else {}
        names, taken = spell_bare_names(site.program, site.file, site.call, {**types, **_SHARDING})
        edits: list[Edit] = [*taken]
        firsts: dict[Scope | None, ast.stmt] = {}
        shown = ""
        for call in calls:
            text = self._write_named_sharding(call, mesh, name, names)
            scope = _outermost_function(call.site)
            first = _find_statement(call.site, scope)
            if text is None or first is None:
                return None
            if scope not in firsts or first.lineno < firsts[scope].lineno:
                firsts[scope] = first
            edits += [call.site.replace(call.site.call, text[0]), *text[1]]
            if call.site.syntax is site.syntax:
                shown = text[0]
        made, imports = _write_mesh_call(site, mesh, names)
        for statement in firsts.values():
            at = _line_start(site, statement)
            if at is None:
                return None
            edits.append(Edit(at[0], at[0], f"{at[1]}{name} = {made}\n"))
        drops = [_import_root(call.site.call.func) for call in calls]
        unique = list(dict.fromkeys([*edits, *imports]))
        return site.fix(Safety.UNSAFE, f"write {shown}", unique, _WHY, drops)

    def _write_named_sharding(
        self, call: _Call, mesh: SharedMesh, name: str, names: Mapping[str, str]
    ) -> tuple[str, tuple[Edit, ...]] | None:
        """The call rewritten, with the imports that needs."""
        site = call.site
        if site.arguments.open_positional or site.arguments.open_keywords or "#" in site.text():
            return None
        entries = _list_entries(call, mesh)
        if entries is None:
            return None
        sharding, spec = (names[one] for one in _SHARDING)
        text = f"{sharding}({name}, {spec}({', '.join(entries)}))"
        if site.api == MAKE:
            return text, ()
        array = site.argument("arr")
        put, imports = site.spell("jax.device_put")
        return (f"{put}({site.text(array)}, {text})", imports) if array is not None else None


@dataclass(frozen=True)
class _Call:
    """A call of the file, with its expression."""

    site: Site
    parsed: Expression


def _parse_call(site: Site) -> _Call | None:
    """The call, if its expression is known and has no fault that other rules tell of."""
    given = written_call(site)
    if given is None or not isinstance(given.parsed, Expression):
        return None
    parsed = given.parsed
    names = [element.name for element in parsed.left]
    taken = [element.name for element in parsed.right if element.name is not None]
    ellipses = [sum(element.ellipsis for element in side) for side in (parsed.left, parsed.right)]
    whole = len(set(taken)) == len(taken) and len(set(names)) == len(names)
    counted = parsed.star_count > 0 or parsed.fixed_device_count() > 1
    if not whole or ellipses[0] != ellipses[1] or not set(names) - {None} <= set(taken) or not counted:
        return None
    return _Call(site, parsed)


def _find_calls(site: Site) -> Iterator[_Call]:
    """All calls of the file that are rewritten with this one."""
    seen = set()
    for word in (SHARD.rpartition(".")[2], MAKE.rpartition(".")[2], *_find_aliases(site)):
        for node in site.file.find_mentions(word):
            call = site.file.parent(node)
            if not isinstance(call, ast.Call) or call.func is not node or call in seen:
                continue
            seen.add(call)
            for option in options(site.value(node)):
                if isinstance(option, Api) and option.name in (SHARD, MAKE):
                    other = Site(site.program, site.file, call, option, "call", site.targets, site.rule)
                    found = None if other.region.traced in ("always", "sometimes") else _parse_call(other)
                    if found is not None and not other.expected_to_fail:
                        yield found


def _find_aliases(site: Site) -> Iterator[str]:
    for statement in walk_nodes(site.file.tree):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("einshard"):
            yield from (alias.asname for alias in statement.names if alias.asname)


def _list_entries(call: _Call, mesh: SharedMesh) -> list[str] | None:
    """The entries of the spec as code; None where an ellipsis before a split dimension has no length that is known."""
    entries = mesh.entries_code(call.parsed)
    if None not in entries:
        return [entry for entry in entries if entry is not None]
    others = len(call.parsed.left) - 1
    dims = shape_of_sharded(call.site)
    array = call.site.argument("arr") if call.site.api == SHARD else None
    if dims is not None and len(dims) >= others:
        hidden = ["None"] * (len(dims) - others)
    elif isinstance(array, ast.Name | ast.Attribute):
        rank = f"{call.site.text(array)}.ndim"
        hidden = [f"*(None,) * ({rank} - {others})" if others else f"*(None,) * {rank}"]
    else:
        return None
    at = entries.index(None)
    before, after = entries[:at], entries[at + 1 :]
    return [entry for entry in (*before, *hidden, *after) if entry is not None]


def _write_mesh_call(site: Site, mesh: SharedMesh, names: Mapping[str, str]) -> tuple[str, tuple[Edit, ...]]:
    """The call that makes the mesh, with the imports that needs."""
    make, imports = site.spell("jax.make_mesh")
    count, more = site.spell("jax.device_count")
    arguments = [mesh.shape_code(f"{count}()"), mesh.names_code()]
    types = names.get("jax.sharding.AxisType")
    if types is not None:  # where Explicit is the default
        kinds = f"({types}.Auto,)"
        arguments.append(f"axis_types={kinds}" + (f" * {len(mesh.sizes)}" if len(mesh.sizes) > 1 else ""))
    return f"{make}({', '.join(arguments)})", (*imports, *more)


def _outermost_function(site: Site) -> Scope | None:
    """The outermost function around a call, None at module level: the mesh is made in it."""
    scope = site.scope.enclosing_function()
    found = None
    while scope is not None:
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = scope
        scope = scope.parent.enclosing_function() if scope.parent is not None else None
    return found


def _find_statement(site: Site, scope: Scope | None) -> ast.stmt | None:
    """The statement of a scope's own block that a call is in, however deep."""
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if outer is (scope or site.file.module).node:
            return inner if isinstance(inner, ast.stmt) else None
        inner = outer
    return None


def _line_start(site: Site, statement: ast.stmt) -> tuple[int, str] | None:
    """Where the line of a statement begins, and its indentation; None where something else stands on the line."""
    line = min(node.lineno for node in (statement, *getattr(statement, "decorator_list", [])))
    start = site.file.source.offset_of(line, 0)
    indent = site.file.source.text[start : site.file.character_span(statement)[0]] if line == statement.lineno else ""
    if indent.strip():
        return None
    if line != statement.lineno:
        indent = " " * statement.col_offset
    return start, indent


def _import_root(function: ast.expr) -> str:
    """The imported name that a function is spelled from."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _is_inside_argument(call: _Call, calls: list[_Call]) -> bool:
    """Return whether a call is in another's argument, so that their edits would overlap."""
    around = set(call.site.file.ancestors(call.site.call))
    return any(other.site.call in around for other in calls if other is not call)
