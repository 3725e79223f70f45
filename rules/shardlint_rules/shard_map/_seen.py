"""What the calls of a mapped function, and its definition, tell of its arguments and results. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model import Program
from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.guards import expected_to_fail
from shardlint.model.reach import lookup
from shardlint.model.values import Api, Function, Place, Transformed, Value, options
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts

_SAME_RESULTS = (*JIT_WRAPPERS, "functools.partial", "jax.checkpoint", "jax.named_call")
_DEPTH = 6
# What returns one array, whatever it is given.
_NUMPY = frozenset(
    """
sum mean max min prod dot matmul einsum tensordot vdot outer concatenate stack reshape transpose exp log sqrt abs
clip argmax argmin zeros ones full zeros_like ones_like full_like arange asarray array square maximum minimum
broadcast_to swapaxes moveaxis expand_dims squeeze pad cumsum repeat tile sort argsort take take_along_axis add
subtract multiply divide tanh sin cos sign roll flip
""".split()
)
_LAX = frozenset("dot dot_general dynamic_slice dynamic_update_slice axis_index rsqrt select".split())
_METHODS = frozenset(
    "astype reshape sum mean max min transpose squeeze swapaxes ravel flatten argmax".split()
)
_REDUCES = frozenset("psum pmean pmax pmin all_gather psum_scatter ppermute all_to_all".split())


@dataclass(frozen=True)
class Seen:
    """A call of what a site's `shard_map` made, and what is called."""

    file: FileFacts
    call: ast.Call
    called: Value

    def setting(self, program: Program, name: str) -> Value | None:
        """What the `shard_map` was given for a keyword, on the way by which what is called was made."""
        made = self.called
        while isinstance(made, Transformed) and made.api.name in JIT_WRAPPERS:
            made = made.inner
        if not isinstance(made, Transformed) or made.call is None:
            return None
        place = made.call.keywords.get(name)
        return program.evaluator.value(place, made.call.environment) if place is not None else None

    @property
    def count(self) -> int | None:
        """How many arguments are given; None where a star hides it."""
        if self.call.keywords or any(isinstance(one, ast.Starred) for one in self.call.args):
            return None
        return len(self.call.args)

    @property
    def unpacked(self) -> ast.Tuple | ast.List | None:
        """What the results are unpacked into: `a, b = mapped(x)`."""
        parent = self.file.parent(self.call)
        if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
            return None
        target = parent.targets[0]
        if not isinstance(target, ast.Tuple | ast.List):
            return None
        return None if any(isinstance(one, ast.Starred) for one in target.elts) else target


def seen_calls(site: Site, call: ast.Call) -> Iterator[Seen]:
    """The calls that surely run what a `shard_map` call or decorator makes, and nothing else."""
    program, parent = site.program, site.file.parent(call)
    if isinstance(parent, ast.FunctionDef):
        if parent.decorator_list != [call]:
            return
        ends = program.flow.ends(site.file, parent)
    else:
        applied = isinstance(parent, ast.Call) and parent.func is call
        made = site.form == "partial" or not (call.args or any(one.arg == "f" for one in call.keywords))
        if made and not applied:
            return
        ends = program.flow.calls(Place(site.file, parent if made and parent is not None else call))
    for end in ends.found:
        file, node = end.place.file, end.place.node
        if end.kind != "called" or not isinstance(node, ast.Call) or expected_to_fail(file, node):
            continue
        if any(one.api not in (*JIT_WRAPPERS, "jax.shard_map") for one in end.wrappers):
            continue
        called = options(program.value(file, node.func))
        if len(called) == 1:
            yield Seen(file, node, called[0])


def returns_one_array(program: Program, inner: Value) -> bool:
    """Whether each `return` of a function surely gives a single array, and no tuple or dict."""
    while isinstance(inner, Transformed) and inner.api.name in _SAME_RESULTS:
        inner = inner.inner
    if not isinstance(inner, Function) or isinstance(inner.node, ast.AsyncFunctionDef):
        return False
    file, node = inner.place.file, inner.node
    if isinstance(node, ast.Lambda):
        return _array(program, file, node.body, 0)
    if node.decorator_list:
        return False
    returns = file.walked(file.scope(node)).returns
    given = [one.value if isinstance(one, ast.Return) else None for one in returns]
    return bool(given) and all(one is not None and _array(program, file, one, 0) for one in given)


def _array(program: Program, file: FileFacts, node: ast.expr, depth: int) -> bool:
    """Whether an expression surely is one array: what a tuple cannot be, or a function that returns one."""
    if depth > _DEPTH:
        return False
    match node:
        case ast.Name():
            bindings, whole = lookup(file, node, node.id)
            return (
                whole is not None
                and bool(bindings)
                and all(
                    one.kind == "assign"
                    and one.value is not None
                    and _array(program, file, one.value, depth + 1)
                    for one in bindings
                )
            )
        case ast.BinOp(op=ast.MatMult() | ast.Sub() | ast.Div() | ast.Pow()):
            return True
        case ast.BinOp(op=ast.Add() | ast.Mult(), left=left, right=right):
            return any(_array(program, file, one, depth + 1) for one in (left, right))
        case ast.UnaryOp(op=ast.USub()):
            return True
        case ast.Attribute(attr="T"):
            return True
        case ast.Call(func=func, args=args):
            value = program.value(file, func)
            if isinstance(value, Api):
                return _by_library(program, file, value.name, args, depth)
            # A method of the project may return anything.
            own = isinstance(value, Function) or (
                isinstance(func, ast.Attribute)
                and isinstance(func.value, ast.Name)
                and func.value.id == "self"
            )
            return isinstance(func, ast.Attribute) and func.attr in _METHODS and not own
    return False


def _by_library(program: Program, file: FileFacts, name: str, args: list[ast.expr], depth: int) -> bool:
    module, _, last = name.rpartition(".")
    if module == "jax.numpy":
        return last in _NUMPY or (last == "where" and len(args) == 3)
    if module == "jax.nn":
        return last in ("relu", "gelu", "silu", "softmax", "sigmoid", "log_softmax", "one_hot")
    if module != "jax.lax":
        return False
    return last in _LAX or (last in _REDUCES and bool(args) and _array(program, file, args[0], depth + 1))
