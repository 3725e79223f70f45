"""From the compiler's dumps to what was compiled, when, by which process, and from which function.

Read are, of each program, the text before optimisations (global shapes, what was donated, which arguments
were placed), before and after the partitioner (what it chose, what it moves), and after optimisations
(which results took a donated buffer). Releases spell these alike from jax 0.4.38 on; names of mesh axes
are in them from 0.8 on.
"""

from __future__ import annotations

import glob
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from shardlint.run import moves, stablehlo
from shardlint.run.forced_gathers import find_forced_gathers
from shardlint.run.functions import Function, function_of
from shardlint.run.rematerialised import gathered_to_be_cut
from shardlint.source.patterns import compile_lazily
from shardlint.verify.facts import Array, Line, Product, Program, Warned
from shardlint.verify.inside.hlo import Read, read_module
from shardlint.verify.inside.hlo.axes import Axes, parse_tiling
from shardlint.verify.inside.hlo.module import Instruction, Module, parse_module, split_list, value_at
from shardlint.verify.inside.hlo.products import count_multiplications
from shardlint.verify.inside.hlo.shapes import Shape, parse_arrays

_NAME = compile_lazily(r"(?P<stamp>\d+)\.module_(?P<number>\d+)\.(?P<name>.*)\.before_optimizations\.txt")
_MESH = compile_lazily(r"mesh\[((?:'[^']+'=\d+,?\s*)+)\]")
_SDY_MESH = compile_lazily(r"sdy\.mesh\s*(?:@\w+ = )?<\[([^\]]*)\]")
_AXIS = compile_lazily(r"[\"']([^\"']+)[\"']=(\d+)")
_LARGEST = 512 * 2**20
# The share of the products of a program that must be known for the others not to matter.
_KNOWN = 0.8


def is_wanted_file(name: str) -> bool:
    """Return whether a file of this name is read. Most files of the compiler (object files, allocation tables) are
    not.
    """
    return ".spmd-partitioner." in name or name.endswith(
        (".before_optimizations.txt", ".cpu_after_optimizations.txt", "module.mlir", ".jsonl")
    )


@dataclass(frozen=True)
class ForwardWork:
    """The products of a forward pass: those of a gradient may be split for the state of an optimizer, where what it is
    the gradient of is not.

    `products` are those of which the axes are known, `is_known` says that these are nearly all. `needed` are
    the multiplications of the whole program, 0 where they are not known, and `repeated` is how many times as many all
    devices do. `repeated_line` is the line of the product with the most needless work.
    """

    products: tuple[Product, ...] = ()
    is_known: bool = False
    needed: int = 0
    repeated: float = 1
    repeated_line: Line = field(default_factory=Line)


@dataclass(frozen=True)
class Compiled:
    """One compilation of one function.

    `process` tells processes apart, `at` is when it began (seconds since the epoch), `seconds` how long it
    took (0 where it did not end). `partitions` and `replicas` (of `jax.pmap`, before jax 0.8) say over how
    many devices it runs. `unplaced` are arguments the program gave from the host or from one device,
    without saying where they belong. `digest` is equal for equal programs.
    """

    function: Function
    process: str
    at: float
    seconds: float
    partitions: int
    replicas: int
    program: Program
    unplaced: frozenset[str]
    digest: str
    work: ForwardWork = field(default_factory=ForwardWork)
    """How its devices share the products of its forward pass."""
    size: int = 0
    """How many operations the compiler was given: what it took it to compile, on any machine and at any load."""

    @property
    def device_count(self) -> int:
        """How many devices it runs on."""
        return self.partitions * self.replicas

    @property
    def axes_of_products(self) -> frozenset[str] | None:
        """The mesh axes that split one of its products."""
        return frozenset(name for one in self.work.products for name in one.split_axes) if self.work.is_known else None

    @property
    def is_split_by_weights_only(self) -> bool:
        """True if its products are split along weights, or what these have in common with the batch, and nowhere else.
        """
        kinds = {one.parallelism for one in self.work.products} if self.work.is_known else set()
        return "tensor" in kinds and not kinds & {"data", "hybrid"}

    @property
    def axes_along_weights(self) -> frozenset[str]:
        """The mesh axes that split products along weights, or along what is summed over."""
        products = self.work.products if self.work.is_known else ()
        return frozenset(name for one in products for name in one.weights)

    @property
    def arguments(self) -> list[Array]:
        """Its arguments."""
        return [one for one in self.program.arrays if one.role == "in"]

    @property
    def results(self) -> list[Array]:
        """Its results."""
        return [one for one in self.program.arrays if one.role == "out"]


def collect_dumps(folder: Path) -> tuple[list[Compiled], list[str]]:
    """Everything dumped below `folder`, in the order it was compiled, and a sentence for each dump that
    cannot be read.
    """
    found, problems = [], []
    for path in sorted(folder.rglob("*.before_optimizations.txt")):
        try:
            if (one := _read_compiled(path)) is not None:
                found.append(one)
        except (OSError, ValueError, IndexError, KeyError) as error:
            problems.append(f"{path.name} cannot be read: {type(error).__name__}: {error}")
    return sorted(found, key=lambda one: one.at), problems


def _read_compiled(path: Path) -> Compiled | None:
    match = _NAME.fullmatch(path.name)
    if match is None or path.stat().st_size > _LARGEST:
        return None
    original = path.read_text("utf-8", "replace")
    module = parse_module(original)
    if module.entry is None:
        return None
    before, after, end = _dump_stages(path)
    replicas = _header_count(module, "replica_count")
    mesh = _mesh_of_dump(path, original if "sdy.mesh" in module.header else "", module)
    collectives, warned = [], []
    local, work, made = module, ForwardWork(), None
    if after is not None:
        axes = mesh or {"": module.partition_count}
        text = before.read_text("utf-8", "replace") if before is not None else ""
        made = read_module(after.read_text("utf-8", "replace"), axes, before=text, original=original)
        local, work = made.module, _measure_work(made, text)
        # Without a mesh they run over an axis without a name.
        collectives = [
            replace(one, axes=tuple(name for name in one.axes if name)) for one in made.collectives
        ]
        warned = [
            Warned("rematerialised", text, line, count)
            for text, line, count in gathered_to_be_cut(made.module, made.lines, axes)
        ]
        warned += [
            Warned("forced", text, line, count)
            for text, line, count in find_forced_gathers(made.module, made.lines, axes)
        ]
        warned += moves.find_moves(made, made.collectives, axes)
    elif replicas > 1:
        local = module
        collectives = read_module(original, {"replicas": replicas}).collectives
    chosen = (
        made.before if made is not None and before is not None
        else parse_module(before.read_text("utf-8", "replace")) if before is not None else module
    )  # fmt: skip
    final = _read_header(end) if end is not None else ""
    leaves = tuple(_read_arrays(path, module, chosen, local, final, Axes(mesh) if mesh else None))
    if replicas > 1:
        leaves = tuple(replace(leaf, spec="different on each device") for leaf in leaves)
    program = Program(
        mesh=mesh,
        backend="cpu",
        arrays=leaves,
        collectives=tuple(collectives),
        warned=tuple(warned),
    )
    at = int(match["stamp"]) / 1e6
    places = _header_flags(module.header, "allow_spmd_sharding_propagation_to_parameters")
    inside = [one.where for one in program.arrays if one.role == "in"]
    unplaced = [where for where, free in zip(inside, places, strict=False) if free]
    return Compiled(
        function_of(match["name"], module, stablehlo.stablehlo_file(path)),
        path.parent.name,
        at,
        max(0.0, end.stat().st_mtime - at) if end is not None else 0.0,
        module.partition_count,
        replicas,
        program,
        frozenset(unplaced if module.partition_count > 1 else ()),
        hashlib.sha256(original.encode()).hexdigest()[:16],
        work,
        sum(len(each.instructions) for each in module.computations.values()),
    )


def _measure_work(read: Read, before: str) -> ForwardWork:
    """How the devices share the products of a program; nothing of what a region divides by itself."""
    if "SPMDFullToShardShape" in before:
        return ForwardWork()
    local, whole = _forward_products(read.module), _forward_products(read.before)
    known = [one for one in read.products if not one.text.endswith(("(backward)", "(recomputed)"))]
    if not local:
        return ForwardWork(tuple(read.products), bool(read.products))
    is_known = bool(known) and len(known) >= _KNOWN * len(local)
    needed = [count_multiplications(one) for one in whole]
    if len(local) != len(whole) or not any(needed):
        return ForwardWork(tuple(known), is_known)
    done = [read.module.partition_count * count_multiplications(one) for one in local]
    most = max(range(len(local)), key=lambda place: done[place] - needed[place])
    line, _ = read.lines.lines_of_instruction(local[most])
    return ForwardWork(tuple(known), is_known, sum(needed), sum(done) / sum(needed), line or Line())


def _forward_products(module: Module) -> list[Instruction]:
    every = (one for each in module.computations.values() for one in each if one.opcode in ("dot", "convolution"))
    return [one for one in every if "transpose(" not in one.op_name]


def _dump_stages(path: Path) -> tuple[Path | None, Path | None, Path | None]:
    """The other dumps of a program: before the partitioner, after it, and after all optimisations."""
    stem = path.name.removesuffix("before_optimizations.txt")
    before = after = end = None
    for other in path.parent.glob(f"{glob.escape(stem)}*"):
        rest = other.name.removeprefix(stem)
        if rest.endswith("before_spmd-partitioning.txt"):
            before = other
        elif ".after_spmd-partitioning." in rest:
            after = other
        elif rest == "cpu_after_optimizations.txt":
            end = other
    return before, after, end


def _read_header(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline()


def _header_count(module: Module, key: str) -> int:
    match = re.search(rf"{key}=(\d+)", module.header)
    return int(match[1]) if match else 1


def _header_flags(header: str, key: str) -> list[bool]:
    match = re.search(rf"\b{key}={{([^}}]*)}}", header)
    return [flag.strip() == "true" for flag in match[1].split(",")] if match else []


def _mesh_of_dump(path: Path, header: str, module: Module) -> dict[str, int]:
    """The mesh a program was partitioned for; empty where the dump does not name its axes.

    One name counts only where it is the user's: the compiler calls its own `axis_0`.
    """
    if module.partition_count == 1 or module.entry is None:
        return {}
    texts = [header[: header.find("\n")]] if header else []
    texts += [one.attributes_text for one in module.entry.parameters_by_number.values()]
    for computation in module.computations.values():
        texts += [one.attributes_text for one in computation if one.opcode in ("copy", "custom-call")]
    for pattern in (_SDY_MESH, _MESH):
        for text in texts:
            for match in pattern.finditer(text):
                mesh = {name: int(size) for name, size in _AXIS.findall(match[1])}
                if math.prod(mesh.values()) == module.partition_count and not all(
                    re.fullmatch(r"axis_\d+", name) for name in mesh
                ):
                    return mesh
    return {}


def _layout_of_header(header: str) -> tuple[list[Shape], list[Shape]]:
    """The shapes of a module's arguments and results, from its header."""
    at = header.find("entry_computation_layout=")
    if at < 0:
        return [], []
    text = value_at(header, at + len("entry_computation_layout="))
    taken, _, given = text.removeprefix("{").removesuffix("}").partition("->")
    return parse_arrays(taken), parse_arrays(given)


def _read_arrays(
    path: Path, module: Module, chosen: Module, local: Module, final: str, axes: Axes | None
) -> Iterator[Array]:
    """Arguments and results of a program: whole shapes, what one device holds, what was donated."""
    assert module.entry is not None
    taken, given = _layout_of_header(module.header)
    taken_here, given_here = _layout_of_header(local.header)
    donors = {int(one) for one in re.findall(r"\((\d+), \{\}\)", _header_value(module.header, "buffer_donor"))}
    aliases = _header_value(final, "input_output_alias")
    donors |= {int(one) for one in re.findall(r"\((\d+), \{", _header_value(module.header, "input_output_alias"))}
    aliased = {int(one) for one in re.findall(r"\((\d+), \{", aliases)}
    parameters = module.entry.parameters_by_number
    placed = chosen.entry.parameters_by_number if chosen.entry is not None else {}
    for number, shape in enumerate(taken):
        one = parameters.get(number)
        where = one.op_name if one is not None and one.op_name else f"argument {number}"
        here = taken_here[number] if number < len(taken_here) else shape
        yield _make_array(
            "in", where, shape, here, _sharding_text(placed.get(number)), module.partition_count, axes,
            donated=number in donors, aliased=(number in aliased) if final else None,
        )  # fmt: skip
    names = stablehlo.result_names(stablehlo.stablehlo_file(path))
    root = chosen.entry.root_instruction if chosen.entry is not None else None
    shardings = _root_shardings(root, len(given))
    for number, shape in enumerate(given):
        where = names[number] if len(names) == len(given) else f"out {number}"
        here = given_here[number] if number < len(given_here) else shape
        yield _make_array("out", where, shape, here, shardings[number], module.partition_count, axes)


def _header_value(header: str, key: str) -> str:
    at = header.find(f" {key}=")
    return value_at(header, at + len(key) + 2) if at >= 0 else ""


def _sharding_text(instruction: Instruction | None) -> str:
    return instruction.attribute_text("sharding") if instruction is not None else ""


def _root_shardings(root: Instruction | None, count: int) -> list[str]:
    text = _sharding_text(root)
    if root is not None and root.opcode == "tuple" and text.startswith("{{"):
        parts = split_list(text[1:-1])
        if len(parts) == count:
            return parts
    return [text] if count == 1 else [""] * count


def _make_array(
    role: str,
    where: str,
    shape: Shape,
    here: Shape,
    sharding: str,
    partitions: int,
    axes: Axes | None,
    donated: bool = False,
    aliased: bool | None = None,
) -> Array:
    whole, held = shape.byte_count, here.byte_count
    pieces = _pieces_by_dimension(sharding, len(shape.dims)) if partitions > 1 else [1]
    if pieces is None:
        # One that says nothing of tiles; the shapes do.
        pieces = [max(1, round(whole / held))] if held else [1]
    splits = axes.axes_of_sharding(sharding, len(shape.dims)) if axes is not None and sharding else None
    copies = max(1, partitions // max(1, math.prod(pieces)))
    return Array(
        role, where, where, str(shape), shape.dims, _describe_layout(pieces, copies, partitions, splits),
        held, whole, copies, axes=splits, donated=donated, aliased=aliased,
    )  # fmt: skip


def _pieces_by_dimension(sharding: str, rank: int) -> list[int] | None:
    """Into how many pieces each dimension is cut; None where the text does not say."""
    if not sharding or "manual" in sharding or "maximal" in sharding:
        return None
    tiles = parse_tiling(sharding)
    if tiles is None:
        return [1] * rank if "replicated" in sharding else None
    return tiles[0][:rank]


def _describe_layout(
    pieces: list[int], copies: int, partitions: int, splits: tuple[tuple[str, ...], ...] | None
) -> str:
    """How an array lies, for a person: `P('data', None)`, or the cuts where the dump names no axes."""
    if partitions == 1:
        return "one device"
    if copies == partitions:
        return f"replicated on {partitions} devices"
    if splits is None:
        return "split " + " x ".join(map(str, pieces)) + (f", {copies} copies" if copies > 1 else "")
    parts = [
        "None" if not names else repr(names[0]) if len(names) == 1 else repr(tuple(names)) for names in splits
    ]
    while parts and parts[-1] == "None":
        parts.pop()
    return f"P({', '.join(parts)})"
