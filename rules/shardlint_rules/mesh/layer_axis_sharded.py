"""SL348."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.evaluator.trees import MAPS
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Function,
    Place,
    Table,
    Transformed,
    Value,
    options,
)
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk
from shardlint_rules.jit.leaf import origins
from shardlint_rules.mesh._scanned import SCANS, counted_in_front, split_over_turns

_STACKS = regex(r"vmap\([\s\S]{0,200}?\)\(\s*\S*?(?:split\(|keys|rngs)")
_ABOUT_LAYERS = regex(r"(?i)stack|layer|block|scan|\bpath|\bnames?\b|\bkeys?\b")
_KEYS = regex(r"split|keys|rngs")
_VMAPS = ("jax.vmap", "equinox.filter_vmap")
_SPECS = ("P", "PartitionSpec")
_DEPTH = 5


class LayerAxisSharded(Rule):
    """The layer axis of stacked weights is split, and `scan` goes over it.

    ## What it does
    Reports a function that is mapped over parameters and gives each leaf a spec that begins with a mesh axis, or looks
    for the first dimension that the axis divides, where the parameters hold layers that `vmap` stacked along their
    first dimension and the program scans over them. And a placement whose spec begins with a mesh axis, of what
    `jax.lax.scan` or `jax.lax.map` goes over: microbatches that are split by count instead of by row; also where
    `x.reshape(steps, rows, ...)` cuts a batch whose rows are split.

    ## Why it hurts
    Each turn of the scan takes one layer. Where the layers lie on different devices, XLA gathers the whole stack on
    every device before the loop, or each layer in each turn from the one that has it: the memory that the split was
    to save is used after all. Nothing is raised.

    ## Use instead
    Leave the first dimension of stacked leaves whole: `P(None, "fsdp")`; look for a dimension from the second on.

    ## Evidence
    The proof shows the stack split along its layers. Left alone: functions that look at the leaf's path or name before
    they split its first dimension, that begin at the second one or take the largest one, and trees that are not seen
    to hold stacked layers.
    """

    code = "SL348"
    name = "layer-axis-sharded"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("stacked", "scanned", "counted-in-front")
    triggers = (Calls(*MAPS, file_says=("PartitionSpec", "NamedSharding")), Calls(*SCANS))
    forms = ("call",)
    project_says = ("scan(", "lax.map(")
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a mapped function."""
        if site.api in SCANS:
            yield from self._scanned(site)
            yield from self._counted(site)
            return
        if len(site.call.args) < 2 or not site.wants("stacked"):
            return
        function = _leaf_function(site, site.call.args[0])
        if function is None:
            return
        at = _first_dimension(function)
        if at is None:
            return
        made = next((one for one in _trees(site) if one is not None), None)
        if made is None:
            return
        here = function.place.file is site.file
        yield site.finding(
            at if here else site.call,
            "A scan over layers that lie on different devices has to gather them: the whole stack is in the memory of "
            "every device, or each turn waits for one of them.",
            label="this splits the first dimension, which counts the layers in stacked weights",
            help='leave it whole in stacked leaves: P(None, "fsdp"), or look from the second dimension on',
            form="stacked",
            why=f"`{made}` stacks its layers by vmap, and the program scans over them",
        )

    def _scanned(self, site: Site) -> Iterator[Finding]:
        """The placements of what a scan goes over."""
        if not site.wants("scanned") or not site.program.project.holds(site.file.path, "Sharding"):
            return
        for split in split_over_turns(site):
            here = split.place.file is site.file
            axes = " and ".join(f'"{axis}"' for axis in split.axes)
            elsewhere = "" if here else f" (at {split.place.file.path.name}:{split.place.line})"
            yield site.finding(
                split.place.node if here else site.call,
                "What one turn takes lies on the devices of one part and is sent to the others: no turn is computed in "
                f"parallel over {axes}.",
                label=f"this splits over {axes} the dimension of which the scan takes one entry in each turn{elsewhere}",
                help=f"leave the first dimension whole and split the next one: P(None, {axes})",
                form="scanned",
                why=f"line {site.call.lineno} scans over it" if here else "this call scans over it",
            )

    def _counted(self, site: Site) -> Iterator[Finding]:
        """The reshapes that cut split rows into the entries of a scan, one after the other."""
        if not site.wants("counted-in-front") or not site.program.project.holds(site.file.path, "Sharding"):
            return
        for cut in counted_in_front(site):
            here = cut.place.file is site.file
            axes = _and(cut.axes)
            elsewhere = "" if here else f" (at {cut.place.file.path.name}:{cut.place.line})"
            yield site.finding(
                cut.place.node if here else site.call,
                f"The rows stay in their order, so each microbatch lies on some of the devices along {axes} alone: in "
                "every turn its rows are sent to the others, or all devices compute them all.",
                label=f"this moves the split over {axes} to the dimension that the scan goes over{elsewhere}",
                help="cut it so that each device keeps rows of every microbatch: "
                "x.reshape(rows, steps, *x.shape[1:]).swapaxes(0, 1)",
                form="counted-in-front",
                why=f"callers place the rows over {axes}, and nothing in the loop splits them again",
            )


def _and(axes: tuple[str, ...]) -> str:
    return " and ".join(f'"{axis}"' for axis in axes)


def _leaf_function(site: Site, node: ast.expr) -> Function | None:
    """The function that gives a leaf its spec, also where a lambda only puts that into a sharding."""
    found = options(site.value(node))
    one: Value = found[0]
    while isinstance(one, Transformed) and one.api.name == "functools.partial":
        one = one.inner
    if len(found) != 1 or not isinstance(one, Function):
        return None
    if not isinstance(one.node, ast.Lambda):
        return one
    for call in walk(one.node.body):
        if isinstance(call, ast.Call):
            inner = options(site.program.value(one.place.file, call.func))
            if (
                len(inner) == 1
                and isinstance(inner[0], Function)
                and not isinstance(inner[0].node, ast.Lambda)
            ):
                return inner[0]
    return one


def _first_dimension(function: Function) -> ast.expr | None:
    """Where a function splits the first dimension of every leaf, or of every one that the axis divides."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return _constant(node, [node.body])
    for one in walk(node):
        if isinstance(one, ast.For) and _from_the_first(one.iter) and _gives_axis(node):
            return None if _told_apart(node, one) else one.iter
        if isinstance(one, ast.GeneratorExp | ast.ListComp) and _from_the_first(one.generators[0].iter):
            takes_first = "%" in ast.unparse(one) and _gives_axis(node)
            return one.generators[0].iter if takes_first and not _told_apart(node, one) else None
    returns = [one.value for one in walk(node) if isinstance(one, ast.Return) and one.value is not None]
    return _constant(node, returns)


def _from_the_first(over: ast.expr) -> bool:
    """Whether a loop goes over the dimensions of a leaf, the first one first."""
    match over:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Attribute(attr="ndim")]):
            return True
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(attr="shape")])],
        ):
            return True
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Attribute(attr="shape")]):
            return True
    return False


def _gives_axis(function: ast.AST) -> bool:
    """Whether a function makes a spec with dimensions in front of an axis: `P(*[None] * axis, "fsdp")`."""
    for one in walk(function):
        match one:
            case ast.Call(func=func, args=args) if last_name(func) in _SPECS and args:
                if any(isinstance(part, ast.Starred) for part in args):
                    return True
    return False


def _told_apart(function: ast.AST, loop: ast.AST) -> bool:
    """Whether stacked leaves get a spec of their own, or are left whole, before the loop."""
    for one in walk(function):
        if not isinstance(one, ast.If) or one.lineno >= getattr(loop, "lineno", 0):
            continue
        if _ABOUT_LAYERS.search(ast.unparse(one.test)):
            for inner in walk(ast.Module(one.body, [])):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    return True
                if isinstance(inner, ast.Call) and last_name(inner.func) in _SPECS and inner.args:
                    return True
    text = ast.unparse(loop.iter if isinstance(loop, ast.For) else loop)
    body = ast.unparse(loop)
    return "reversed" in text or bool(_ABOUT_LAYERS.search(body)) or "max(" in body or "continue" in body


def _constant(function: ast.AST, results: list[ast.expr]) -> ast.expr | None:
    """The spec that a function gives every leaf, if all of them begin with an axis and it looks at no leaf."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments) or not results:
        return None
    names = {one.arg for one in arguments.args}
    body = getattr(function, "body", [])
    parts = body if isinstance(body, list) else [body]
    if any(isinstance(one, ast.Name) and one.id in names for part in parts for one in walk(part)):
        return None
    found: list[ast.expr] = []
    for result in results:
        calls = [one for one in walk(result) if isinstance(one, ast.Call) and last_name(one.func) in _SPECS]
        first = calls[0].args[0] if len(calls) == 1 and calls[0].args else None
        if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
            return None
        found.append(calls[0])
    return found[0]


def _trees(site: Site) -> Iterator[str | None]:
    """What stacks layers in the trees that the function is mapped over."""
    for given in site.call.args[1:]:
        for value in origins(site.program, Place(site.file, given)):
            for one in options(value):
                yield _stacks(site, one, 0)


def _stacks(site: Site, value: Value, depth: int) -> str | None:
    """The name of the function or class that made a tree and stacks layers in it."""
    if depth > _DEPTH:
        return None
    if isinstance(value, Table):
        return next((name for _, one in value.entries if (name := _stacks(site, one, depth + 1))), None)
    if isinstance(value, CallResult) and isinstance(value.by, Transformed) and value.by.api.name in _VMAPS:
        given = value.call.positional[:1] if value.call is not None else ()
        inner = value.by.inner
        if given and isinstance(inner, Function) and _KEYS.search(given[0].text()):
            return getattr(inner.node, "name", "the tree")
    while isinstance(value, Transformed):
        value = value.inner
    if isinstance(value, Function | ClassValue):
        text = value.place.text()
        if _STACKS.search(text):
            return getattr(value.node, "name", "it")
        if isinstance(value, Function):
            return _in_calls(site, value, depth)
        return None
    if not isinstance(value, CallResult) or value.call is None:
        return None
    if isinstance(value.by, Function | ClassValue | Transformed):
        return _stacks(site, value.by, depth + 1)
    if isinstance(value.by, Api) and value.call.positional:
        first = value.call.positional[0]
        if value.api.endswith(
            ("eval_shape", "partition", "filter", "split", "filter_shard", "device_put", ".map")
        ):
            index = 1 if value.api.endswith(".map") and len(value.call.positional) > 1 else 0
            first = value.call.positional[index]
            for inner in origins(site.program, first):
                for one in options(inner):
                    found = _stacks(site, one, depth + 1)
                    if found is not None:
                        return found
    return None


def _in_calls(site: Site, function: Function, depth: int) -> str | None:
    """The same of what a function calls to make what it returns."""
    for call in walk(function.node):
        if isinstance(call, ast.Call):
            for one in options(site.program.value(function.place.file, call.func)):
                if isinstance(one, Function | ClassValue) and one.node is not function.node:
                    found = _stacks(site, one, depth + 1)
                    if found is not None:
                        return found
    return None
