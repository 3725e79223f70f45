"""Rings written as comprehensions of pairs: what `ppermute` is given. Shared by rules."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field, replace

from shardlint.model.reach import lookup
from shardlint.model.values import Function
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts
from shardlint_rules.processes.given import kept


@dataclass(frozen=True)
class Ring:
    """`[(i, (i + step) % size) for i in range(first, count)]`, as it is written; `size` is None without the `%`."""

    file: FileFacts
    node: ast.expr
    first: str
    count: ast.expr
    size: ast.expr | None
    given: Mapping[str, str] = field(default_factory=dict)
    """How the arguments of the helper that makes it are written where it is called, by its parameters."""
    direction: int = 0
    """1 where each device sends to the next one, -1 where it sends to the one before, 0 where that is not told."""

    def text(self, node: ast.expr) -> str:
        """How a part of it is written."""
        return self.file.text(node)

    @property
    def left_out(self) -> str:
        """Which device sends to none: "first", "last" or ""; of what does not wrap, where that is one end."""
        count = self.count
        one_less = (
            isinstance(count, ast.BinOp)
            and isinstance(count.op, ast.Sub)
            and isinstance(count.right, ast.Constant)
            and count.right.value == 1
        )
        if self.size is not None:
            size = self.text(self.size)
            if (
                isinstance(count, ast.BinOp)
                and isinstance(count.op, ast.Sub)
                and self.text(count.left) == size
            ):
                return "last"
            return "first" if self.first == "1" and self.text(count) == size else ""
        if self.first == "1":
            return "" if one_less else "first"
        return "last" if one_less else ""

    @property
    def devices(self) -> str:
        """How many devices it is over, as it is written."""
        written = self.text(self.size) if self.size is not None else self._counted()
        return self.given.get(written, written)

    def _counted(self) -> str:
        if isinstance(self.count, ast.BinOp) and self.left_out == "last":
            return self.text(self.count.left)
        return self.text(self.count)


def ring_of(site: Site, node: ast.expr) -> Ring | None:
    """The ring that is given, where its name is bound once, or a helper of the project returns it."""
    found = written_at(site, node)
    if found is None:
        return None
    file, node, arguments = found
    ring = _read(file, node)
    return replace(ring, given=arguments) if ring is not None and arguments else ring


def written_at(site: Site, node: ast.expr) -> tuple[FileFacts, ast.expr, dict[str, str]] | None:
    """Where the pairs are written that are given, and how the arguments of a helper that makes them are."""
    file = site.file
    arguments: dict[str, str] = {}
    for _ in range(4):
        match node:
            case ast.Name():
                bindings, _ = lookup(file, node, node.id)
                if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
                    return None
                node = bindings[0].value
            case ast.Attribute(value=ast.Name(id="self")):
                stored = kept(file, node)
                if stored is None or not isinstance(stored.node, ast.expr):
                    return None
                node = stored.node
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
                node = inner
            case ast.Call():
                value = site.program.value(file, node.func)
                if not isinstance(value, Function) or not isinstance(value.node, ast.FunctionDef):
                    return None
                arguments = _arguments(file, node, value)
                file = value.place.file
                returns = file.walked(file.scope(value.node)).returns
                given = returns[0].value if len(returns) == 1 else None
                if given is None:
                    return None
                node = given
            case _:
                break
    return file, node, arguments


def _arguments(file: FileFacts, call: ast.Call, function: Function) -> dict[str, str]:
    """How the arguments of a call are written, by the parameters of the function."""
    if not isinstance(function.node, ast.FunctionDef):
        return {}
    names = [one.arg for one in (*function.node.args.posonlyargs, *function.node.args.args)]
    if function.owner is not None and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    given = {name: file.text(one) for name, one in zip(names, call.args, strict=False)}
    return given | {one.arg: file.text(one.value) for one in call.keywords if one.arg is not None}


def _read(file: FileFacts, node: ast.expr) -> Ring | None:
    if not isinstance(node, ast.ListComp | ast.GeneratorExp) or len(node.generators) != 1:
        return None
    match node.elt, node.generators[0]:
        case (
            ast.Tuple(elts=[one, two]),
            ast.comprehension(
                target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args), ifs=[]
            ),
        ):
            if len(args) == 1:
                first, count = "0", args[0]
            elif len(args) == 2:
                first, count = file.text(args[0]), args[1]
            else:
                return None
            for plain, moved in ((one, two), (two, one)):
                if not isinstance(plain, ast.Name) or plain.id != name:
                    continue
                match moved:
                    case ast.BinOp(op=ast.Mod(), left=ast.BinOp() as sum_, right=size):
                        ahead = _ahead(sum_, name) * (1 if moved is two else -1)
                        return Ring(file, node, first, count, size, direction=ahead)
                    case ast.BinOp(
                        op=ast.Add() | ast.Sub(), left=ast.Name(id=same), right=ast.Constant(value=1)
                    ):
                        return Ring(file, node, first, count, None) if same == name else None
    return None


def _ahead(node: ast.BinOp, name: str) -> int:
    """1 for `i + 1`, -1 for `i - 1` and `i + n - 1`; 0 for anything else."""
    match node:
        case ast.BinOp(op=ast.Add(), left=ast.Name(id=same), right=ast.Constant(value=1)) if same == name:
            return 1
        case ast.BinOp(op=ast.Add(), left=ast.Constant(value=1), right=ast.Name(id=same)) if same == name:
            return 1
        case ast.BinOp(op=ast.Sub(), left=ast.Name(id=same), right=ast.Constant(value=1)) if same == name:
            return -1
        case ast.BinOp(op=ast.Sub(), left=ast.BinOp(op=ast.Add()) as sum_, right=ast.Constant(value=1)):
            return -1 if isinstance(sum_.left, ast.Name) and sum_.left.id == name else 0
    return 0
