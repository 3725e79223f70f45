"""SL214."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.shardings import CONSTRAINTS
from shardlint.model.mesh.contexts import SET_KINDS, Context, ContextKind, MeshContext
from shardlint.model.values import Place, options
from shardlint.rules_api.rule import Calls, Finding, Fix, Harm, Rule, Safety, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.enclosing import is_exception_caught
from shardlint_rules.mesh._block_ended import find_call_outside_block
from shardlint_rules.mesh._mesh_made import find_mesh_creation
from shardlint_rules.mesh._mesh_meant import choose_meant_mesh
from shardlint_rules.mesh._specs_with_mesh import add_mesh_to_specs
from shardlint_rules.mesh.spec_arguments import SHARDED_JITS, given_specs, jitted_node

_JIT = "jax.jit"
_PJIT = "jax.experimental.pjit.pjit"
_PUT = "jax.device_put"
# Contexts that do not help a call, though a mesh is in them.
_NO_USE: dict[str, tuple[ContextKind, ...]] = {
    _JIT: ("with mesh",),
    _PUT: ("with mesh",),
    _PJIT: SET_KINDS,
}
# Functions that set a mesh which `jax.jit` and `device_put` may read.
_SERVING = ("set_mesh", "use_mesh", "set_concrete_mesh", "use_concrete_mesh", "sharding_in_types")
_BY_HAND = ("enter_context", "__enter__", "shard_map")
_NO_CONTEXT = "no mesh is in context, and a spec has none"
_UNREAD = "it does not read the mesh of `with mesh:`"
_HELP = "write `NamedSharding(mesh, spec)` for the spec, or `with jax.set_mesh(mesh):` around the call"


class SpecNeedsMesh(Rule):
    """A bare `PartitionSpec` is used where no mesh is in context.

    The call raises `RuntimeError: ... requires a non-empty mesh in context` or
    `ValueError: Please set a mesh via jax.set_mesh`, even for `P()`. A spec names mesh axes but contains no mesh. These
    contexts supply the mesh:

    | call | `with mesh:` | `jax.set_mesh` |
    |---|---|---|
    | `jax.jit(in_shardings=P(...))` | never | yes |
    | `jax.device_put(x, P(...))` | never | yes |
    | `with_sharding_constraint`, `filter_shard` in a jit | yes | yes |
    | `with_sharding_constraint`, `filter_shard` outside a jit | yes | not for an array on one device |
    | `pjit(in_shardings=P(...))` | yes | never |

    ## Reports
    - proven: a `PartitionSpec` in a constraint, in `device_put` or in the shardings of a jit, if every call path is
      known and none enters a context that supplies the mesh. For the shardings of a jit, the calls of the jitted
      function count.
    - `local-mesh` (likely): a bare spec in a function that creates its own mesh. No file of the program sets a mesh.
      Code outside the project may call the function.
    - `outside-mesh-context` (likely): a call of a function that uses a bare spec. The calling function has a `with`
      block that enters its mesh, and the call is outside this block.

    ## Write instead
    Write `NamedSharding(mesh, spec)` for the spec, or write `with jax.set_mesh(mesh):` around the call. For a `pjit`
    write `jax.jit` too, because `pjit` does not read the mesh of `jax.set_mesh`. Before jax 0.7.1 write
    `jax.sharding.use_mesh(mesh)` for `jax.set_mesh(mesh)`.

    ## Fix
    Writes the `NamedSharding` with the mesh variable of the innermost scope, if there is exactly one. Unsafe: the
    context may have another mesh.

    ## Limits
    Not reported as proven:

    - functions that code outside the project may call
    - code that tests for a mesh first
    - a mesh that a helper or fixture sets
    - bodies of `shard_map`.
    """

    code = "SL214"
    name = "spec-needs-mesh"
    harm = Harm.CRASH
    likely = ("local-mesh", "outside-mesh-context")
    assumptions: ClassVar[Mapping[str, str]] = {
        "local-mesh": "No caller outside the project sets a mesh.",
        "outside-mesh-context": "No caller of that function has entered a mesh.",
    }
    triggers = (Violates("mesh.missing"), SHARDED_JITS, Calls(_PUT, *CONSTRAINTS))
    in_version_checks = False
    fixes = "unsafe"

    @detector("violation")
    def report_missing(self, site: Site) -> Finding | None:
        """A constraint or placement on a call path without a mesh."""
        node, operation = site.syntax, site.violation.said["operation"]
        if (
            _checks_mesh_first(site)
            or not isinstance(node, ast.expr)
            or site.program.surrounding_contexts(site.file, node).contexts
        ):
            return None
        if any(isinstance(one, ast.GeneratorExp) for one in site.file.ancestors(node)):
            return None  # it runs later
        missing = _UNREAD if site.violation.said["context"] else _NO_CONTEXT
        error = _name_error(operation)
        fix, kept = self._write_fix(site, [node], ())
        return site.report_violation(f"`{operation}` raises {error}: {missing}.", help=_HELP, fix=fix, kept=kept)

    @detector("call", "partial")
    def report_unset(self, site: Site) -> Finding | None:
        """A spec of which all call paths are known, and none has a mesh that the call reads."""
        nodes = _find_bare_specs(site)
        context = _find_context(site) if nodes else None
        if context is None or not context.complete:
            return None
        why, help = "", _HELP
        if not context.contexts:
            missing = _NO_CONTEXT
        elif not all(one.kind in _NO_USE.get(site.api, ()) and _is_surely_mesh(one) for one in context.contexts):
            return None
        elif site.api == _PJIT:
            missing, why = "pjit reads only the mesh of `with mesh:`", "sets the mesh in another context"
            help = "write `NamedSharding(mesh, spec)` for the spec, or `jax.jit`: it reads the mesh of `jax.set_mesh`"
        else:
            missing, why = _UNREAD, "enters the mesh"
        name, error = site.short_name, _name_error(site.api)
        raising = f"A call of the function of `{name}`" if site.api in (_JIT, _PJIT) else f"`{name}`"
        fix, kept = self._write_fix(site, nodes, context.contexts)
        return site.finding(
            nodes[0],
            f"{raising} raises {error}: {missing}.",
            why=f"line {context.contexts[0].place.line} {why}" if why else "",
            help=help,
            fix=fix,
            kept=kept,
        )

    @detector("call", "partial", of=(_PUT, *CONSTRAINTS), finds="outside-mesh-context")
    def report_outside_block(self, site: Site) -> Finding | None:
        """A call on a path to the spec that its function makes outside of the `with` of its mesh."""
        nodes = _find_bare_specs(site)
        if not nodes or not _may_have_mesh(_find_context(site)) or site.program.project.is_test(site.file.path):
            return None
        found = find_call_outside_block(site, _NO_USE.get(site.api, ()))
        if found is None:
            return None
        here, line = found.call.file is site.file, found.entered.lineno
        error = _name_error(site.api)
        name = last_name(found.call.node.func) if isinstance(found.call.node, ast.Call) else "the call"
        return site.finding(
            found.call.node if here else nodes[0],
            f"`{name}` raises {error} unless its caller enters a mesh: its bare spec contains no mesh.",
            label=f"after the `with` of line {line}" if here and found.is_block_ended else "",
            why=f"{site.where(found.call)} is outside the `with` at line {line}, where the same function "
            "enters its mesh",
            help="move the call into the `with` block, or write `NamedSharding(mesh, spec)` in the called function",
            fix=self._write_fix(site, nodes, site.context.contexts)[0],
        )

    @detector("call", "partial", finds="local-mesh")
    def report_own_mesh(self, site: Site) -> Finding | None:
        """A spec on unknown call paths, if no code that runs with it sets a mesh and the function makes its own."""
        nodes = _find_bare_specs(site)
        context = _find_context(site) if nodes else None
        if context is None or not _may_have_mesh(context) or site.program.project.is_test(site.file.path):
            return None
        if any(site.is_named_anywhere(word) for word in _SERVING):
            return None
        if site.api in (_JIT, _PUT):
            why = "no file of the program calls jax.set_mesh"
            if not all(one.kind == "with mesh" for one in context.contexts):
                return None
        else:
            why = "no file of the program enters a mesh"
            if site.api == _PJIT or any(site.is_named_anywhere(word) for word in _BY_HAND):
                return None
            if any(file.withs_saying("mesh") for file in site.program.together(site.file)):
                return None
        made = find_mesh_creation(site)
        if made is None:
            return None
        name, error = site.short_name, _name_error(site.api)
        return site.finding(
            nodes[0],
            f"`{name}` raises {error} unless a caller has set a mesh: a bare spec contains no mesh.",
            help=_HELP,
            fix=self._write_fix(site, nodes, site.context.contexts)[0],
            why=f"{why}, and the function makes its mesh at line {made.lineno}",
        )

    def _write_fix(
        self, site: Site, nodes: list[ast.expr], contexts: tuple[MeshContext, ...]
    ) -> tuple[Fix | None, str]:
        """The fix that writes the mesh in scope with each spec; or why there is none."""
        specs = [site.spec_of(one) for node in nodes for one in options(site.value(node))]
        mesh = choose_meant_mesh(site, [one for one in specs if one is not None], contexts)
        if mesh.name is None:
            return None, mesh.why
        found = add_mesh_to_specs(site, nodes, mesh.name)
        if found is None:
            return None, "the tree contains more than specs"
        written, imports = found
        edits = [site.replace(node, text) for node, text in written.items()]
        why = "a caller may set another mesh, and this one replaces it"
        return site.fix(Safety.UNSAFE, f"write {written[nodes[0]]}", [*edits, *imports], why), ""


def _find_bare_specs(site: Site) -> list[ast.expr]:
    """The specs of a call, if it does not ask for a mesh first."""
    if _checks_mesh_first(site) or (site.form == "partial" and site.decorated is None):
        return []
    return [one.node for one in given_specs(site) if one.certain]


def _may_have_mesh(context: Context) -> bool:
    return not context.complete or bool(context.contexts)


def _name_error(operation: str) -> str:
    return "ValueError" if operation.endswith("device_put") else "RuntimeError"


def _find_context(site: Site) -> Context:
    """The mesh contexts on the ways to the call; for a jit, to the calls of its result."""
    if site.api in (_JIT, _PJIT):
        return site.program.call_context(site.file, jitted_node(site))
    return site.program.surrounding_contexts(site.file, site.call)


def _checks_mesh_first(site: Site) -> bool:
    """True if the code looks for a mesh before it comes here, or is ready for the error."""
    inside = site.violation.inside if site.form == "violation" else ()
    return any(map(_is_mesh_checked_before, (Place(site.file, site.syntax), *inside)))


def _is_mesh_checked_before(place: Place) -> bool:
    file, node = place.file, place.node
    if is_exception_caught(file, node):
        return True
    for outer in file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp | ast.While) and _is_about_meshes(file, outer.test):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            line = getattr(node, "lineno", 0)
            return any(
                isinstance(part, ast.If) and part.lineno < line and _is_about_meshes(file, part.test)
                for part in outer.body
            )
    return False


def _is_about_meshes(file: FileFacts, test: ast.expr) -> bool:
    text = file.source_text(test).lower()
    return "mesh" in text or "shard" in text


def _is_surely_mesh(context: MeshContext) -> bool:
    """True if what is entered is known to be a mesh, or called one: `ctx_mesh` may come from jax.set_mesh."""
    if context.mesh is not None or context.kind != "with mesh":
        return True
    return context.place.source_text().rpartition(".")[2].lstrip("_") in ("mesh", "device_mesh", "global_mesh")
