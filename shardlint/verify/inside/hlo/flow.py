"""Where a value of a module comes from: through tuples, loops, fusions and operations that only carry it."""

from __future__ import annotations

from collections.abc import Mapping

from shardlint.verify.inside.hlo.module import Computation, Instruction, Module

# Operations whose result is (a part of, or a copy of) their first operand's numbers.
CARRY = frozenset(
    "copy bitcast reshape transpose convert slice dynamic-slice optimization-barrier opt-barrier "
    "copy-start copy-done reverse pad reduce-precision".split()
)
_SAME = frozenset(
    "copy bitcast reshape convert optimization-barrier opt-barrier copy-start copy-done".split()
)

_PRODUCTS = frozenset(("dot", "convolution", "gather"))
_SOURCES = frozenset(("parameter", "constant", "iota", "while", "tuple"))

Value = tuple[str, int]
# What the parameters of a fused computation stand for: the instruction that calls it, and its own scope.
Scope = tuple[Instruction, "Scope | None"]


class Flow:
    """Answers for one module. `callers` (computation -> instructions that call it) is filled by `loops.runs`."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.callers: Mapping[str, list[Instruction]] = {}
        self._arguments: dict[tuple[str, str, int | None], int | None] = {}
        self._made: dict[str, set[str]] = {}

    def find(self, name: str, computation: Computation) -> Instruction | None:
        """The instruction of a name, in its own computation."""
        return computation.instructions.get(name)

    def producer(self, one: Instruction, operand: int = 0) -> Instruction | None:
        """The instruction that makes an operand."""
        operands = one.operands()
        return self.find(operands[operand][0], one.computation) if operand < len(operands) else None

    def producers(self, one: Instruction) -> list[Instruction]:
        """The instructions that make its operands."""
        if one.opcode in ("parameter", "constant"):
            return []
        found = (one.computation.instructions.get(name) for name, _ in one.operands())
        return [made for made in found if made is not None]

    # Scalars of loop conditions.

    def unwrap(self, one: Instruction, scope: Scope | None) -> tuple[Instruction, Scope | None]:
        """Return the instruction that computes a value: the root of the computation if `one` is a fusion or a call."""
        while one.opcode in ("fusion", "call") and one.called():
            inner = self.module.computations.get(one.called()[0])
            if inner is None or inner.root is None:
                break
            one, scope = inner.root, (one, scope)
        return one, scope

    def value(
        self, name: str, element: int | None, computation: Computation, scope: Scope | None
    ) -> Value | None:
        """`("constant", n)`, or `("carry", i)` for element i of the computation's own tuple parameter."""
        one = self.find(name, computation)
        for _ in range(64):
            if one is None:
                return None
            one, scope = self.unwrap(one, scope)
            if one.opcode == "constant":
                return ("constant", int(one.inner)) if one.inner.lstrip("-").isdigit() else None
            if one.opcode == "parameter":
                if scope is None:
                    return None if element is None else ("carry", element)
                caller, scope = scope
                operands = caller.operands()
                number = int(one.inner)
                if number >= len(operands):
                    return None
                name, given = operands[number]
                element = given if element is None else element
                one = self.find(name, caller.computation)
            elif one.opcode == "tuple" and element is not None:
                name, element = one.operands()[element]
                one = self.find(name, one.computation)
            elif one.opcode == "get-tuple-element":
                element = int(one.attribute("index"))
                one = self.producer(one)
            elif one.opcode in _SAME:
                element = one.operands()[0][1] if element is None else element
                one = self.producer(one)
            else:
                return None
        return None

    def carried(self, loop: Instruction, index: int) -> int | None:
        """The constant that element `index` of a loop's tuple starts with."""
        name, element = loop.operands()[0]
        found = self.value(name, index if element is None else None, loop.computation, None)
        return found[1] if found is not None and found[0] == "constant" else None

    def returned(self, body: Computation, index: int) -> tuple[Instruction, int | None] | None:
        """Return the instruction that a loop's body puts in element `index`, and the element of that."""
        root = body.root
        if root is None or root.opcode != "tuple" or index >= len(root.operands()):
            return None
        name, element = root.operands()[index]
        one = self.find(name, body)
        return None if one is None else (one, element)

    def unchanged(self, body: Computation, index: int) -> bool:
        """Return whether a loop passes an element of its tuple on unchanged."""
        made = self.returned(body, index)
        if made is None:
            return False
        return self.value(made[0].name, made[1], body, None) == ("carry", index)

    def step(self, body: Computation, index: int) -> int | None:
        """The constant a loop's body adds to an element of its tuple."""
        made = self.returned(body, index)
        if made is None:
            return None
        one, scope = self.unwrap(made[0], None)
        for _ in range(8):
            if one.opcode not in _SAME:
                break
            below = self.producer(one)
            if below is None:
                return None
            one, scope = self.unwrap(below, scope)
        if one.opcode not in ("add", "subtract"):
            return None
        left, right = (self.value(name, element, one.computation, scope) for name, element in one.operands())
        if left == ("carry", index) and right is not None and right[0] == "constant":
            return right[1] if one.opcode == "add" else -right[1]
        if right == ("carry", index) and left is not None and left[0] == "constant" and one.opcode == "add":
            return left[1]
        return None

    # Arrays.

    def argument(self, name: str, element: int | None, computation: Computation) -> int | None:
        """The number of the module's parameter that a value is (a part or a copy of), or None."""
        key = (computation.name, name, element)
        if key not in self._arguments:
            self._arguments[key] = None  # a loop that hands values round in a circle
            self._arguments[key] = self._argument(name, element, computation)
        return self._arguments[key]

    def _argument(self, name: str, element: int | None, computation: Computation) -> int | None:
        for _ in range(64):
            one = self.find(name, computation)
            if one is None:
                return None
            if one.opcode == "parameter":
                return self._argument_past_parameter(one, element, computation)
            if one.opcode == "get-tuple-element":
                element = int(one.attribute("index"))
                name = one.operands()[0][0]
            elif one.opcode == "tuple":
                if element is None:
                    return None
                name, element = one.operands()[element]
            elif one.opcode == "while":
                body = self.module.computations.get(one.attribute("body").lstrip("%"))
                if body is None or element is None or not self.unchanged(body, element):
                    return None
                operand, given = one.operands()[0]
                if given is not None:
                    return None
                name = operand
            elif one.opcode in CARRY or one.opcode in ("all-gather", "all-gather-done", "all-gather-start"):
                if one.opcode not in ("optimization-barrier", "opt-barrier"):
                    element = None
                operand, given = one.operands()[0]
                name, element = operand, given if element is None else element
            else:
                return None
        return None

    def _argument_past_parameter(
        self, one: Instruction, element: int | None, computation: Computation
    ) -> int | None:
        """Past a parameter: it is the module's, or what the one caller passes."""
        number = int(one.inner) if one.inner.isdigit() else -1
        if computation is self.module.entry:
            return number if element is None else None
        callers = self.callers.get(computation.name, [])
        found: set[int | None] = set()
        for caller in callers:
            operands = caller.operands()
            if caller.opcode == "while":
                if element is None or not self.unchanged(computation, element):
                    return None
                name, given = operands[0]
                if given is not None:
                    return None
                found.add(self.argument(name, element, caller.computation))
            elif caller.opcode in ("fusion", "call", "async-start") and number < len(operands):
                name, given = operands[number]
                found.add(self.argument(name, given if element is None else element, caller.computation))
            else:
                return None
        return found.pop() if len(found) == 1 else None

    def is_made(self, name: str, element: int | None, computation: Computation) -> bool:
        """Return whether a value was computed by a product or a lookup, or changes between iterations of a loop.
        Weights do not.
        """
        made = self._made.get(computation.name)
        if made is None:
            made = self._made[computation.name] = set()
            for one in computation:
                if one.opcode in _PRODUCTS or (one.opcode not in _SOURCES and self._from_made(one, made)):
                    made.add(one.name)
        return name in made or self._loop_changes_element(name, element, computation)

    def _from_made(self, one: Instruction, made: set[str]) -> bool:
        if one.opcode == "get-tuple-element":
            name, index = one.operands()[0][0], int(one.attribute("index"))
            return name in made or self._loop_changes_element(name, index, one.computation)
        return any(
            name in made
            or (element is not None and self._loop_changes_element(name, element, one.computation))
            for name, element in one.operands()
        )

    def _loop_changes_element(self, name: str, element: int | None, computation: Computation) -> bool:
        """Return whether a loop changes an element of its tuple."""
        one = self.find(name, computation)
        if one is None or element is None:
            return False
        body: Computation | None = None
        if one.opcode == "while":
            body = self.module.computations.get(one.attribute("body").lstrip("%"))
        elif one.opcode == "parameter" and any(
            caller.opcode == "while" for caller in self.callers.get(computation.name, ())
        ):
            body = computation
        return body is not None and not self.unchanged(body, element)
