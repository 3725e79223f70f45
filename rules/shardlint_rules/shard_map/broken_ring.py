"""SL408."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shardlint.program.reach import lookup
from shardlint.program.values import Constant, Items
from shardlint.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.site import Site


@dataclass(frozen=True)
class _Ring:
    """`[(i, (i + step) % size) for i in range(count)]`, each as it is written."""

    node: ast.expr
    count: ast.expr
    size: ast.expr


class BrokenRing(Rule):
    """The pairs of a `ppermute` are no ring over the axis.

    ## What it does
    Reports `jax.lax.ppermute` and `pshuffle` whose pairs

    - wrap around (`% n`) and leave devices out (`range(n - 1)`), so that one of them receives zeros;
    - have one source or one destination twice;
    - are a ring of a number that is written out, where the size of the axis is not.

    ## Why it hurts
    A device that nobody sends to gets zeros, without a word: a ring attention loses a block, a reduction a term. A
    source or destination that is there twice raises. A ring of 8 on an axis of 4 raises, on one of 16 half of the
    devices get zeros.

    ## Use instead
    `n = jax.lax.axis_size(axis)` and `[(i, (i + 1) % n) for i in range(n)]`.

    ## Evidence
    Run on jax 0.12 with 8 devices. A shift with no `%` (`[(i, i + 1) for i in range(n - 1)]`) is one on
    purpose: a pipeline, a halo.
    """

    code = "SL408"
    name = "broken-ring"
    harm = Harm.SILENT
    wakes = (Calls("jax.lax.ppermute", "jax.lax.pshuffle"),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        perm = site.keyword("perm")
        node = perm.value if perm is not None else site.call.args[2] if len(site.call.args) > 2 else None
        if node is None:
            return
        shown = _shown(site, node)
        ring = _ring(shown)
        if ring is not None:
            yield from self._ring(site, ring)
        elif site.api == "jax.lax.ppermute":
            yield from self._twice(site, node)

    def _ring(self, site: Site, ring: _Ring) -> Iterator[Finding]:
        size, count = site.text(ring.size), ring.count
        short = (
            isinstance(count, ast.BinOp) and isinstance(count.op, ast.Sub) and site.text(count.left) == size
        )
        if short:
            yield site.finding(
                ring.node,
                f"`range({site.text(count)})` leaves the last device out",
                f"On {site.on('jax')} nobody sends to the device that the last one would send to: it receives zeros.",
                help=f"write range({size}), or leave `% {size}` out where the shift is meant to end",
            )
        elif isinstance(site.value(ring.size), Constant) and isinstance(ring.size, ast.Constant):
            yield site.finding(
                ring.node,
                f"a ring of {size}, whatever the size of the axis",
                f"On {site.on('jax')} this raises on an axis of fewer devices; of more, the others receive zeros.",
                help="take the size from the axis: n = jax.lax.axis_size(axis)",
                certainty=Certainty.POSSIBLE,
                form="hard-coded",
            )

    def _twice(self, site: Site, node: ast.expr) -> Iterator[Finding]:
        value = site.value(node)
        if not isinstance(value, Items) or value.open:
            return
        pairs = [
            tuple(one.value for one in item.items if isinstance(one, Constant))
            for item in value.items
            if isinstance(item, Items) and not item.open
        ]
        if len(pairs) != len(value.items) or any(len(pair) != 2 for pair in pairs):
            return
        for at, what in enumerate(("source", "destination")):
            named = [pair[at] for pair in pairs]
            again = next((one for one in named if named.count(one) > 1), None)
            if again is not None:
                yield site.finding(
                    node,
                    f"{again} is a {what} twice",
                    f"On {site.on('jax')} this raises ValueError when it is traced: each may be there once.",
                    help="send from each device once, and to each once",
                    harm=Harm.CRASH,
                )
                return


def _shown(site: Site, node: ast.expr) -> ast.expr:
    """What is given, where its name is bound once."""
    if isinstance(node, ast.Name):
        bindings, _ = lookup(site.file, node, node.id)
        if len(bindings) == 1 and bindings[0].kind == "assign" and bindings[0].value is not None:
            return bindings[0].value
    return node


def _ring(node: ast.expr) -> _Ring | None:
    """A comprehension of pairs that wrap around."""
    match node:
        case (
            ast.ListComp(
                elt=ast.Tuple(elts=[one, two]),
                generators=[
                    ast.comprehension(
                        target=ast.Name(id=name),
                        iter=ast.Call(func=ast.Name(id="range"), args=[count]),
                        ifs=[],
                    )
                ],
            )
            | ast.GeneratorExp(
                elt=ast.Tuple(elts=[one, two]),
                generators=[
                    ast.comprehension(
                        target=ast.Name(id=name),
                        iter=ast.Call(func=ast.Name(id="range"), args=[count]),
                        ifs=[],
                    )
                ],
            )
        ):
            for plain, moved in ((one, two), (two, one)):
                match plain, moved:
                    case ast.Name(id=same), ast.BinOp(op=ast.Mod(), left=ast.BinOp(), right=size) if (
                        same == name
                    ):
                        return _Ring(node, count, size)
    return None
