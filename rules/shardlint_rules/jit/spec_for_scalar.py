"""SL229."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.model.mesh.meshes import Spec
from shardlint.model.reach import lookup
from shardlint.model.signatures import JITS
from shardlint.model.values import (
    Api,
    CallArguments,
    Environment,
    Function,
    Items,
    Leaves,
    Place,
    Table,
    options,
)
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import Scope
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._scalar_leaves import of_value, scalar_leaf
from shardlint_rules.jit.trees import MAPS

_GIVEN = {
    "jax.device_put": ("x", "device"),
    "jax.lax.with_sharding_constraint": ("x", "shardings"),
    "equinox.filter_shard": ("x", "device_or_shardings"),
}
_LEAVES = ("jax.tree.leaves", "jax.tree.flatten")
# Who asks for one of these knows of scalars.
_RANK = ("ndim", "shape", "size", "isscalar", "is_scalar", "rank")


class SpecForScalar(Rule):
    """A tree that holds scalars is given one spec with an entry.

    ## What it does
    Reports `device_put`, `with_sharding_constraint` and `eqx.filter_shard` that give every leaf of a state the same
    `PartitionSpec` with an axis, as a whole, or leaf by leaf in `tree.map` or a loop; and one such sharding for the
    whole result of a `jit`. The state has a scalar: the step of a train state, the step count of an optimizer, a
    field or entry that is one. It is quiet where the code asks for the rank or shape of the leaf.

    ## Why it hurts
    `ValueError: ... is only valid for values of rank at least 1, but was applied to a value of rank 0`. It is raised
    with the first optimizer that counts its steps: `optax.adam`, and not `optax.sgd`.

    ## Evidence
    The proof runs it. A tree that is only called `opt_state` or `train_state` gives a possible finding.
    """

    code = "SL229"
    name = "spec-for-scalar"
    harm = Harm.CRASH
    assumes = True
    triggers = (Calls(*_GIVEN), Calls(*JITS, file_says=("out_shardings",), function_says=("out_shardings",)))
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.api in JITS:
            yield from self._result(site)
            return
        array, sharding = (site.argument(name) for name in _GIVEN[site.api])
        if sharding is None:
            return
        trees = (
            list(_mapped_partial(site))
            if site.form == "partial"
            else _trees(site, array)
            if array is not None
            else []
        )
        if not trees or not _asks(site, sharding):
            return
        for tree in trees:
            found = scalar_leaf(site, tree)
            if found is not None:
                yield self._finding(site, sharding, tree.text(), *found)
                return

    def _result(self, site: Site) -> Iterator[Finding]:
        """`jit(init, out_shardings=sharding)` of a function that gives a scalar among others."""
        sharding = site.argument("out_shardings")
        if sharding is None or not _asks(site, sharding):
            return
        function = site.argument("fun")
        value = (
            site.program.evaluator.function(site.file, site.decorated)
            if site.decorated is not None
            else site.value(function)
            if function is not None
            else None
        )
        if not isinstance(value, Function):
            return
        arguments = CallArguments(value.place, (), {}, open_positional=True)
        given: Environment = site.program.evaluator.parameters(value, arguments)
        result = site.program.evaluator.calls.returned(value, lambda: given)
        scalar = of_value(site, result)
        if scalar is not None:
            yield self._finding(site, sharding, getattr(value.node, "name", "the function"), scalar, True)

    def _finding(self, site: Site, sharding: ast.expr, tree: str, scalar: str, proven: bool) -> Finding:
        tree = " ".join(tree.split())
        return site.finding(
            sharding,
            f"On {site.release('jax')} this raises ValueError for what has no dimension in `{tree}`: {scalar}.",
            label="one spec for arrays and scalars",
            help="give scalars PartitionSpec(): choose by `leaf.ndim`",
            certainty=Certainty.PROVEN if proven else Certainty.POSSIBLE,
            form="" if proven else "named",
            why=scalar,
        )


def _asks(site: Site, sharding: ast.expr) -> bool:
    """Whether an argument is one sharding for all leaves, with an entry that names an axis or may."""
    found = options(site.value(sharding))
    if len(found) != 1 or isinstance(found[0], Items | Table | Leaves):
        return False
    parts = site.sharding_parts(found[0])
    second = options(parts[1]) if parts is not None else found
    spec = site.spec_of(second[0]) if len(second) == 1 else None
    return spec is not None and not spec.open and _has_axis(spec)


def _has_axis(spec: Spec) -> bool:
    """SL303 speaks of specs that are replicated but longer than the array."""
    return any(not entry.known or entry.axes for entry in spec.entries)


def _mapped_partial(site: Site) -> Iterator[Place]:
    """The tree over which a partial of the site's function is mapped."""
    outer = site.file.parent(site.call)
    if isinstance(outer, ast.Call) and outer.args and outer.args[0] is site.call and _maps(site, outer):
        yield from (Place(site.file, argument) for argument in outer.args[1:2])


def _maps(site: Site, call: ast.Call) -> bool:
    return any(isinstance(one, Api) and one.name in MAPS for one in options(site.value(call.func)))


def _trees(site: Site, array: ast.expr) -> list[Place]:
    """The trees whose leaves, or which as a whole, the call places."""
    function = site.scope.function()
    if not isinstance(array, ast.Name):
        return [Place(site.file, array)]
    bindings, _ = lookup(site.file, array, array.id)
    if len(bindings) != 1:
        return []
    origin = bindings[0]
    if origin.kind in ("for", "comprehension"):
        over = origin.value
        if isinstance(over, ast.Call) and over.args and origin.index is None:
            if any(isinstance(one, Api) and one.name in _LEAVES for one in options(site.value(over.func))):
                return [Place(site.file, over.args[0])]
        return []
    if origin.kind != "param" or function is None or origin.scope is not function:
        return [Place(site.file, array)]
    if _asked(site, function):
        return []
    mapped = list(_mapped(site, function, origin.name))
    return mapped or ([Place(site.file, array)] if function.kind == "function" else [])


def _mapped(site: Site, function: Scope, name: str) -> Iterator[Place]:
    """The trees that a function is mapped over, for one of its parameters."""
    args = function.node.args if isinstance(function.node, ast.Lambda | ast.FunctionDef) else None
    names = [one.arg for one in (*args.posonlyargs, *args.args)] if args is not None else []
    if name not in names:
        return
    for end in site.program.flow.ends(site.file, function.node).found:
        if end.kind == "called" and any(wrapper.api in MAPS for wrapper in end.wrappers):
            trees = site.program.evaluator.arguments(end.place).positional[1:]
            index = names.index(name) - (end.wrappers[-1].api == MAPS[1])
            yield from trees[index : index + 1] if index >= 0 else ()


def _asked(site: Site, function: Scope) -> bool:
    """Whether a function asks about ranks."""
    return site.file.remembered("asks about ranks", function.node, lambda: _speaks_of_ranks(function.node))


def _speaks_of_ranks(node: ast.AST) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in _RANK)
        or (isinstance(part, ast.Name) and part.id in _RANK)
        for part in walk(node)
    )
