"""SL230."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.reach import assigned_once
from shardlint.model.values import Api, Function, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts

_LOGICAL = ("flax.linen.with_logical_constraint", "flax.linen.spmd.with_logical_constraint")
_CONSTRAINTS = ("jax.lax.with_sharding_constraint", "equinox.filter_shard", *_LOGICAL)
_BACKENDS = ("jax.default_backend", "jax.extend.backend.get_backend", "jax.lib.xla_bridge.get_backend")
_DEVICES = ("jax.devices", "jax.local_devices")
_ACCELERATORS = ("tpu", "gpu", "cuda", "rocm")
_ASKING = ("platform", "default_backend", "cpu", "CPU")
_TRACER = "jax.core.Tracer"
_DEPTH = 3


class ConstraintSkipped(Rule):
    """A wrapper leaves a sharding constraint out: by the platform of the first device, or in traced code.

    ## What it does
    Reports a question such as `jax.devices()[0].platform == "cpu"` or `jax.default_backend() != "tpu"` that leads
    past a sharding constraint, through `return x` or a branch; `if isinstance(x, jax.core.Tracer): return x` before
    one; and `with_logical_constraint` with `fallback=RulesFallback.NO_CONSTRAINT`, which drops the whole constraint
    once one of its names has no rule.

    ## Why it hurts
    Nothing is raised and nothing is sharded. On simulated CPU devices, where people test, the program is another one
    than on the accelerator: memory, collectives and mistakes in the specs are not seen there. And the first device
    need not be one of the mesh: with a mesh of CPU devices on an accelerator's host, or the other way round, the
    answer is of the wrong devices. A constraint is for traced code: left out for tracers, it does nothing in any
    compiled function.

    ## Use instead
    `with_sharding_constraint(x, NamedSharding(mesh, spec))` wherever there is a mesh: it works on CPU too.

    ## Evidence
    Flax took such a question out of its own wrapper; the same lines were copied to many repositories. The proof
    shows the array whole on every device.
    """

    code = "SL230"
    name = "constraint-skipped"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("platform", "no-constraint", "tracer")
    triggers = (Calls(*_CONSTRAINTS, file_says=(*_ASKING, "NO_CONSTRAINT", "Tracer")),)
    forms = ("call",)
    fixes = "none"
    by_hand = "what is to happen where there is no mesh is for the author to decide"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a question, at the first constraint that it skips."""
        if site.api in _LOGICAL:
            yield from self._fallback(site)
        scope = site.scope.function()
        if scope is None or "memory" in site.text():
            return  # not every backend has the kinds of memory of another
        yield from self._for_tracers(site)
        if not site.wants("platform"):
            return
        for test, truth in _questions(site):
            asked = _about_cpu(site, Place(site.file, test), truth, 0)
            if asked is not None:
                yield self._skipped(site, asked)
                return

    def _for_tracers(self, site: Site) -> Iterator[Finding]:
        """A constraint that only arrays outside of traced code come to, where tracers come to none."""
        if any(isinstance(one, ast.Attribute) and one.attr == "sharding" for one in site.call.args[1:]):
            return  # a tracer has no sharding that it could be constrained to
        for test, truth in _questions(site):
            asked = _about_tracers(site, Place(site.file, test), truth, 0)
            if asked is None or _others(site):
                continue
            yield site.finding(
                asked,
                "In jit and other traced code every array is a tracer: there this constraint does not run, and nothing "
                "says so.",
                label=f"skips the constraint at line {site.call.lineno}",
                help="leave the question out: the constraint is for traced code",
                form="tracer",
                why="tracers are sent past the constraint, and to no other",
            )
            return

    def _skipped(self, site: Site, asked: ast.AST) -> Finding:
        return site.finding(
            asked,
            "On CPU, simulated devices of a test too, this constraint does not run, and nothing says so; the first "
            "device need not be one of the mesh either.",
            label=f"skips the constraint at line {site.call.lineno}",
            help="ask for a mesh instead: the constraint works on every platform",
            form="platform",
            why="the question is for the platform of the process, not for the mesh",
        )

    def _fallback(self, site: Site) -> Iterator[Finding]:
        given = site.keyword("fallback")
        if given is not None and site.text(given.value).endswith("NO_CONSTRAINT"):
            yield site.finding(
                given,
                "Where one of the names has no rule, the array is not constrained at all, and nothing says so.",
                label="drops the whole constraint",
                help="write RulesFallback.AXIS_IS_UNSHARDED, or RAISE_ERROR",
                form="no-constraint",
                why="it is asked for by name",
            )


def _questions(site: Site) -> Iterator[tuple[ast.expr, bool]]:
    """What is asked before the call runs, and the answer that leads past it."""
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.If | ast.IfExp):
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if inner is not outer.test:
                yield outer.test, inner not in body
        for block in (getattr(outer, "body", None), getattr(outer, "orelse", None)):
            if isinstance(block, list) and inner in block:
                for before in block[: block.index(inner)]:
                    if isinstance(before, ast.If) and _only_returns_argument(before):
                        yield before.test, True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        inner = outer


def _about_tracers(site: Site, place: Place, truth: bool, depth: int) -> ast.AST | None:
    """The part of a question that gives this answer for every tracer."""
    file, node = place.file, place.node
    match node:
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.Or) is truth:
            found = (_about_tracers(site, Place(file, one), truth, depth) for one in values)
            return next((one for one in found if one is not None), None)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _about_tracers(site, Place(file, operand), not truth, depth)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if truth:
            parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
            found_kinds = [one for part in parts for one in options(site.program.value(file, part))]
            return node if any(isinstance(one, Api) and one.name == _TRACER for one in found_kinds) else None
        case ast.Name() if depth < _DEPTH:
            value = assigned_once(file, node)
            inner = _about_tracers(site, Place(file, value), truth, depth + 1) if value is not None else None
            return node if inner is not None else None
        case ast.Call(func=func) if depth < _DEPTH:
            found_functions = options(site.program.evaluator.value(Place(file, func)))
            for one in found_functions if len(found_functions) == 1 else ():
                if isinstance(one, Function) and not isinstance(one.node, ast.Lambda):
                    inside = one.place.file
                    returns = inside.walked(inside.scope(one.node)).returns
                    if len(returns) == 1 and returns[0].value is not None:
                        asked = _about_tracers(site, Place(inside, returns[0].value), truth, depth + 1)
                        return node if asked is not None else None
    return None


def _others(site: Site) -> bool:
    """Whether the function constrains or moves an array elsewhere too: what tracers come to may be that."""
    function = site.scope.function()
    calls = site.file.walked(function).calls if function is not None else ()
    for call in calls:
        if call is site.call:
            continue
        for one in options(site.program.value(site.file, call.func)):
            if isinstance(one, Api) and (one.name in _CONSTRAINTS or one.name == "jax.reshard"):
                return True
    return False


def _only_returns_argument(branch: ast.If) -> bool:
    """`if ...: return x`."""
    last = branch.body[-1]
    return len(branch.body) <= 2 and isinstance(last, ast.Return) and isinstance(last.value, ast.Name)


def _about_cpu(site: Site, place: Place, truth: bool, depth: int) -> ast.AST | None:
    """The part of a question that gives this answer for being on CPU."""
    file, node = place.file, place.node
    match node:
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.Or) is truth:
            found = (_about_cpu(site, Place(file, one), truth, depth) for one in values)
            return next((one for one in found if one is not None), None)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _about_cpu(site, Place(file, operand), not truth, depth)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            said = _says(op, right if _is_platform(site, file, left) else left)
            sides = (_is_platform(site, file, left), _is_platform(site, file, right))
            return node if said is truth and any(sides) else None
        case ast.Name() if depth < _DEPTH:
            value = assigned_once(file, node)
            if value is None or _about_cpu(site, Place(file, value), truth, depth + 1) is None:
                return None
            return node
        case ast.Call(func=func) if depth < _DEPTH:
            return node if _function_asks(site, Place(file, func), truth, depth) else None
    return None


def _function_asks(site: Site, place: Place, truth: bool, depth: int) -> bool:
    """Whether a function of the project returns the answer: `is_cpu()`."""
    found = options(site.program.evaluator.value(place))
    if len(found) != 1 or not isinstance(found[0], Function) or isinstance(found[0].node, ast.Lambda):
        return False
    file = found[0].place.file
    returns = file.walked(file.scope(found[0].node)).returns
    if len(returns) != 1 or returns[0].value is None:
        return False
    return _about_cpu(site, Place(file, returns[0].value), truth, depth + 1) is not None


def _says(op: ast.cmpop, other: ast.expr) -> bool | None:
    """What a comparison of the platform gives on CPU."""
    parts = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    texts = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if not texts or len(texts) != len(parts) or any(one not in ("cpu", *_ACCELERATORS) for one in texts):
        return None
    if not isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return None
    return ("cpu" in texts) is isinstance(op, ast.Eq | ast.In)


def _is_platform(site: Site, file: FileFacts, node: ast.expr) -> bool:
    """Whether it is the platform of the process: `jax.devices()[0].platform`, `jax.default_backend()`."""
    if isinstance(node, ast.Name):
        value = assigned_once(file, node)
        return value is not None and not isinstance(value, ast.Name) and _is_platform(site, file, value)
    if isinstance(node, ast.Attribute) and node.attr == "platform":
        return _calls(site, file, node.value, (*_DEVICES, *_BACKENDS))
    return isinstance(node, ast.Call) and _calls(site, file, node, _BACKENDS)


def _calls(site: Site, file: FileFacts, node: ast.expr, names: tuple[str, ...]) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    return any(
        isinstance(one, Api) and one.name in names for one in options(site.program.value(file, node.func))
    )
