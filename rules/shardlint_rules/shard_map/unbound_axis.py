"""SL406."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from shardlint.model import Program
from shardlint.model.api import JIT_SPELLINGS, JIT_WRAPPERS
from shardlint.model.manual.mapped import collectives
from shardlint.model.manual.varying import Event
from shardlint.model.signatures import given_to_wrapper, wrappings
from shardlint.model.values import Api, Function, Transformed, Value
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Mapped, Rule, Uses
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.shard_map._branches import on_a_way
from shardlint_rules.shard_map.runs import describe_location, join_reasons, runs, shown, told_there

_NEAR = ("shard_map", "pmap", "psum", "pmean", "pmax", "all_gather", "axis_index", "ppermute", "axis_name")
# Inside of these an axis may be bound; of a decorator that is not known nobody can tell.
_BINDERS = (
    "jax.shard_map",
    "jax.pmap",
    "jax.vmap",
    "jax.experimental.maps.xmap",
    "flax.linen.vmap",
    "flax.nnx.vmap",
    "flax.nnx.pmap",
    "flax.nnx.shard_map",
    "equinox.filter_pmap",
    "equinox.filter_vmap",
    "haliax.vmap",
    "",
)
# A function of another module, or an object's method.
_OF_ANOTHER = r"(?:)jit\(\s*(?!(?:self|cls|jax|nnx|nn|eqx|lambda)\b)[a-z_]\w*\.[a-z_]\w*"
# A parameter of a function: a wrapper of the project, which other files give a function.
_OF_A_PARAMETER = r"(?s)def \w+\([^)]*?\b(\w+)\b[^)]*\).{0,600}?jit\(\s*\1\b"
# What binds an axis where a function may be called that is not seen.
_BINDING = (
    *(f"{name}{sign}" for name in ("shard_map", "pmap", "xmap") for sign in ("(", ",")),
    *("@jax.pmap", "@pmap", "@jax.shard_map", "@shard_map", "axis_env"),
    r"(?s)vmap\b.{0,300}?axis_name",
)
_DEPTH = 4
_ON_BRANCH = "the branch tests a flag that does not depend on the axes"


class UnboundAxis(Rule):
    """A collective runs where nothing binds its axis.

    Tracing raises `NameError: unbound axis name`, often only at the first evaluation. `pmean` in a `shard_map` with
    `check_vma=True` raises an AssertionError without a message.

    ## Reports
    - proven: a function compiled by `jax.jit`, `eqx.filter_jit`, `nnx.jit`, `nn.jit`, `pjit`, `hax.named_jit` or a
      wrapper of the project that reaches a collective over a named axis without a `shard_map`, `pmap` or
      `vmap(axis_name=)` on the call path.
    - proven: a function mapped by `pmap` or `shard_map` that reaches a collective over another axis.
    - `on-a-way` (likely): the same, if a flag that does not depend on the axes (`if normalize:`) guards the collective.
    - `nowhere` (likely): a compiled function with calls out of sight, if no file of the program binds an axis.

    ## Limits
    Not reported: functions that are also called inside a mapped one, collectives that other branches may skip, and
    those whose NameError is caught (`try: jax.lax.psum(1, axis)`).
    """

    code = "SL406"
    name = "unbound-axis"
    harm = Harm.CRASH
    likely = ("on-a-way", "nowhere")
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-a-way": "The program takes the branch with this mesh or pmap.",
        "nowhere": "No code outside the program maps the function over the axis.",
    }
    assumes = False
    project_says = _NEAR
    triggers = (
        Calls(*JIT_WRAPPERS, file_says=_NEAR),
        Uses(*JIT_SPELLINGS, file_says=_NEAR),
        Calls(*JIT_WRAPPERS, file_says=(_OF_ANOTHER, _OF_A_PARAMETER)),
        Calls("jax.pmap", "jax.shard_map"),
        Uses("jax.pmap", file_says=_NEAR[2:]),
        Mapped(),
    )
    forms = ("call", "partial", "name", "mapped")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each function."""
        if site.form == "name" and site.decorated is None:
            return
        if site.form == "mapped":
            yield from self._pmapped(site)
            yield from self._sharded(site)
            return
        if site.api == "jax.pmap":
            yield from self._pmapped(site)
            return
        if site.api == "jax.shard_map":
            yield from self._sharded(site)
            return
        node = site.syntax
        if not isinstance(node, ast.expr):
            return
        for wrapped in wrappings(site.program, site.file, node, site.form, JIT_WRAPPERS):
            for one in given_to_wrapper(site.program, wrapped, JIT_WRAPPERS):
                yield from self._jitted(site, node, one.inner, one.api)

    def _jitted(self, site: Site, node: ast.AST, inner: Value, wrapper: str) -> Iterator[Finding]:
        """The first collective that a compiled function comes to with no axis bound."""
        definition = _definition(inner)
        if definition is None or not any(map(definition.place.file.says, _NEAR)):
            return
        bound = _bound(site.program, definition.place.file, definition.node, 0)
        if bound == "somewhere" or (bound == "unseen" and not _nowhere(site)):
            return
        event = next(filter(_sure, collectives(site.program, inner)), None)
        if event is not None:
            place = event.seen_from(site.file)
            yield self._finding(site, event, place.node if place is not None else node, wrapper, bound == "unseen")

    def _pmapped(self, site: Site) -> Iterator[Finding]:
        if _nested(site):
            return
        for ran in runs(site):
            if ran.mapped.api != "jax.pmap" or told_there(site, ran):
                continue
            if ran.mapped.axis is not None and not isinstance(ran.mapped.axis, str):
                continue
            if ran.mapped.settings.open_keywords:
                continue
            for event in ran.events:
                wrong = [axis for axis in event.axes if axis != ran.mapped.axis]
                if event.kind == "collective" and wrong and (_sure(event) or on_a_way(event)):
                    place = event.seen_from(site.file)
                    named = f'axis "{ran.mapped.axis}"' if ran.mapped.axis else "no axis name"
                    node = place.node if place is not None else site.syntax
                    yield self._finding(site, event, node, f"jax.pmap with {named}")
                    break

    def _sharded(self, site: Site) -> Iterator[Finding]:
        """Collectives of a body over axes that the mesh of the very shard_map does not have."""
        for ran in runs(site):
            names = ran.mapped.mesh.axis_names if ran.mapped.mesh is not None else None
            if names is None or _nested(site) or told_there(site, ran):
                continue
            for event in ran.events:
                sure = _sure(event)
                if (
                    event.kind != "collective"
                    or not (sure or on_a_way(event))
                    or set(event.axes) <= set(names)
                ):
                    continue
                place = event.seen_from(site.file)
                missing = shown(axis for axis in event.axes if axis not in names)
                yield site.finding(
                    place.node if place is not None else site.call,
                    f"Tracing raises: the mesh of the shard_map has no axis {missing}.",
                    label=f"no axis {missing} here",
                    help="use an axis of the mesh",
                    certainty=Certainty.PROVEN if sure else Certainty.POSSIBLE,
                    form="" if sure else "on-a-way",
                    why=join_reasons(
                        f"the mesh has the axes {shown(names)}",
                        "" if sure else _ON_BRANCH,
                        describe_location(site, event),
                    ),
                )
                break

    def _finding(self, site: Site, event: Event, node: ast.AST, under: str, nowhere: bool = False) -> Finding:
        sure = _sure(event)
        form = "nowhere" if nowhere else "" if sure else "on-a-way"
        evidence = {"nowhere": "no file of the program binds an axis", "on-a-way": _ON_BRANCH}.get(form, "")
        return site.finding(
            node,
            f"Tracing raises NameError: nothing binds the axis {shown(event.axes)} under `{under.partition(' ')[0]}`.",
            label="unbound axis",
            help="pass this axis_name to pmap"
            if under.startswith("jax.pmap")
            else "leave the collective out (arrays under jit are global), or map the function with jax.shard_map",
            certainty=Certainty.PROVEN if sure and not nowhere else Certainty.POSSIBLE,
            form=form,
            why=join_reasons(f"the function runs under {under}", evidence, describe_location(site, event)),
        )


def _nested(site: Site) -> bool:
    """Whether the mapped function is mapped again, or made where another one maps."""
    file, node = (site.file, site.syntax) if site.by is None else (site.by.file, site.by.call)
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and inner in outer.decorator_list:
            above = outer.decorator_list[: outer.decorator_list.index(inner)]
            if any(_binds(site.program, file, decorator) for decorator in above):
                return True
        if isinstance(outer, ast.stmt):
            break
        inner = outer
        made = site.program.value(file, outer.func) if isinstance(outer, ast.Call) else None
        if isinstance(made, Api) and made.name in _BINDERS:
            return True
    region = site.program.region(file, node)
    return any(one in region.by for one in ("pmap", "shard_map", "vmap"))


def _binds(program: Program, file: FileFacts, decorator: ast.expr) -> bool:
    """Whether a decorator is of a transform that binds axes, or one that is not known."""
    value = program.value(file, decorator)
    while isinstance(value, Transformed):
        value = value.inner
    name = value.name if isinstance(value, Api) else ""
    return name in _BINDERS or (not name and "map" in file.text(decorator))


def _definition(value: Value) -> Function | None:
    while isinstance(value, Transformed):
        value = value.inner
    return value if isinstance(value, Function) else None


def _sure(event: Event) -> bool:
    """Whether a collective is surely run, and over names that are written out."""
    if event.note == "maybe" or not event.axes or not all(isinstance(axis, str) for axis in event.axes):
        return False
    return not any(
        isinstance(outer, ast.Try)
        for place in (event.place, *event.chain)
        for outer in place.file.ancestors(place.node)
    )


def _nowhere(site: Site) -> bool:
    """Whether nothing that may run with a file binds any axis."""
    return site.wants("nowhere") and not site.program.project.holds(site.file.path, *_BINDING)


def _bound(
    program: Program, file: FileFacts, node: ast.AST, depth: int
) -> Literal["", "unseen", "somewhere"]:
    """Whether a way to a function leads through what binds an axis, or is not seen."""
    ends = program.flow.ends(file, node)
    unseen = depth > _DEPTH or ends.cut
    for end in ends.found:
        if any(wrapper.api in _BINDERS for wrapper in end.wrappers):
            return "somewhere"
        unseen = unseen or end.kind == "escaped"
        caller = end.place.scope.function() if end.kind == "called" and depth <= _DEPTH else None
        if caller is not None:
            bound = _bound(program, end.place.file, caller.node, depth + 1)
            if bound == "somewhere":
                return bound
            unseen = unseen or bool(bound)
    return "unseen" if unseen else ""
