"""Uses of one number of examples that cannot all be right: it is divided by all devices here, by those of one there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.process.processes import leaves
from shardlint.model.process.scales import (
    ALL,
    ANY,
    IS_BATCH,
    PROCESS,
    PROCESSES,
    Scale,
    amount,
    count,
    key,
    named,
)
from shardlint.model.reach import lookup
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts
from shardlint_rules.processes._whose import Contradiction, counted_by, name_of, uses_of
from shardlint_rules.processes.alone import alone

_SAYS = {
    ALL: "jax.device_count()",
    PROCESS: "jax.local_device_count()",
    PROCESSES: "jax.process_count()",
}
_PARTS = regex(r"(?i)(?:^|_)(?:train|eval|test|valid(?:ation)?|val|micro|pred|decode)(?=_|$)")


@dataclass(frozen=True)
class Use:
    """A place where a number is divided or multiplied: what it must be of there, and how it is written."""

    node: ast.expr
    top: ast.expr
    needs: frozenset[Scale]
    done: str
    line: int


def disagreements(site: Site) -> Iterator[Contradiction]:
    """What this count does with a number that another place says is of others."""
    counted = counted_by(site)
    scale = count(site.program, site.file, counted)
    if scale is None:
        return
    for use in uses_of(site, counted):
        number = _number(site.file, use)
        here = _use(site, number) if number is not None else None
        if number is None or here is None:
            continue
        for other in _others(site, number):
            if not here.needs & other.needs and _is_odd(here, other, scale, key(number)):
                yield Contradiction(
                    use,
                    here.done,
                    f"`{site.shown(number)}` is {here.done} here, and {other.done} on line {other.line}: "
                    "it cannot be of one process and of all.",
                    "uses",
                    f"line {other.line}: `{site.shown(other.top)}`",
                    "jax.device_count" if scale == PROCESS and ALL in other.needs else "",
                )
                break


def undivided(site: Site) -> Iterator[Contradiction]:
    """`per_host_batch_size = batch_size`, where this count shows that `batch_size` is of all processes."""
    counted = counted_by(site)
    if count(site.program, site.file, counted) not in (ALL, PROCESSES):
        return
    for use in uses_of(site, counted):
        number = _number(site.file, use)
        here = _use(site, number) if number is not None else None
        if number is None or here is None or here.needs != {ALL}:
            continue
        first = min((here, *_others(site, number)), key=lambda one: one.line)
        if first.node is not here.node:
            continue  # told once
        for same in _same(site.file, number):
            name = _bound_plain(site.file, same)
            says = named(name)
            if says and ALL not in says and not _apart(site.file, same, number) and _is_always(site, same):
                yield _whole(site, same, name, f"line {here.line}: `{site.shown(here.top)}`")
        found = _beside(site, here)
        if found is not None:
            yield found


def _beside(site: Site, here: Use) -> Contradiction | None:
    """`per_host_eval_batch_size = eval_batch_size` beside `per_host_batch_size = batch_size // process_count()`."""
    mine = name_of(site.file, here.top)
    says = named(mine)
    function = site.scope.function()
    if not says or says == ANY or ALL in says or function is None:
        return None
    for name, bindings in site.file.bound(function).bindings.items():
        if name == mine or named(name) != says or _PARTS.sub("", name).strip("_") != _PARTS.sub("", mine).strip("_"):
            continue
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        if not isinstance(value, ast.Name | ast.Attribute) or _apart(site.file, value, here.top):
            continue
        if alone(site.program, Place(site.file, value)):
            continue
        made = amount(site.program, site.file, value)
        if made is not None and made.scales == ANY:
            return _whole(site, value, name, f"line {here.line}: `{mine} = {site.shown(here.top)}`")
    return None


def _whole(site: Site, node: ast.expr, name: str, why: str) -> Contradiction:
    text = site.shown(node)
    return Contradiction(
        node,
        "not divided by the processes",
        f"`{name}` is of one process, and `{text}` of all: every process takes the examples of all of them.",
        "whole",
        why,
    )


def _is_odd(here: Use, other: Use, scale: Scale, name: str) -> bool:
    """Whether this one of two uses is the one to look at."""
    says = named(name)
    if says and says != ANY:
        return not here.needs & says
    if (scale == PROCESS) != (_SAYS[PROCESS] in other.done):
        return scale == PROCESS
    return here.line > other.line


def _number(file: FileFacts, use: ast.expr) -> ast.expr | None:
    """The number of examples that a count divides or multiplies, alone or in a product of counts."""
    node: ast.expr = use
    parent = file.parent(node)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.FloorDiv | ast.Div | ast.Mod):
        other = parent.left if parent.right is node else parent.right
        if isinstance(other, ast.Name | ast.Attribute | ast.Subscript | ast.Call) and IS_BATCH.search(key(other)):
            return other if parent.right is node or isinstance(parent.op, ast.Mult) else None
        if isinstance(other, ast.BinOp) and other is parent.left:  # `batch // a // b`
            inner = other
            while isinstance(inner, ast.BinOp):
                inner_left = inner.left
                if not isinstance(inner_left, ast.BinOp):
                    return inner_left if IS_BATCH.search(key(inner_left)) else None
                inner = inner_left
            return None
        if not isinstance(parent.op, ast.Mult):
            return None
        node, parent = parent, file.parent(parent)
    return None


def _use(site: Site, number: ast.expr) -> Use | None:
    """What a number must be of, where counts divide or multiply it; None where something else is done to it."""
    file, node = site.file, number
    net, checks, done = (0, 0), False, []
    while True:
        parent = file.parent(node)
        if not isinstance(parent, ast.BinOp) or checks:
            break
        op, other = parent.op, parent.right if parent.left is node else parent.left
        if not isinstance(op, ast.Mult) and parent.left is not node:
            break
        by = amount(site.program, file, other)
        if not isinstance(op, ast.Mult | ast.FloorDiv | ast.Div | ast.Mod):
            break
        if by is None or not (by.counted or by.plain) or len(by.scales) != 1:
            return None
        (of,) = by.scales
        sign = 1 if isinstance(op, ast.Mult) else -1
        net = (net[0] + sign * of[0], net[1] + sign * of[1])
        checks = isinstance(op, ast.Mod)
        if by.counted:
            word = "multiplied by" if sign > 0 else "checked to be a multiple of" if checks else "divided by"
            done.append(f"{word} {_SAYS.get(of, site.shown(other))}")
        node = parent
    if not done:
        return None
    needs = frozenset(one for one in ANY if (one[0] + net[0], one[1] + net[1]) in ANY)
    return Use(number, node, needs, " and ".join(done), number.lineno) if needs else None


def _others(site: Site, number: ast.expr) -> Iterator[Use]:
    for same in _same(site.file, number):
        if same is number or _apart(site.file, same, number) or alone(site.program, Place(site.file, same)):
            continue
        found = _use(site, same)
        if found is not None:
            yield found


def _same(file: FileFacts, number: ast.expr) -> Iterator[ast.expr]:
    """The reads of the same number: of a name with the same value, of an attribute that the file does not set."""
    if isinstance(number, ast.Name):
        bindings, scope = lookup(file, number, number.id)
        if not bindings or scope is None or any(isinstance(file.parent(one.node), ast.AugAssign) for one in bindings):
            return
        for one in file.mentions_in(scope, number.id):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and lookup(file, one, one.id)[0] == bindings:
                yield one
    elif isinstance(number, ast.Attribute):
        text = file.text(number)
        found = [one for one in file.mentions(number.attr) if isinstance(one, ast.Attribute)]
        if all(isinstance(one.ctx, ast.Load) for one in found if file.text(one) == text):
            home = file.home(number).function()
            everywhere = text.startswith(("self.", "FLAGS."))
            for one in found:
                if file.text(one) == text and (everywhere or file.home(one).function() is home):
                    yield one


def _bound_plain(file: FileFacts, node: ast.expr) -> str:
    """The name that gets a number as it is."""
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "int":
        return _bound_plain(file, parent)
    return name_of(file, node) if isinstance(parent, ast.Assign | ast.AnnAssign | ast.keyword) else ""


def _is_always(site: Site, node: ast.expr) -> bool:
    """Whether what gets a number has no other value in its function, and gets it however many processes there are."""
    file, parent = site.file, site.file.parent(node)
    if alone(site.program, Place(file, node)):
        return False
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if isinstance(target, ast.Attribute):
        same = [one for one in file.mentions(target.attr) if file.text(one) == file.text(target)]
        return sum(isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) for one in same) == 1
    return not isinstance(target, ast.Name) or len(file.bindings(file.home(target), target.id)) == 1


def _apart(file: FileFacts, one: ast.AST, other: ast.AST) -> bool:
    """Whether two places lie in different arms of a condition, or one in an arm that leaves the function or loop."""
    mine, others = _arms(file, one), _arms(file, other)
    for condition, arm in (*mine.items(), *others.items()):
        arms = {mine.get(condition, ""), others.get(condition, "")}
        if "" in arms and arm == "body" and isinstance(condition, ast.If) and leaves(condition.body):
            return True
        if arms == {"body", "else"}:
            return True
    return False


def _arms(file: FileFacts, node: ast.AST) -> dict[ast.AST, str]:
    """The conditions around a place, each with the arm that it lies in."""
    arms: dict[ast.AST, str] = {}
    inner = node
    for outer in file.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp):
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            arms[outer] = "test" if inner is outer.test else "body" if inner in body else "else"
        inner = outer
    return arms
