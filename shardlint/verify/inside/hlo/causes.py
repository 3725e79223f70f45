"""Which collectives stand behind a result of a program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardlint.verify.facts import Collective
from shardlint.verify.inside.hlo.module import Computation, Instruction, Module

if TYPE_CHECKING:
    from shardlint.verify.inside.hlo import Read

_MOST = 400


def cause_of_result(read: Read, number: int, count: int) -> list[Collective]:
    """The collectives nearest to result `number` of a program with at least `count` results, nearest first.

    Behind a collective nothing is looked for: what lies there was brought over by it.
    """
    module = read.module
    root = module.entry.root_instruction if module.entry is not None else None
    if root is None:
        return []
    if root.opcode == "tuple":
        operands = root.parse_operands()
        if number >= len(operands):
            return []
        name, element = operands[number]
    elif number or count > 1:
        return []
    else:
        name, element = root.name, None
    by_id = {id(one): collective for one, collective in zip(read.instructions, read.collectives, strict=True)}
    return [
        by_id[id(one)]
        for one in _instructions_behind(name, element, root.computation, module)
        if id(one) in by_id
    ]


def _instructions_behind(
    name: str, element: int | None, computation: Computation, module: Module
) -> Iterator[Instruction]:
    """Yield the instructions that a value is computed from, nearest first, up to the collectives."""
    queue: deque[tuple[str, int | None, Computation]] = deque([(name, element, computation)])
    seen: set[tuple[str, int | None, str]] = set()
    while queue and len(seen) < _MOST:
        name, element, computation = queue.popleft()
        one = computation.instructions.get(name)
        if one is None or (name, element, computation.name) in seen:
            continue
        seen.add((name, element, computation.name))
        operands = one.parse_operands() if one.opcode not in ("parameter", "constant") else []
        if one.opcode == "get-tuple-element":
            queue.append((operands[0][0], int(one.attribute_text("index")), computation))
        elif one.opcode == "tuple" and element is not None:
            queue.append((*operands[element], computation))
        elif one.opcode == "while":
            body = module.computations.get(one.attribute_text("body").lstrip("%"))
            if body is not None and body.root_instruction is not None:
                queue.append((body.root_instruction.name, element, body))
        else:
            yield one
            if not one.opcode.startswith(("all-", "reduce-scatter", "collective-")):
                queue.extend((*operand, computation) for operand in operands)
