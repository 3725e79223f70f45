"""SL421."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.reach import lookup
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex

_BIAS = regex(r"(?:^|[._\d])bias(?:es)?\d*(?:$|[._\[])|^b\d?$|\.b$|\[.b\d?.\]$|\[.bias.\]$", 2)
_OTHER = regex(r"grad|local|scaled|partial|shard", 2)
# Calls that return their first argument unchanged.
_KEEPING = ("checkpoint_name", "asarray", "with_sharding_constraint")


class BiasBeforeSum(Rule):
    """A replicated term, such as a bias, is added on every device before `psum` sums over the devices.

    If a matrix product is sharded over its inner dimension, each device holds a partial sum and the full bias. Eight
    devices add it eight times. Nothing raises. The results differ if a model that was trained on one device
    runs on several.

    ## Reports
    - `bias` (likely): `psum` or `psum_scatter` of `x @ w + bias`, or of a name to which a bias was added.
    - `term` (likely): the same for any term that `in_specs` of a `shard_map`, or `in_axes=None` of a `pmap`, leave
      replicated, such as a residual or a penalty on the weights.

    ## Write instead
    `jax.lax.psum(x @ w, axis) + bias`

    ## Limits
    Not reported: terms that are divided, masked or selected by `axis_index`, and `pmean`.
    """

    code = "SL421"
    name = "bias-before-sum"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("bias", "term")
    assumptions: ClassVar[Mapping[str, str]] = {
        "bias": "An array called bias is replicated over the axis.",
        "term": "The sum is meant to count the term once.",
    }
    assumes = True
    triggers = (Calls("jax.lax.psum", "jax.lax.psum_scatter"), Violates("term.counted"))
    forms = ("call", "violation")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each addition."""
        if site.form == "violation":
            yield from self._report_term(site)
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
                f"`{name}` counts once per device: it is added before `{collective}` sums over the devices.",
                label="added on every device",
                help=f"add `{name}` to the result of {collective}",
                form="bias",
                why=f"line {site.call.lineno} sums over the devices, and each of them adds the full bias",
            )

    def _report_term(self, site: Site) -> Iterator[Finding]:
        """A term without the name of a bias that the specs leave replicated."""
        node = site.violation.place.node
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        if site.wants("term") and not any(_BIAS.search(_named(site, one)) for one in sides):  # reported at the sum
            yield site.report_violation(
                "A replicated term counts once per device: it is added before `psum` over "
                f"`{site.violation.said['axes']}`.",
                help="psum the sharded operand alone, and add the replicated one to the result",
                form="term",
                why="the term is replicated by its in spec or by a collective",
            )


def _added(site: Site, node: ast.expr, depth: int) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The additions that an expression is the result of, each with what is added."""
    match node:
        case ast.BinOp(op=ast.Add()):
            for one, other in ((node.right, node.left), (node.left, node.right)):
                if _BIAS.search(_named(site, one)) and not isinstance(other, ast.Constant):
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
                        if _BIAS.search(_named(site, statement.value)):
                            yield statement, statement.value


def _named(site: Site, node: ast.expr) -> str:
    """The name of what is added; nothing where it is computed there."""
    return site.text(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else ""


def _plain(site: Site, bias: ast.expr) -> bool:
    """Whether a bias is added as it came: not divided, masked, or a part of it."""
    if _OTHER.search(site.text(bias)):
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
