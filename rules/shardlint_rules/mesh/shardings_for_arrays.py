"""SL324."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.config.certainty import Certainty
from shardlint.model.mesh.meshes import is_sharding
from shardlint.model.values import Items, Leaves, Table, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.trees import MAPS

_ARRAYS = regex(
    r"^_?(new_|model_|train_|init_|initial_|opt_|ema_|lora_|sharded_)?"
    r"(params?|parameters|weights|state|variables|opt_state|grads|batch)$"
)
_AS_SPECS = regex(r"shardings?|specs?|resources|device|layout|partition", re.IGNORECASE)


class ShardingsForArrays(Rule):
    """A tree of shardings takes the name of the arrays that should get them.

    ## What it does
    Reports `params = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)`: what `tree.map` makes has a
    sharding or spec for each leaf, and its name is that of parameters, weights or a state, under which it is not used
    as shardings anywhere.

    ## Why it hurts
    The arrays are gone from that name, and what follows gets shardings: a model that is called with them raises, and
    a checkpoint that is written from them has no weights.

    ## Evidence
    The proof runs it. It is quiet where the name is only given as a sharding afterwards (`out_shardings=state`), and of
    a field beside others that are shardings (`self.params`, `self.batch` of an object that keeps the layout).
    """

    code = "SL324"
    name = "shardings-for-arrays"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("named",)
    triggers = (Calls(*MAPS, file_says=("Sharding", "PartitionSpec")),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an assignment."""
        parent = site.file.parent(site.call)
        target = _target(parent)
        if target is None:
            return
        name = target.attr if isinstance(target, ast.Attribute) else target.id
        if not _ARRAYS.match(name) or not all(
            _all_shardings(one)
            for one in options(site.program.evaluator.trees.expanded(site.value(site.call)))
        ):
            return
        around = site.scope.function()
        if around is not None and _AS_SPECS.search(around.name):
            return  # it makes the shardings of parts that go by the names of what they are for
        if _given_as_specs(site.file, target, name) or _beside_shardings(site, target):
            return
        yield site.finding(
            target,
            f"`{name}` holds shardings from here",
            f"On {site.release('jax')} what takes `{name}` for arrays raises: every leaf is a sharding.",
            help=f"give the shardings a name of their own, and write jax.device_put({name}, shardings)",
            certainty=Certainty.POSSIBLE,
            form="named",
        )


def _target(parent: ast.AST | None) -> ast.Name | ast.Attribute | None:
    match parent:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return target
        case ast.AnnAssign(target=ast.Name() | ast.Attribute() as target):
            return target
    return None


def _all_shardings(value: Value) -> bool:
    """Whether each leaf of a tree is a sharding or a spec, and there is one."""
    match value:
        case Leaves(of=leaf):
            return _all_shardings(leaf)
        case Items(items=items, open=False):
            return bool(items) and all(map(_all_shardings, items))
        case Table(entries=entries, open=False):
            return bool(entries) and all(_all_shardings(item) for _, item in entries)
    return is_sharding(value)  # a tree of specs may well go by the name of what it is for


def _given_as_specs(file: FileFacts, target: ast.Name | ast.Attribute, name: str) -> bool:
    """Whether all that is done with the name afterwards is to give it as shardings."""
    uses = [
        use
        for use in file.mentions(name)
        if isinstance(use, ast.Name | ast.Attribute)
        and isinstance(use.ctx, ast.Load)
        and file.home(use) is file.home(target)
        and use.lineno > target.lineno
    ]
    return bool(uses) and all(_as_spec(file, use) for use in uses)


def _beside_shardings(site: Site, target: ast.Name | ast.Attribute) -> bool:
    """Whether it is a field of an object that keeps shardings: the method gives others of its fields one, too."""
    around = site.scope.function()
    if not isinstance(target, ast.Attribute) or around is None:
        return False
    return any(
        isinstance(one, ast.Assign)
        and any(isinstance(to, ast.Attribute) and to.attr != target.attr for to in one.targets)
        and all(is_sharding(value) for value in options(site.value(one.value)))
        for one in walk(around.node)
    )


def _as_spec(file: FileFacts, use: ast.AST) -> bool:
    parent = file.parent(use)
    match parent:
        case ast.keyword(arg=str() as name):
            return bool(_AS_SPECS.search(name))
        case ast.Call(func=called, args=[_, second, *_]) if second is use:
            return "device_put" in ast.unparse(called) or "constraint" in ast.unparse(called)
    return False
