"""Is this code traced, and why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from shardlint.model.branches import Condition, find_conditions
from shardlint.model.deciding_tests import tracers_leave_before
from shardlint.model.evaluator.evaluate import scope_label
from shardlint.model.flow import Flow, transform_as_written
from shardlint.model.function_uses import RULE, FunctionUse, FunctionUses
from shardlint.model.needs import Circular
from shardlint.model.reachable_ways import possible_ends
from shardlint.model.values import Place
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, Scope

# Callers are asked about before what they call, so only rounds of functions that call each other come to this.
_DEPTH = 200
# What is done to a function that tells how it is run, wherever that is done.
_TELLING = frozenset(("host", "staged", "abstract"))


@dataclass(frozen=True)
class Step:
    """One reason in a chain, innermost first: "traced by eqx.filter_jit at line 37", "called by `step` at line 12"."""

    text: str
    place: Place


@dataclass(frozen=True)
class Region:
    """Tracing state of code: whether it runs under a staging tracer (jit, scan, shard_map, ...).

    `always`: every way it is run that we know is traced, and we know them all. `sometimes`: at least one is traced.
    `never`: all are known and none is traced. `unknown`: nothing says.
    """

    traced: Literal["always", "sometimes", "never", "unknown"]
    by: str = ""
    scope: Scope | None = None
    step: Step | None = None
    """The first reason."""
    then: Region | None = field(default=None, repr=False, compare=False)
    """The region that the other reasons are of. A chain may be as long as the project has files: it is shared."""

    @property
    def reasons_inside_out(self) -> tuple[Step, ...]:
        """The reasons, innermost first."""
        found = []
        region: Region | None = self
        while region is not None:
            if region.step is not None:
                found.append(region.step)
            region = region.then
        return tuple(found)

    @property
    def is_proven(self) -> bool:
        """True if the code is certain to be traced."""
        return self.traced == "always"

    def describe(self, here: FileFacts) -> str:
        """The chain in words: "in `place`, called by `step` at train.py:41, traced by eqx.filter_jit at line 37"."""
        name = scope_label(self.scope) if self.scope is not None else "the module"
        parts = [f"in {name}"]
        for step in self.reasons_inside_out:
            where = f"line {step.place.line}"
            if step.place.file is not here:
                where = f"{step.place.file.path.name}:{step.place.line}"
            parts.append(f"{step.text} at {where}")
        return ", ".join(parts)


_Key = tuple[ast.AST, tuple[Condition, ...]]
_NEVER = Region("never")
_UNKNOWN = Region("unknown")


class Tracing:
    """Answers for places of a program, remembered a function at a time."""

    def __init__(self, flow: Flow, every: bool = False) -> None:
        self.flow = flow
        self.every = every
        """Whether it is asked about the calls in sight, as if there were no others."""
        self._regions: Circular[_Key, Region] = Circular(flow.project.needs, _DEPTH)

    def region_of_node(self, file: FileFacts, node: ast.AST) -> Region:
        """The region of a node: that of the innermost function or lambda around it."""
        function = file.evaluation_scope(node).enclosing_function()
        if function is None:
            return Region("never", scope=file.module)
        found = self._region_at_node(file, node, function)
        return Region(found.traced, found.by, function, found.step, found.then)

    def _region_at_node(self, file: FileFacts, node: ast.AST, function: Scope) -> Region:
        """The region of a place in a function: of the calls that come to its branch, where tracers do."""
        whole = self.region_of_function(file, function)
        if whole.traced not in ("always", "sometimes"):
            return whole
        if tracers_leave_before(self.flow.evaluator, file, node, function.node):
            return _UNKNOWN
        asked = find_conditions(file, node, function)
        return self._ask_region(file, function, asked) if asked else whole

    def region_of_function(self, file: FileFacts, scope: Scope) -> Region:
        """The region of a function's body."""
        if not self._regions.is_asking and (scope.node, ()) not in self._regions:
            for other, caller in self._callers_first(file, scope):
                self._ask_region(other, caller)
        return self._ask_region(file, scope)

    def _ask_region(self, file: FileFacts, scope: Scope, conditions: tuple[Condition, ...] = ()) -> Region:
        # Recursion says nothing new.
        key = scope.node, conditions
        return self._regions.answer_query(key, lambda: self._decide_region(file, scope, conditions), lambda _: _UNKNOWN)

    def _callers_first(self, file: FileFacts, scope: Scope) -> Iterator[tuple[FileFacts, Scope]]:
        """The functions on all ways to a function, each after its callers: ways may be longer than a stack is deep."""
        seen = {scope.node}
        way = [(file, scope, self._calling_scopes(file, scope))]
        while way:
            file, scope, callers = way[-1]
            for other, caller in callers:
                if caller.node not in seen and (caller.node, ()) not in self._regions:
                    seen.add(caller.node)
                    way.append((other, caller, self._calling_scopes(other, caller)))
                    break
            else:
                way.pop()
                yield file, scope

    def _calling_scopes(self, file: FileFacts, scope: Scope) -> Iterator[tuple[FileFacts, Scope]]:
        """The functions whose regions `_decide_region` asks for."""
        for end in self._ends_of_scope(file, scope).found:
            if _is_traced_like_caller(end):
                for place in (end.place, *_passing_calls(end)):
                    caller = place.file.evaluation_scope(place.node).enclosing_function()
                    if caller is not None:
                        yield place.file, caller

    def _ends_of_scope(self, file: FileFacts, scope: Scope) -> FunctionUses:
        if self.every and isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = self.flow.in_sight(file, scope.node)
            return FunctionUses([end for end in found.found if end.kind != "escaped" or end.is_staged])
        return self.flow.ends(file, scope.node)

    def _decide_region(self, file: FileFacts, scope: Scope, conditions: tuple[Condition, ...]) -> Region:
        ends = self._ends_of_scope(file, scope)
        traced: list[Region] = []
        other = ends.may_have_unseen_calls
        ways: list[str] = []
        coming = possible_ends(self.flow.evaluator, file, scope, conditions, ends)
        for end, sure in coming:
            region = self._region_of_end(end)
            if region is None:
                continue
            ways.append(region.traced)
            if region.traced in ("always", "sometimes"):
                traced.append(region)
            if region.traced != "always" or not sure:
                other = True
        if ends.found and not coming:
            return _UNKNOWN if ends.may_have_unseen_calls else _NEVER
        if traced and not other:
            return traced[0]
        # Whatever calls a function made inside traced code, it runs while that code is traced.
        outer = scope.parent.enclosing_function() if scope.parent is not None else None
        if outer is not None and not self._is_on_host(ends.found):
            around = self.region_of_function(file, outer)
            if around.is_proven:
                step = Step(f"inside {scope_label(outer)}", Place(file, outer.node))
                return Region("always", around.by, scope, step, around)
        if traced:
            return Region("sometimes", traced[0].by, scope, traced[0].step, traced[0].then)
        # Ways that tell nothing (a caller nobody is seen to call, an abstract trace) prove nothing.
        return _NEVER if ways and not ends.may_have_unseen_calls and all(way == "never" for way in ways) else _UNKNOWN

    def _is_on_host(self, uses: list[FunctionUse]) -> bool:
        return any(wrapper.effect == "host" for end in uses for wrapper in end.wrappers)

    def _region_of_end(self, end: FunctionUse) -> Region | None:
        """The region one end runs in; None when it tells nothing (an abstract trace, a recursive call)."""
        effects = [wrapper.effect for wrapper in end.wrappers]
        if "host" in effects:
            return _NEVER
        for wrapper in end.wrappers:
            if wrapper.effect == "staged":
                step = Step(f"traced by {wrapper.name}", wrapper.place)
                return Region("always", wrapper.name, step=step)
        if not _is_traced_like_caller(end):
            return None  # an abstract trace; what escaped is counted as lost
        caller = end.place.file.evaluation_scope(end.place.node).enclosing_function()
        if caller is None:
            return _NEVER
        if self._regions.is_open((caller.node, ())):
            return None
        around = self._region_at_node(end.place.file, end.place.node, caller)
        given = _passing_calls(end)
        if given and not around.is_proven:
            return self._region_of_passed_function(given, caller)
        if around.traced in ("never", "unknown"):
            return around
        rules = "".join(f"a rule of `{one.name}`, " for one in end.wrappers if one.how == RULE)
        step = Step(f"{rules}called by {scope_label(caller)}", end.place)
        return Region(around.traced, around.by, None, step, around)

    def _region_of_passed_function(self, places: list[Place], calling: Scope) -> Region | None:
        """The region of a function that others are given, which call it also when they are given another."""
        around = [self.region_of_node(*place) for place in places]
        sure = next((one for one in around if one.is_proven), around[0])
        # What is made there and called later may run in another region.
        inside = calling.parent is not None and calling.parent.enclosing_function() is not None
        if sure.traced in ("never", "unknown") or (inside and not sure.is_proven):
            return sure if not inside else None
        place = places[around.index(sure)]
        step = Step(f"given to {transform_as_written(place)}", place)
        return Region(sure.traced, sure.by, None, step, sure)


def _passing_calls(end: FunctionUse) -> list[Place]:
    """The calls that gave a function to others before one of them called it, the first of them first."""
    return [wrapper.place for wrapper in end.wrappers if wrapper.effect == "passed"]


def _is_traced_like_caller(end: FunctionUse) -> bool:
    """Return whether a use runs in the same way as the function around it."""
    return end.kind != "escaped" and not any(wrapper.effect in _TELLING for wrapper in end.wrappers)
