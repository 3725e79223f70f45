"""SL214."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.mesh.contexts import SET_KINDS, Context, ContextKind, MeshContext
from shardlint.model.mesh.meshes import leaves, spec_of
from shardlint.model.values import Api, CallResult, Parameter, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety, Violates
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.enclosing import caught
from shardlint_rules.jit._block_ended import beside_block
from shardlint_rules.jit._mesh_entered_later import about_meshes, entered_later
from shardlint_rules.jit._mesh_made import mesh_made
from shardlint_rules.jit._mesh_meant import NO_MESH, mesh_meant
from shardlint_rules.jit._specs_with_mesh import with_mesh
from shardlint_rules.jit._under_the_mesh import NotWrapped, around_call, under_the_mesh
from shardlint_rules.jit.mapped import TREE_MAP, mapped_tree
from shardlint_rules.mesh.axis_types import CONSTRAINTS
from shardlint_rules.mesh.given import SHARDED_JITS, TAKERS, Given, given, jitted

_JIT = "jax.jit"
_PJIT = "jax.experimental.pjit.pjit"
_PUT = "jax.device_put"
# Contexts that do not help a call, though a mesh is in them.
_NO_USE: dict[str, tuple[ContextKind, ...]] = {
    _JIT: ("with mesh",),
    _PUT: ("with mesh",),
    _PJIT: SET_KINDS,
}
# Makers of arrays that, where no mesh is set, are on one device.
_FRESH = (
    *(f"jax.numpy.{name}" for name in ("ones", "zeros", "full", "arange", "linspace", "eye", "empty")),
    *(f"jax.random.{name}" for name in ("normal", "uniform", "randint")),
)
# Functions that set a mesh which `jax.jit` and `device_put` may read.
_SERVING = ("set_mesh", "use_mesh", "set_concrete_mesh", "use_concrete_mesh", "sharding_in_types")
_BY_HAND = ("enter_context", "__enter__")
_CONSTRAINING = ("with_sharding_constraint", "filter_shard")
_SPEC_NAME = regex(r"(^|_)(partition_?specs?|pspecs?)$")
_WHY_ENTERED = "the rest of that line then runs under the mesh too"
_WHY = "it names one mesh, which the context could change"


class SpecNeedsMesh(Rule):
    """A bare `PartitionSpec` is used where no mesh is in context.

    A spec names the axes of a mesh but has no mesh, so the call raises `RuntimeError: ... requires a
    non-empty mesh in context` or `ValueError: Please set a mesh via jax.set_mesh`, for `P()` too. These
    contexts supply the mesh:

    | call | `with mesh:` | `jax.set_mesh` |
    |---|---|---|
    | `jax.jit(in_shardings=P)` | never | yes |
    | `jax.device_put(x, P)` | never | yes |
    | `with_sharding_constraint`, `filter_shard` in a jit | yes | yes |
    | the same outside a jit | yes | not for an array on one device |
    | `pjit(in_shardings=P)` | yes | never |

    ## Reports
    - proven: a `PartitionSpec` without a mesh in the shardings of a jit, in a constraint or in `device_put`,
      if every call path is known and none has a mesh context that the call reads. For a jit the calls of its
      result count.
    - `mesh-made` (likely): the same on unknown call paths, if the function makes its mesh itself and no code
      that runs with it sets one.
    - `entered-below` (likely): a constraint before the `with mesh:` of its own function.
    - `outside-block` (likely): a call that leads to a spec, outside of the `with` in which the same function
      enters its mesh.
    - `never-set` (possible): a spec in `jax.jit` or `device_put`, if no code that runs with it calls
      `jax.set_mesh`.

    ## Write instead
    A `NamedSharding(mesh, spec)`, or the call inside `with jax.set_mesh(mesh):`.

    ## Fix
    Writes the `NamedSharding` with the one mesh visible there. If no mesh has a name in the traced code, puts
    its calls on the host under `jax.set_mesh(mesh)`, if all are in the file and see a name for it. It is
    unsafe: you may want another mesh of the context, and the rest of each line then runs under the mesh too.

    ## Limits
    Functions that unseen code may call, code that tests for a mesh first, a mesh set by a helper or fixture,
    and bodies of `shard_map` are not reported as proven. Up to jax 0.4.38 `jax.jit` and `device_put` take no
    bare spec at all.
    """

    code = "SL214"
    name = "spec-needs-mesh"
    harm = Harm.CRASH
    likely = ("entered-below", "mesh-made", "outside-block")
    assumptions: ClassVar[Mapping[str, str]] = {
        "entered-below": "No caller has entered a mesh already.",
        "mesh-made": "No unseen caller sets a mesh.",
        "outside-block": "No caller of that function has entered a mesh.",
    }
    triggers = (
        Calls(_PUT, *CONSTRAINTS),
        Calls(TREE_MAP, file_says=_CONSTRAINING),
        SHARDED_JITS,
        Violates("mesh.missing"),
    )
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call, at its first bare spec."""
        if site.form == "violation":
            yield from self._report_missing(site)
            return
        if site.api == TREE_MAP:
            specs = list(_specs_of_map(site))
        else:
            specs = [one for one in given(site) if one.certain] or list(_specs_of_callers(site))
        problem = self._problem(site) if specs and not _asks_first(site) else None
        if problem is None:
            nodes = [one.node for one in specs] or [one for one in _arguments(site) if _is_spec(site, one)]
            if nodes and (site.form != "partial" or site.decorated is not None):
                found = (
                    self._entered_below(site, nodes)
                    or self._outside_block(site, specs)
                    or self._mesh_made(site, specs, nodes)
                )
                yield from [found] if found is not None else []
            return
        message, why = problem
        help = "pass a NamedSharding, or call it under jax.set_mesh(mesh)"
        if site.api == _PJIT:
            help = "pass a NamedSharding, or use jax.jit, which reads the mesh of jax.set_mesh"
        fix, kept = self._fix(site, specs)
        help += f"; not rewritten: {kept}" if kept else ""
        yield site.finding(specs[0].node, message, why=why, help=help, fix=fix)

    def _report_missing(self, site: Site) -> Iterator[Finding]:
        call = next((one for one in site.file.ancestors(site.syntax) if isinstance(one, ast.Call)), None)
        if isinstance(site.syntax, ast.Dict | ast.List | ast.Tuple) or call is None:
            return  # the call itself is a site then
        called = options(site.program.value(site.file, call.func))
        if not all(isinstance(one, Api) and one.name in CONSTRAINTS for one in called):
            return
        if _asks_first(site) or site.program.around(site.file, site.syntax).contexts:
            return
        yield site.report_violation(
            f"`{site.violation.said['operation']}` raises RuntimeError: no mesh is in context, and a spec has none.",
            help="pass a NamedSharding, or call it under jax.set_mesh(mesh)",
            fix=self._fix_missing(site),
        )

    def _fix_missing(self, site: Site) -> Fix | None:
        """The fix that names the one mesh in sight of a spec that is written there."""
        node = site.syntax
        spec = spec_of(site.value(node), site.program.evaluator) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or spec is None:
            return None
        mesh = mesh_meant(site, [spec], ()).name
        return self._named(site, [node], mesh)[0] if mesh is not None else None

    def _entered_below(self, site: Site, nodes: list[ast.expr]) -> Finding | None:
        """A constraint before the `with` in which the same function enters its mesh."""
        if not site.wants("entered-below") or site.api not in CONSTRAINTS or _asks_first(site):
            return None
        later = entered_later(site)
        if later is None:
            return None
        return site.finding(
            site.call.func,
            f"`{last_name(site.call.func)}` raises RuntimeError unless a caller has entered a mesh: a spec has none.",
            why=f"the same function enters a mesh only at line {later.line}",
            help=f"move it into the `with` at line {later.line}, or pass a NamedSharding",
            fix=self._named(site, nodes, later.mesh)[0] if later.mesh is not None else None,
            certainty=Certainty.POSSIBLE,
            form="entered-below",
        )

    def _outside_block(self, site: Site, specs: list[Given]) -> Finding | None:
        """A call on a path to the spec that its function makes outside of the `with` of its mesh."""
        if not specs or not site.wants("outside-block") or site.api in (_JIT, _PJIT):
            return None
        if site.program.project.is_test(site.file.path) or _asks_first(site):
            return None
        found = beside_block(site, _NO_USE.get(site.api, ()))
        if found is None:
            return None
        here, line = found.call.file is site.file, found.entered.lineno
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        name = last_name(found.call.node.func) if isinstance(found.call.node, ast.Call) else "the call"
        return site.finding(
            found.call.node if here else specs[0].node,
            f"`{name}` raises {error} unless its caller has entered a mesh: a spec in it has none.",
            label=f"after the `with` of line {line}" if here and found.ended else "",
            why=f"{site.where(found.call)} is outside the `with` at line {line}, in which the same function enters "
            "its mesh",
            help="move the call into the `with`, or use a NamedSharding in the called function",
            fix=self._of_context(site, specs) or self._around(site, found.call, specs),
            certainty=Certainty.POSSIBLE,
            form="outside-block",
        )

    def _mesh_made(self, site: Site, specs: list[Given], nodes: list[ast.expr]) -> Finding | None:
        """A spec on unknown call paths, if no code that runs with it sets a mesh."""
        if not site.wants("mesh-made", "never-set") or site.program.project.is_test(site.file.path):
            return None
        if _asks_first(site) or any(site.anywhere(word) for word in _SERVING):
            return None
        made = mesh_made(site)
        if site.api in (_JIT, _PUT):
            if site.api == _PUT or (site.form == "partial" and site.decorated is None):
                context = site.program.around(site.file, site.call)
            else:
                context = site.program.call_context(site.file, jitted(site))
            if not all(one.kind == "with mesh" for one in context.contexts):
                return None
            why = "no code that runs with this calls jax.set_mesh"
        else:
            if site.api not in CONSTRAINTS or made is None or not specs:
                return None
            if any(site.anywhere(word) for word in (*_BY_HAND, "shard_map")):
                return None
            if any(file.withs_saying("mesh") for file in site.program.together(site.file)):
                return None
            why = "no code that runs with this enters a mesh"
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        return site.finding(
            nodes[0],
            f"`{site.api.rpartition('.')[2]}` raises {error} unless a caller has set a mesh: a spec has none.",
            help="pass a NamedSharding, or call it under jax.set_mesh(mesh)",
            fix=self._of_context(site, specs) if specs else None,
            certainty=Certainty.POSSIBLE,
            form="never-set" if made is None else "mesh-made",
            why=why if made is None else f"{why}, and the function makes its mesh at line {made.lineno}",
        )

    def _problem(self, site: Site) -> tuple[str, str] | None:
        """The message and its reason; None if a mesh may be in context."""
        name = site.api.rpartition(".")[2] if site.form != "call" else last_name(site.call.func)
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        raises = f"`{name}` raises {error}{' when it is called' if site.api in (_JIT, _PJIT) else ''}"
        if site.api in (_JIT, _PUT) and site.allows("jax", "<=0.4.38"):
            return f"`{name}` raises {error}: on {site.release('jax')} it takes shardings only.", ""
        context = self._context(site)
        if context is None:
            return None
        if not context.contexts:
            return f"{raises}: no mesh is in context, and a spec has none.", ""
        if all(one.kind in _NO_USE.get(site.api, ()) and _surely_a_mesh(one) for one in context.contexts):
            line = f"line {context.contexts[0].place.line}"
            if site.api == _PJIT:
                return (
                    f"{raises}: pjit reads only the mesh of `with mesh:`.",
                    f"{line} sets the mesh another way",
                )
            return f"{raises}: it does not read the mesh of `with mesh:`.", f"{line} enters the mesh"
        if site.api in CONSTRAINTS and self._fresh_array(site, context):
            why = "outside jit, under jax.set_mesh, a spec works only for an array that already is on a mesh"
            return f"`{name}` raises TypeError: the array is on one device and has no mesh.", why
        return None

    def _context(self, site: Site) -> Context | None:
        """All mesh contexts on the ways to the call, if all ways are known."""
        if site.api in (_JIT, _PJIT):
            if site.form == "partial" and site.decorated is None:
                return None
            context = site.program.call_context(site.file, jitted(site))
        else:
            context = site.program.around(site.file, site.call)
        return context if context.complete else None

    def _fresh_array(self, site: Site, context: Context) -> bool:
        """Whether the constraint runs eagerly on an array that was made before any mesh was set."""
        if site.region.traced != "never" or not site.allows("jax", ">=0.6"):
            return False
        if context.bare or not all(one.kind in SET_KINDS for one in context.contexts):
            return False
        argument = site.argument("x")
        value = site.value(argument) if argument is not None else None
        if not isinstance(value, CallResult) or value.call is None or value.api not in _FRESH:
            return False
        made = value.call.place
        before = site.program.around(made.file, made.node)
        return before.complete and not before.contexts

    # the fix

    def _fix(self, site: Site, specs: list[Given]) -> tuple[Fix | None, str]:
        """The fix; or why there is none."""
        entered = self._context(site)
        mesh = mesh_meant(site, [one.spec for one in specs], entered.contexts if entered is not None else ())
        if mesh.name is None:
            return self._at_calls(site, specs, mesh.why)
        return self._named(site, [one.node for one in specs], mesh.name)

    def _at_calls(self, site: Site, specs: list[Given], why: str) -> tuple[Fix | None, str]:
        """The fix that enters the mesh where the traced code is called; or why there is none, and no name is meant."""
        if site.api in (_JIT, _PJIT, _PUT):
            return None, why
        try:
            edits, head = under_the_mesh(site, [one.spec for one in specs])
        except NotWrapped as reason:
            return None, str(reason) if why == NO_MESH else why
        return site.fix(Safety.UNSAFE, f"write {head}", edits, _WHY_ENTERED), ""

    def _around(self, site: Site, call: Place, specs: list[Given]) -> Fix | None:
        """The fix that enters the mesh for one call."""
        try:
            edits, head = around_call(site, call, [one.spec for one in specs])
        except NotWrapped:
            return None
        return site.fix(Safety.UNSAFE, f"write {head}", edits, _WHY_ENTERED)

    def _of_context(self, site: Site, specs: list[Given]) -> Fix | None:
        """The fix that names the mesh which the seen ways to the site enter, if there is a name for it."""
        mesh = mesh_meant(site, [one.spec for one in specs], site.context.contexts)
        if mesh.name is None:
            return None
        return self._named(site, [one.node for one in specs], mesh.name)[0]

    def _named(self, site: Site, nodes: list[ast.expr], mesh: str) -> tuple[Fix | None, str]:
        found = with_mesh(site, nodes, mesh)
        if isinstance(found, str):
            return None, found
        written, imports = found
        edits = [site.replace(node, text) for node, text in written.items()]
        return site.fix(Safety.UNSAFE, f"write {written[nodes[0]]}", [*edits, *imports], _WHY), ""


def _arguments(site: Site) -> list[ast.expr]:
    found = [site.argument(name) for name in TAKERS.get(site.api, ())]
    return [one for one in found if one is not None]


def _specs_of_callers(site: Site) -> Iterator[Given]:
    """Parameters that are given a spec by every caller."""
    for node in _arguments(site):
        value = site.value(node)
        if not any(isinstance(one, Parameter) for one in options(value)):
            continue
        if (tree := mapped_tree(site, node)) is not None:
            yield from _specs_in_tree(site, tree, node)
            continue
        found = [spec_of(one, site.program.evaluator) for one in options(site.program.followed(value))]
        if found and found[0] is not None and None not in found:
            yield Given(found[0], node, True)


def _specs_of_map(site: Site) -> Iterator[Given]:
    """The specs of `tree.map(with_sharding_constraint, tree, specs)`: one for each leaf."""
    args = site.call.args
    if site.form != "call" or len(args) != 3 or any(isinstance(one, ast.Starred) for one in args):
        return
    if all(isinstance(one, Api) and one.name in CONSTRAINTS for one in options(site.value(args[0]))):
        yield from _specs_in_tree(site, args[2], args[2])


def _specs_in_tree(site: Site, tree: ast.expr, node: ast.expr) -> Iterator[Given]:
    """The leaves of a tree of specs, where it holds nothing else; `node` stands for each of them."""
    whole = site.program.evaluator.trees.expanded(site.value(tree))
    found = [spec_of(one, site.program.evaluator) for one in leaves(whole)]
    known = [one for one in found if one is not None]
    if len(known) == len(found):
        yield from (Given(one, node, True) for one in known)


def _is_spec(site: Site, node: ast.expr) -> bool:
    """True for a parameter of a jit or placement whose name says that it is a spec."""
    if site.api not in (_JIT, _PUT) or not isinstance(node, ast.Name) or not _SPEC_NAME.search(node.id):
        return False
    outermost = [one for one in site.file.ancestors(node) if isinstance(one, ast.FunctionDef)][-1:]
    if any(re.search(r"NamedSharding|named_sharding", site.text(one)) for one in outermost):
        return False
    return all(isinstance(one, Parameter) for one in options(site.value(node)))


def _asks_first(site: Site) -> bool:
    """Whether the code looks for a mesh before it comes here, or is ready for the error."""
    if caught(site.file, site.syntax):
        return True
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.If | ast.IfExp | ast.While) and about_meshes(site, outer.test):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            line = getattr(site.syntax, "lineno", 0)
            return any(
                isinstance(part, ast.If) and part.lineno < line and about_meshes(site, part.test)
                for part in outer.body
            )
    return False


def _surely_a_mesh(context: MeshContext) -> bool:
    """Whether what is entered is known to be a mesh, or called one: `ctx_mesh` may come from jax.set_mesh."""
    if context.mesh is not None or context.kind != "with mesh":
        return True
    return context.place.text().rpartition(".")[2].lstrip("_") in ("mesh", "device_mesh", "global_mesh")
