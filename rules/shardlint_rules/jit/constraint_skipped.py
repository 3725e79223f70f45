"""SL230."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.deciding_tests import deciding_part, is_tracer_test
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.bindings import sole_assigned_value

_LOGICAL = ("flax.linen.with_logical_constraint", "flax.linen.spmd.with_logical_constraint")
_CONSTRAINTS = ("jax.lax.with_sharding_constraint", "equinox.filter_shard", *_LOGICAL)
_BACKENDS = ("jax.default_backend", "jax.extend.backend.get_backend", "jax.lib.xla_bridge.get_backend")
_DEVICES = ("jax.devices", "jax.local_devices")
_ACCELERATORS = ("tpu", "gpu", "cuda", "rocm")
_ASKING = ("platform", "default_backend", "cpu", "CPU")


class ConstraintSkipped(Rule):
    """A wrapper skips a sharding constraint on CPU, for traced arrays, or because a logical axis has no rule.

    The array stays unsharded and nothing raises. If the constraint is skipped on CPU, tests on CPU do not check the
    spec, the collectives or the memory use.

    ## Reports
    - `platform` (likely): a test of `jax.devices()[0].platform` or `jax.default_backend()` that skips a sharding
      constraint on CPU. The mesh may use other devices than `jax.devices()[0]`.
    - `tracer` (likely): `if isinstance(x, jax.core.Tracer): return x` before the only constraint of a function.
    - `no-constraint` (likely): `with_logical_constraint(fallback=RulesFallback.NO_CONSTRAINT)`. It drops the constraint
      of all dimensions if one of the names has no rule.

    ## Write instead
    - Call `with_sharding_constraint(x, NamedSharding(mesh, spec))` whenever there is a mesh. It works on CPU too.
    - Remove the test for a tracer: the constraint works on traced arrays.
    - For logical axes write `fallback=RulesFallback.AXIS_IS_UNSHARDED`, or `RulesFallback.RAISE_ERROR`.
    """

    code = "SL230"
    name = "constraint-skipped"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("platform", "no-constraint", "tracer")
    assumptions: ClassVar[Mapping[str, str]] = {
        "no-constraint": "One of the logical names has no rule.",
        "tracer": "The function is called in traced code.",
    }
    triggers = (Calls(*_CONSTRAINTS, file_says=(*_ASKING, "NO_CONSTRAINT", "Tracer")),)
    fixes = "none"
    by_hand = "a constraint needs a mesh, and the code does not show whether there is always one"

    @detector("call")
    def find_tests(self, site: Site) -> Iterator[Finding]:
        """The tests that skip a constraint."""
        if site.api in _LOGICAL:
            yield from self._report_skipping_fallback(site)
        if site.scope.enclosing_function() is None or "memory" in site.text():
            return  # the memory kinds of backends differ
        evaluator, tests = site.program.evaluator, list(_tests_that_skip(site))
        if not _constrains_to_own_sharding(site) and not _constrains_elsewhere(site):
            for test, outcome in tests:
                decisive = deciding_part(evaluator, Place(site.file, test), outcome, is_tracer_test)
                if decisive is not None:
                    yield self._report_tracer_test(site, decisive)
                    break
        for test, outcome in tests:
            decisive = deciding_part(evaluator, Place(site.file, test), outcome, _is_cpu_test)
            if decisive is not None:
                yield self._report_cpu_test(site, decisive)
                return

    def _report_tracer_test(self, site: Site, test: ast.AST) -> Finding:
        return site.finding(
            test,
            f"Under `jit` the constraint on line {site.call.lineno} never runs: every traced array is a Tracer.",
            help="remove the test for a Tracer",
            form="tracer",
            why="tracers skip this constraint, and the function has no other",
        )

    def _report_cpu_test(self, site: Site, test: ast.AST) -> Finding:
        return site.finding(
            test,
            f"The constraint on line {site.call.lineno} never runs on CPU, nor on simulated devices in tests.",
            help="remove the test of the platform: constraints work on every platform",
            form="platform",
            why="the condition reads the default platform, not the platform of the mesh",
        )

    def _report_skipping_fallback(self, site: Site) -> Iterator[Finding]:
        fallback = site.keyword("fallback")
        if fallback is not None and site.text(fallback.value).endswith("NO_CONSTRAINT"):
            yield site.finding(
                fallback,
                "The array stays unconstrained if one of its logical names has no rule.",
                help="write `RulesFallback.AXIS_IS_UNSHARDED`, or `RulesFallback.RAISE_ERROR`",
                form="no-constraint",
                why="NO_CONSTRAINT drops the constraint of every dimension",
            )


def _tests_that_skip(site: Site) -> Iterator[tuple[ast.expr, bool]]:
    """The tests before the call, each with the outcome that skips the call."""
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


def _only_returns_argument(branch: ast.If) -> bool:
    """`if ...: return x`."""
    last = branch.body[-1]
    return len(branch.body) <= 2 and isinstance(last, ast.Return) and isinstance(last.value, ast.Name)


def _is_cpu_test(evaluator: Evaluator, place: Place, outcome: bool) -> bool:
    """True for a comparison of the platform that has this outcome on CPU."""
    match place.node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = [_is_platform(evaluator, place.file, one) for one in (left, right)]
            return any(sides) and _result_on_cpu(op, right if sides[0] else left) is outcome
    return False


def _constrains_to_own_sharding(site: Site) -> bool:
    """True for a constraint to `y.sharding`, which tracers do not have."""
    return any(isinstance(one, ast.Attribute) and one.attr == "sharding" for one in site.call.args[1:])


def _constrains_elsewhere(site: Site) -> bool:
    """True if the function has another constraint: tracers may reach that one."""
    function = site.scope.enclosing_function()
    calls = site.file.walk_scope(function).calls if function is not None else ()
    return any(
        isinstance(one, Api) and one.name in (*_CONSTRAINTS, "jax.reshard")
        for call in calls
        if call is not site.call
        for one in options(site.program.value(site.file, call.func))
    )


def _result_on_cpu(op: ast.cmpop, other: ast.expr) -> bool | None:
    """The result on CPU of comparing the platform with `other`; None if it is unknown."""
    parts = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]
    texts = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if not texts or len(texts) != len(parts) or any(one not in ("cpu", *_ACCELERATORS) for one in texts):
        return None
    if not isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
        return None
    return ("cpu" in texts) is isinstance(op, ast.Eq | ast.In)


def _is_platform(evaluator: Evaluator, file: FileFacts, node: ast.expr) -> bool:
    """True for the platform of the process: `jax.devices()[0].platform`, `jax.default_backend()`."""
    if isinstance(node, ast.Name):
        value = sole_assigned_value(file, node)
        return value is not None and not isinstance(value, ast.Name) and _is_platform(evaluator, file, value)
    if isinstance(node, ast.Attribute) and node.attr == "platform":
        return _is_call_of(evaluator, file, node.value, (*_DEVICES, *_BACKENDS))
    return isinstance(node, ast.Call) and _is_call_of(evaluator, file, node, _BACKENDS)


def _is_call_of(evaluator: Evaluator, file: FileFacts, node: ast.expr, names: tuple[str, ...]) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    return any(
        isinstance(one, Api) and one.name in names
        for one in options(evaluator.value(Place(file, node.func)))
    )
