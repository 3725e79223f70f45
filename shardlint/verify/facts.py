"""Facts about a compiled program as plain data: shardings of its arrays, moved data, and the source lines.

Children send it, reports draw it, goldens keep it, budgets are held against it. Nothing here imports jax.
All bytes are those of one device. Collectives are told apart by (line, mesh axes, bytes), never by
opcode alone: another backend does the same work with other opcodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """A place in a source file; line 0 and file "" where the compiler kept none."""

    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "(no line)"


@dataclass(frozen=True)
class Array:
    """One array leaf of the arguments or results, and how it is laid over the mesh.

    `role` is `in` or `out`; `where` is a leaf as a person writes it, `out[0]['w1']`, `path` the same as a
    glob sees it, `array` its dtype and shape, `f32[1024,4096]`.

    `axes` holds the mesh axes of each dimension, `[["data"], []]`; None where the array does not lie on
    the mesh by a spec (one device of several, or an order no spec says). `spec` is that as text: `P('data',
    None)`, `one device`. `expected` is the spec declared for it, "" for none.

    `bytes` is what one device holds, `bytes_whole` the whole array, `copies` how many devices hold each
    part. `donated`: it was given away; `aliased`: a result took its buffer (None: cannot be told).
    """

    role: str
    where: str
    path: str
    array: str
    shape: tuple[int, ...]
    spec: str
    bytes: int
    bytes_whole: int
    copies: int
    axes: tuple[tuple[str, ...], ...] | None = None
    expected: str = ""
    donated: bool = False
    aliased: bool | None = None


@dataclass(frozen=True)
class Collective:
    """One communication of the partitioned program.

    `kind`: `all-gather`, `all-reduce`, `reduce-scatter`, `all-to-all`, `collective-permute` or
    `collective-broadcast`. `axes` are the mesh axes it runs over; `group` how many devices take part in
    one. `bytes` is the size on one device of its larger side (what a gather makes, what a
    reduce-scatter takes), once; `trips` how often it runs in one call, None where a loop's count is not known.
    `of` names the argument a gather is of (`args[0]['w1']`), "" where it is of an intermediate.
    """

    kind: str
    axes: tuple[str, ...]
    group: int
    array: str
    bytes: int
    trips: int | None
    line: Line
    of: str = ""

    @property
    def moved_bytes(self) -> int:
        """Bytes in one call: once for each trip (one trip where the count is not known)."""
        return self.bytes * (1 if self.trips is None else self.trips)


@dataclass(frozen=True)
class Product:
    """One matmul, einsum or convolution, and how the mesh shares its work.

    `free` are mesh axes that split dimensions the result keeps, `reduced` those that split dimensions it
    sums over, `batch` those that split batch dimensions. `parallelism` is `none`, `data` (only the
    activations' side is split), `tensor` (only the weights' side, or what both have in common), `hybrid`,
    or "" where it cannot be told which side the weights are. `paid` holds the collectives it costs,
    as indexes into the program's; with none it is naturally sharded, in einshard's terms.

    `flops` are those of one device, once.
    """

    line: Line
    text: str
    free: tuple[str, ...]
    reduced: tuple[str, ...]
    batch: tuple[str, ...]
    parallelism: str
    flops: int
    trips: int | None
    paid: tuple[int, ...] = ()
    weights: tuple[str, ...] = ()
    """The axes that split the weights' side, or what both have in common; none where the weights are not known."""

    @property
    def split_axes(self) -> frozenset[str]:
        """All axes that split it."""
        return frozenset((*self.free, *self.reduced, *self.batch))


@dataclass(frozen=True)
class Warned:
    """Something the partitioner did that nobody asked for.

    `kind`: `rematerialised` (an array made whole on every device because no cheaper way was found) or
    `indivisible` (a constraint whose axis does not divide the dimension).
    """

    kind: str
    message: str
    line: Line
    bytes: int = 0


@dataclass(frozen=True)
class Program:
    """A compiled program on one mesh.

    `backend` is what compiled it: `cpu` (simulated devices: right about where and over which axis, not
    about the kinds of another backend's collectives), or a topology, `v5e:4x4`. Memory: `argument_bytes`,
    `output_bytes`, `alias_bytes` (results that took a donated buffer), `temporary_bytes`. `peak_bytes` is the
    most that lives at once, from compilers that hold it against the device's memory (those of TPUs); else 0.
    """

    mesh: Mapping[str, int]
    backend: str
    arrays: tuple[Array, ...] = ()
    collectives: tuple[Collective, ...] = ()
    products: tuple[Product, ...] = ()
    warned: tuple[Warned, ...] = ()
    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temporary_bytes: int = 0
    peak_bytes: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def device_count(self) -> int:
        """How many devices the mesh has."""
        return math.prod(self.mesh.values())

    @property
    def memory_bytes(self) -> int:
        """Return the memory in bytes that one call needs on a device. The compiler's own "peak" is used only on TPUs,
        whose temporaries share space. On CPU it is less than the sum of its parts.
        """
        if self.peak_bytes:
            return self.peak_bytes
        return self.argument_bytes + self.output_bytes + self.temporary_bytes - self.alias_bytes

    @property
    def moved_bytes(self) -> int:
        """All bytes moved in one call."""
        return sum(collective.moved_bytes for collective in self.collectives)


def read_program(data: Mapping[str, Any]) -> Program:
    """A program from the dictionary (`dataclasses.asdict`, through JSON) a child process sent."""

    def find_line(of: Mapping[str, Any]) -> dict[str, Any]:
        return {**of, "line": Line(**of["line"])}

    def read_array(of: Mapping[str, Any]) -> Array:
        axes = None if of["axes"] is None else tuple(tuple(names) for names in of["axes"])
        return Array(**{**of, "shape": tuple(of["shape"]), "axes": axes})

    def product_from_data(of: Mapping[str, Any]) -> Product:
        tuples = {name: tuple(of[name]) for name in ("free", "reduced", "batch", "paid", "weights")}
        return Product(**{**find_line(of), **tuples})

    return Program(
        **{
            **data,
            "arrays": tuple(read_array(one) for one in data["arrays"]),
            "collectives": tuple(
                Collective(**{**find_line(one), "axes": tuple(one["axes"])}) for one in data["collectives"]
            ),
            "products": tuple(product_from_data(one) for one in data["products"]),
            "warned": tuple(Warned(**find_line(one)) for one in data["warned"]),
            "notes": tuple(data["notes"]),
        }
    )
