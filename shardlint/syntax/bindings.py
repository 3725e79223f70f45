"""Which bindings of a name can reach a use of it."""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardlint.syntax import Binding, FileFacts, Scope
from shardlint.syntax.nodes import names_in

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = (ast.Try, ast.TryStar)
_PARTS = (ast.ExceptHandler, ast.match_case)
_CLAUSES = (ast.stmt, ast.ExceptHandler, ast.match_case)
# Of how many bindings that may reach one use each is followed. Where each reads the one before, more would cost their
# square.
_MOST = 48


def sole_assigned_value(file: FileFacts, name: ast.Name) -> ast.expr | None:
    """Return the value bound to a name where it is read, if one assignment alone may have bound it."""
    bindings, _ = lookup_bindings(file, name, name.id)
    return bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None


def sole_returned_value(file: FileFacts, function: ast.AST) -> ast.expr | None:
    """Return the expression that a function or lambda returns or yields, if there is only one."""
    if isinstance(function, ast.Lambda):
        return function.body
    returns = file.walk_scope(file.scope(function)).returns
    return returns[0].value if len(returns) == 1 else None


def lookup_bindings(file: FileFacts, use: ast.AST, name: str) -> tuple[list[Binding], Scope | None]:
    """The bindings that can give `name` its value at `use`, and the scope that owns it (None for builtins).

    Follows Python's rules: class scopes are seen only by code directly in them, comprehension targets stay inside.
    """
    home = file.evaluation_scope(use)
    for scope, bindings in _owners_of_name(file, home, name):
        where = _executing_node(use, home, scope)
        if where is not None:
            found = reaching_bindings(file, where, bindings)
            if not found and scope.kind == "class":
                continue  # `class C: mesh = mesh`: not bound yet in the class, so it is the one outside
            return found, scope
        return _bindings_seen_by_closure(file, use, bindings, scope), scope
    return [], None


def global_bindings(file: FileFacts, name: str) -> list[Binding]:
    """Where functions of a file bind a name of the module that they declare `global`, the first in the text first."""
    homes = [
        file.evaluation_scope(one)
        for one in file.find_mentions(name)
        if isinstance(getattr(one, "ctx", None), ast.Store)
    ]
    inside = [one for one in dict.fromkeys(homes) if name in one.outer_names]
    found = [one for home in inside for one in file.bindings(home, name)]
    return [one for one in found if lookup_bindings(file, one.node, name)[1] is file.module]


def replaces_none(file: FileFacts, binding: Binding) -> bool:
    """Return whether a binding is `if name is None: name = ...`, after which the name is no longer None."""
    statement = file.parent(binding.node)
    owner = file.parent(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(owner, ast.If) or statement not in owner.body:
        return False
    match owner.test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]
        ):
            return name == binding.name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return name == binding.name
    return False


def may_refer(file: FileFacts, use: ast.AST, name: str, binder: ast.AST) -> bool:
    """Return whether the scope that gives `name` its value at `use` has `binder` among its bindings.

    Much cheaper than `lookup`, which says whether that binding reaches the use: names like `f` stand everywhere.
    """
    for scope, bindings in _owners_of_name(file, file.evaluation_scope(use), name):
        if (scope, name) not in file.binders:
            file.binders[scope, name] = frozenset(binding.node for binding in bindings)
        if binder in file.binders[scope, name]:
            return True
        if scope.kind != "class":  # what is not bound yet in a class is the name outside of it
            return False
    return False


def _owners_of_name(file: FileFacts, home: Scope, name: str) -> Iterator[tuple[Scope, list[Binding]]]:
    """The scopes that code in `home` may take a name from, innermost first, each with its bindings of it."""
    for scope in home.enclosing_scopes():
        if scope.kind == "class" and scope is not home and not _is_in_class_comprehension(home, scope):
            continue
        bindings = file.bindings(scope, name)
        if bindings and name not in scope.outer_names:
            yield scope, bindings


def _is_in_class_comprehension(home: Scope, scope: Scope) -> bool:
    return home.kind == "comprehension" and home.parent is scope


def _executing_node(use: ast.AST, home: Scope, scope: Scope) -> ast.AST | None:
    """The node of `scope` as part of which a use runs: itself, also in a comprehension, or the class it stands in."""
    for outer in home.enclosing_scopes():
        if outer is scope:
            return use
        if outer.kind not in ("comprehension", "class"):
            return None
        if outer.kind == "class":
            use = outer.node
    return None


def _bindings_seen_by_closure(
    file: FileFacts, use: ast.AST, bindings: list[Binding], scope: Scope
) -> list[Binding]:
    """A nested function sees the value at its call; where it was defined inside a branch, only what can reach there."""
    real = [binding for binding in bindings if binding.kind not in ("declared", "delete")]
    if len(real) <= 1:
        return real
    # A definition in the same block as the function that uses it wins over ones in sibling branches.
    inner = _child_under(file, use, scope)
    if inner is not None:
        last: list[Binding] = []
        for binding in real:
            first, second = _statement_chain(file, inner), _statement_chain(file, binding.node)
            if not _are_exclusive(first, second, _shared_depth(first, second)):
                last.append(binding)
        real = last or real
    # Of straight-line rebindings before the function one stands; which of the later ones does depends on its calls.
    if all(one.kind == "param" or file.statement_in_block(one.node, scope) is not None for one in real):
        before = [
            binding for binding in real if inner is None or _position_of(binding.node) < _position_of(inner)
        ]
        return before[-1:] + real[len(before) :]
    return real


def _child_under(file: FileFacts, use: ast.AST, scope: Scope) -> ast.AST | None:
    home: Scope | None = file.evaluation_scope(use)
    while home is not None and home.parent is not scope:
        home = home.parent
    return home.node if home is not None else None


def reaching_bindings(file: FileFacts, use: ast.AST, bindings: list[Binding]) -> list[Binding]:
    """Of bindings in the scope of the use, those whose value can still stand when it is read.

    Kept for all bindings of a name: each of them is asked about the same reads.
    """
    if not bindings or bindings[0].scope.bindings.get(bindings[0].name) is not bindings:
        return _reaching_bindings(file, use, bindings)
    key = use, bindings[0].scope, bindings[0].name
    if key not in file.reaching:
        file.reaching[key] = _reaching_bindings(file, use, bindings)
    return list(file.reaching[key])


def _reaching_bindings(file: FileFacts, use: ast.AST, bindings: list[Binding]) -> list[Binding]:
    position = _position_of(use)
    if len(bindings) == 1 and bindings[0].kind == "param" and _position_of(bindings[0].node) <= position:
        return [bindings[0]]
    chain = _statement_chain(file, use)
    again = _loop_above(file, chain, len(chain))
    found: list[Binding] = []
    later: list[tuple[Binding, ast.AST]] = []
    settled = False
    passed: list[tuple[Binding, Sequence[ast.AST]]] = []
    """Those found in a branch that the use is not in, for what stands above them in it."""
    arms: set[tuple[ast.If, str]] = set()
    if not again and bindings and bindings[0].scope.kind != "comprehension":
        bindings = bindings[: bisect_right(bindings, position, key=_binding_position)]
        for first, end in _other_branches(file, chain):
            low, high = (
                bisect_left(bindings, first, key=_binding_position),
                bisect_left(bindings, end, key=_binding_position),
            )
            asked = [binding for binding in bindings[low:high] if binding.kind == "walrus"]
            bindings = bindings[:low] + asked + bindings[high:]
    for binding in reversed(bindings):
        if len(found) == _MOST and not settled:
            found.append(Binding(binding.name, "more", use, binding.scope))
            break
        if binding.kind == "declared":
            continue
        if not again:  # what stands below does not run before, nor what is settled above
            if settled:
                break
            if _position_of(binding.node) > position and binding.kind != "comprehension":
                continue
        if binding.kind == "param":
            if not settled:
                found.append(binding)
            continue
        if binding.kind == "comprehension":
            return [binding]
        other = _statement_chain(file, binding.node)
        shared = _shared_depth(chain, other)
        before = _effect_position(binding, file) <= position
        if _are_exclusive(chain, other, shared):
            if again and _loop_above(file, chain, shared):
                found.append(binding)
            continue
        if not before:
            if again and _loop_above(file, chain, shared) and not _is_rebound_by_loop(chain, shared, binding.name):
                found.append(binding)
                later.append((binding, _innermost_loop(chain[:shared])))
            continue
        # Around a loop a turn may end between two bindings; before it, the one below always runs after the other.
        straight = not again or not _loop_above(file, chain, shared)
        if settled or (straight and any(_passes_later_binding(one, there, other) for one, there in passed)):
            continue
        found.append(binding)
        if len(other) > shared + 1 and binding.kind in ("assign", "unpack"):
            if not any(isinstance(one, (*_TRIES, *_LOOPS)) for one in other[shared:]):
                passed.append((binding, other))
        if not _may_pass_binding(binding, chain, other, shared) or _covers_both_branches(arms, other, shared):
            settled = True
            # What a round of a loop leaves is not read by the next one if that binds the name first.
            gone = {id(one) for one, loop in later if any(outer is loop for outer in chain[:shared])}
            found = [one for one in found if id(one) not in gone]
    return [binding for binding in reversed(found) if binding.kind != "delete"]


def _position_of(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _binding_position(binding: Binding) -> tuple[int, int]:
    return _position_of(binding.node)


_Span = tuple[tuple[int, int], tuple[int, int]]


class _ChainFacts(NamedTuple):
    """Facts about a chain of nodes, derived from its last statement."""

    in_loop: bool
    """Whether a loop is in the chain."""
    branches: tuple[_Span, ...]
    """Where the branches of chains of `elif` further out begin and end, in which the statement is not."""
    first: ast.If | None
    """The first branch, where the statement is an `elif`."""


def _other_branches(file: FileFacts, chain: Sequence[ast.AST]) -> Iterator[_Span]:
    """Where the branches above a place in a chain of `elif` begin and end, none of which runs together with it.

    Each binding of a long chain would have to be told from each use by itself; what the tests bind stands there too.
    """
    if chain:
        facts: _ChainFacts = file.chain_facts[chain[-1]]
        yield from facts.branches
        if facts.first is not None:
            yield _position_of(facts.first.body[0]), _position_of(chain[-1])


def _facts_of_chain(outer: ast.AST | None, inner: ast.AST, above: _ChainFacts) -> _ChainFacts:
    """The facts of the chain that a statement ends, from those of the chain without it."""
    in_loop = above.in_loop or isinstance(inner, _LOOPS)
    if isinstance(outer, ast.If) and isinstance(inner, ast.If) and outer.orelse == [inner]:
        return _ChainFacts(in_loop, above.branches, above.first or outer)
    if above.first is None or outer is None:
        return _ChainFacts(in_loop, above.branches, None)
    return _ChainFacts(
        in_loop, (*above.branches, (_position_of(above.first.body[0]), _position_of(outer))), None
    )


def _effect_position(binding: Binding, file: FileFacts) -> tuple[int, int]:
    """Where the name has its value: after the whole statement for an assignment (`x = f(x)` reads the old x)."""
    if binding.kind in ("assign", "unpack", "augment", "walrus"):
        owner = file.parent(binding.node)
        while owner is not None and not isinstance(owner, ast.stmt | ast.NamedExpr):
            owner = file.parent(owner)
        if owner is not None:
            return getattr(owner, "end_lineno", 0), getattr(owner, "end_col_offset", 0)
    if binding.kind in ("def", "class"):
        return getattr(binding.node, "end_lineno", 0), getattr(binding.node, "end_col_offset", 0)
    return _position_of(binding.node)


def _statement_chain(file: FileFacts, node: ast.AST) -> tuple[ast.AST, ...]:
    """Statements and clauses around a node inside its own function, outermost first, the node's own last."""
    home = file.evaluation_scope(node)
    while home.kind == "comprehension" and home.parent is not None:
        home = home.parent
    current: ast.AST | None = node
    while current is not None and current is not home.node:
        if isinstance(current, _CLAUSES):
            return _clause_chain(file, current, home.node)
        current = file.parent(current)
    return ()


def _clause_chain(file: FileFacts, clause: ast.AST, end: ast.AST) -> tuple[ast.AST, ...]:
    """The chain of a statement or clause, remembered: all that stands in it asks for the same."""
    new: list[ast.AST] = []
    current: ast.AST | None = clause
    while current is not None and current is not end and current not in file.chains:
        if isinstance(current, _CLAUSES):
            new.append(current)
        current = file.parent(current)
    known: tuple[ast.AST, ...] = ()
    facts = _ChainFacts(False, (), None)
    if current is not None and current is not end:
        known, facts = file.chains[current], file.chain_facts[current]
    for inner in reversed(new):
        facts = file.chain_facts[inner] = _facts_of_chain(known[-1] if known else None, inner, facts)
        known = file.chains[inner] = (*known, inner)
    return known


def _shared_depth(one: Sequence[ast.AST], two: Sequence[ast.AST]) -> int:
    """How many of the nodes around two places are the same: they part once, so that half of them need not be looked at.

    A chain of `elif` is as deep as it is long.
    """
    return bisect_left(range(min(len(one), len(two))), True, key=lambda depth: one[depth] is not two[depth])


def _loop_above(file: FileFacts, chain: Sequence[ast.AST], count: int) -> bool:
    """Return whether a loop is among the first nodes of a chain."""
    return count > 0 and bool(file.chain_facts[chain[count - 1]].in_loop)


def _innermost_loop(shared: Sequence[ast.AST]) -> ast.AST:
    return next(node for node in reversed(shared) if isinstance(node, _LOOPS))


def _is_rebound_by_loop(use: Sequence[ast.AST], shared: int, name: str) -> bool:
    """Return whether the next iteration of the innermost of these loops rebinds the name before a use in its body."""
    depth = max(index for index, node in enumerate(use[:shared]) if isinstance(node, _LOOPS))
    loop = use[depth]
    if not isinstance(loop, ast.For | ast.AsyncFor) or len(use) <= depth + 1:
        return False
    targets = names_in(loop.target)
    return name in targets and block_name_of(loop, use[depth + 1]) == "body"


def block_name_of(owner: ast.AST, node: ast.AST) -> str:
    """Which block of a compound statement (`body`, `orelse`, ...) a child statement or clause is in."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        if node in getattr(owner, name, ()):
            return name
    return "head"


def _are_exclusive(first: Sequence[ast.AST], second: Sequence[ast.AST], shared: int) -> bool:
    """Return whether two nodes are in branches of which only one runs (if/else, match cases, except handlers)."""
    if not shared or len(first) <= shared or len(second) <= shared:
        return False
    owner, left, right = first[shared - 1], first[shared], second[shared]
    if isinstance(owner, ast.If):
        return {block_name_of(owner, left), block_name_of(owner, right)} == {"body", "orelse"}
    if isinstance(owner, ast.Match):
        return left is not right
    if isinstance(owner, _TRIES):
        fields = {block_name_of(owner, left), block_name_of(owner, right)}
        return (fields == {"handlers"} and left is not right) or fields == {"handlers", "orelse"}
    return False


def _may_pass_binding(
    binding: Binding, use: Sequence[ast.AST], chain: Sequence[ast.AST], shared: int
) -> bool:
    """Return whether control can reach the use without passing the binding."""
    below, using = chain[shared:], use[shared:]
    owner = use[shared - 1] if shared else None
    # In the same statement's different blocks: a try body may have stopped before the binding.
    if isinstance(owner, _TRIES) and below and using:
        mine, theirs = block_name_of(owner, below[0]), block_name_of(owner, using[0])
        if mine == "body" and theirs in ("handlers", "finalbody"):
            return True
    for outer, inner in itertools.pairwise(below):
        where = block_name_of(outer, inner)
        if isinstance(outer, ast.With | ast.AsyncWith) or (
            isinstance(outer, _TRIES) and where in ("body", "finalbody")
        ):
            if (
                isinstance(outer, _TRIES)
                and where == "body"
                and any(_falls_through(h) for h in outer.handlers)
            ):
                return True
            continue
        return True
    last = below[-1] if below else None
    if isinstance(last, _LOOPS) and binding.kind == "for":
        return not using or using[0] is not last  # after the loop the target may be unbound
    return isinstance(last, _PARTS)


def _covers_both_branches(arms: set[tuple[ast.If, str]], chain: Sequence[ast.AST], shared: int) -> bool:
    """Return whether a binding and those below it leave no path past them: both arms of each `if` around it bind the
    name.

    `arms` are the arms that surely do so far. An arm that leaves counts as one.
    """
    below = chain[shared:]
    if (shared and isinstance(chain[shared - 1], _TRIES)) or isinstance(below[-1], (*_LOOPS, *_PARTS)):
        return False
    branched = False
    for outer, inner in reversed(list(itertools.pairwise(below))):
        if isinstance(outer, ast.With | ast.AsyncWith):
            continue
        field = block_name_of(outer, inner)
        if not isinstance(outer, ast.If) or field == "head":
            return False
        branched = True
        arms.add((outer, field))
        other = "orelse" if field == "body" else "body"
        block = getattr(outer, other)
        if (outer, other) not in arms and not (block and isinstance(block[-1], ast.Return | ast.Raise)):
            return False
    return branched


def _passes_later_binding(binding: Binding, nodes: Sequence[ast.AST], chain: Sequence[ast.AST]) -> bool:
    """Return whether control from a place passes a binding below it: both are in one branch of an `if`."""
    shared = _shared_depth(chain, nodes)
    return not _are_exclusive(chain, nodes, shared) and not _may_pass_binding(binding, chain, nodes, shared)


def _falls_through(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return not isinstance(last, ast.Raise | ast.Return | ast.Continue | ast.Break)
