"""Abstract values in a manual region, and the state of a walk over one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .frames import user_lines_of_traceback

Names = frozenset[str]
NONE: Names = frozenset()
REDUCE = frozenset(("psum", "psum2", "psum_invariant", "pmax", "pmin", "psum_p"))
GATHER = frozenset(("all_gather", "all_gather_invariant"))
SCATTER = frozenset(("reduce_scatter", "psum_scatter"))
MOVE = frozenset(("ppermute", "all_to_all", "pgather"))
RANDOM = frozenset(("random_bits", "threefry2x32", "rng_bit_generator", "rng_uniform"))
ENDS_RANDOM = frozenset(("dot_general", "conv_general_dilated", "reduce_sum", "reduce_max", "cumsum", "sort"))
TYPES = frozenset(
    ("pvary", "pbroadcast", "pcast", "convert_element_type", "copy", "reshape", "broadcast_in_dim")
)
MIX = frozenset(("mul", "add", "sub", "select_n", "add_any", "div"))
CALLS = frozenset(
    ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint")
)
ROUNDS = 12
_COUNTS = 16


@dataclass(frozen=True)
class Value:
    """Abstract value: the axes it varies over, whether it comes from arguments at all, the line of the random bits it
    is made of, and whether it comes from an operation that moves shards.
    """

    over: Names = NONE
    given: bool = False
    random: tuple[Any, ...] = ()
    loose: bool = False
    divided: Names = NONE
    """Axes by whose size it was divided, here or on the way."""
    norm: tuple[Any, ...] = ()
    """The lines of the norm of all that one device holds that it is made of."""
    scaled: tuple[Any, ...] = ()
    """The lines of such a norm, where arrays of that device were scaled by it."""
    keys: frozenset[str] = frozenset()
    """The keys that it or its random numbers are made of: `copied`, equal on all devices though each device was given
    one, or `own`, another on each."""

    drawn: tuple[Any, ...] = field(default=(), compare=False)
    """The lines of random bits that have part in it, also by a product or a sum of them."""
    summed: tuple[Any, ...] = field(default=(), compare=False)
    """The line of the last sum over devices that it went through."""

    def __or__(self, other: Value) -> Value:
        return Value(
            self.over | other.over, self.given or other.given, self.random or other.random,
            self.loose or other.loose, self.divided | other.divided, self.norm or other.norm,
            self.scaled or other.scaled, self.keys | other.keys, self.drawn or other.drawn, self.summed or other.summed,
        )  # fmt: skip


@dataclass
class Region:
    """The walk over one manual region: sizes of its axes, what was seen, and who makes each variable."""

    sizes: dict[str, int]
    seen: list[dict[str, Any]] = field(default_factory=list)
    maker: dict[Any, Any] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    arguments: frozenset[Any] = frozenset()
    where: dict[Any, list[Any]] = field(default_factory=dict)
    at: list[Any] = field(default_factory=list)
    """The user's lines of the library function that is walked through: jax keeps those of its first use."""
    varying: dict[int, list[Any]] = field(default_factory=dict)
    """The lines that make a result which differs by device, by its number."""
    drawn: dict[int, list[Any]] = field(default_factory=dict)
    """The lines that draw the random numbers of a result, by its number."""
    collectives: int = 0
    pmap: bool = False
    differentiated: bool = False
    """Whether it is the first half of a gradient."""
    back: bool = False
    """Whether it may be the second."""
    rings: set[Any] = field(default_factory=set)
    """Operations that give what a loop carries, of what it carries and of nothing else."""
    dimensions: dict[Any, list[frozenset[str]]] = field(default_factory=dict)
    """The axes that split each dimension of an argument."""
    told: set[Any] = field(default_factory=set)
    products: dict[int, tuple[int, Names]] = field(default_factory=dict)
    """Of each product of matrices how much it multiplies, and the axes along which that differs."""

    def note_product(self, eqn: Any, value: Value, much: int) -> None:
        """Take down a product."""
        over = self.products.get(id(eqn), (0, NONE))[1] | value.over
        self.products[id(eqn)] = (much, frozenset(self.sizes) if value.loose else over)

    def note_observation(self, what: str, eqn: Any, lines: list[Any] | None = None, **facts: Any) -> None:
        """Take down what was seen at an operation, once a line."""
        lines = lines or self.operation_lines(eqn)
        key = (what, tuple(map(str, lines[:1])), str(facts.get("axes")))
        if lines and key not in self.told:
            self.told.add(key)
            self.seen.append({"what": what, "lines": lines[:4], **facts})

    def is_ring(self, eqn: Any) -> bool:
        """Return whether the carry of a loop is only shifted, and no device is treated differently."""
        return id(eqn) in self.rings

    def operation_lines(self, eqn: Any) -> list[Any]:
        """The user's lines that led to an operation."""
        return self.at or user_lines_of_traceback(eqn.source_info.traceback)


def inner_jaxpr(param: Any) -> Any:
    """The jaxpr inside a closed one, or itself."""
    return getattr(param, "jaxpr", param)


def constant_divisor(eqn: Any, region: Region) -> float:
    """The constant by which a `div` or `mul` divides, also one that jax has converted first; 0 where there is none."""
    for atom in eqn.invars:
        for _ in range(ROUNDS):
            if hasattr(atom, "val"):
                try:
                    number = float(atom.val)
                except (TypeError, ValueError):
                    break
                return number if eqn.primitive.name == "div" or not number else 1 / number
            made = region.maker.get(atom)
            if made is None or made.primitive.name not in TYPES:
                break
            atom = made.invars[0]
    return 0.0


def is_count_constant(constant: Any) -> bool:
    """Return whether a constant that is no argument consists of a few whole numbers, such as batch sizes. A sum of
    those over devices is a count.
    """
    aval = getattr(constant, "aval", None)
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    return kind in "iub" and 0 < int(getattr(aval, "size", 0)) <= _COUNTS and not is_key(aval)


def is_key(aval: Any) -> bool:
    """Return whether an array is a key for random numbers, or several: typed, or the two or four words of one."""
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", ())
    return str(dtype).startswith("key<") or (str(dtype) == "uint32" and tuple(shape[-1:]) in ((2,), (4,)))


def axes_of(eqn: Any) -> tuple[str, ...]:
    """The named axes of a collective."""
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    axes = axes if isinstance(axes, (tuple, list, set, frozenset)) else (axes,)
    return tuple(axis for axis in axes if isinstance(axis, str))


def axes_in(entry: Any) -> tuple[str, ...]:
    """The axes that one entry of a spec names."""
    names = entry if isinstance(entry, (tuple, list)) else (entry,)
    return tuple(name for name in names if isinstance(name, str))


def scan_counts(eqn: Any) -> tuple[int, int]:
    """How many of the arguments of a scan are the same in each round, and how many are carried."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carried, _ = map(list, eqn.params["ft_in"].update(eqn.invars).unpack())  # since jax 0.12
    return len(consts), len(carried)
