"""SL214."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.mesh.contexts import SET_KINDS, Context, ContextKind, MeshContext
from shardlint.model.mesh.meshes import leaves, spec_of
from shardlint.model.values import Api, CallResult, Parameter, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint_rules.jit._block_ended import beside_block
from shardlint_rules.jit._entered_beside import outside
from shardlint_rules.jit._mesh_at_hand import about_meshes, entered_later, ignored_parameter, returns_spec
from shardlint_rules.jit._mesh_made import mesh_made
from shardlint_rules.jit._mesh_meant import NO_MESH, mesh_meant
from shardlint_rules.jit._specs_with_mesh import with_mesh
from shardlint_rules.jit._test_without_mesh import TESTS, calls_without_mesh
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
# What sets a mesh that `jax.jit` and `device_put` read, or may.
_SERVING = ("set_mesh", "use_mesh", "set_concrete_mesh", "use_concrete_mesh", "sharding_in_types")
_BY_HAND = ("enter_context", "__enter__")
_CONSTRAINING = ("with_sharding_constraint", "filter_shard")
# What makes a mesh.
_MAKING = ("Mesh", "make_mesh", "create_device_mesh")
_SPEC_NAME = regex(r"(^|_)(partition_?specs?|pspecs?)$")
_WHY_ENTERED = "what stands in that line is then run under the mesh too"
_WHY = "it names one mesh for good, where the context could have changed"


class SpecNeedsMesh(Rule):
    """A bare `PartitionSpec` is used where no mesh is in context.

    ## What it does
    Reports a `PartitionSpec` without a mesh in the shardings of a jit, in a constraint or in
    `device_put`, when every way to the call is known and none has a mesh in context that serves it. For a
    jit the ways to its calls count, since that is when its shardings are read.

    Likely, where not all ways are known: a call that leads to one from outside of the `with` in which the same
    function enters its mesh; the function, or one around it, is given a mesh that nobody is seen to enter; a constraint
    stands before the `with mesh:` of its own function; or the function makes its mesh itself, and nothing that runs
    with it enters or sets one that would serve.

    With `--certainty possible` also where a `pjit` is called outside of the `with mesh:` of its function; or nothing
    that runs with a `jax.jit` or `device_put` calls `jax.set_mesh`, which alone serves them: whoever uses it would have
    to; or a program makes a mesh, constrains arrays to specs, and enters no mesh anywhere.

    ## Why it hurts
    A spec names the axes of a mesh it does not have, so the call raises: `RuntimeError: ... requires a
    non-empty mesh in context`, `ValueError: Please set a mesh via jax.set_mesh`. `P()` is no exception.
    What serves which call:

    | call | `with mesh:` | `jax.set_mesh` |
    |---|---|---|
    | `jax.jit(in_shardings=P)` | never | yes |
    | `jax.device_put(x, P)` | never | yes |
    | `with_sharding_constraint`, `filter_shard` in a jit | yes | yes |
    | the same outside a jit | yes | not for an array made on one device |
    | `pjit(in_shardings=P)` | yes | never |

    ## Use instead
    Or call it under `with jax.set_mesh(mesh):`.

    ## Fix safety
    Unsafe: it names the one mesh that is visible there, and you may want the mesh of the context. Where no name stands
    for a mesh in the traced code, its calls on the host go under `jax.set_mesh(mesh)`, if all of them are in the file
    and each has a name for it: what stands in these lines is run under the mesh too.

    ## Evidence
    Run on jax 0.4.38 to 0.12. Up to 0.4.38
    `jax.jit` and `device_put` take no bare spec at all. A function that may have callers out of sight,
    code that asks for a mesh first, a mesh set by a helper or fixture, and the bodies of `shard_map` are
    left alone. A mesh that is a parameter counts only in files that enter no mesh, named by none that do
    (tests aside), and not where the spec is used for want of it (`if mesh is None`).
    """

    code = "SL214"
    name = "spec-needs-mesh"
    harm = Harm.CRASH
    likely = ("entered-below", "mesh-made", "mesh-parameter", "outside-block", "test-without")
    triggers = (Calls(_PUT, *CONSTRAINTS), Calls(TREE_MAP, file_says=_CONSTRAINING), SHARDED_JITS, TESTS)
    in_version_checks = False
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call, at its first bare spec; and for a test that comes to one."""
        if site.form == "line":
            yield from self._of_test(site)
            return
        if site.api == TREE_MAP:
            specs = list(_specs_of_map(site))
        else:
            specs = [one for one in given(site) if one.certain] or list(_specs_of_callers(site))
        problem = self._problem(site) if specs and not _asks_first(site) else None
        if problem is None:
            beside = outside(site) if site.api == _PJIT and site.wants("others-entered") else None
            if beside is not None:
                yield self._beside(site, *beside)
            elif found := list(self._unproven(site, specs)):
                yield from found  # what stands in this very function comes before what leads here
            elif specs and (ended := self._block_ended(site, specs)) is not None:
                yield ended
            elif site.wants("mesh-made", "never-set", "never-entered"):
                yield from list(self._never_set(site, specs)) or self._never_entered(site, specs)
            return
        label, message = problem
        help = "give it a NamedSharding, or call it under jax.set_mesh(mesh)"
        if site.api == _PJIT:
            help = "give it a NamedSharding, or use jax.jit, which reads the mesh that jax.set_mesh sets"
        fix, kept = self._fix(site, specs)
        help += f"; not rewritten: {kept}" if kept else ""
        yield site.finding(specs[0].node, message, label=label, help=help, fix=fix)

    def _of_test(self, site: Site) -> Iterator[Finding]:
        """A test that calls without a mesh what is called under one elsewhere."""
        if not site.wants("test-without"):
            return
        for one in calls_without_mesh(site):
            where, entered = one.constraint, one.entered
            yield site.finding(
                one.call,
                f"On {site.release('jax')} this raises RuntimeError: a spec alone does not say which mesh.",
                label=f"no mesh is in context, and {where.file.path.name}:{where.line} constrains to a spec alone",
                help="call it under jax.set_mesh(mesh), as the program does",
                certainty=Certainty.POSSIBLE,
                form="test-without",
                why=f"others call it under the mesh that is entered at {entered.file.path.name}:{entered.line}",
            )

    def _beside(self, site: Site, call: ast.Call, entered: ast.With) -> Finding:
        """A call of the pjit outside of the mesh that others of the function are called under."""
        return site.finding(
            site.call.func if call.func is site.call else call.func,
            f"On {site.release('jax')} this raises unless a caller has entered a mesh: pjit reads specs against the "
            "mesh of `with mesh:`, and none is entered here.",
            label=f"outside of the `with` at line {entered.lineno}",
            help="call it under the mesh too",
            certainty=Certainty.POSSIBLE,
            form="others-entered",
            why=f"the same function enters a mesh at line {entered.lineno}",
        )

    def _block_ended(self, site: Site, specs: list[Given]) -> Finding | None:
        """A call on a way to here that its function makes outside of the `with` of its mesh."""
        if (
            not site.wants("outside-block")
            or site.program.project.is_test(site.file.path)
            or _asks_first(site)
        ):
            return None
        if site.api in (_JIT, _PJIT):
            return None  # where it is made says nothing: the specs are read where it is called
        found = beside_block(site, _NO_USE.get(site.api, ()))
        if found is None:
            return None
        here = found.call.file is site.file
        called = " ".join(found.call.text().split())
        line = found.call.line if here else f"{found.call.file.path.name}:{found.call.line}"
        where = (
            f"the `with` of line {found.entered.lineno} has ended"
            if found.ended
            else (f"the mesh is entered below, at line {found.entered.lineno}")
        )
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        return site.finding(
            found.call.node if here else specs[0].node,
            f"On {site.release('jax')} that call raises {error} unless its caller has entered a mesh: a spec alone "
            "does not say which.",
            label=where if here else f"no mesh is in context in `{called}` at {line}: {where}",
            help="move the call into the `with`, or give a NamedSharding here",
            fix=self._of_context(site, specs) or self._around(site, found.call, specs),
            certainty=Certainty.POSSIBLE,
            form="outside-block",
            why=f"the same function enters a mesh itself, at line {found.entered.lineno}",
        )

    def _unproven(self, site: Site, specs: list[Given]) -> Iterator[Finding]:
        """A mesh is at hand, and callers that are not seen may not have entered it."""
        if not site.wants("entered-below", "mesh-parameter"):
            return
        nodes = [one.node for one in specs] or [one for one in _arguments(site) if returns_spec(site, one)]
        if not nodes or (site.form == "partial" and site.decorated is None):
            return
        on, error = site.release("jax"), "ValueError" if site.api == _PUT else "RuntimeError"
        later = entered_later(site) if site.api in CONSTRAINTS and not _asks_first(site) else None
        if later is not None:
            yield site.finding(
                site.call.func,
                f"On {on} this raises {error} unless a caller has entered a mesh: a spec alone does not say which.",
                label=f"the mesh is entered at line {later.line}, below",
                help=f"move it into the `with` at line {later.line}, or give it a NamedSharding",
                fix=self._named(site, nodes, later.mesh)[0] if later.mesh is not None else None,
                certainty=Certainty.POSSIBLE,
                form="entered-below",
                why=f"the same function enters a mesh at line {later.line}",
            )
            return
        parameter = ignored_parameter(site)
        if parameter is None:
            return
        yield site.finding(
            nodes[0],
            f"On {on} this raises {error} for whoever passes a mesh that is not in context too: a spec alone does not "
            "say which mesh.",
            label=f"`{parameter.name}` is at hand and not used",
            help=f"write NamedSharding({parameter.name}, ...) where {parameter.name} is given",
            fix=self._named(site, nodes, parameter.name)[0] if parameter.always else None,
            certainty=Certainty.POSSIBLE,
            form="mesh-parameter",
            why=f"`{parameter.name}` is a parameter, and nothing that is seen enters it",
        )

    def _never_set(self, site: Site, specs: list[Given]) -> Iterator[Finding]:
        """Not all ways to the call are known, and nothing that runs with it sets a mesh that would serve it."""
        if site.api not in (_JIT, _PUT) or site.program.project.is_test(site.file.path) or _asks_first(site):
            return
        nodes = [one.node for one in specs] or [one for one in _arguments(site) if _called_spec(site, one)]
        if not nodes or any(site.anywhere(word) for word in _SERVING):
            return
        if site.api == _PUT or (site.form == "partial" and site.decorated is None):
            context = site.program.around(site.file, site.call)
        else:
            context = site.program.call_context(site.file, jitted(site))
        if not all(one.kind == "with mesh" for one in context.contexts):
            return
        made = mesh_made(site)
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        what = "device_put" if site.api == _PUT else "jax.jit"
        yield site.finding(
            nodes[0],
            f"On {site.release('jax')} this raises {error} unless whoever runs it has called jax.set_mesh: `with "
            f"mesh:` is not read by {what}.",
            label="a spec alone does not say which mesh",
            help="give it a NamedSharding, or call it under jax.set_mesh(mesh)",
            fix=self._of_context(site, specs) if specs else None,
            certainty=Certainty.POSSIBLE,
            form="mesh-made" if made is not None else "never-set",
            why="nothing that runs with this calls jax.set_mesh"
            + (f", and the mesh is made at line {made.lineno}" if made is not None else ""),
        )

    def _never_entered(self, site: Site, specs: list[Given]) -> Iterator[Finding]:
        """A constraint of a program that makes a mesh, and nothing that runs with it enters one."""
        if site.api not in CONSTRAINTS or not specs or site.program.project.is_test(site.file.path):
            return
        if _asks_first(site) or any(site.anywhere(word) for word in (*_SERVING, *_BY_HAND, "shard_map")):
            return
        if (
            not any(site.anywhere(word) for word in _MAKING)
            or site.program.around(site.file, site.call).contexts
        ):
            return
        if any(file.withs_saying("mesh") for file in site.program.together(site.file)):
            return
        made = mesh_made(site)
        yield site.finding(
            specs[0].node,
            f"On {site.release('jax')} this raises RuntimeError unless whoever runs it has entered a mesh.",
            label="a spec alone does not say which mesh",
            help="give it a NamedSharding, or call it under jax.set_mesh(mesh)",
            fix=self._of_context(site, specs) if specs else None,
            certainty=Certainty.POSSIBLE,
            form="mesh-made" if made is not None else "never-entered",
            why="a mesh is made in the program, and nothing that runs with this enters one"
            if made is None
            else f"the mesh is made at line {made.lineno}, and nothing that runs with this enters one",
        )

    def _problem(self, site: Site) -> tuple[str, str] | None:
        """What is wrong, as label and message; None where a mesh may be in context."""
        on = site.release("jax")
        if site.api in (_JIT, _PUT) and site.allows("jax", "<=0.4.38"):
            what = "jax.jit" if site.api == _JIT else "device_put"
            error = "RuntimeError" if site.api == _JIT else "ValueError"
            return "a spec without its mesh", f"On {on} {what} takes shardings only: this raises {error}."
        context = self._context(site)
        if context is None:
            return None
        error = "ValueError" if site.api == _PUT else "RuntimeError"
        when = " when it is called" if site.api in (_JIT, _PJIT) else ""
        if not context.contexts:
            message = f"On {on} this raises {error}{when}: a spec alone does not say which mesh."
            return "no mesh is in context", message
        if all(one.kind in _NO_USE.get(site.api, ()) and _surely_a_mesh(one) for one in context.contexts):
            line = context.contexts[0].place.line
            if site.api == _PJIT:
                return (
                    "jax.set_mesh does not serve pjit",
                    f"On {on} this raises {error}{when}: pjit reads the mesh of `with mesh:` only, "
                    f"and the one at line {line} is set by another way.",
                )
            return (
                "`with mesh:` does not serve this call",
                f"On {on} this raises {error}{when}: the mesh entered at line {line} is not read by "
                f"{'jax.jit' if site.api == _JIT else 'device_put'}, on any release.",
            )
        if site.api in CONSTRAINTS and self._fresh_array(site, context):
            return (
                "an array on one device has no mesh",
                f"On {on} this raises TypeError: outside jit, under jax.set_mesh, a spec is taken only for "
                "an array that is on a mesh already.",
            )
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


def _called_spec(site: Site, node: ast.expr) -> bool:
    """Whether an argument is what the function is given, and called a spec."""
    if not isinstance(node, ast.Name) or not _SPEC_NAME.search(node.id):
        return False
    outermost = [one for one in site.file.ancestors(node) if isinstance(one, ast.FunctionDef)][-1:]
    if any(re.search(r"NamedSharding|named_sharding", site.text(one)) for one in outermost):
        return False
    return all(isinstance(one, Parameter) for one in options(site.value(node)))


def _asks_first(site: Site) -> bool:
    """Whether the code looks for a mesh before it comes here, or is ready for the error."""
    inner: ast.AST = site.syntax
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.Try) and inner in outer.body:
            return True
        if isinstance(outer, ast.If | ast.IfExp | ast.While) and about_meshes(site, outer.test):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(
                isinstance(part, ast.If) and part.lineno < site.call.lineno and about_meshes(site, part.test)
                for part in outer.body
            )
        inner = outer
    return False


def _surely_a_mesh(context: MeshContext) -> bool:
    """Whether what is entered is known to be a mesh, or called one: `ctx_mesh` may come from jax.set_mesh."""
    if context.mesh is not None or context.kind != "with mesh":
        return True
    return context.place.text().rpartition(".")[2].lstrip("_") in ("mesh", "device_mesh", "global_mesh")
