"""SL408."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.model.values import Constant, Items, Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.shard_map._held_block import against_the_ring
from shardlint_rules.shard_map._pairs import twice
from shardlint_rules.shard_map._rings import Ring, ring_of, written_at

# What tells that every device is meant to be reached, and that the ends are left open on purpose.
_RING = regex(r"(?<![a-z])ring|rotat|cyclic|circular|all_?reduce|all_?gather|all_?to_?all", re.I)
_LINE = regex(
    r"halo|pipelin|stage|boundar|wrap|ghost|line end|non.?periodic|valid|causal|prefix|scan_sum", re.I
)


class BrokenRing(Rule):
    """The pairs of a `ppermute` are no ring over the axis.

    ## What it does
    Reports `jax.lax.ppermute` and `pshuffle` whose pairs

    - wrap around (`% n`) and leave devices out (`range(n - 1)`), so that one of them receives zeros;
    - have one source or one destination twice;
    - are a ring of a number that is written out, where the size of the axis is not.

    Likely: pairs that end at the last device (`[(i, i + 1) for i in range(n - 1)]`) in a function that is called
    a ring or a rotation, or in a loop of as many turns as there are devices. Likely, too: the index of the block that
    a device holds, `(axis_index(axis) + step) % n`, in the loop whose hops go to the next device: after `step` hops
    that block is the one of `axis_index(axis) - step`.

    ## Why it hurts
    A device that nobody sends to gets zeros, without a word: a ring attention loses a block, a reduction a term. A
    source or destination that is there twice raises. A ring of 8 on an axis of 4 raises, on one of 16 half of the
    devices get zeros.

    ## Use instead
    `n = jax.lax.axis_size(axis)` and `[(i, (i + 1) % n) for i in range(n)]`.

    ## Evidence
    Run on jax 0.12 with 8 devices. A shift with no `%` is one on purpose where the function speaks of a pipeline, a
    halo, boundaries or what is valid, or shifts
    the other way too.
    """

    code = "SL408"
    name = "broken-ring"
    harm = Harm.SILENT
    likely = ("open", "source")
    triggers = (Calls("jax.lax.ppermute", "jax.lax.pshuffle"),)
    forms = ("call", "partial")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each call."""
        perm = site.keyword("perm")
        given = site.call.args if site.form == "call" else []
        node = perm.value if perm is not None else given[2] if len(given) > 2 else None
        if node is None:
            return
        ring, written = ring_of(site, node), written_at(site, node)
        again = twice(written[0], written[1]) if written is not None and site.api == "jax.lax.ppermute" else ""
        if again and written is not None:
            yield site.finding(
                written[1] if written[0] is site.file else node,
                f"a {again} is there twice, with three devices or more",
                f"On {site.release('jax')} this raises ValueError when it is traced: each may be there once.",
                help="send from each device once, and to each once: [(i, (i + 1) % n) for i in range(n)]",
                harm=Harm.CRASH,
            )
        elif ring is not None:
            yield from self._ring(site, ring, node)
            yield from self._counted_back(site, ring)
        elif site.api == "jax.lax.ppermute":
            yield from self._twice(site, node)

    def _counted_back(self, site: Site, ring: Ring) -> Iterator[Finding]:
        """Indices of the block that a device holds which count against the ring."""
        line = Place(site.file, ring.node).line if ring.file is site.file else 0
        done: set[ast.AST] = set()
        for node, counter in against_the_ring(site, ring):
            if node in done:
                continue
            done.add(node)
            to, whose = ("next", "before") if ring.direction > 0 else ("one before", "after")
            sign = "-" if ring.direction > 0 else "+"
            yield site.finding(
                node,
                f"counts with the ring, and what is held comes from the devices {whose}",
                f"Each device sends to the {to}{f' (line {line})' if line else ''}: after `{counter}` hops it holds "
                f"the block of the one {counter} places {whose} it, and this names that of the other side. Masks and "
                "places go to the wrong block, with no error.",
                help=f"count against it: {sign} {counter} in place of {'+' if sign == '-' else '-'} {counter}, or turn "
                "the pairs around",
                certainty=Certainty.POSSIBLE,
                form="source",
                why="the index is the device's own and the number of the hop, in the loop that makes the hop",
            )

    def _ring(self, site: Site, ring: Ring, node: ast.expr) -> Iterator[Finding]:
        at = ring.node if ring.file is site.file else node
        left_out, size = ring.left_out, ring.devices
        if ring.size is not None and left_out:
            written = ring.text(ring.count) if left_out == "last" else f"1, {ring.text(ring.count)}"
            yield site.finding(
                at,
                f"`range({written})` leaves the {left_out} device out",
                f"On {site.release('jax')} nobody sends to the device that the {left_out} one would send to: it "
                "receives zeros.",
                help=f"write range({size}), or leave `% {size}` out where the shift is meant to end",
            )
        elif ring.size is not None and isinstance(ring.size, ast.Constant):
            yield site.finding(
                at,
                f"a ring of {size}, whatever the size of the axis",
                f"On {site.release('jax')} this raises on an axis of fewer devices; of more, the others receive zeros.",
                help="take the size from the axis: n = jax.lax.axis_size(axis)",
                certainty=Certainty.POSSIBLE,
                form="hard-coded",
            )
        elif ring.size is None and left_out and (why := _meant_to_close(site, ring)):
            yield site.finding(
                at,
                f"ends at the {'last' if left_out == 'last' else 'first'} device",
                f"On {site.release('jax')} a device at the end receives zeros, and in each further turn so does its "
                "neighbour: the shards do not come around.",
                help=f"close the ring: [(i, (i + 1) % {size}) for i in range({size})]",
                certainty=Certainty.POSSIBLE,
                form="open",
                why=why,
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
                    f"On {site.release('jax')} this raises ValueError when it is traced: each may be there once.",
                    help="send from each device once, and to each once",
                    harm=Harm.CRASH,
                )
                return


def _meant_to_close(site: Site, ring: Ring) -> str:
    """What tells that a shift without `%` is to come around: its function's name, or as many turns as devices."""
    outer = list(site.file.ancestors(site.call))
    functions = [one for one in outer if isinstance(one, ast.FunctionDef)]
    if not functions or any(_LINE.search(site.text(one)) for one in functions):
        return ""
    classes = [one for one in outer if isinstance(one, ast.ClassDef)]
    names = [one.name for one in functions] + [one.name for one in classes]
    named = next((name for name in names if _RING.search(name)), "")
    if any(_LINE.search(one.name) for one in classes):
        return ""
    if named:
        return f"`{named}` is what it is in"
    if _to_both_sides(site, functions[-1], ring):
        return ""
    size = ring.devices
    for node in walk(functions[-1]):
        turns = _turns(node)
        if turns is not None and site.text(turns) in (size, f"{size} - 1"):
            return f"it is done in a loop of {site.text(turns)} turns"
    return ""


def _to_both_sides(site: Site, function: ast.FunctionDef, ring: Ring) -> bool:
    """Whether the function also shifts the other way, and ends that at the other side.

    Such turns carry what may lie far away, a hop at a time, to whom it belongs; nothing is to come around.
    """
    for call in walk(function):
        if not isinstance(call, ast.Call) or last_name(call.func) != "ppermute":
            continue
        perm = next((one.value for one in call.keywords if one.arg == "perm"), None)
        perm = call.args[2] if perm is None and len(call.args) > 2 else perm
        other = ring_of(site, perm) if perm is not None else None
        if other is not None and other.size is None and {other.left_out, ring.left_out} == {"first", "last"}:
            return True
    return False


def _turns(node: ast.AST) -> ast.expr | None:
    """How many turns a loop takes."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[turns])):
            return turns
        case ast.Call(func=ast.Attribute(attr="fori_loop"), args=[_, turns, *_]):
            return turns
        case ast.Call(func=ast.Attribute(attr="scan"), keywords=keywords):
            length = next((one.value for one in keywords if one.arg == "length"), None)
            over = node.args[2] if len(node.args) > 2 else None
            if length is None and isinstance(over, ast.Call) and last_name(over.func) == "arange":
                length = over.args[0] if len(over.args) == 1 else None
            return length
    return None
