"""Which of Haliax's axis mappings is in context at a place: `with hax.axis_mapping(...)`, then through callers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.ends import Ends, Wrapper
from shardlint.model.mesh.contexts import Contexts
from shardlint.model.values import CallResult, Constant, Place, Value, options
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

AXIS_MAPPING = "haliax.axis_mapping"
_DEPTH = 8


@dataclass(frozen=True)
class AxisMapping:
    """One mapping put into context: what it is, whether it is merged with the outer one, and where."""

    value: Value
    merge: bool
    place: Place


@dataclass(frozen=True)
class Mappings:
    """All mappings a place can run under, of nested ones the inner ones first.

    `bare` is True when some way has none at all; `complete` is False when there may be ways, or context managers, that
    we cannot see.
    """

    found: tuple[AxisMapping, ...]
    bare: bool
    complete: bool

    @property
    def never(self) -> bool:
        """Proven: no mapping is in context, on any way."""
        return self.complete and not self.found

    @property
    def always(self) -> bool:
        """Proven: there is one on every way."""
        return self.complete and not self.bare and bool(self.found)


class AxisMappings:
    """Answers for places of a program."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self._open: set[ast.AST] = set()

    def at(self, file: FileFacts, node: ast.AST) -> Mappings:
        """The mappings of a node."""
        if any(isinstance(outer, ast.GeneratorExp) for outer in file.ancestors(node)):
            return Mappings((), True, False)  # it runs where it is read
        found: list[AxisMapping] = []
        complete = True
        for entered in self._lexical(file, node):
            if entered is None:
                complete = False
            else:
                found.append(entered)
        outer = self._callers(file, node)
        # Inside a mapping, what is around it cannot leave the place without one.
        whole = complete and (outer.complete or bool(found))
        return Mappings((*found, *outer.found), outer.bare and not found, whole)

    def _lexical(self, file: FileFacts, node: ast.AST) -> Iterator[AxisMapping | None]:
        """Mappings entered around the node in its own function, innermost first; None for a manager not known."""
        home = file.home(node).function()
        inner: ast.AST = node
        for outer in file.ancestors(node):
            if isinstance(outer, ast.With | ast.AsyncWith) and not isinstance(inner, ast.withitem):
                for item in reversed(outer.items):
                    yield from self._entered(Place(file, item.context_expr))
            if home is not None and outer is home.node:
                break
            inner = outer

    def _entered(self, place: Place) -> Iterator[AxisMapping | None]:
        for option in options(self.contexts.evaluator.value(place)):
            if isinstance(option, CallResult) and option.api == AXIS_MAPPING and option.call is not None:
                mapping, merge = option.call.get("mapping", ("mapping",)), option.call.keywords.get("merge")
                if mapping is None or set(option.call.keywords) - {"mapping", "merge"}:
                    yield None
                    continue
                evaluator = self.contexts.evaluator
                merged = merge is not None and evaluator.value(merge) != Constant(False)
                yield AxisMapping(evaluator.value(mapping, option.call.environment), merged, place)
                continue
            manager = self.contexts.manager(place)
            if manager is not None and manager.kind == "unknown":
                yield None

    def _callers(self, file: FileFacts, node: ast.AST) -> Mappings:
        function = file.home(node).function()
        entered = any(map(file.says, ("enter_context", ".__enter__(")))
        if function is None:
            return Mappings((), True, not entered)
        if function.node in self._open or len(self._open) > _DEPTH:
            return Mappings((), False, len(self._open) <= _DEPTH)
        self._open.add(function.node)
        try:
            ends = self.contexts.flow.ends(file, function.node)
            result = self._merged(ends)
        finally:
            self._open.discard(function.node)
        return Mappings(result.found, result.bare, result.complete and not entered)

    def _merged(self, ends: Ends) -> Mappings:
        found: list[AxisMapping] = []
        bare = False
        complete = ends.complete and any(end.kind == "called" for end in ends.found)
        for end in ends.found:
            if end.kind != "called":
                continue
            if any(_may_map(wrapper) for wrapper in end.wrappers):
                complete = False
            at_call = self.at(end.place.file, end.place.node)
            found += [mapping for mapping in at_call.found if mapping not in found]
            bare = bare or at_call.bare
            complete = complete and at_call.complete
        return Mappings(tuple(found), bare, complete)


def _may_map(wrapper: Wrapper) -> bool:
    """Whether a transform may enter a mapping: `named_jit` that is given one, or code that is not seen."""
    if wrapper.api != "haliax.named_jit":
        return not wrapper.api.startswith(("jax.", "equinox.", "haliax.", "functools.", "builtins."))
    call = wrapper.place.node
    if not isinstance(call, ast.Call):
        return False
    return len(call.args) > 1 or any(keyword.arg in (None, "axis_resources") for keyword in call.keywords)
