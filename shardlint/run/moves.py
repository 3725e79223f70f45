"""Data moved by the partitioner because an array's sharding differs from the one its use needs, read from the
partitioned program.

Gathers and sums are how sharded programs work. What lies here is not: pieces exchanged because a dimension that is
split is cut, joined or multiplied along another; rows of a loop gathered in each round; a result put together at the
very end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from shardlint.run.rematerialised import format_groups
from shardlint.verify.facts import Collective, Line, Warned
from shardlint.verify.inside.hlo import Read, shapes
from shardlint.verify.inside.hlo.axes import Axes
from shardlint.verify.inside.hlo.module import Computation, Instruction

_CARRY = frozenset(("copy", "bitcast", "reshape", "transpose", "convert"))
_ALONE = frozenset(
    ("exponential", "tanh", "logistic", "negate", "abs", "sqrt", "rsqrt", "log", "sine", "cosine", "floor", "sign")
)
_WITH_A_NUMBER = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum", "power"))
_PARTS = ("slice", "dynamic-slice", "dynamic-update-slice", "pad")
_STEPS = 16
_EXCHANGES = ("collective-permute", "all-to-all")
_CUTS = frozenset(("split", "slice", "concatenate", "reshape", "pad", "dynamic_slice", "dynamic_update_slice", "rev"))
_UPDATES = ("dynamic_update_slice", "scatter", "scatter-add")
_CHOICES = frozenset(("top_k", "approx_top_k", "argmax", "argmin", "sort"))
_PRODUCTS = frozenset(("dot", "convolution"))
# What the program itself asks for by name, and what needs a neighbour's border.
_ASKED = (
    "ppermute", "all_to_all", "pgather", "psum_scatter", "sharding_constraint", "reshard", "roll", "conv_general",
    "cumsum", "sort", "fft", "rng", "random", "threefry", "shard_map",
)  # fmt: skip


def find_moves(read: Read, collectives: list[Collective], mesh: Mapping[str, int]) -> Iterator[Warned]:
    """All of it, each thing at its line."""
    products = any(one.opcode in _PRODUCTS for each in read.module.computations.values() for one in each)
    if products:
        yield from _find_exchanges(read, collectives)
        axes = Axes(mesh)
        for computation in read.module.computations.values():
            for one in computation:
                if one.opcode == "all-gather":
                    yield from _row_of_loop(one, computation, read, axes)
        yield from _find_final_gathers(read, collectives, axes)
    yield from _find_gathers(read, collectives, products)


def _find_gathers(read: Read, collectives: list[Collective], products: bool) -> Iterator[Warned]:
    """Yield the gathers within a program, by the use of the result. In a program without matrix products they precede
    a partial write.
    """
    for moved, instruction in zip(collectives, read.instructions, strict=True):
        if moved.kind != "all-gather":
            continue
        text = f"{moved.array}|{' and '.join(map(repr, moved.axes))}"
        name = instruction.op_name.rpartition("/")[2]
        if products and name == "reshape" and len(shapes.parse_arrays(instruction.shape)[0].dims) == 1:
            yield Warned("flattened", text, moved.line, moved.moved_bytes)
        if choice := _find_choice(instruction):
            yield Warned("chosen-from", f"{text}|{choice}", _line_using(instruction, read) or moved.line, moved.bytes)
        if of := _put_into(instruction):
            yield Warned("put-into", f"{of}|{text}", moved.line, moved.moved_bytes)
        if name in _UPDATES or _is_only_written_to(instruction):
            line = moved.line if name in _UPDATES else _line_using(instruction, read) or moved.line
            # The gradient of a lookup adds up in a table: nobody writes to it there.
            back = "transpose(" in instruction.op_name
            yield Warned("updated-back" if back else "updated", text, line, moved.moved_bytes)
        elif (
            products
            and not any(word in instruction.op_name for word in (*_ASKED, "all_gather"))
            and not _is_used_in_product(instruction)
            and not _is_only_returned(instruction)
        ):
            sizes = shapes.parse_arrays(instruction.shape)[0].dims
            dimensions = [at for at in instruction.attribute_integers("dimensions") if at < len(sizes)]
            if _is_top_k_along_other(instruction, len(sizes) - 1, dimensions):
                continue
            along = [str(sizes[at]) for at in dimensions]
            line = _line_using(instruction, read) or moved.line
            yield Warned("gathered-inside", f"{text}|{','.join(along)}|{moved.of}", line, moved.moved_bytes)


def _is_used_in_product(instruction: Instruction) -> bool:
    """Return whether a product uses the result of an instruction. Weights are sharded to save memory, and gathered for
    it.
    """
    waiting = list(instruction.computation.users_by_name.get(instruction.name, []))
    for _ in range(_STEPS):
        if not waiting:
            break
        user = waiting.pop()
        if user.opcode in _PRODUCTS or any(word in user.op_name for word in ("dot_general", "conv_general")):
            return True
        if user.opcode in ("copy", "convert", "transpose"):
            waiting += user.computation.users_by_name.get(user.name, [])
    return False


def _is_only_written_to(instruction: Instruction) -> bool:
    """Return whether all users of an instruction write a part of its result."""
    users = instruction.computation.users_by_name.get(instruction.name, [])
    return bool(users) and all(user.op_name.rpartition("/")[2] in _UPDATES for user in users)


def _find_choice(instruction: Instruction) -> str:
    """Return the operation that chooses few numbers along the gathered dimension, if nothing else uses the result."""
    last = len(shapes.parse_arrays(instruction.shape)[0].dims) - 1
    if instruction.attribute_integers("dimensions") != [last]:
        return ""
    waiting, found = list(instruction.computation.users_by_name.get(instruction.name, [])), ""
    for _ in range(_STEPS):
        if not waiting:
            return found
        user = waiting.pop()
        name = user.op_name.rpartition("/")[2]
        if user.opcode == "all-gather" or user.opcode in _CARRY | _ALONE | _WITH_A_NUMBER:
            waiting += user.computation.users_by_name.get(user.name, [])
        elif name in _CHOICES:
            found = name
        else:
            return ""
    return ""


def _is_top_k_along_other(instruction: Instruction, last: int, dimensions: list[int]) -> bool:
    """Return whether `top_k` uses an array gathered along other dimensions than its last, in which it chooses. The
    compiler of the CPU replicates that one anyway.
    """
    users = instruction.computation.users_by_name.get(instruction.name, [])
    return bool(users) and last not in dimensions and all("top_k" in user.op_name for user in users)


def _put_into(instruction: Instruction, depth: int = 0) -> str:
    """The argument into which what an instruction makes is written."""
    for user in instruction.computation.users_by_name.get(instruction.name, []) if depth < _STEPS else ():
        names = [name for name, _ in user.parse_operands()]
        if user.opcode in ("dynamic-update-slice", "scatter") and names[0] != instruction.name:
            of = _moved_argument(instruction.computation.instructions.get(names[0]))
        else:
            of = _put_into(user, depth + 1) if user.opcode in (*_CARRY, "broadcast") else ""
        if of:
            return of
    return ""


def _is_only_returned(instruction: Instruction, depth: int = 0) -> bool:
    """Return whether the result of an instruction is only returned from the program, unchanged."""
    users, root = (
        instruction.computation.users_by_name.get(instruction.name, []),
        instruction.computation.root_instruction,
    )
    return instruction is root or (
        depth < _STEPS
        and bool(users)
        and all(
            user is root if user.opcode == "tuple" else user.opcode in _CARRY and _is_only_returned(user, depth + 1)
            for user in users
        )
    )


def _line_using(instruction: Instruction, read: Read) -> Line | None:
    """The line that uses what an instruction makes: the compiler gathers where a value is made, for what comes next."""
    for user in instruction.computation.users_by_name.get(instruction.name, []):
        own, inner = read.lines.lines_of_instruction(user)
        if own is not None or inner is not None:
            return own or inner
    return None


def _find_exchanges(read: Read, collectives: list[Collective]) -> Iterator[Warned]:
    """Pieces that devices exchange at a line, in all. What is neither of an argument nor cut or joined there says so:
    the partitioner may bring activations to weights that are split over the axis of the batch.
    """
    lines: dict[Line, list[tuple[Collective, Instruction]]] = defaultdict(list)
    rolled: set[str] = set()
    for one, instruction in zip(collectives, read.instructions, strict=True):
        name = instruction.op_name
        if one.kind in _EXCHANGES and not any(word in name for word in _ASKED):
            lines[one.line].append((one, instruction))
        elif "roll" in name:
            rolled.update(one.axes)
    for line, each in lines.items():
        # A stage that hands on what it has: where that is seen is up to the compiler.
        found = [(one, instruction) for one, instruction in each if not set(one.axes) <= rolled]
        if not found:
            continue
        largest = max((one for one, _ in found), key=lambda one: one.bytes)
        names = tuple(
            dict.fromkeys(
                axis for one, _ in found if one.moved_bytes * 2 >= largest.moved_bytes for axis in one.axes
            )
        )
        # What little is moved beside it says nothing of the rest.
        if reordered := _reordered_argument(found):
            text = f"{reordered}|{' and '.join(map(repr, names))}"
            yield Warned("reordered", text, line, sum(one.moved_bytes for one, _ in found))
            continue
        most = [instruction for one, instruction in found if one.moved_bytes * 2 >= largest.moved_bytes]
        of = next(filter(None, map(_moved_argument, most)), "")
        words = [instruction.op_name for instruction in most]
        brought = of and not any("dot_general" in word or "transpose(" in word for word in words)
        cut = brought or any(word.rpartition("/")[2] in _CUTS for word in words)
        text = f"{'a part of ' + of if of else largest.array}|{' and '.join(map(repr, names))}|{of}"
        lookup = all(word.rpartition("/")[2] == "gather" for word in words)
        kind = "exchanged" if cut else "exchanged-at-lookup" if lookup else "exchanged-at-product"
        yield Warned(kind, text, line, sum(one.moved_bytes for one, _ in found))


def _reordered_argument(found: list[tuple[Collective, Instruction]]) -> str:
    """The argument whose parts devices exchange whole, so that each has another one: the order of its axes differs."""
    for one, instruction in found:
        if one.kind == "collective-permute" and len(one.axes) > 1:
            taken = instruction.computation.instructions.get(instruction.parse_operands()[0][0])
            if taken is not None and taken.opcode == "parameter" and taken.shape == instruction.shape:
                return _moved_argument(taken)
    return ""


def _moved_argument(one: Instruction | None) -> str:
    """The argument that a collective moves (a part of), if it is one."""
    for _ in range(_STEPS):
        if one is None:
            return ""
        if one.opcode == "parameter":
            return one.op_name if one.computation.parameters_by_number and "(" not in one.op_name else ""
        if one.opcode not in (*_CARRY, *_PARTS, *_EXCHANGES):
            return ""
        one = one.computation.instructions.get(one.parse_operands()[0][0])
    return ""


def _row_of_loop(instruction: Instruction, computation: Computation, read: Read, axes: Axes) -> Iterator[Warned]:
    """Yield a loop-carried array that is gathered in each iteration, of which the iteration uses one row."""
    users = computation.users_by_name.get(instruction.name, [])
    made = computation.instructions.get(instruction.parse_operands()[0][0])
    while made is not None and made.opcode in ("get-tuple-element", *_CARRY):
        made = computation.instructions.get(made.parse_operands()[0][0])
    if made is None or made.opcode != "parameter" or computation is read.module.entry or not users:
        return
    gathered = instruction.attribute_integers("dimensions")
    shape = shapes.parse_arrays(instruction.shape)[0]
    for user in users:
        sizes = user.attribute_integers("dynamic_slice_sizes")
        if user.opcode != "dynamic-slice" or not any(at < len(sizes) and sizes[at] == 1 for at in gathered):
            return
    own, inner = read.lines.lines_of_instruction(users[0])
    names, _ = axes.axes_of_groups(format_groups(instruction))
    yield Warned("row", f"{shape}|{' and '.join(map(repr, names))}", own or inner or Line(), shape.byte_count)


def _each_by_itself(instruction: Instruction, entry: Computation) -> str:
    """Return the one array operand of an elementwise operation; empty if there is none."""
    if instruction.opcode in _CARRY or instruction.opcode in _ALONE:
        return instruction.parse_operands()[0][0]
    if instruction.opcode not in _WITH_A_NUMBER:
        return ""
    arrays = []
    for name, _ in instruction.parse_operands():
        made = entry.instructions.get(name)
        while made is not None and made.opcode in ("broadcast", *_CARRY):
            made = entry.instructions.get(made.parse_operands()[0][0])
        if made is None or made.opcode != "constant":
            arrays.append(name)
    return arrays[0] if len(arrays) == 1 else ""


def _find_final_gathers(read: Read, collectives: list[Collective], axes: Axes) -> Iterator[Warned]:
    """Results that are gathered, and nothing else is done with what was gathered."""
    lines = {id(made): one.line for one, made in zip(collectives, read.instructions, strict=True)}
    entry = read.module.entry
    root = entry.root_instruction if entry is not None else None
    if entry is None or root is None:
        return
    operands = root.parse_operands() if root.opcode == "tuple" else [(root.name, None)]
    for number, (name, _) in enumerate(operands):
        one = entry.instructions.get(name)
        while one is not None and (taken := _each_by_itself(one, entry)):
            one = entry.instructions.get(taken)
        if one is None or one.opcode != "all-gather" or len(entry.users_by_name.get(one.name, [])) > 1:
            continue
        names, _ = axes.axes_of_groups(format_groups(one))
        text = f"{number}|{' and '.join(map(repr, names))}"
        yield Warned("gathered-result", text, lines.get(id(one), Line()), shapes.parse_arrays(one.shape)[0].byte_count)
