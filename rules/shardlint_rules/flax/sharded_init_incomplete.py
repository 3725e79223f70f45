"""SL503."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.lifetime.liveness import result_use
from shardlint.model.mesh.contexts import SET_KINDS
from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint_rules.flax import sharded_init as init
from shardlint_rules.flax.annotations import eager
from shardlint_rules.flax.built import Annotated
from shardlint_rules.mesh.legacy import to_set_mesh

_PLACED = "the model is then sharded, which changes memory and communication"


class ShardedInitIncomplete(Rule):
    """A sharded initialization of an NNX model lacks a step.

    `with_sharding_constraint` returns a new state, and only `nnx.update` writes it into the model. Without either the
    model is on one device (under `with mesh:`) or replicated (under `jax.set_mesh`), and nothing is raised. Without
    `return` the model is None. Without a mesh in context the constraint raises.

    ## Reports
    - proven: in a function that reads the specs of a model's state (`nnx.get_partition_spec`,
      `nnx.get_named_sharding`), the step that is missing: the constraint, the update, the `return`, or the mesh at the
      call.
    - `with-mesh` (possible): `with mesh:` on flax from 0.12.1, where making an annotated variable raises, if the model
      may have no annotation.

    ## Fix
    Writes the missing step. A missing `return` is safe. The others are unsafe: the model is then sharded.

    ## Limits
    From flax 0.12 annotated variables are sharded as they are made (`flax_always_shard_variable`,
    `nnx.use_eager_sharding`), so a missing constraint or update is not reported there.
    """

    code = "SL503"
    name = "sharded-init-incomplete"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (
        Calls(init.SPECS, init.SHARDINGS),
        Calls(init.CONSTRAINT, file_says=init.READING),
        Calls(init.UPDATE),
    )
    forms = ("call",)
    in_version_checks = False
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings for the step that is missing after this one."""
        scope = site.scope.function()
        if scope is None or not isinstance(scope.node, ast.FunctionDef):
            return
        if not site.call.args:
            return
        if site.api == init.UPDATE:
            yield from self._return(site, scope)
        elif site.api == init.CONSTRAINT:
            specs = site.argument("shardings")
            if specs is None or not init.annotated_specs(site, specs, init.SPECS, init.SHARDINGS):
                return
            found = list(self._update(site, scope))
            if not found and init.annotated_specs(site, specs, init.SPECS):
                found = list(self._mesh(site, scope))
            yield from found
        else:
            yield from self._constraint(site, scope)

    # the steps

    def _constraint(self, site: Site, scope: Scope) -> Iterator[Finding]:
        """`specs = nnx.get_partition_spec(state)`, and nobody reads them."""
        certainty = _unless_eager(site)
        became, name = site.result_use
        model = init.state_of(site, site.call.args[0])
        if became != "never read" or certainty is None or model is None or not site.region.proven:
            return
        if init.made_here(site, scope, model) is None or init.places_otherwise(site, scope):
            return
        if not init.returned(site, scope, model.id):
            return
        state = site.text(site.call.args[0])
        constraint, imports = site.spell(init.CONSTRAINT)
        written = f"{constraint}({state}, {name})"
        update, more = site.spell(init.UPDATE)
        given = self._given_to_update(site, scope, model.id)
        if given is not None:
            edits = [site.replace(given, written)] if site.text(given) == state else []
        else:
            edits = init.after(site, site.call, f"{update}({model.id}, {written})")
            imports = (*imports, *more)
        yield site.finding(
            site.call.func,
            f"`{model.id}` {_unsharded(site)}: the specs are never applied to it.",
            help=f"write nnx.update({model.id}, {written}) before the return",
            fix=self._fix(
                site, f"write {update}({model.id}, {written})", [*edits, *imports] if edits else []
            ),
            certainty=certainty,
        )

    def _update(self, site: Site, scope: Scope) -> Iterator[Finding]:
        """`sharded = with_sharding_constraint(state, specs)`, and nobody reads it."""
        certainty = _unless_eager(site)
        became, name = site.result_use
        model = init.state_of(site, site.call.args[0])
        if became == "used" or certainty is None or model is None:
            return
        update, imports = site.spell(init.UPDATE)
        given = self._given_to_update(site, scope, model.id)
        edits = []
        if name is None and given is None:
            edits = [site.replace(site.call, f"{update}({model.id}, {site.text()})")]
        elif name is not None and given is None:
            edits = init.after(site, site.call, f"{update}({model.id}, {name})")
        elif name is not None and given is not None and isinstance(given, ast.Name):
            edits, imports = [site.replace(given, name)], ()
        yield site.finding(
            site.call.func,
            f"`{model.id}` {_unsharded(site)}: the constrained state is never written back.",
            why=f"`nnx.update` gets `{site.text(given)}` instead" if given is not None else "",
            help=f"write nnx.update({model.id}, {name or '...'})",
            fix=self._fix(
                site,
                f"write {update}({model.id}, {name or site.text()})",
                [*edits, *imports] if edits else [],
            ),
            certainty=certainty,
        )

    def _return(self, site: Site, scope: Scope) -> Iterator[Finding]:
        """`nnx.update(model, ...)`, and the model, made here, goes nowhere."""
        model = site.call.args[0]
        if not isinstance(model, ast.Name) or init.made_here(site, scope, model) is None:
            return
        if any(
            one.value is not None or not isinstance(one, ast.Return)
            for one in site.file.walked(scope).returns
        ):
            return
        if scope.outer_names or not self._kept_inside(site, scope, model.id):
            return
        updates = [call for call in init.calls(site, scope, init.UPDATE) if call.args]
        if updates[-1] is not site.call or not self._result_used(site, scope):
            return
        last = scope.body[-1]
        edits = init.after(site, last, f"return {model.id}") if scope.returns == [] else []
        yield site.finding(
            site.call.func,
            f"The function returns None instead of `{model.id}`, so its caller fails.",
            help=f"write return {model.id}",
            fix=site.fix(Safety.SAFE, f"write return {model.id}", edits) if edits else None,
            harm=Harm.CRASH,
        )

    def _mesh(self, site: Site, scope: Scope) -> Iterator[Finding]:
        """The whole pattern, called with no mesh in context, or with one that is not seen."""
        context = site.context
        if context.never:
            yield from self._bare(site, scope)
            return
        if len(context.contexts) != 1:
            return
        item = init.context_item(site, context.contexts[0])
        if context.only("with mesh") and site.allows("flax", ">=0.12.1") and eager(site) is True:
            model = init.state_of(site, site.call.args[0])
            made = init.made_here(site, scope, model) if model is not None else None
            if made is None:
                return
            found = Annotated(site.program)
            sure = any(found.surely_without_mesh(one) is not None for one in options(site.value(made)))
            edits = to_set_mesh(site, context.contexts[0]) if item is not None else None
            yield site.finding(
                item if item is not None else site.call.func,
                f"On {site.release('flax')} making an annotated variable under `with mesh:` raises ValueError.",
                why="NNX reads only the mesh of `jax.set_mesh`",
                help="write with jax.set_mesh(mesh):",
                fix=self._fix(site, "write with jax.set_mesh", edits or []),
                harm=Harm.CRASH,
                certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
                form="" if sure else "with-mesh",
            )
        elif context.only("use_mesh") and site.allows("flax", "<0.11") and site.region.by.endswith("nnx.jit"):
            edits = []
            if isinstance(item, ast.Call) and len(item.args) == 1:
                edits = [site.replace(item, site.text(item.args[0]))]
            yield site.finding(
                item if item is not None else site.call.func,
                f"On {site.release('flax')} `nnx.jit` under `use_mesh` returns a replicated model.",
                help="write with mesh:",
                fix=self._fix(site, "write with mesh:", edits),
            )

    def _bare(self, site: Site, scope: Scope) -> Iterator[Finding]:
        error = "ValueError or RuntimeError" if eager(site) is True else "RuntimeError"
        message = f"On {site.release('flax')} this raises {error}: the specs name mesh axes, and no mesh is in context."
        help = (
            "call it under `with jax.set_mesh(mesh):`"
            if site.allows("flax", ">=0.11")
            else "call it under `with mesh:`"
        )
        ends = site.program.flow.ends(site.file, scope.node).found
        called = [end.place.node for end in ends if end.kind == "called" and end.place.file is site.file]
        found = [node for node in called if isinstance(node, ast.Call)]
        for call in found or [site.call]:
            wrapped = init.under_mesh(site, call) if call is not site.call else None
            yield site.finding(
                call.func,
                message,
                help=help,
                fix=self._fix(site, f"write {wrapped[0]}", wrapped[1]) if wrapped is not None else None,
                harm=Harm.CRASH,
            )

    # questions

    def _given_to_update(self, site: Site, scope: Scope, model: str) -> ast.expr | None:
        """What `nnx.update(model, ...)` is given in the function."""
        for call in init.calls(site, scope, init.UPDATE):
            if len(call.args) == 2 and isinstance(call.args[0], ast.Name) and call.args[0].id == model:
                return call.args[1]
        return None

    def _kept_inside(self, site: Site, scope: Scope, model: str) -> bool:
        """Whether a name is only ever given to functions of NNX, or read an attribute of."""
        for node in site.file.mentions(model):
            if not isinstance(node, ast.Name) or site.file.home(node) is not scope:
                if isinstance(node, ast.Name) and site.file.home(node).function() in scope.children:
                    return False
                continue
            parent = site.file.parent(node)
            if isinstance(node.ctx, ast.Store) or (
                isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load)
            ):
                continue
            if not isinstance(parent, ast.Call) or node not in parent.args:
                return False
            called = options(site.value(parent.func))
            if not all(isinstance(one, Api) and one.name.startswith("flax.nnx.") for one in called):
                return False
        return True

    def _result_used(self, site: Site, scope: Scope) -> bool:
        ends = site.program.flow.ends(site.file, scope.node).found
        for end in ends:
            if end.kind == "called" and isinstance(end.place.node, ast.Call):
                end.place.file.walked(end.place.file.home(end.place.node))
                if result_use(end.place.file, end.place.node)[0] == "used":
                    return True
        return False

    def _fix(self, site: Site, message: str, edits: list[Edit]) -> Fix | None:
        return site.fix(Safety.UNSAFE, message, edits, _PLACED) if edits else None


def _unless_eager(site: Site) -> Certainty | None:
    """How sure it is that variables are not sharded as they are made; None if they are."""
    now = eager(site)
    if now is None:
        return Certainty.POSSIBLE
    return None if now else Certainty.PROVEN


def _unsharded(site: Site) -> str:
    kinds = {context.kind for context in site.context.contexts}
    if kinds == {"with mesh"}:
        return "stays on one device"
    if kinds and kinds <= set(SET_KINDS):
        return "is replicated on every device"
    return "is not sharded"
