"""What varies over which mesh axis in a manual region, read off its operations before the compiler sees them.

A value varies over an axis where devices along it may hold different numbers. Arguments say so by their specs,
`psum` and `all_gather` end it, `axis_index` begins it; everything else varies as what it takes does. A value
taken for varying may still be equal everywhere (a ring of `ppermute`): such ones are `loose`, and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .frames import of_traceback, place

Names = frozenset[str]
_NONE: Names = frozenset()
_REDUCE = frozenset(("psum", "psum2", "psum_invariant", "pmax", "pmin", "psum_p"))
_GATHER = frozenset(("all_gather", "all_gather_invariant"))
_SCATTER = frozenset(("reduce_scatter", "psum_scatter"))
_MOVE = frozenset(("ppermute", "all_to_all", "pgather"))
_RANDOM = frozenset(("random_bits", "threefry2x32", "rng_bit_generator", "rng_uniform"))
_ENDS_RANDOM = frozenset(("dot_general", "conv_general_dilated", "reduce_sum", "reduce_max", "cumsum", "sort"))
_TYPES = frozenset(("pvary", "pbroadcast", "pcast", "convert_element_type", "copy", "reshape", "broadcast_in_dim"))
_MIX = frozenset(("mul", "add", "sub", "select_n", "add_any", "div"))
_CALLS = frozenset(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat2", "checkpoint"))
_ROUNDS = 12


@dataclass(frozen=True)
class Value:
    """What is known of a value: the axes it varies over, whether it comes from arguments at all, the line of
    random bits it is made of, and whether it comes from what moves pieces around.
    """

    over: Names = _NONE
    given: bool = False
    random: tuple[Any, ...] = ()
    loose: bool = False
    divided: Names = _NONE
    """Axes by whose size it was divided, here or on the way."""

    def __or__(self, other: Value) -> Value:
        return Value(
            self.over | other.over, self.given or other.given, self.random or other.random,
            self.loose or other.loose, self.divided | other.divided,
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
    collectives: int = 0
    told: set[Any] = field(default_factory=set)

    def tell(self, what: str, eqn: Any, lines: list[Any] | None = None, **facts: Any) -> None:
        lines = lines or self.lines(eqn)
        key = (what, tuple(map(str, lines[:1])), str(facts.get("axes")))
        if lines and key not in self.told:
            self.told.add(key)
            self.seen.append({"what": what, "lines": lines[:4], **facts})

    def lines(self, eqn: Any) -> list[Any]:
        """The user's lines that led to an operation."""
        return self.at or of_traceback(eqn.source_info.traceback)


def inner(param: Any) -> Any:
    """The jaxpr inside a closed one, or itself."""
    return getattr(param, "jaxpr", param)


def walk(jaxpr: Any, values: Sequence[Value], region: Region) -> list[Value]:
    """The values of the results of `jaxpr`, given those of its arguments."""
    known = region.known

    def read(atom: Any) -> Value:
        return Value() if hasattr(atom, "val") else known.get(atom, Value())

    for variable in jaxpr.constvars:
        known[variable] = Value(given=True)

    for variable, value in zip(jaxpr.invars, values, strict=False):
        known[variable] = value
    consumers = _consumers(jaxpr)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        taken = [read(atom) for atom in eqn.invars]
        results = _special(eqn, name, taken, region, consumers)
        if results is None:
            joined = _join(taken)
            results = [joined] * len(eqn.outvars)
        for variable, value in zip(eqn.outvars, results, strict=False):
            known[variable] = value
            region.where[variable] = region.lines(eqn)
            if name not in _CALLS:
                region.maker[variable] = eqn
    return [read(atom) for atom in jaxpr.outvars]


def _join(values: Sequence[Value]) -> Value:
    joined = Value()
    for value in values:
        joined = joined | value
    return joined


def _consumers(jaxpr: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if not hasattr(atom, "val"):
                found.setdefault(atom, []).append(eqn)
    return found


def axes_of(eqn: Any) -> tuple[str, ...]:
    """The named axes of a collective."""
    axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    axes = axes if isinstance(axes, (tuple, list, set, frozenset)) else (axes,)
    return tuple(axis for axis in axes if isinstance(axis, str))


def _special(
    eqn: Any, name: str, taken: list[Value], region: Region, consumers: Any
) -> list[Value] | None:
    if name in _REDUCE or name in _SCATTER or name in _GATHER or name in _MOVE:
        return _collective(eqn, name, taken, region, consumers)
    if name == "axis_index":
        return [Value(frozenset(axes_of(eqn)))]
    if name in _RANDOM:
        joined = _join(taken)
        lines = tuple(map(tuple, region.lines(eqn)[:4]))
        return [Value(joined.over, joined.given, lines, joined.loose)] * len(eqn.outvars)
    if name in _ENDS_RANDOM:
        joined = _join(taken)
        return [replace(joined, random=())] * len(eqn.outvars)
    if name in ("sub", "add", "add_any"):
        _all_slices(eqn, region)
    if name in ("div", "mul"):
        return [_scaled(eqn, taken, region)]
    if name in _MIX:
        _same_numbers(eqn, taken, region)
        return None
    return _nested(eqn, name, taken, region)


def _scaled(eqn: Any, taken: list[Value], region: Region) -> Value:
    """A product or quotient, and by the size of which axis."""
    _same_numbers(eqn, taken, region)
    joined = _join(taken)
    literal = next((atom.val for atom in eqn.invars if hasattr(atom, "val")), None)
    try:
        number = float(literal) if literal is not None else 0.0
    except (TypeError, ValueError):
        number = 0.0
    if not number:
        return joined
    times = number if eqn.primitive.name == "div" else 1 / number
    by = frozenset(axis for axis, size in region.sizes.items() if abs(times - size) < 1e-6 * size)
    total = 1
    for size in region.sizes.values():
        total *= size
    if abs(times - total) < 1e-6 * total:
        by |= frozenset(region.sizes)
    return Value(joined.over, joined.given, joined.random, joined.loose, joined.divided | by)


def _same_numbers(eqn: Any, taken: list[Value], region: Region) -> None:
    """Random numbers that are the same on devices whose data differ."""
    shape = getattr(eqn.outvars[0].aval, "shape", ())
    size = 1
    for part in shape:
        size *= part
    if size < 16:
        return
    for at, value in enumerate(taken):
        if not value.random or not value.given or value.loose or hasattr(eqn.invars[at], "val"):
            continue
        if getattr(eqn.invars[at].aval, "shape", None) != shape:
            continue
        others = [
            each
            for other, each in enumerate(taken)
            if other != at and not each.random and getattr(getattr(eqn.invars[other], "aval", None), "shape", None) == shape
        ]
        missing = sorted({axis for each in others for axis in each.over} - value.over)
        if missing:
            region.tell("same-random", eqn, list(map(list, value.random)), axes=missing)


def _collective(eqn: Any, name: str, taken: list[Value], region: Region, consumers: Any) -> list[Value]:
    axes = frozenset(axes_of(eqn))
    region.collectives += 1
    taken = [replace(value, random=()) for value in taken]
    if eqn.params.get("axis_index_groups") is not None or name in _MOVE:
        return [replace(value, loose=True) for value in taken]
    results = []
    for at, value in enumerate(taken):
        atom, out = eqn.invars[at], eqn.outvars[at] if at < len(eqn.outvars) else None
        results.append(replace(value, over=value.over | axes if name in _SCATTER else value.over - axes))
        if name in _GATHER:
            _gathered(eqn, region, consumers)
        elif name not in ("pmax", "pmin") and not hasattr(atom, "val"):
            _summed(eqn, atom, value, axes, _divided_after(consumers.get(out, ()), axes, region), region)
    return results


def _summed(eqn: Any, atom: Any, value: Value, axes: Names, mean: bool, region: Region) -> None:
    """A sum of what is equal along an axis, or of a sum with something equal in it."""
    back = "transpose" in str(eqn.source_info.name_stack)
    equal = sorted(axes - value.over)
    aval = getattr(atom, "aval", None)
    if equal and value.given and not value.loose:
        before = _source(atom, region, scaled=True)
        summed = before is not None and before.primitive.name in _REDUCE and set(axes_of(before)) & set(equal)
        if mean and summed and "transpose" in str(before.source_info.name_stack):
            if not value.divided & axes:
                region.tell("mean-of-sum", eqn, axes=equal, sizes=_sizes(equal, region))
        elif not mean and not back and (summed or not value.divided & axes):
            region.tell("sum-of-equal", eqn, axes=equal, sizes=_sizes(equal, region), again=bool(summed))
    elif not mean and not back and not value.divided & axes:
        made = _source(atom, region)
        if made is not None and made.primitive.name == "add" and getattr(aval, "shape", ()):
            _bias(eqn, made, axes, region)


def _bias(eqn: Any, made: Any, axes: Names, region: Region) -> None:
    if any(hasattr(atom, "val") for atom in made.invars):
        return
    first, second = (region.known.get(atom, Value()) for atom in made.invars)
    for one, other in ((first, second), (second, first)):
        if one.given and not one.loose and not (one.over & axes) and other.over & axes and not one.divided & axes:
            region.tell("bias-summed", made, axes=sorted(axes), sizes=_sizes(sorted(axes), region))


def _sizes(axes: Sequence[str], region: Region) -> int:
    total = 1
    for axis in axes:
        total *= region.sizes.get(axis, 1)
    return total


def _source(atom: Any, region: Region, scaled: bool = False) -> Any:
    """The operation a value comes from, past what only changes its type or shape, or also its scale."""
    for _ in range(_ROUNDS):
        eqn = region.maker.get(atom)
        if eqn is None:
            return None
        given = [each for each in eqn.invars if not hasattr(each, "val")]
        past = eqn.primitive.name in _TYPES or (scaled and eqn.primitive.name in ("mul", "div", "neg"))
        if not past or len(given) != 1:
            return eqn
        atom = given[0]
    return None


def _all_slices(eqn: Any, region: Region) -> None:
    """Each device's own slice of an argument, changed by the sum of all the slices."""
    for one, other in (eqn.invars, eqn.invars[::-1]):
        if hasattr(one, "val") or hasattr(other, "val") or _root(one, region) not in region.arguments:
            continue
        shape = getattr(eqn.outvars[0].aval, "shape", ())
        summed = _source(other, region, scaled=True)
        if not shape or summed is None or summed.primitive.name not in _REDUCE - {"pmax", "pmin"}:
            continue
        mixed = sorted(set(axes_of(summed)) & region.known.get(one, Value()).over)
        taken = region.known.get(summed.invars[0], Value())
        if mixed and set(mixed) <= taken.over and getattr(other.aval, "shape", None) == shape:
            region.tell("all-slices", summed, axes=mixed)


def _root(atom: Any, region: Region) -> Any:
    """The variable a value is, past what only changes its type or shape."""
    for _ in range(_ROUNDS):
        eqn = region.maker.get(atom)
        if eqn is None or eqn.primitive.name not in _TYPES | {"squeeze"} or hasattr(eqn.invars[0], "val"):
            return atom
        atom = eqn.invars[0]
    return atom


def _divided_after(users: Sequence[Any], axes: Names, region: Region) -> bool:
    """Whether a sum is divided by the number of those it adds up: a mean."""
    size = _sizes(sorted(axes), region)
    for eqn in users:
        literal = next((atom.val for atom in eqn.invars if hasattr(atom, "val")), None)
        if eqn.primitive.name in ("div", "mul") and literal is not None:
            try:
                number = float(literal)
            except (TypeError, ValueError):
                continue
            if number and abs((number if eqn.primitive.name == "div" else 1 / number) - size) < 1e-6 * size:
                return True
    return False


def _gathered(eqn: Any, region: Region, consumers: Any) -> None:
    if eqn.params.get("tiled") is False and eqn.params.get("all_gather_dimension", 0) > 0:
        if not consumers.get(eqn.outvars[0]):
            region.tell("untiled", eqn, axes=sorted(axes_of(eqn)))


def _nested(eqn: Any, name: str, taken: list[Value], region: Region) -> list[Value] | None:
    params = eqn.params
    if name == "scan":
        return _scan(eqn, taken, region)
    if name == "while":
        return _while(eqn, taken, region)
    if name == "cond":
        branches = [walk(inner(each), taken[1:], region) for each in params["branches"]]
        return [_join([taken[0], *each]) for each in zip(*branches, strict=False)]
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in params and hasattr(inner(params[key]), "eqns"):
            body = inner(params[key])
            values = taken[-len(body.invars) :] if body.invars else []
            for outer, variable in zip(eqn.invars[-len(body.invars) :], body.invars, strict=False):
                if not hasattr(outer, "val") and outer in region.maker:
                    region.maker[variable] = region.maker[outer]
            results = _through(eqn, body, values, region)
            for variable, atom in zip(eqn.outvars, body.outvars, strict=False):
                if not hasattr(atom, "val") and atom in region.maker:
                    region.maker[variable] = region.maker[atom]
            return results
    return None


def _through(eqn: Any, body: Any, values: list[Value], region: Region) -> list[Value]:
    """The body of a call; one of a library's is at the line of the user's that called it."""
    source = str(getattr(getattr(body, "debug_info", None), "func_src_info", "") or "")
    outermost = not region.at and place(source) is None
    if outermost:
        region.at = of_traceback(eqn.source_info.traceback)
    try:
        return walk(body, values, region)
    finally:
        if outermost:
            region.at = []


def _scan(eqn: Any, taken: list[Value], region: Region) -> list[Value]:
    body = inner(eqn.params["jaxpr"])
    consts, carried = eqn.params["num_consts"], eqn.params["num_carry"]
    carry = taken[consts : consts + carried]
    results = taken
    for _ in range(_ROUNDS):
        mute = Region(region.sizes, at=region.at)
        results = walk(body, [*taken[:consts], *carry, *taken[consts + carried :]], mute)
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    results = walk(body, [*taken[:consts], *carry, *taken[consts + carried :]], region)
    return [old | new for old, new in zip(carry, results, strict=False)] + results[carried:]


def _while(eqn: Any, taken: list[Value], region: Region) -> list[Value]:
    tests, consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    body = inner(eqn.params["body_jaxpr"])
    carry = taken[tests + consts :]
    for _ in range(_ROUNDS):
        results = walk(body, [*taken[tests : tests + consts], *carry], Region(region.sizes))
        grown = [old | new for old, new in zip(carry, results, strict=False)]
        if grown == carry:
            break
        carry = grown
    walk(body, [*taken[tests : tests + consts], *carry], region)
    end = walk(inner(eqn.params["cond_jaxpr"]), [*taken[:tests], *carry], Region(region.sizes))
    return [value | Value(end[0].over) for value in carry] if end else list(carry)


