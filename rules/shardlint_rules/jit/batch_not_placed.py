"""SL235."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import JITS
from shardlint.model.values import Parameter, Place, Unknown, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import Scope, last_name
from shardlint.syntax.enclosing import around
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._batch_elsewhere import class_around, comes_from_the_host, placing_loop
from shardlint_rules.jit._placed_copy import host_copies
from shardlint_rules.jit._put_beside import put_beside
from shardlint_rules.jit._whole_batch import Whole, put_whole, taken_whole
from shardlint_rules.jit.batch_loops import (
    PLACING,
    Loop,
    host_batches,
    jitted,
    loop_of,
    names_in,
    places,
    roots,
)
from shardlint_rules.jit.placed import asks_for_a_place
from shardlint_rules.jit.repeated import is_test

_RUNS = r"jit|step|eval|predict|forward|infer"
# Comprehensions over batches.
_OVER = ("for batch in ", "for b in ", "for x in ", "for x, y in ", "for tokens in ", "for images in ", "for data in ")
_PUTTING = ("put", "shard", "place", "distribute", "make_array", "device", "global", "mesh")
_STEP = regex(r"(?i)(^|_)(step|predict|forward|eval|evaluate)(_|$)")
_BATCH = regex(r"(?i)batch|inputs|images|tokens|examples")
_PLACES = regex(r"(?i)device_put|shard|place|replicate|make_array|constrain|distribute|to_global|prefetch")
# What a loop over the variables of a model goes over: it places weights, and no batches.
_WEIGHTS = regex(r"iter_graph|flat_state|iter_modules|params|parameters|weights|variables|tree_(?:leaves|flatten)")
_LOCAL_TO_GLOBAL = "jax.experimental.multihost_utils.host_local_array_to_global_array"
_TO_GLOBAL = (
    "jax.make_array_from_process_local_data",
    _LOCAL_TO_GLOBAL,
)
# Where to, of each function that places.
_WHERE = {
    "jax.device_put": "device",
    "jax.lax.with_sharding_constraint": "shardings",
    "equinox.filter_shard": "device_or_shardings",
    "jax.make_array_from_process_local_data": "sharding",
    _LOCAL_TO_GLOBAL: "pspecs",
}


@dataclass(frozen=True)
class _Fed:
    """A call of a jitted function in a loop that is given what the loop goes over, as it comes."""

    call: ast.Call
    argument: ast.expr
    name: str
    surely: bool
    """Whether the function is surely jitted; otherwise its name says that it is a step."""


class BatchNotPlaced(Rule):
    """One loop places its batches before they go to a jitted function, and a loop beside it does not.

    ## What it does
    Reports a call of a jitted function in a loop that is given the loop's batch as it comes, where another loop of the
    same class or module puts its batches with a sharding first, itself or through a function beside it; a loop is
    `for`, a comprehension, or `while` with `next`, and what only makes arrays (`jnp.asarray(x)`) places nothing. Also
    a call of what is named a step (`self.eval_step`) and comes from elsewhere, where the other loop calls such a one
    too, or where the loop that puts its batches stands in another file and this one goes over arrays of numpy; and of a
    batch that is put with a spec of no axes (`P()`) where the other loop splits its own. And a batch that is given to
    a jitted function as it came, where the line above puts it over the mesh under another name; and `jax.device_put(x)`
    without a sharding, where another function of the class or module puts what the same call makes over a mesh. And a
    loop's batch that is put with `P()`, or has it as its entry of `in_shardings`, on a mesh with an axis for batches,
    where nothing in the program splits arrays inside of compiled functions.

    ## Why it hurts
    A batch from a loader lies on the host, bound to no device. jit puts it whole on every device of the mesh that the
    parameters are on: each device computes all of it, and memory and time are those of one device. Nothing is raised.

    ## Use instead
    Place both the same way, or let the jit say it (`in_shardings`).

    ## Evidence
    The proof shows the result on every device. Left alone: batches that pass through anything else first, iterables
    whose name or code says that they place, and functions with `in_shardings`, or in which anything is constrained: the
    compiler splits their arguments too.
    """

    code = "SL235"
    name = "batch-not-placed"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("beside", "elsewhere", "one-device", "host-copy", "whole-batch")
    triggers = (
        Calls(*_WHERE),
        Calls(*JITS, file_says=("in_shardings",)),
        Lines(
            r"for\s+[^#\n]+\sin\s",
            file_says=_RUNS,
            saying=("batch", "images", "tokens", "inputs", "examples", "data", "loader", "x, y", "xs, ys", "xb"),
        ),
        Lines(rf"[^#\n]*(?:{'|'.join(_OVER)})", file_says=_RUNS, saying=_OVER),
        Lines(rf"[\w, ]+=[^=#\n]*(?:{'|'.join(_PUTTING)})\w*\(", file_says=_RUNS, saying=_PUTTING),
    )
    forms = ("call", "partial", "line")
    project_says = (
        "device_put", "in_shardings", "make_array_from_process", "sharding_constraint", "filter_shard",
        "host_local_array",
    )  # fmt: skip
    where = "host"
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """Findings at the calls of the loops that do not place."""
        if site.form == "line":
            yield from self._host_copies(site)
            yield from self._elsewhere(site)
            return
        if site.api in JITS:
            for whole in taken_whole(site) if site.wants("whole-batch") else ():
                yield self._whole(site, whole)
            return
        if site.form == "partial":
            return
        if site.api == "jax.device_put" and len(site.call.args) == 1 and not asks_for_a_place(site):
            yield from self._beside(site)
            return
        loop = _loop_of(site)
        if (
            loop is None
            or is_test(site.file, site.syntax)
            or (site.api not in _TO_GLOBAL and not asks_for_a_place(site))
            or not _first(site, loop)
        ):
            return
        where = site.argument(_WHERE[site.api]) or (site.call.args[-1] if site.api in _TO_GLOBAL else None)
        if where is not None and site.api == "jax.device_put" and site.wants("whole-batch"):
            found = put_whole(site, loop, where, _placed(site))
            if found is not None:
                yield self._whole(site, found)
                return
        named = site.api in _TO_GLOBAL or _placing_name(site.text(where)) if where is not None else False
        if where is None or not (named or site.shardings.shards(site.value(where))):
            return
        text = site.shown(where)
        for argument, name in _replicated(site, loop):
            yield site.finding(
                argument,
                f"`{name}` is put whole on every device",
                f"On {site.release('jax')} every device gets all of it and computes all of it: the spec names no axis.",
                help=f"split it as the other loop does: {text}",
                form="replicated-beside",
                why=f"the loop at line {loop.line} puts its batch with `{text}`",
            )
        for fed in _others(site, loop):
            yield site.finding(
                fed.argument,
                f"`{fed.name}` comes from the loop as it is",
                f"On {site.release('jax')} every device gets all of it: a batch that is bound to no device is "
                "replicated to where the other arguments are.",
                help=f"place it: jax.device_put({fed.name}, {text})",
                form="beside" if fed.surely else "step-beside",
                why=f"the loop at line {loop.line} puts its batch with `{text}`",
            )

    def _whole(self, site: Site, found: Whole) -> Finding:
        """A batch of a loop goes whole to every device of a mesh with an axis for it."""
        return site.finding(
            found.node,
            f"`{found.name}` of the loop at line {found.line} is whole on every device",
            f"On {site.release('jax')} every device gets all of it and computes all of it: the spec names no axis.",
            help=f'split it: NamedSharding(mesh, P("{found.axis}"))',
            form="whole-batch",
            why=f"the mesh has an axis `{found.axis}`, and nothing in the program splits the batch later",
        )

    def _beside(self, site: Site) -> Iterator[Finding]:
        """A method that puts on the default device what another one puts over the mesh."""
        if is_test(site.file, site.call) or not site.wants("one-device"):
            return
        other = put_beside(site)
        if other is None:
            return
        what = site.shown(site.call.args[0])
        yield site.finding(
            site.call,
            f"`{what}` is put whole on the default device",
            f"On {site.release('jax')} jax.device_put without a sharding keeps it on one device, and a jitted function "
            "copies all of it to every device of its other arguments.",
            help=f"split it as line {other.line} does: jax.device_put({what}, {other.text})",
            form="one-device",
            why=f"line {other.line} puts what the same call makes with `{other.text}`",
        )

    def _host_copies(self, site: Site) -> Iterator[Finding]:
        """What was placed under another name, and goes to a jitted function as it was before."""
        if is_test(site.file, site.syntax) or not site.wants("host-copy"):
            return
        for copy in host_copies(site):
            text = site.shown(copy.argument)
            yield site.finding(
                copy.argument,
                f"`{text}` is what it was before it was placed",
                f"On {site.release('jax')} every device gets all of it and computes all of it: it is bound to no "
                f"device, and is replicated to where the other arguments are.",
                help=f"give it `{copy.placed}`, which line {copy.line} splits",
                form="host-copy",
                why=f"line {copy.line} puts `{copy.name}` over the mesh as `{copy.placed}`",
            )

    def _elsewhere(self, site: Site) -> Iterator[Finding]:
        """A loop that places nothing, where one in another file or class does."""
        if not site.wants("elsewhere") or is_test(site.file, site.syntax):
            return
        for loop in _loops(site.syntax):
            if places(site, loop) or _PLACES.search(" ".join(site.text(one) for one in loop.body)):
                continue
            fed = next(_fed(site, loop, False), None)
            if fed is None or loop.over is None or not comes_from_the_host(site, Place(site.file, loop.over)):
                continue
            found = placing_loop(site)
            here = str(site.file.path)
            if found is None or found.put_in in ((here, ""), (here, class_around(site.file, site.syntax))):
                return  # that is seen from there
            name = found.path.rpartition("/")[2]
            yield site.finding(
                fed.argument,
                f"`{fed.name}` comes from the loop as it is",
                f"On {site.release('jax')} every device gets all of it: a batch that is bound to no device is "
                "replicated to where the other arguments are.",
                help=f"place it as the other loop does, with `{found.text}`",
                form="elsewhere",
                why=f"the loop at line {found.line} of {name} puts its batch with `{found.text}`",
            )


def _loops(statement: ast.AST) -> Iterator[Loop]:
    """The loop that a statement is, or those in the expressions of it."""
    if isinstance(statement, ast.For):
        loop = loop_of(statement)
        if loop is not None:
            yield loop
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr | ast.AugAssign):
        yield from (loop for node in walk(statement) if (loop := loop_of(node)) is not None)


def _placing_name(text: str) -> bool:
    return any(word in text.lower() for word in ("data", "batch", "input")) and "shard" in text.lower()


def _loop_of(site: Site) -> Loop | None:
    """The loop whose batch a call places, itself or in a function that the loop hands it to."""
    placed = _placed(site)
    if not placed:
        return None
    for outer in around(site.file, site.call, ast.FunctionDef, ast.For, ast.While):
        if isinstance(outer, ast.FunctionDef):
            return _loop_calling(site, outer)
        loop = loop_of(outer)
        if loop is not None and not placed.isdisjoint(loop.names):
            return loop if loop.over is None or not _WEIGHTS.search(site.text(loop.over)) else None
    return None


def _placed(site: Site) -> frozenset[str]:
    """The names of what a call places."""
    given = site.call.args[1:2] if site.api == _TO_GLOBAL[0] else site.call.args[:1]
    return roots(site, given[0]) if given else frozenset()


def _loop_calling(site: Site, helper: ast.FunctionDef) -> Loop | None:
    """The loop that hands its batch to a function which places it: its name says so, and it places once."""
    if not any(word in helper.name.lower() for word in PLACING):
        return None
    for node in site.file.mentions(helper.name):
        call = site.file.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node or not call.args:
            continue
        given = roots(site, call.args[0])
        for outer in site.file.ancestors(call):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            loop = loop_of(outer)
            if loop is not None and not given.isdisjoint(loop.names):
                return loop
    return None


def _first(site: Site, loop: Loop) -> bool:
    """Whether it is the first placement in its loop: one is enough to compare with."""
    within: ast.AST = loop.node
    if within not in site.file.ancestors(site.call):
        within = next(one for one in site.file.ancestors(site.call) if isinstance(one, ast.FunctionDef))
    first = site.file.kept(("first placement", within), lambda: _first_placement(within))
    return first is None or first >= site.call.lineno


def _first_placement(within: ast.AST) -> int | None:
    calls = (one for one in walk(within) if isinstance(one, ast.Call) and "device_put" in ast.dump(one.func))
    return min((one.lineno for one in calls), default=None)


def _others(site: Site, loop: Loop) -> Iterator[_Fed]:
    """Calls in the other loops of the class or module, of jitted functions that are given a batch as it comes."""
    for node in walk(_together(site).node):
        other = loop_of(node)
        if other is None or node is loop.node or _around(site, node, loop.node):
            continue
        if not places(site, other) and not is_test(site.file, node):
            yield from _fed(site, other, any(_named_step(site, one) for one in loop.walk()))


def _replicated(site: Site, loop: Loop) -> Iterator[tuple[ast.expr, str]]:
    """What other loops of the class or module put with a spec of no axes, though it is their batch."""
    for other in walk(_together(site).node):
        if not isinstance(other, ast.For) or other is loop.node or _around(site, other, loop.node):
            continue
        if is_test(site.file, other):
            continue
        names = names_in(other.target)
        for call in walk(other):
            if not isinstance(call, ast.Call) or len(call.args) != 2 or last_name(call.func) != "device_put":
                continue
            batch = call.args[0]
            if isinstance(batch, ast.Name) and batch.id in names and _BATCH.search(batch.id):
                parts = site.sharding_parts(site.value(call.args[1]))
                spec = site.spec_of(parts[1]) if parts is not None else None
                if spec is not None and not spec.open and not any(one.axes for one in spec.entries):
                    yield call.args[1], batch.id


def _around(site: Site, one: ast.AST, loop: ast.AST) -> bool:
    return one in site.file.ancestors(loop) or loop in site.file.ancestors(one)


def _together(site: Site) -> Scope:
    """The class the place is in, or its module."""
    for scope in site.scope.outward():
        if scope.kind == "class":
            return scope
    return site.file.module


def _fed(site: Site, loop: Loop, steps: bool) -> Iterator[_Fed]:
    """What a loop gives to jitted functions as it comes; with `steps` also to what is named a step."""
    held = host_batches(loop)
    for call in loop.walk():
        if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) < 2:
            continue
        surely = jitted(site, call)
        if not surely and not (steps and _named_step(site, call)):
            continue
        for argument in (*call.args[1:], *(one.value for one in call.keywords)):
            root: ast.expr = argument
            while isinstance(root, ast.Subscript | ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in held:
                yield _Fed(call, argument, site.shown(argument), surely)
                break


def _named_step(site: Site, node: ast.AST) -> bool:
    """Whether a node is a call of what comes from elsewhere and is named a step."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    if not _STEP.search(last_name(node.func)):
        return False
    return all(isinstance(one, Parameter | Unknown) for one in options(site.value(node.func)))
