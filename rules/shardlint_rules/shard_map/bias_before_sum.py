"""SL421."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.manual.varying import leaves
from shardlint.model.reach import lookup
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.shard_map._bias_inside import BIAS, OTHER, bias_inside
from shardlint_rules.shard_map.runs import IN_BODIES, devices, elsewhere, events, shown

# What hands its first argument on as it is.
_KEEPING = ("checkpoint_name", "asarray", "with_sharding_constraint")


class BiasBeforeSum(Rule):
    """A bias is added on every device, and then the devices are summed: it counts once for each of them.

    ## What it does
    Reports `psum` or `psum_scatter` of `x @ w + bias`, or of a name to which a bias was added just before; also where
    a function of the project does both (`psum(dense(params, x), axis)`). So does any other term that the in_specs of a
    `shard_map`, or `in_axes=None` of a `pmap`, leave the same on all devices: a residual, a penalty on the weights.
    Not where it is divided, masked or chosen by `axis_index`, nor `pmean`.

    ## Why it hurts
    Where a matrix product is split over its inner dimension, each device holds a part of the sum and all of the bias.
    Eight devices add it eight times; shapes are right and nothing raises. It shows when a model that was trained
    on one device, where the bias counted once, is run on several.

    ## Use instead
    Add the bias to the sum: `jax.lax.psum(x @ w, axis) + bias`.

    ## Evidence
    Run on jax 0.12 with 8 devices: a bias of 1 gives 8.
    """

    code = "SL421"
    name = "bias-before-sum"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("bias", "inside", "term")
    assumes = True
    triggers = (Calls("jax.lax.psum", "jax.lax.psum_scatter"), *IN_BODIES)
    forms = ("call", "partial", "keyword")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each addition."""
        if not site.api.startswith("jax.lax."):
            yield from self._terms(site)
            return
        if site.form != "call":
            return
        operand = site.argument("x") or next(iter(site.call.args), None)
        done: set[ast.AST] = set()
        for whole, bias in _added(site, operand, 0) if operand is not None else ():
            if whole in done or not _plain(site, bias):
                continue
            done.add(whole)
            name, collective = site.text(bias), site.api.rpartition(".")[2]
            yield site.finding(
                whole,
                f"On {site.release('jax')} {collective} adds up what the devices hold: the bias counts once for each.",
                label=f"`{name}` is added on every device, and summed at line {site.call.lineno}",
                help=f"add `{name}` to what {collective} returns",
                form="bias",
                why=f"`{name}` is called a bias",
            )
        call = _called(site, operand, 0) if operand is not None else None
        inside = bias_inside(site, call) if call is not None else None
        if call is not None and inside is not None:
            name, function = inside
            collective = site.api.rpartition(".")[2]
            where = f"{function.place.file.path.name}:{function.node.lineno}"
            yield site.finding(
                call,
                f"On {site.release('jax')} {collective} adds up what the devices hold: the bias counts once for each.",
                label=f"adds `{name}` on every device ({where}), and is summed at line {site.call.lineno}",
                help=f"sum the product alone, and add `{name}` to what {collective} returns",
                form="inside",
                why=f"`{name}` is called a bias",
            )

    def _terms(self, site: Site) -> Iterator[Finding]:
        """What is no bias by its name, and the same on all devices by the specs."""
        done: set[ast.AST] = set()
        for ran, event, node in events(site, "counted for each") if site.wants("term") else ():
            number = ran.events.index(event)
            if node in done or not any(number in leaf.marks for leaf in leaves(ran.result)):
                continue
            done.add(node)
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            if isinstance(node, ast.AugAssign):
                sides = [node.value]
            if any(BIAS.search(_named(site, one)) for one in sides):
                continue  # told at the sum
            yield site.finding(
                node,
                f"On {site.release('jax')} the sum at line {event.note} adds up what the devices hold: what all "
                f"of them hold counts {devices(ran, event.axes)} times.",
                label=f"one of the two is the same on all devices along {shown(event.axes)}{elsewhere(site, event)}",
                help="sum the part that differs, and add the other to the sum",
                form="term",
                why="its in spec does not split it over that axis, or it was reduced over it before",
            )


def _added(site: Site, node: ast.expr, depth: int) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The additions that an expression is the result of, each with what is added."""
    match node:
        case ast.BinOp(op=ast.Add()):
            for one, other in ((node.right, node.left), (node.left, node.right)):
                if BIAS.search(_named(site, one)) and not isinstance(other, ast.Constant):
                    yield node, one
        case ast.Call(func=ast.Attribute(value=inner, attr="astype" | "reshape")):
            yield from _added(site, inner, depth)
        case ast.Call(args=[inner, *_]) if site.text(node.func).rpartition(".")[2] in _KEEPING:
            yield from _added(site, inner, depth)
        case ast.Name() if depth < 4:
            bindings, _ = lookup(site.file, node, node.id)
            for binding in bindings:
                if binding.kind == "assign" and binding.value is not None:
                    yield from _added(site, binding.value, depth + 1)
                elif binding.kind == "augment":
                    statement = site.file.statement(binding.node)
                    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
                        if BIAS.search(_named(site, statement.value)):
                            yield statement, statement.value


def _called(site: Site, node: ast.expr, depth: int) -> ast.Call | None:
    """The call that what is summed is the result of."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="astype")):
            return _called(site, inner, depth)
        case ast.Call(args=[inner, *_]) if site.text(node.func).rpartition(".")[2] in _KEEPING:
            return _called(site, inner, depth)
        case ast.Call():
            return node
        case ast.Name() if depth < 4:
            bindings, _ = lookup(site.file, node, node.id)
            if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
                return _called(site, bindings[0].value, depth + 1)
    return None


def _named(site: Site, node: ast.expr) -> str:
    """The name of what is added; nothing where it is computed there."""
    return site.text(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ""


def _plain(site: Site, bias: ast.expr) -> bool:
    """Whether a bias is added as it came: not divided, masked, or a part of it."""
    if OTHER.search(site.text(bias)):
        return False
    if not isinstance(bias, ast.Name):
        return True
    bindings, _ = lookup(site.file, bias, bias.id)
    for binding in bindings:
        if binding.value is None:
            continue
        text = site.text(binding.value)
        if "/" in text or "where" in text or "axis_index" in text or "cond(" in text or "zeros" in text:
            return False
    return True
