"""The text of an HLO module, taken apart as far as reports need: computations, instructions, source tables.

Both spellings are read: with `%` before names and signatures on computations, and the short one older
releases dump. Nothing is parsed before it is asked for but names and opcodes: texts of 50 MB are usual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

_INSTRUCTION = re.compile(r"\s+(ROOT )?%?(\S+) = (.*?[\])}]) ([a-z][\w\-]*)\(")
_HEADER = re.compile(r"(ENTRY )?%?([^\s(]+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')


class Instruction:
    """One line of a computation. `shape` and `opcode` are as written; the rest is parsed on demand."""

    __slots__ = ("_close", "_line", "_open", "computation", "name", "opcode", "root", "shape")

    def __init__(self, line: str, match: re.Match[str], computation: Computation) -> None:
        self._line, self._open, self._close = line, match.end(), -1
        self.root = match[1] is not None
        self.name, self.shape, self.opcode = match[2], match[3], match[4]
        self.computation = computation

    def _operands_end(self) -> int:
        """Where the operands close. A tuple's comments and layouts hold parentheses of their own."""
        if self._close < 0:
            line, depth, at = self._line, 1, self._open
            while depth and at < len(line):
                opened, closed = line.find("(", at), line.find(")", at)
                if closed < 0:
                    at = len(line) + 1
                elif 0 <= opened < closed:
                    depth, at = depth + 1, opened + 1
                else:
                    depth, at = depth - 1, closed + 1
            self._close = at - 1
        return self._close

    @property
    def inner_text(self) -> str:
        """Return the text between the parentheses: operands, a parameter's number, a constant's value."""
        return self._line[self._open : self._operands_end()]

    @property
    def attributes_text(self) -> str:
        """Everything after the operands."""
        return self._line[self._operands_end() + 1 :]

    def parse_operands(self) -> list[tuple[str, int | None]]:
        """Operand names, each with the element of its tuple that is meant (None: the whole)."""
        found: list[tuple[str, int | None]] = []
        for part in split_list(self.inner_text):
            # Some printers put the shape before the name, or a comment: the name is last.
            name = part.rsplit(" ", 1)[-1].rpartition("*/")[2].lstrip("%")
            base, mark, index = name.rpartition("#")
            found.append((base, int(index)) if mark and index.isdigit() else (name, None))
        return found

    @property
    def op_name(self) -> str:
        """The path of the operation in the program, `jit(step)/jvp()/dot_general`, or an argument's name."""
        match = _NAME.search(self._line, self._open)
        return match[1].replace("\\'", "'").replace('\\"', '"') if match else ""

    @property
    def frame_number(self) -> int | None:
        """Its entry in the table of stack frames."""
        match = _FRAME.search(self._line, self._open)
        return int(match[1]) if match else None

    @property
    def source_line(self) -> tuple[str, int] | None:
        """File and line, where the text has them in place of tables."""
        match = _SOURCE.search(self._line, self._open)
        return (match[1], int(match[2] or 0)) if match and match[1] else None

    def attribute_text(self, key: str) -> str:
        """The value of `key=`, to the end of its braces or to the next comma; empty without one."""
        text = self.attributes_text
        at = text.find(f" {key}=")
        return value_at(text, at + len(key) + 2) if at >= 0 else ""

    def attribute_integers(self, key: str) -> list[int]:
        """The numbers of an attribute such as `dimensions={0,1}`."""
        return [int(number) for number in re.findall(r"-?\d+", self.attribute_text(key))]

    def called_computations(self) -> list[str]:
        """The computations it names."""
        names: list[str] = []
        for key in CALLS:
            if f"{key}=" in self._line:
                names += [name.lstrip("%") for name in split_list(self.attribute_text(key).strip("{}"))]
        return names

    def __repr__(self) -> str:
        return self._line.strip()


CALLS = (
    "body",
    "condition",
    "calls",
    "to_apply",
    "branch_computations",
    "called_computations",
    "true_computation",
    "false_computation",
)


class Computation:
    """A computation: its instructions by name, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instructions: dict[str, Instruction] = {}

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    @cached_property
    def root_instruction(self) -> Instruction | None:
        """The instruction whose value the computation returns."""
        return next((one for one in self if one.root), None)

    @cached_property
    def parameters_by_number(self) -> dict[int, Instruction]:
        """Its parameters by number."""
        found = (one for one in self if one.opcode == "parameter")
        return {int(one.inner_text): one for one in found if one.inner_text.isdigit()}

    @cached_property
    def users_by_name(self) -> dict[str, list[Instruction]]:
        """Return who uses each instruction, in order."""
        found: dict[str, list[Instruction]] = {}
        for one in self:
            if one.opcode not in ("parameter", "constant"):
                for name in dict.fromkeys(name for name, _ in one.parse_operands()):
                    found.setdefault(name, []).append(one)
        return found


@dataclass
class Module:
    """A module: its header line, its computations by name, and its source tables, line by line."""

    header: str = ""
    computations: dict[str, Computation] = field(default_factory=dict)
    entry: Computation | None = None
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    @property
    def module_name(self) -> str:
        """`jit_step`."""
        match = re.match(r"HloModule ([^\s,]+)", self.header)
        return match[1] if match else ""

    @property
    def partition_count(self) -> int:
        """For how many devices it was partitioned."""
        match = re.search(r"num_partitions=(\d+)", self.header)
        return int(match[1]) if match else 1


def parse_module(text: str) -> Module:
    """The module of a text. What is no HLO gives a module without computations."""
    module = Module()
    current: Computation | None = None
    table: dict[int, str] | None = None
    match_instruction = _INSTRUCTION.match
    for line in text.splitlines():
        if not line:
            table = None
        elif current is not None:
            if line[0] == "}" and line.rstrip()[-1] not in ")":
                current = None
            elif (match := match_instruction(line)) is not None:
                one = Instruction(line, match, current)
                current.instructions[one.name] = one
        elif line.endswith("{") and not line[0].isspace() and not line.startswith("HloModule"):
            header = _HEADER.match(line)
            if header is not None:
                current = module.computations[header[2]] = Computation(header[2])
                if header[1]:
                    module.entry = current
        elif line in _TABLES:
            table = module.tables.setdefault(line, {})
        elif table is not None:
            number, _, value = line.partition(" ")
            if number.isdigit():
                table[int(number)] = value
        elif not module.header and line.startswith("HloModule"):
            module.header = line
    return module


def read_instruction(text: str) -> Instruction | None:
    """The instruction of a text on its own, as messages of the compiler quote them."""
    match = _INSTRUCTION.match(f"  {text}")
    return None if match is None else Instruction(f"  {text}", match, Computation(""))


def split_list(text: str) -> list[str]:
    """The parts of a list at the commas outside all brackets."""
    if "(" not in text and "{" not in text and "[" not in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def value_at(text: str, start: int) -> str:
    """The value that begins at `start`, with the brackets in it, to the next comma outside them."""
    depth = 0
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            return text[start:at].strip()
    return text[start:].strip()
