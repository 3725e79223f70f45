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

    def find_instruction(self, name: str, computation: Computation) -> Instruction | None:
        """The instruction of a name, in its own computation."""
        return computation.instructions.get(name)

    def producer_of_operand(self, instruction: Instruction, operand: int = 0) -> Instruction | None:
        """The instruction that makes an operand."""
        operands = instruction.parse_operands()
        return self.find_instruction(operands[operand][0], instruction.computation) if operand < len(operands) else None

    def producers_of_operands(self, instruction: Instruction) -> list[Instruction]:
        """The instructions that make its operands."""
        if instruction.opcode in ("parameter", "constant"):
            return []
        found = (instruction.computation.instructions.get(name) for name, _ in instruction.parse_operands())
        return [made for made in found if made is not None]

    # Scalars of loop conditions.

    def unwrap_fusion(self, one: Instruction, scope: Scope | None) -> tuple[Instruction, Scope | None]:
        """Return the instruction that computes a value: the root of the computation if `one` is a fusion or a call."""
        while one.opcode in ("fusion", "call") and one.called_computations():
            inner = self.module.computations.get(one.called_computations()[0])
            if inner is None or inner.root_instruction is None:
                break
            one, scope = inner.root_instruction, (one, scope)
        return one, scope

    def trace_value(
        self, name: str, element: int | None, computation: Computation, scope: Scope | None
    ) -> Value | None:
        """`("constant", n)`, or `("carry", i)` for element i of the computation's own tuple parameter."""
        one = self.find_instruction(name, computation)
        for _ in range(64):
            if one is None:
                return None
            one, scope = self.unwrap_fusion(one, scope)
            if one.opcode == "constant":
                return ("constant", int(one.inner_text)) if one.inner_text.lstrip("-").isdigit() else None
            if one.opcode == "parameter":
                if scope is None:
                    return None if element is None else ("carry", element)
                caller, scope = scope
                operands = caller.parse_operands()
                number = int(one.inner_text)
                if number >= len(operands):
                    return None
                name, given = operands[number]
                element = given if element is None else element
                one = self.find_instruction(name, caller.computation)
            elif one.opcode == "tuple" and element is not None:
                name, element = one.parse_operands()[element]
                one = self.find_instruction(name, one.computation)
            elif one.opcode == "get-tuple-element":
                element = int(one.attribute_text("index"))
                one = self.producer_of_operand(one)
            elif one.opcode in _SAME:
                element = one.parse_operands()[0][1] if element is None else element
                one = self.producer_of_operand(one)
            else:
                return None
        return None

    def initial_carry(self, loop: Instruction, index: int) -> int | None:
        """The constant that element `index` of a loop's tuple starts with."""
        name, element = loop.parse_operands()[0]
        found = self.trace_value(name, index if element is None else None, loop.computation, None)
        return found[1] if found is not None and found[0] == "constant" else None

    def returned_instruction(self, body: Computation, index: int) -> tuple[Instruction, int | None] | None:
        """Return the instruction that a loop's body puts in element `index`, and the element of that."""
        root = body.root_instruction
        if root is None or root.opcode != "tuple" or index >= len(root.parse_operands()):
            return None
        name, element = root.parse_operands()[index]
        one = self.find_instruction(name, body)
        return None if one is None else (one, element)

    def is_carry_unchanged(self, body: Computation, index: int) -> bool:
        """Return whether a loop passes an element of its tuple on unchanged."""
        made = self.returned_instruction(body, index)
        if made is None:
            return False
        return self.trace_value(made[0].name, made[1], body, None) == ("carry", index)

    def carry_increment(self, body: Computation, index: int) -> int | None:
        """The constant a loop's body adds to an element of its tuple."""
        made = self.returned_instruction(body, index)
        if made is None:
            return None
        one, scope = self.unwrap_fusion(made[0], None)
        for _ in range(8):
            if one.opcode not in _SAME:
                break
            below = self.producer_of_operand(one)
            if below is None:
                return None
            one, scope = self.unwrap_fusion(below, scope)
        if one.opcode not in ("add", "subtract"):
            return None
        left, right = (
            self.trace_value(name, element, one.computation, scope) for name, element in one.parse_operands()
        )
        if left == ("carry", index) and right is not None and right[0] == "constant":
            return right[1] if one.opcode == "add" else -right[1]
        if right == ("carry", index) and left is not None and left[0] == "constant" and one.opcode == "add":
            return left[1]
        return None

    # Arrays.

    def argument_number(self, name: str, element: int | None, computation: Computation) -> int | None:
        """The number of the module's parameter that a value is (a part or a copy of), or None."""
        key = (computation.name, name, element)
        if key not in self._arguments:
            self._arguments[key] = None  # a loop that hands values round in a circle
            self._arguments[key] = self._find_argument_number(name, element, computation)
        return self._arguments[key]

    def _find_argument_number(self, name: str, element: int | None, computation: Computation) -> int | None:
        for _ in range(64):
            one = self.find_instruction(name, computation)
            if one is None:
                return None
            if one.opcode == "parameter":
                return self._argument_past_parameter(one, element, computation)
            if one.opcode == "get-tuple-element":
                element = int(one.attribute_text("index"))
                name = one.parse_operands()[0][0]
            elif one.opcode == "tuple":
                if element is None:
                    return None
                name, element = one.parse_operands()[element]
            elif one.opcode == "while":
                body = self.module.computations.get(one.attribute_text("body").lstrip("%"))
                if body is None or element is None or not self.is_carry_unchanged(body, element):
                    return None
                operand, given = one.parse_operands()[0]
                if given is not None:
                    return None
                name = operand
            elif one.opcode in CARRY or one.opcode in ("all-gather", "all-gather-done", "all-gather-start"):
                if one.opcode not in ("optimization-barrier", "opt-barrier"):
                    element = None
                operand, given = one.parse_operands()[0]
                name, element = operand, given if element is None else element
            else:
                return None
        return None

    def _argument_past_parameter(
        self, instruction: Instruction, element: int | None, computation: Computation
    ) -> int | None:
        """Past a parameter: it is the module's, or what the one caller passes."""
        number = int(instruction.inner_text) if instruction.inner_text.isdigit() else -1
        if computation is self.module.entry:
            return number if element is None else None
        callers = self.callers.get(computation.name, [])
        found: set[int | None] = set()
        for caller in callers:
            operands = caller.parse_operands()
            if caller.opcode == "while":
                if element is None or not self.is_carry_unchanged(computation, element):
                    return None
                name, given = operands[0]
                if given is not None:
                    return None
                found.add(self.argument_number(name, element, caller.computation))
            elif caller.opcode in ("fusion", "call", "async-start") and number < len(operands):
                name, given = operands[number]
                found.add(self.argument_number(name, given if element is None else element, caller.computation))
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
                if one.opcode in _PRODUCTS or (one.opcode not in _SOURCES and self._is_made_from(one, made)):
                    made.add(one.name)
        return name in made or self._loop_changes_element(name, element, computation)

    def _is_made_from(self, instruction: Instruction, made: set[str]) -> bool:
        if instruction.opcode == "get-tuple-element":
            name, index = instruction.parse_operands()[0][0], int(instruction.attribute_text("index"))
            return name in made or self._loop_changes_element(name, index, instruction.computation)
        return any(
            name in made
            or (element is not None and self._loop_changes_element(name, element, instruction.computation))
            for name, element in instruction.parse_operands()
        )

    def _loop_changes_element(self, name: str, element: int | None, computation: Computation) -> bool:
        """Return whether a loop changes an element of its tuple."""
        one = self.find_instruction(name, computation)
        if one is None or element is None:
            return False
        body: Computation | None = None
        if one.opcode == "while":
            body = self.module.computations.get(one.attribute_text("body").lstrip("%"))
        elif one.opcode == "parameter" and any(
            caller.opcode == "while" for caller in self.callers.get(computation.name, ())
        ):
            body = computation
        return body is not None and not self.is_carry_unchanged(body, element)
