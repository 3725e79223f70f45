"""SL502."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.guards import expected_to_fail, guarded
from shardlint.model.held import held
from shardlint.model.lifetime.liveness import reads_after
from shardlint.model.mesh.contexts import SET_KINDS, Context
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, Transformed, Value, options
from shardlint.rewrite.indent import indented_as
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.flax import sharded_init as init
from shardlint_rules.flax.annotations import LAYERS, eager
from shardlint_rules.flax.built import Annotated
from shardlint_rules.jit.optimizers import keeps_state
from shardlint_rules.mesh.legacy import to_set_mesh

_RNGS = "flax.nnx.Rngs"
_OPTIMIZERS = ("flax.nnx.Optimizer", "flax.nnx.ModelAndOptimizer")
_READERS = (*init.READING, "get_metadata")


class UnshardedInit(Rule):
    """An NNX model with sharding annotations is built where they have no effect or raise.

    From flax 0.12 an annotated variable is sharded as it is made, and without a mesh that raises ValueError. The state
    of an optimizer has the annotations of the parameters and raises the same. On older releases flax only stores the
    annotation: the model is on one device or, under `jax.set_mesh`, replicated, and nothing is raised.

    ## Reports
    - proven: the construction, outside jit, of a model with annotated variables, without a mesh in context or, from
      flax 0.12.1, under `with mesh:`. If flax does not shard variables as they are made (before 0.12, or with
      `flax_always_shard_variable` off), the construction under a mesh in a project that reads annotations nowhere.
      From flax 0.12 also an `nnx.Optimizer` or `nnx.ModelAndOptimizer` that is made outside the mesh context of its
      model, if the optimizer keeps a state for each parameter.
    - possible: the construction outside jit under `jax.set_mesh`, where each parameter is first made on one device,
      which may not fit.

    ## Fix
    Writes a function under `nnx.jit` that builds the model, called under the mesh, if the mesh is made in sight.
    Unsafe: the model is sharded.

    ## Limits
    Not reported: annotations with a mesh of their own (`mesh=`), `nnx.eval_shape`, and code whose callers are not all
    known.
    """

    code = "SL502"
    name = "unsharded-init"
    harm = Harm.CRASH
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (Calls(_RNGS), Calls(*_OPTIMIZERS))
    forms = ("call",)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each model that these Rngs go into, and for an optimizer of such a model."""
        if site.api in _OPTIMIZERS:
            yield from self._optimizer(site)
            return
        for call in _constructions(site):
            finding = self._built(site, call)
            if finding is not None:
                yield finding

    def _optimizer(self, site: Site) -> Iterator[Finding]:
        """An optimizer that is made outside of the mesh context that its model was built in."""
        model, tx, wrt = (site.argument(name) for name in ("model", "tx", "wrt"))
        if model is None or tx is None or eager(site) is not True or not keeps_state(site, site.value(tx)):
            return
        if wrt is not None and not _is_of_parameters(site.value(wrt)):
            return
        if expected_to_fail(site.file, site.call) or guarded(site.file, site.call):
            return
        context = site.program.context(site.file, site.call)
        missing = self._missing(site, context)
        place = Place(site.file, model)
        models = held(site.program, place) or options(site.program.followed(site.value(model)))
        built = [_built_under_mesh(site, one) for one in models]
        annotated = next((one for one in built if one is not None), None)
        if not missing or annotated is None or None in built:
            return
        name = site.shown(model)
        yield site.finding(
            site.call,
            f"On {site.release('flax')} `{site.shown(site.call.func)}` of `{name}` raises ValueError: {missing}.",
            why=f"its state is annotated like the variables of `{name}` {_where(site, annotated)}, and needs a mesh",
            help=f"make the optimizer under the `with jax.set_mesh(mesh):` that builds `{name}`",
        )

    def _missing(self, site: Site, context: Context) -> str:
        """Why an annotated variable finds no mesh in a context; empty where it may find one."""
        if context.never:
            return "no mesh is in context"
        if context.only("with mesh") and site.allows("flax", ">=0.12.1"):
            return "it does not read `with mesh:`"
        return ""

    def _built(self, site: Site, call: ast.Call) -> Finding | None:
        found = options(site.value(call))
        if len(found) != 1 or not isinstance(found[0], CallResult):
            return None
        if not (isinstance(found[0].by, ClassValue) or found[0].api in LAYERS):
            return None
        if expected_to_fail(site.file, call) or guarded(site.file, call):
            return None
        annotated = Annotated(site.program).surely_without_mesh(found[0])
        if annotated is None or site.program.region(site.file, call).traced != "never":
            return None
        context, now = site.program.context(site.file, call), eager(site)
        if now is True:
            return self._eager(site, call, annotated, context)
        if now is False and context.only("with mesh", *SET_KINDS):
            return self._kept(site, call, annotated, context)
        return None

    def _eager(self, site: Site, call: ast.Call, annotated: Place, context: Context) -> Finding | None:
        name, missing = site.shown(call.func), self._missing(site, context)
        why = f"its variables are annotated {_where(site, annotated)}"
        if missing:
            return site.finding(
                call,
                f"On {site.release('flax')} `{name}` raises ValueError here: {missing}.",
                why=why,
                help="build it in a function under nnx.jit, and call this function under `with jax.set_mesh(mesh):`",
                fix=self._fix(site, call, context),
            )
        if not context.only(*SET_KINDS):
            return None
        return site.finding(
            call,
            f"Outside jit each parameter of `{name}` is first made on one device and then sharded.",
            why=why,
            help="build it in a function under nnx.jit, which makes only the shards",
            fix=self._fix(site, call, context),
            harm=Harm.COST,
            certainty=Certainty.POSSIBLE,
        )

    def _kept(self, site: Site, call: ast.Call, annotated: Place, context: Context) -> Finding | None:
        """Under a mesh, on a flax that only keeps annotations, in a project that never reads them."""
        if any(site.anywhere(word) for word in _READERS):
            return None
        replicated = not any(one.kind == "with mesh" for one in context.contexts)
        where = "replicated on every device" if replicated else "on one device"
        return site.finding(
            call,
            f"On {site.release('flax')} the annotations of `{site.shown(call.func)}` shard nothing: it is {where}.",
            why=f"its variables are annotated {_where(site, annotated)}, and the project never reads annotations",
            help="build it in a function under nnx.jit that constrains its state to nnx.get_partition_spec(state)",
            fix=self._fix(site, call, context),
            harm=Harm.SILENT,
        )

    # the fix

    def _fix(self, site: Site, call: ast.Call, context: Context) -> Fix | None:
        statement = site.file.statement(call)
        indent = init.indentation(site, statement)
        if not isinstance(statement, ast.Assign) or statement.value is not call or indent is None:
            return None
        if len(statement.targets) != 1 or "#" in site.text(statement) or "\\\n" in site.text(statement):
            return None
        name = _free_name(site, statement.targets[0])
        given = _arguments(site, call)
        entered = self._entered(site, call, context)
        if name is None or given is None or entered is None:
            return None
        line, edits = entered
        text, imports = _function(site, call, name, given)
        inner = f"{site.text(statement.targets[0])} = {name}({', '.join(given)})"
        written = [*text, *([line, f"    {inner}"] if line else [inner])]
        start, end = site.file.span(statement)
        lines = f"\n{indent}".join(written).replace(f"\n{indent}\n", "\n\n")
        edits = [
            Edit(start, end, indented_as(site.file, lines, indent)),
            *edits,
            *imports,
        ]
        return site.fix(
            Safety.UNSAFE,
            f"build it in {name}() under nnx.jit, called under the mesh",
            edits,
            "the model is sharded",
        )

    def _entered(self, site: Site, call: ast.Call, context: Context) -> tuple[str, list[Edit]] | None:
        """The `with` line that the call needs, or none, and the edits that correct its context."""
        if context.never:
            under = init.mesh_line(site, call)
            return under if under is not None else None
        if context.only("set_mesh") or (context.only("with mesh") and eager(site) is not True):
            return "", []
        if context.only("with mesh") and len(context.contexts) == 1:
            edits = to_set_mesh(site, context.contexts[0])
            return ("", edits) if edits is not None else None
        return None


def _built_under_mesh(site: Site, value: Value) -> Place | None:
    """Where a variable of a model is annotated that is built under a mesh; None of any other value.

    A model that is built without a mesh raises itself.
    """
    made = _model(site, value)
    if made is None or made.call is None:
        return None
    context = site.program.context(made.call.place.file, made.call.place.node)
    return Annotated(site.program).surely_without_mesh(made) if context.only(*SET_KINDS) else None


def _model(site: Site, value: Value) -> CallResult | None:
    """The construction of the model that a value is, also one that a jitted function returns."""
    if not isinstance(value, CallResult):
        return None
    if isinstance(value.by, ClassValue) or value.api in LAYERS:
        return value
    made = value.by
    while isinstance(made, Transformed) and made.api.name in JIT_WRAPPERS:
        made = made.inner
    if not isinstance(made, Function):
        return None
    built = [_model(site, one) for one in Annotated(site.program).built(made)]
    return built[0] if len(built) == 1 else None


def _is_of_parameters(value: Value) -> bool:
    return isinstance(value, Api) and value.name in ("flax.nnx.Param", "flax.nnx.Variable")


def _constructions(site: Site) -> Iterator[ast.Call]:
    """The calls that these Rngs are an argument of: directly, or by the name they are bound to."""
    uses: list[ast.AST] = [site.call]
    statement = site.file.parent(site.call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            uses = list(reads_after(site.file, site.file.home(target), target))
    for use in uses:
        parent = site.file.parent(use)
        if isinstance(parent, ast.keyword):
            parent = site.file.parent(parent)
        if isinstance(parent, ast.Call) and parent.func is not use:
            yield parent


def _where(site: Site, annotated: Place) -> str:
    if annotated.file is site.file:
        return f"at line {annotated.line}"
    return f"at {annotated.file.path.name}:{annotated.line}"


def _free_name(site: Site, target: ast.expr) -> str | None:
    last = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "model")
    for name in (f"create_{last.strip('_')}", "create_sharded_model"):
        if name.isidentifier() and not site.file.mentions(name):
            return name
    return None


def _arguments(site: Site, call: ast.Call) -> list[str] | None:
    """The names that must come as arguments: what a function under jit may not change from within a closure."""
    names = []
    for node in walk(call):
        if isinstance(node, ast.Starred) or (isinstance(node, ast.keyword) and node.arg is None):
            return None
        if isinstance(node, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return None
        if isinstance(node, ast.Name) and node is not call.func and node.id not in names:
            made = all(isinstance(one, CallResult) and one.api == _RNGS for one in options(site.value(node)))
            if made or "rng" in node.id or "key" in node.id:
                names.append(node.id)
    return names


def _function(site: Site, call: ast.Call, name: str, given: list[str]) -> tuple[list[str], tuple[Edit, ...]]:
    """The lines of the function that builds the model and shards it, and the imports they need."""
    names = ("flax.nnx.jit", "flax.nnx.state", init.CONSTRAINT, init.SPECS, init.UPDATE)
    (jit, one), (state, two), (constraint, three), (specs, four), (update, five) = map(site.spell, names)
    built = site.text(call)
    lines = [
        f"@{jit}",
        f"def {name}({', '.join(given)}):",
        f"    model = {built}".replace("\n", "\n    "),
        f"    state = {state}(model)",
        f"    sharded_state = {constraint}(state, {specs}(state))",
        f"    {update}(model, sharded_state)",
        "    return model",
        "",
    ]
    return lines, (*one, *two, *three, *four, *five)
