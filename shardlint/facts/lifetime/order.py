"""The expressions of a function in the order they are evaluated: which buffers they read, donate and hand on."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlint.facts.lifetime.buffers import (
    Buffer,
    BufferHistory,
    Death,
    Held,
    Memory,
    Path,
    Twice,
    Use,
    access_path,
    is_nested_part,
    merge_memories,
)
from shardlint.facts.lifetime.donating_calls import Argument, DonatingCall
from shardlint.facts.lifetime.donation import Donations
from shardlint.facts.lifetime.reads import STAGED, Reading, keeps_objects, part_of_read
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.values import Api, CallResult, Place, Transformed, options
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import child_nodes, walk_nodes

_SAME_ARRAY = ("jax.numpy.asarray", "jax.device_put", "jax.block_until_ready")
_MAKING = ("jax.numpy.", "jax.random.", "jax.device_put")
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Evaluation:
    """Evaluates expressions against a memory; `memory` is None after a return, raise, break or continue."""

    def __init__(self, file: FileFacts, scope: Scope, donations: Donations) -> None:
        self.file = file
        self.scope = scope
        self.donations = donations
        self.evaluator: Evaluator = donations.evaluator
        self.story = BufferHistory()
        self.memory: Memory | None = Memory({})
        self.unstable = _rebound_elsewhere(file, scope)
        self.probing = 0
        self._turned: set[ast.AST] = set()

    def count_iterations(self, loop: ast.AST) -> int:
        """How often to go through a loop: twice when it is met first, for what one turn does to the next."""
        again = loop in self._turned
        self._turned.add(loop)
        return 1 if again else 2

    def evaluate_expression(self, node: ast.expr) -> Held | None:
        """Evaluate: note reads and donations. What it is, where that was there before."""
        if self.memory is None:
            return None
        if access_path(node) is not None:
            return self.read_buffer(node)
        match node:
            case ast.Call():
                return self._evaluate_call(node)
            case ast.Lambda():
                return None
            case ast.NamedExpr():
                held = self.evaluate_expression(node.value)
                self.assign_target(node.target, node.value, held)
                return held
            case ast.IfExp():
                self.evaluate_expression(node.test)
                self._evaluate_alternatives([[node.body], [node.orelse]])
                return None
            case ast.BoolOp():
                self.evaluate_expression(node.values[0])
                self._evaluate_alternatives([node.values[1:], []])
                return None
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._evaluate_comprehension(node)
                return None
        for child in child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate_expression(child)
        return None

    def _evaluate_alternatives(self, ways: Sequence[Sequence[ast.expr]]) -> None:
        assert self.memory is not None
        before, ends = self.memory, []
        for way in ways:
            self.memory = before.copy_memory()
            for node in way:
                self.evaluate_expression(node)
            ends.append(self.memory)
        self.memory = merge_memories(ends)

    def _evaluate_comprehension(self, node: Comprehension) -> None:
        assert self.memory is not None
        for generator in node.generators:
            self.evaluate_expression(generator.iter)
        targets = [part for g in node.generators for part in walk_nodes(g.target) if isinstance(part, ast.Name)]
        outside = {(part.id,): self.memory.buffer_of_path((part.id,)) for part in targets}
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        # Of a generator nobody may take a second item.
        for _ in range(1 if isinstance(node, ast.GeneratorExp) else self.count_iterations(node)):
            for generator in node.generators:
                self.bind_loop_target(generator.target)
                for test in generator.ifs:
                    self.evaluate_expression(test)
            for result in results:
                self.evaluate_expression(result)
        for path, held in outside.items():
            self.bind_path(path, held)

    # calls

    def _evaluate_call(self, node: ast.Call) -> Held | None:
        if isinstance(node.func, ast.Attribute) and access_path(node.func) is not None:
            self.read_buffer(node.func)
        elif isinstance(node.func, ast.Attribute):
            self.evaluate_expression(node.func.value)
        elif not isinstance(node.func, ast.Name):
            self.evaluate_expression(node.func)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        held = [self.evaluate_expression(argument) for argument in given]
        if self.memory is None:
            return None
        donating = self.donations.find_donations(self.file, node)
        if donating is not None:
            self._donate_arguments(donating, self.memory)
        elif self._returns_its_argument(node):
            return held[0] if self._is_jax_array(node.args[0]) else None
        elif not keeps_objects(self.evaluator, self.file, node):
            self._mark_changed_objects(node, given, self.memory)
        return None

    def _mark_changed_objects(self, node: ast.Call, expressions: list[ast.expr], memory: Memory) -> None:
        """A call of code not seen here may change objects it reaches: its receiver, and what it is given."""
        names = {
            part.id for one in (node.func, *expressions) for part in walk_nodes(one) if isinstance(part, ast.Name)
        }
        memory.forget_contents(names)
        receiver = access_path(node.func.value) if isinstance(node.func, ast.Attribute) else None
        if receiver is not None and len(receiver) > 1:
            receiver = None
        for path in (*map(access_path, expressions), receiver):
            if path is not None and path[0] not in self.unstable:
                memory.revive_buffer(memory.buffer_of_path(path))

    def _donate_arguments(self, donating: DonatingCall, memory: Memory) -> None:
        seen: list[tuple[Argument, ast.expr, Held]] = []
        for argument in donating.arguments:
            if argument.static:
                continue
            for node, held in self._buffers_of_argument(argument.node, memory):
                for other, first, before in seen:
                    if is_nested_part(before, held) and (other.donated or argument.donated):
                        donor, second = (other, argument) if other.donated else (argument, other)
                        self.story.twice.append(Twice(donating, donor, second, (first, node), held))
                seen.append((argument, node, held))
            path = access_path(argument.node)
            if argument.donated and path is not None and path[0] not in self.unstable:
                whole = memory.buffer_of_path(path)
                memory.dead.setdefault(whole, Death(donating, argument, whole))
        for argument, _, held in seen:
            if argument.donated:
                memory.dead.setdefault(held, Death(donating, argument, held))

    def _buffers_of_argument(self, node: ast.expr, memory: Memory) -> list[tuple[ast.expr, Held]]:
        """The buffers that an argument is, or is made of."""
        path = access_path(node)
        if path is not None:
            if path[0] in self.unstable:
                return []
            # What is known to be inside it, or else it as a whole.
            return [(node, part) for part in memory.buffers_inside(path)] or [(node, memory.buffer_of_path(path))]
        match node:
            case ast.Tuple() | ast.List():
                return [
                    found for element in node.elts for found in self._buffers_of_argument(element, memory)
                ]
            case ast.Dict():
                return [
                    found for element in node.values for found in self._buffers_of_argument(element, memory)
                ]
            case ast.Call() if self._returns_its_argument(node) and self._is_jax_array(node.args[0]):
                return self._buffers_of_argument(node.args[0], memory)
        return []

    # names

    def read_buffer(self, node: ast.expr) -> Held | None:
        """A read of a name or a part of it."""
        path = access_path(node)
        if path is None or self.memory is None or path[0] in self.unstable:
            return None
        held = self.memory.buffer_of_path(path)
        death = self.memory.find_death(held)
        if death is None:
            death = next((d for part in self.memory.buffers_inside(path) if (d := self.memory.find_death(part))), None)
        if death is not None:
            kind = part_of_read(self.evaluator, self.file, node)
            # Who is given an object need not look at the part of it that is dead.
            holds_it = death.held[0] is held[0] and len(held[1]) < len(death.held[1])
            if kind is not Reading.NONE and not (holds_it and kind is Reading.PERHAPS):
                weak = self.probing or not death.must
                self.story.uses.append(Use(node, held, death, Reading.PERHAPS if weak else kind))
        return held

    def bind_path(self, path: Path, held: Held | Buffer) -> None:
        """Rebind a path."""
        if self.memory is not None and path[0] not in self.unstable:
            self.memory.bind_path(path, held)

    def bind_loop_target(self, target: ast.expr) -> None:
        """The targets of a loop take new values."""
        path = access_path(target)
        paths = [path] if path is not None else [(n.id,) for n in walk_nodes(target) if isinstance(n, ast.Name)]
        for one in paths:
            self.bind_path(one, Buffer(None, "iterated"))

    def assign_target(self, target: ast.expr, value: ast.expr | None, held: Held | None) -> None:
        """Assign to a target. `held` is what the value is, where that was there before."""
        if isinstance(target, ast.Tuple | ast.List):
            self._unpack_target(target, value, held)
            return
        path = access_path(target.value if isinstance(target, ast.Starred) else target)
        if path is None:
            self.forget_target(target)
            return
        known = held if not isinstance(target, ast.Starred) else None
        self.bind_path(path, known or self._make_buffer(value))
        if isinstance(value, ast.Dict | ast.Tuple | ast.List) and held is None:
            self._bind_contents(path, value)

    def _unpack_target(self, target: ast.Tuple | ast.List, value: ast.expr | None, held: Held | None) -> None:
        parts: list[tuple[ast.expr | None, Held | None]] = [(value, None)] * len(target.elts)
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts) and not starred:
            # All of the right side is read before any name on the left changes.
            parts = [(element, self.known_buffer(element)) for element in value.elts]
        elif held is not None and not starred:
            parts = [(None, (held[0], (*held[1], f"[{index}]"))) for index in range(len(parts))]
        for element, (part, inner) in zip(target.elts, parts, strict=True):
            self.assign_target(element, part, inner)

    def _bind_contents(self, path: Path, value: ast.Dict | ast.Tuple | ast.List) -> None:
        """Bind the elements of a display, by key."""
        pairs: list[tuple[object, ast.expr]] = list(enumerate(getattr(value, "elts", ())))
        if isinstance(value, ast.Dict):
            items = zip(value.keys, value.values, strict=True)
            pairs = [(key.value, element) for key, element in items if isinstance(key, ast.Constant)]
        for key, element in pairs:
            held = self.known_buffer(element)
            self.bind_path((*path, f"[{key}]"), held or self._make_buffer(element))

    def forget_target(self, target: ast.expr) -> None:
        """Nothing more is known of what a target stands for: deleted, or changed at a place not told."""
        node = target
        while access_path(node) is None and isinstance(node, ast.Subscript | ast.Attribute):
            if isinstance(node, ast.Subscript):
                self.evaluate_expression(node.slice)
            node = node.value
        path = access_path(node)
        if path is not None:
            self.bind_path(path, Buffer(None, "unknown"))

    def known_buffer(self, node: ast.expr) -> Held | None:
        """Return the buffer of an expression that existed before. Its reads are not noted."""
        path = access_path(node)
        if path is not None and self.memory is not None and path[0] not in self.unstable:
            return self.memory.buffer_of_path(path)
        if isinstance(node, ast.Call) and self._returns_its_argument(node) and self._is_jax_array(node.args[0]):
            return self.known_buffer(node.args[0])
        return None

    def _make_buffer(self, value: ast.expr | None) -> Buffer:
        if isinstance(value, ast.Call) and self._returns_its_argument(value):
            return Buffer(value, "made", self.known_buffer(value.args[0]))
        return Buffer(value, "made" if value is not None else "unknown")

    def _returns_its_argument(self, node: ast.Call) -> bool:
        """Return whether a call returns its argument itself, if that is an array of jax."""
        if len(node.args) != 1 or node.keywords:
            return False
        found = options(self.evaluator.value(Place(self.file, node.func)))
        return all(isinstance(option, Api) and option.name in _SAME_ARRAY for option in found)

    def _is_jax_array(self, node: ast.expr) -> bool:
        """Return whether a value is surely an array of jax, and no numpy array."""
        found = options(self.evaluator.value(Place(self.file, node)))
        return all(
            isinstance(option, CallResult)
            and (
                option.api.startswith(_MAKING)
                or (isinstance(option.by, Transformed) and option.by.api.name in STAGED)
            )
            for option in found
        )


def _rebound_elsewhere(file: FileFacts, scope: Scope) -> frozenset[str]:
    """Names that nested functions rebind, or that belong to another scope."""
    names = set(scope.outer_names)
    for inner in file.inner_scopes(scope):
        if inner is not scope:
            names |= inner.outer_names
    return frozenset(names | file.rebound_globals if scope.kind == "module" else names)
