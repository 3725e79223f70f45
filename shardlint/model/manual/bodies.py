"""Runs the body of a `shard_map` or `pmap` over what is known of its values: which vary over which axis.

Statement by statement, through functions of the project wherever they stand. What library functions do is in
shardlint/model/manual/local_calls.py.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardlint.model.manual.local_values import LEAST, SHARE, LocalValues
from shardlint.model.manual.varying import (
    HIDDEN,
    NOTHING,
    OPEN,
    Closure,
    Frame,
    Known,
    Local,
    Record,
    Tree,
    either,
)
from shardlint.model.values import (
    CallResult,
    Constant,
    Function,
    Place,
    Unknown,
)
from shardlint.syntax import FileFacts

if TYPE_CHECKING:
    pass

_DEPTH = 10
_SETTING = Known(Unknown("a setting that is not seen"))
_Loop = ast.For | ast.AsyncFor | ast.While


class Body(LocalValues):
    """One run of a body: its functions and statements."""

    # functions

    def run(self, function: Function | Closure, given: Sequence[Local], named: dict[str, Local]) -> Local:
        """What a function of the project returns for these arguments."""
        file = function.file if isinstance(function, Closure) else function.place.file
        node = function.node
        if isinstance(node, ast.AsyncFunctionDef) or len(self.chain) > _DEPTH or self._running.count(node) > 1:
            return HIDDEN
        frame = Frame({}, function.frame if isinstance(function, Closure) else None)
        self._frames.append(frame)
        self._bind(file, function, frame, list(given), named)
        limit = self.limit
        if self._running:
            left = max(0, limit - self.steps)
            self.limit = self.steps + max(left // SHARE, min(left, LEAST))
        self._running.append(node)
        try:
            return self._ran(file, node, frame)
        finally:
            self._running.pop()
            self.limit = limit

    def _ran(self, file: FileFacts, node: ast.FunctionDef | ast.Lambda, frame: Frame) -> Local:
        if isinstance(node, ast.Lambda):
            return self.expression(file, node.body, frame)
        returned: list[Local] = []
        branches = self.branches
        self._block(file, node.body, frame, returned)
        self.branches = branches
        if not returned:
            return Known(Constant(None))
        result = returned[0]
        for other in returned[1:]:
            result = either(result, other)
        return result

    def _bind(
        self,
        file: FileFacts,
        function: Function | Closure,
        frame: Frame,
        given: list[Local],
        named: dict[str, Local],
    ) -> None:
        args = function.node.args
        names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
        settings = named.pop(OPEN, None)
        if isinstance(function, Function) and function.bound and names:
            owner = function.receiver or (
                CallResult(function.owner, None) if function.owner else Unknown("self")
            )
            frame.names[names.pop(0)] = Known(owner)
        frame.names.update(zip(names, given, strict=False))
        if args.vararg is not None:
            frame.names[args.vararg.arg] = Tree(tuple(given[len(names) :]))
        keyword_only = [arg.arg for arg in args.kwonlyargs]
        frame.names.update({name: one for name, one in named.items() if name in (*names, *keyword_only)})
        if args.kwarg is not None:
            rest = [(k, v) for k, v in named.items() if k not in (*names, *keyword_only)]
            frame.names[args.kwarg.arg] = Record(tuple(rest)) if settings is None else _SETTING
        defaults = dict(zip(reversed(names), reversed(args.defaults), strict=False))
        defaults.update({n: d for n, d in zip(keyword_only, args.kw_defaults, strict=True) if d is not None})
        for name in (*names, *keyword_only):
            if name not in frame.names and settings is not None:
                frame.names[name] = _SETTING
            elif name not in frame.names:
                default = defaults.get(name)
                frame.names[name] = (
                    Known(self.evaluator.value(Place(file, default))) if default is not None else HIDDEN
                )

    # statements

    def _block(self, file: FileFacts, body: Sequence[ast.stmt], frame: Frame, returned: list[Local]) -> bool:
        """Run statements; whether the end of them is reached."""
        return all(self._statement(file, statement, frame, returned) for statement in body)

    def _statement(self, file: FileFacts, node: ast.stmt, frame: Frame, returned: list[Local]) -> bool:
        match node:
            case ast.Return():
                given = node.value
                returned.append(
                    self.expression(file, given, frame) if given is not None else Known(Constant(None))
                )
                return False
            case ast.Raise() | ast.Break() | ast.Continue():
                return not isinstance(node, ast.Raise)
            case ast.Assign():
                value = self.expression(file, node.value, frame)
                for target in node.targets:
                    self.assign(file, target, value, frame)
            case ast.AnnAssign() if node.value is not None:
                self.assign(file, node.target, self.expression(file, node.value, frame), frame)
            case ast.AugAssign():
                before = self.expression(file, node.target, frame)
                value = self.arithmetic(
                    node.op, before, self.expression(file, node.value, frame), Place(file, node)
                )
                self.assign(file, node.target, value, frame)
            case ast.Expr():
                self.expression(file, node.value, frame)
            case ast.If():
                return self._branch(file, node, frame, returned)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(file, node, frame, returned)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    entered = self.expression(file, item.context_expr, frame)
                    if item.optional_vars is not None:
                        self.assign(file, item.optional_vars, entered, frame)
                return self._block(file, node.body, frame, returned)
            case ast.Try():
                ends = self._block(file, [*node.body, *node.orelse], frame, returned)
                for handler in node.handlers:
                    ends = self._block(file, handler.body, frame, returned) or ends
                return self._block(file, node.finalbody, frame, returned) and ends
            case ast.FunctionDef():
                frame.names[node.name] = self._defined(file, node, frame)
            case ast.Match():
                return self._ways(file, [case.body for case in node.cases], frame, returned, True)
        return True

    def _defined(self, file: FileFacts, node: ast.FunctionDef, frame: Frame) -> Local:
        result: Local = Closure(file, node, frame)
        for decorator in reversed(node.decorator_list):
            result = self.calls.transforms.decorated(file, decorator, result, frame)
        return result

    def _branch(self, file: FileFacts, node: ast.If, frame: Frame, returned: list[Local]) -> bool:
        truth = self.truth(file, node.test, frame)
        if truth is not None:
            return self._block(file, node.body if truth else node.orelse, frame, returned)
        return self._ways(file, [node.body, node.orelse], frame, returned, False)

    def _ways(
        self,
        file: FileFacts,
        ways: Sequence[Sequence[ast.stmt]],
        frame: Frame,
        returned: list[Local],
        may_skip: bool,
    ) -> bool:
        """Run one of several blocks: what they leave is one or the other."""
        before, earlier = dict(frame.names), len(returned)
        ends: list[dict[str, Local]] = [before] if may_skip else []
        self.branches += 1
        for way in ways:
            frame.names = dict(before)
            if self._block(file, way, frame, returned):
                ends.append(frame.names)
        self.branches -= 1
        if len(returned) > earlier:
            # What comes after is left out where a way returned: the function's end closes this one.
            self.branches += 1
        frame.names = dict(before)
        for name in {name for end in ends for name in end}:
            found = [end[name] for end in ends if name in end]
            result = found[0]
            for other in found[1:]:
                result = either(result, other)
            frame.names[name] = result
        return bool(ends)

    def _loop(self, file: FileFacts, node: _Loop, frame: Frame, returned: list[Local]) -> None:
        whole = self.expression(file, node.iter, frame) if not isinstance(node, ast.While) else NOTHING
        # What one turn makes vary, the next one meets.
        for _ in range(2):
            self.steps += 1  # loops in loops double the turns
            if self.steps > self.limit:
                return
            if not isinstance(node, ast.While):
                self.assign(file, node.target, self.element(whole), frame)
            self._block(file, node.body, frame, returned)
