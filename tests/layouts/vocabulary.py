"""Expressions on arrays for generated programs, with the shapes that they need and give.

Functions that share an implementation in `shardlint.libraries` are used alike, so a name that is entered there is
used here. A row of `ROWS` is a condition, an expression, and the shape of its result. `s` and `t` are the shapes of its
two arrays, `{a}` is a dimension of the first; with `#i` the result holds integers, with `#b` booleans.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

from shardlint_rules.upgrade.public_names import read_libraries

from shardlint.libraries import FUNCTIONS, jax_initializers, jax_numpy, jax_random
from shardlint.libraries.registry import unmarked_function

Shape = tuple[int, ...]
Release = tuple[int, ...]


@dataclass(frozen=True)
class Array:
    """A name of a program, and what is in it: `f` for floats, `i` for integers, `b` for booleans, `?` for others."""

    name: str
    shape: Shape
    kind: str = "f"


@dataclass(frozen=True)
class Drawn:
    """An expression, the shape of its result (None where that is not followed), and what is in it."""

    text: str
    shape: Shape | None = None
    kind: str = "f"


@cache
def names_of(implementation: Callable[..., Any], module: str, release: Release) -> tuple[str, ...]:
    """The functions of a module of a release that have an implementation in common."""
    found = (
        name.rpartition(".") for name, one in FUNCTIONS.items() if unmarked_function(one) is implementation
    )
    return tuple(name for home, _, name in found if home == module and is_there(f"{home}.{name}", release))


# The table of names begins with jax 0.5; the oldest release lacks these.
_SINCE_0_5 = frozenset(
    "jax.set_mesh jax.reshard jax.typeof jax.shard_map jax.lax.pvary jax.lax.pcast jax.lax.axis_size "
    "jax.sharding.AxisType".split()
)


@cache
def is_there(name: str, release: Release) -> bool:
    """Return whether a release of jax has a name. Other libraries have all names."""
    module, _, member = name.rpartition(".")
    table = read_libraries()["jax"]
    if module not in table.modules:
        return True
    known = [place for place, one in enumerate(table.releases) if one[: len(release)] <= release]
    return name not in _SINCE_0_5 if not known else known[-1] in table.releases_with_name(module, member)


_UNARY_OF_LAX = frozenset(
    "exp log log1p expm1 tanh sin cos sqrt rsqrt cbrt neg sign abs floor ceil round is_finite square logistic erf erfc "
    "erf_inv stop_gradient optimization_barrier expit logit tan asin acos atan sinh cosh asinh acosh atanh exp2 lgamma "
    "digamma bitwise_not".split()
)
_OF_INTEGERS = frozenset(
    "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_invert bitwise_left_shift bitwise_right_shift left_shift "
    "right_shift shift_left shift_right_arithmetic shift_right_logical invert".split()
)
_GIVES_BOOLEANS = frozenset(
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf "
    "isfinite is_finite isclose signbit eq ne lt le gt ge any all".split()
)
_GIVES_INTEGERS = frozenset("argmax argmin nanargmax nanargmin count_nonzero argsort".split())
_SHORT = {"jax.numpy": "jnp", "numpy": "np"}


def _short(module: str) -> str:
    return _SHORT.get(module, module)


def _kind(name: str) -> str:
    return "b" if name in _GIVES_BOOLEANS else "i" if name in _GIVES_INTEGERS else "f"


@dataclass
class Scope:
    """The arrays that may be named, and the chances."""

    chance: random.Random
    release: Release
    arrays: list[Array] = field(default_factory=list)

    def pick(self, fits: Callable[[Array], bool] = lambda one: True, kinds: str = "f") -> Array | None:
        """One of the last arrays, of those that fit."""
        found = [one for one in self.arrays[-5:] if one.kind in kinds and fits(one)]
        return self.chance.choice(found) if found else None

    def name(self, implementation: Callable[..., Any], *modules: str) -> tuple[str, str]:
        """A function with an implementation, of one of some modules: as a program writes it, and its name alone."""
        found = [
            (f"{_short(module)}.{name}", name)
            for module in modules
            for name in names_of(implementation, module, self.release)
        ]
        return self.chance.choice(found)


def _unary(scope: Scope) -> Drawn | None:
    text, name = scope.name(jax_numpy.apply_unary, "jax.numpy", "jax.numpy", "jax.nn")
    array = scope.pick(kinds="i" if name in _OF_INTEGERS else "f")
    return Drawn(f"{text}({array.name})", array.shape, "i" if array.kind == "i" else _kind(name)) if array else None


def _elementwise(scope: Scope) -> Drawn | None:
    text, name = scope.name(
        jax_numpy.apply_elementwise, "jax.numpy", "jax.numpy", "jax.lax", "jax.scipy.special"
    )
    one = scope.pick(kinds="i" if name in _OF_INTEGERS else "f")
    if one is None:
        return None
    if not text.startswith("jnp") and name in _UNARY_OF_LAX:
        return Drawn(f"{text}({one.name})", one.shape, _kind(name))
    if name == "convert_element_type":
        return Drawn(f"{text}({one.name}, jnp.int32)", one.shape, "i")
    if name == "integer_pow":
        return Drawn(f"{text}({one.name}, 3)", one.shape)
    if name == "reduce_precision":
        return Drawn(f"{text}({one.name}, 8, 7)", one.shape)
    if name == "clamp":
        return Drawn(f"{text}(0.0, {one.name}, 1.0)", one.shape)
    if name == "clip":
        return Drawn(f"{text}({one.name}, 0.0, 1.0)", one.shape)
    strict = text.startswith("jax.lax")
    two = scope.pick(lambda other: fits_beside(one.shape, other.shape, strict), one.kind)
    if two is None or (strict and name in ("max", "min") and one.shape != two.shape):
        return None
    operands = f"{one.name}, {two.name}"
    if name in ("where", "select", "select_n"):
        return Drawn(f"{text}({one.name} > 0, {operands})", one.shape)
    shape = one.shape if len(one.shape) >= len(two.shape) else two.shape
    return Drawn(f"{text}({operands})", shape, "i" if one.kind == "i" else _kind(name))


def fits_beside(one: Shape, two: Shape, strict: bool = False) -> bool:
    """Return whether two shapes are the same, or (unless `strict`) one is the end of the other."""
    return one == two or (not strict and (one[len(one) - len(two) :] == two or two[len(two) - len(one) :] == one))


def _reduction(scope: Scope) -> Drawn | None:
    text, name = scope.name(jax_numpy.reduce_array, "jax.numpy", "jax.numpy", "jax.nn", "jax.scipy.special")
    array = scope.pick(lambda one: bool(one.shape))
    if array is None:
        return None
    rank = len(array.shape)
    choices: list[Any] = [None, 0, rank - 1, -1]
    if rank > 1 and "arg" not in name:
        choices.append((0, 1))
    axis, keep = scope.chance.choice(choices), scope.chance.random() < 0.3
    gone = set(range(rank)) if axis is None else {one % rank for one in (axis if isinstance(axis, tuple) else (axis,))}
    shape = tuple(1 if place in gone else size for place, size in enumerate(array.shape) if keep or place not in gone)
    given = "" if axis is None else f", axis={axis}"
    method = text.startswith("jnp") and name in ("sum", "mean", "max", "min", "argmax") and scope.chance.random() < 0.4
    more = f"{given}{', keepdims=True' if keep else ''}"
    called = f"{array.name}.{name}({more[2:]})" if method else f"{text}({array.name}{more})"
    return Drawn(called, shape, _kind(name))


def _along(scope: Scope) -> Drawn | None:
    text, name = scope.name(jax_numpy.apply_along, "jax.numpy", "jax.numpy", "jax.lax")
    array = scope.pick(lambda one: bool(one.shape))
    if array is None:
        return None
    axis = scope.chance.randrange(len(array.shape))
    keyword = "dimension" if text == "jax.lax.sort" else "axis"
    shift = ", 1" if name == "roll" else ""
    return Drawn(f"{text}({array.name}{shift}, {keyword}={axis})", array.shape, _kind(name))


def _like(scope: Scope) -> Drawn | None:
    text, name = scope.name(jax_numpy.array_like, "jax.numpy", "jax.lax")
    array = scope.pick()
    filled = ", 2.0" if name == "full_like" else ""
    return Drawn(f"{text}({array.name}{filled})", array.shape) if array else None


def _numpy(scope: Scope) -> Drawn | None:
    """An array of the host goes through numpy, and onto a device."""
    if scope.chance.random() < 0.5:
        return _numpy_row(scope)
    family = scope.chance.choice(
        (jax_numpy.apply_unary, jax_numpy.apply_elementwise, jax_numpy.apply_along, jax_numpy.reduce_array)
    )
    text, name = scope.name(family, "numpy")
    if name in _OF_INTEGERS or name in ("where", "clip", "cbrt"):
        return None
    shape = (8, 8)
    ones = f"np.ones({shape}, np.float32)"
    if family is jax_numpy.apply_elementwise:
        return Drawn(f"jnp.asarray({text}({ones}, {ones}))", shape, "?")
    if family is jax_numpy.reduce_array:
        return Drawn(f"jnp.asarray({text}({ones}, axis=0))", (8,), "?")
    return Drawn(f"jnp.asarray({text}({ones}{', 1' if name == 'roll' else ''}{', axis=0' if name.startswith('cum') else ''}))", shape, "?")


def _numpy_row(scope: Scope) -> Drawn | None:
    """A row of jax.numpy as one of numpy."""
    row = scope.chance.choice([one for one in _rows(scope.release) if _is_of_numpy(one.text)])
    shape = scope.chance.choice(((8, 8), (8,), (8, 8, 8)))
    if not eval(row.fits, {"s": shape, "t": shape}):
        return None
    ones = f"np.ones({shape}, np.float32)"
    order = tuple(reversed(range(len(shape))))
    text = row.text.replace("jnp.", "np.").format(ones, ones, a=0, perm=order, bcast=(4, *shape), dtype="float32")
    result = eval(row.shape, {"s": shape, "t": shape, "a": 0, "prod": prod})
    return Drawn(f"jnp.asarray({text})", result, "?")


def _is_of_numpy(text: str) -> bool:
    others = ("jax.", "optax.", "np.random", "{star}", ".at[", "jnp.unstack", "jnp.concat(", "jnp.permute_dims", "linalg", "bfloat16", ".shape, jnp", "jnp.array", "size=", "length=")
    return "jnp." in text and not any(one in text for one in others)


def random_array(scope: Scope, shape: Shape) -> str:
    """Random numbers of a shape, by a function of jax.random."""
    found = [
        (place, name)
        for place, names in jax_random.DRAWS.items()
        for name in names.split()
        if name not in ("orthogonal", "ball", "bits", "randint", "beta", "gamma", "poisson", "bernoulli", "rademacher")
        and is_there(f"jax.random.{name}", scope.release)
    ]
    place, name = scope.chance.choice(found)
    between = "-1.0, 1.0, " if place == 3 else ""
    return f"jax.random.{name}(jax.random.key(0), {between}{shape})"


_RESHAPES: tuple[Callable[[Shape], Shape], ...] = (
    lambda s: (-1,), lambda s: (-1, 8), lambda s: (2, 4, -1), lambda s: (8, 2, -1), lambda s: (s[0], -1),
    lambda s: (*s, 1), lambda s: (1, *s), lambda s: (-1, s[-1]), lambda s: tuple(reversed(s)),
)  # fmt: skip


def _reshape(scope: Scope) -> Drawn | None:
    array = scope.pick(lambda one: bool(one.shape))
    if array is None:
        return None
    wanted = scope.chance.choice(_RESHAPES)(array.shape)
    rest = prod(one for one in wanted if one != -1)
    total = prod(array.shape)
    if total % rest or (-1 not in wanted and total != rest):
        return None
    shape = tuple(total // rest if one == -1 else one for one in wanted)
    form = scope.chance.choice(("{0}.reshape({1})", "jnp.reshape({0}, {2})", "jax.lax.reshape({0}, {3})"))
    return Drawn(form.format(array.name, ", ".join(map(str, wanted)), wanted, shape), shape)


ROWS = """
len(s) == 2 and len(t) == 2 and s[1] == t[0] | {0} @ {1} | (s[0], t[1])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jnp.matmul({0}, {1}) | (s[0], t[1])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jnp.dot({0}, {1}) | (s[0], t[1])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jax.lax.dot({0}, {1}) | (s[0], t[1])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jnp.einsum("ij,jk->ik", {0}, {1}) | (s[0], t[1])
len(s) == 2 and len(t) == 2 and s[1] == t[1] | jnp.einsum("ij,kj->ik", {0}, {1}) | (s[0], t[0])
len(s) == 2 and s == t | jnp.einsum("ij,ij->i", {0}, {1}) | s[:1]
len(s) == 2 and s == t | jnp.einsum("ij,ij->", {0}, {1}) | ()
len(s) == 3 and len(t) == 2 and s[2] == t[0] | jnp.einsum("bij,jk->bik", {0}, {1}) | (*s[:2], t[1])
len(s) == 2 | jnp.einsum("ij->ji", {0}) | (s[1], s[0])
len(s) == 2 | jnp.einsum("ij->i", {0}) | s[:1]
len(s) == 2 and s == t | {0}.T @ {1} | (s[1], t[1])
len(s) == 2 and len(t) == 1 and s[1] == t[0] | {0} @ {1} | s[:1]
len(s) == 1 and len(t) == 2 and s[0] == t[0] | {0} @ {1} | t[1:]
len(s) == 3 and len(t) == 2 and s[2] == t[0] | {0} @ {1} | (*s[:2], t[1])
len(s) == 3 and s == t | jnp.matmul({0}, {1}.swapaxes(1, 2)) | (s[0], s[1], s[1])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jnp.tensordot({0}, {1}, axes=1) | (s[0], t[1])
len(s) == 2 and s == t | jnp.tensordot({0}, {1}) | ()
len(s) == 1 and len(t) == 1 | jnp.outer({0}, {1}) | (*s, *t)
len(s) == 2 and len(t) == 2 and s[1] == t[1] | jnp.inner({0}, {1}) | (s[0], t[0])
s == t | jnp.vdot({0}, {1}) | ()
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jax.lax.dot_general({0}, {1}, (((1,), (0,)), ((), ()))) | (s[0], t[1])
len(s) == 3 and s == t | jax.lax.dot_general({0}, {1}, (((2,), (2,)), ((0,), (0,)))) | (*s[:2], s[1])
s == (8, 8) and t == (8, 8) | jnp.kron({0}, {1}) | (64, 64)
s == (8, 8) and t == (8, 8) | jnp.linalg.solve({0} + jnp.eye(8), {1}) | (8, 8)
s == (8, 8) | jnp.linalg.inv({0} + jnp.eye(8)) | (8, 8)
len(s) == 2 | jnp.linalg.norm({0}) | ()
len(s) == 2 | jnp.linalg.norm({0}, axis=-1) | s[:1]
len(s) == 2 | jnp.linalg.norm({0}, axis=0, keepdims=True) | (1, s[1])
len(s) >= 1 | {0}.T | s[::-1]
len(s) >= 2 | jnp.transpose({0}) | s[::-1]
len(s) >= 2 | jnp.swapaxes({0}, 0, 1) | (s[1], s[0], *s[2:])
len(s) >= 2 | jnp.moveaxis({0}, 0, -1) | (*s[1:], s[0])
len(s) >= 2 | jnp.permute_dims({0}, {perm}) | s[::-1]
len(s) >= 2 | {0}.transpose({star}) | s[::-1]
len(s) >= 2 | jax.lax.transpose({0}, {perm}) | s[::-1]
len(s) >= 1 | jnp.expand_dims({0}, -1) | (*s, 1)
len(s) >= 1 | jnp.expand_dims({0}, 0) | (1, *s)
len(s) >= 2 | jax.lax.expand_dims({0}, (1,)) | (s[0], 1, *s[1:])
len(s) >= 1 | {0}[None] | (1, *s)
len(s) >= 1 | {0}[..., None] | (*s, 1)
len(s) >= 2 | {0}[:, None] | (s[0], 1, *s[1:])
len(s) >= 1 | jnp.squeeze({0}[None], 0) | s
len(s) >= 1 | {0}[None].squeeze() | tuple(x for x in s if x != 1)
len(s) >= 1 | jax.lax.squeeze({0}[None], (0,)) | s
len(s) >= 1 | jnp.ravel({0}) | (prod(s),)
len(s) >= 2 | {0}.flatten() | (prod(s),)
len(s) >= 1 | {0}[0] | s[1:]
len(s) >= 1 | {0}[-1] | s[1:]
len(s) >= 1 and s[0] >= 4 | {0}[:4] | (4, *s[1:])
len(s) >= 1 and s[0] >= 4 | {0}[::2] | ((s[0] + 1) // 2, *s[1:])
len(s) >= 1 | {0}[1:] | (s[0] - 1, *s[1:])
len(s) >= 2 | {0}[..., 0] | s[:-1]
len(s) >= 2 and s[1] >= 2 | {0}[:, 1] | (s[0], *s[2:])
len(s) >= 2 and s[1] >= 2 | {0}[:, :2] | (s[0], 2, *s[2:])
len(s) >= 2 | {0}[0, 0] | s[2:]
len(s) >= 2 | {0}[0, :] | s[1:]
len(s) >= 1 | {0}[jnp.arange(2)] | (2, *s[1:])
len(s) >= 2 and s[0] == s[1] | {0}[jnp.argmax({0}, axis=-1)] | (s[0], *s[2:], *s[1:]) if len(s) == 2 else None
len(s) >= 1 | {0}.at[0].set(1.0) | s
len(s) >= 1 | {0}.at[0].add(1.0) | s
len(s) >= 2 | {0}.at[:, 0].multiply(2.0) | s
len(s) >= 1 | {0}.at[jnp.array([0, 1])].set(0.0) | s
len(s) >= 1 | jnp.take({0}, jnp.array([0, 1]), axis={a}) | tuple(2 if i == a else x for i, x in enumerate(s))
len(s) == 2 | jnp.take_along_axis({0}, jnp.argmax({0}, axis=-1, keepdims=True), axis=-1) | (s[0], 1)
len(s) >= 1 | jnp.tril({0}[None]) | (1, *s)
len(s) >= 1 | jnp.ones({0}.shape, jnp.int32) | s #i
len(s) >= 1 | jnp.asarray(jnp.argmax({0}, axis=-1)) | s[:-1] #i
len(s) >= 1 | {0}.astype(jnp.{dtype}) | s #?
len(s) >= 0 | jnp.{dtype}({0}) | s #?
len(s) >= 0 | jnp.atleast_1d({0}) | s or (1,)
len(s) >= 2 | jnp.atleast_3d({0}) | s if len(s) > 2 else (*s, 1)
len(s) >= 0 | {0} * jnp.ndim({0}) | s
len(s) >= 0 | {0} / jnp.size({0}) | s
len(s) >= 0 | jnp.ones(jnp.shape({0})) | s
len(s) >= 0 | {0}.clip(0.0, 1.0) | s
len(s) >= 0 | {0}.round() | s
len(s) >= 1 | {0}.take(jnp.array([0]), axis=0) | (1, *s[1:])
len(s) >= 1 | {0}.repeat(2, axis=0) | (2 * s[0], *s[1:])
len(s) >= 2 | {0}.swapaxes(0, 1) | (s[1], s[0], *s[2:])
len(s) >= 2 | {0}.mT | (*s[:-2], s[-1], s[-2])
len(s) == 2 and len(t) == 2 and s[1] == t[0] | {0}.dot({1}) | (s[0], t[1])
len(s) >= 2 | jnp.tril({0}) | s
len(s) >= 2 | jnp.triu({0}, 1) | s
len(s) == 2 and s[0] == s[1] | jnp.diag({0}) | s[:1]
len(s) == 1 | jnp.diag({0}) | s * 2
len(s) >= 1 | jnp.broadcast_to({0}, {bcast}) | (4, *s)
len(s) >= 1 | jax.lax.broadcast({0}, (2,)) | (2, *s)
len(s) == 1 | jax.lax.broadcast_in_dim({0}, (4, *{0}.shape), (1,)) | (4, *s)
len(s) >= 1 | jnp.tile({0}, 2) | (*s[:-1], 2 * s[-1])
len(s) == 2 | jnp.tile({0}, (2, 1)) | (2 * s[0], s[1])
len(s) >= 1 | jnp.repeat({0}, 2, axis={a}) | tuple(2 * x if i == a else x for i, x in enumerate(s))
len(s) == 2 | jnp.pad({0}, ((0, 0), (1, 1))) | (s[0], s[1] + 2)
len(s) >= 1 | jnp.pad({0}, 1) | tuple(x + 2 for x in s)
len(s) >= 1 and s[0] % 2 == 0 | jnp.split({0}, 2)[0] | (s[0] // 2, *s[1:])
len(s) >= 2 and s[-1] % 2 == 0 | jnp.split({0}, 2, axis=-1)[1] | (*s[:-1], s[-1] // 2)
len(s) >= 1 | jnp.array_split({0}, 3)[0] | ((s[0] + 2) // 3, *s[1:])
s == t and len(s) >= 1 | jnp.concatenate([{0}, {1}]) | (2 * s[0], *s[1:])
s == t and len(s) >= 2 | jnp.concatenate([{0}, {1}], axis=-1) | (*s[:-1], 2 * s[-1])
s == t and len(s) >= 2 | jnp.concat([{0}, {1}], axis=1) | (s[0], 2 * s[1], *s[2:])
s == t and len(s) >= 1 | jax.lax.concatenate([{0}, {1}], 0) | (2 * s[0], *s[1:])
s == t and len(s) >= 2 | jnp.hstack([{0}, {1}]) | (s[0], 2 * s[1], *s[2:])
s == t and len(s) >= 2 | jnp.vstack([{0}, {1}]) | (2 * s[0], *s[1:])
s == t | jnp.stack([{0}, {1}]) | (2, *s)
s == t and len(s) >= 1 | jnp.stack([{0}, {1}], axis=-1) | (*s, 2)
len(s) >= 2 | jnp.unstack({0}, axis=-1)[0] | s[:-1]
len(s) >= 1 | jnp.unstack({0})[0] | s[1:]
len(s) >= 1 and s[-1] >= 2 | jax.lax.top_k({0}, 2)[0] | (*s[:-1], 2)
len(s) >= 1 and s[-1] >= 2 | jax.lax.top_k({0}, 2)[1] | (*s[:-1], 2) #i
len(s) == 2 and s[-1] >= 2 | jax.lax.approx_min_k({0}, 2)[1] | (*s[:-1], 2) #i
len(s) == 2 and s[-1] >= 2 | jax.lax.approx_max_k({0}, 2)[0] | (*s[:-1], 2)
len(s) >= 1 | jax.nn.one_hot(jnp.argmax({0}, axis=-1), 4) | (*s[:-1], 4)
len(s) >= 1 and s[0] >= 4 | jax.lax.dynamic_slice_in_dim({0}, 0, 4, axis=0) | (4, *s[1:])
len(s) >= 1 and s[0] >= 4 | jax.lax.slice_in_dim({0}, 1, 3, axis=0) | (2, *s[1:])
len(s) >= 1 | jax.lax.dynamic_index_in_dim({0}, 1, axis=0) | (1, *s[1:])
len(s) >= 1 | jax.lax.dynamic_index_in_dim({0}, 1, axis={a}, keepdims=False) | tuple(x for i, x in enumerate(s) if i != a)
len(s) >= 1 | jax.lax.index_in_dim({0}, 0, axis=0, keepdims=False) | s[1:]
len(s) == 2 and s[0] >= 4 | jax.lax.dynamic_slice({0}, (0, 0), (4, 2)) | (4, 2)
len(s) >= 1 and s == t and s[0] >= 4 | jax.lax.dynamic_update_slice_in_dim({0}, {1}[:2], 0, axis=0) | s
len(s) == 2 and s == t | jax.lax.dynamic_update_slice({0}, {1}, (0, 0)) | s
len(s) >= 1 and s == t | jax.lax.dynamic_update_index_in_dim({0}, {1}[0], 0, 0) | s
len(s) >= 1 | jnp.astype({0}, jnp.int32) | s #i
len(s) >= 1 | jnp.nonzero({0}, size=4)[0] | (4,) #i
len(s) >= 1 | jnp.where({0} > 0, size=4)[0] | (4,) #i
len(s) >= 1 | jnp.argwhere({0}, size=4) | (4, len(s)) #i
len(s) >= 1 | jnp.flatnonzero({0}, size=4) | (4,) #i
len(s) >= 1 | jnp.unique({0}, size=4) | (4,)
len(s) >= 1 | jnp.isin({0}, jnp.arange(3.0)) | s #b
len(s) >= 1 | jnp.searchsorted(jnp.arange(8.0), {0}) | s #i
len(s) >= 1 | jnp.digitize({0}, jnp.arange(8.0)) | s #i
len(s) >= 1 | jnp.bincount(jnp.argmax({0}, axis=-1), length=8) | (8,) #i
len(s) >= 1 | jnp.histogram({0}, 4)[0] | (4,) #?
len(s) >= 1 | jnp.histogram({0}, 4)[1] | (5,)
s == t | jnp.array_equal({0}, {1}) | () #b
s == t | jnp.allclose({0}, {1}) | () #b
s == t | jnp.isclose({0}, {1}) | s #b
len(s) >= 1 | jnp.unravel_index(jnp.argmax({0}, axis=-1), (4, 2))[0] | s[:-1] #i
len(s) == 2 | {0}[jnp.tril_indices(3)[0]] | (6, s[1])
len(s) >= 1 | jnp.interp({0}, jnp.arange(8.0), jnp.arange(8.0)) | s
len(s) >= 1 | jnp.percentile({0}, 50.0) | ()
len(s) >= 1 | jnp.quantile({0}, jnp.array([0.2, 0.5]), axis={a}) | (2, *(x for i, x in enumerate(s) if i != a))
len(s) >= 1 | jnp.percentile({0}, 50.0, axis={a}, keepdims=True) | tuple(1 if i == a else x for i, x in enumerate(s))
len(s) >= 1 | jnp.average({0}, axis={a}) | tuple(x for i, x in enumerate(s) if i != a)
s == t and len(s) >= 1 | jnp.average({0}, axis=0, weights={1}) | s[1:]
len(s) == 1 and len(t) == 1 | jnp.meshgrid({0}, {1})[0] | (t[0], s[0])
len(s) == 1 and len(t) == 1 | jnp.meshgrid({0}, {1}, indexing="ij")[1] | (s[0], t[0])
len(s) == 1 and len(t) == 1 | jnp.meshgrid({0}, {1}, sparse=True)[1] | (t[0], 1)
s == t | jnp.append({0}, {1}) | (2 * prod(s),)
s == t and len(s) >= 1 | jnp.append({0}, {1}, axis={a}) | tuple(2 * x if i == a else x for i, x in enumerate(s))
s == t and len(s) >= 1 | jnp.dstack([{0}, {1}]) | (*s[:2], 2 * s[2], *s[3:]) if len(s) > 2 else (*s, 2) if len(s) == 2 else (1, *s, 2)
s == t and len(s) >= 1 | jnp.column_stack([{0}, {1}]) | (s[0], 2 * s[1], *s[2:]) if len(s) > 1 else (s[0], 2)
len(s) >= 1 | jnp.delete({0}, 1, axis=0) | (s[0] - 1, *s[1:])
len(s) >= 1 | jnp.insert({0}, 1, 2.0, axis=0) | (s[0] + 1, *s[1:])
len(s) >= 1 | jnp.resize({0}, (4, 4)) | (4, 4)
s == t | jnp.select([{0} > 0, {1} > 0], [{0}, {1}]) | s
s == t | jnp.divmod({0}, {1})[0] | s
len(s) >= 1 | jnp.modf({0})[1] | s
len(s) == 2 and s[0] == s[1] | {0} * jnp.tri({0}.shape[0]) | s
len(s) >= 1 | {0} * jnp.hanning({0}.shape[-1]) | s
len(s) >= 1 | {0} + jnp.geomspace(1.0, 2.0, {0}.shape[-1]) | s
len(s) >= 1 | jnp.diff({0}) | (*s[:-1], s[-1] - 1)
len(s) >= 1 | jnp.diff({0}, n=2, axis={a}) | tuple(max(x - 2, 0) if i == a else x for i, x in enumerate(s))
len(s) == 1 and len(t) == 1 | jnp.convolve({0}, {1}, mode="same") | (max(s[0], t[0]),)
len(s) == 1 and len(t) == 1 | jnp.correlate({0}, {1}, mode="full") | (s[0] + t[0] - 1,)
len(s) >= 1 | jnp.cumulative_sum({0}, axis={a}) | s
len(s) >= 1 | jnp.partition({0}, 1) | s
len(s) >= 1 | jnp.argpartition({0}, 1) | s #i
len(s) >= 1 | jnp.lexsort([{0}, {0}]) | s #i
len(s) >= 2 | jnp.rot90({0}) | (s[1], s[0], *s[2:])
len(s) >= 2 | jnp.flipud({0}) | s
s == t and len(s) >= 1 | jnp.broadcast_arrays({0}, {1}[0])[1] | s
len(s) >= 1 | jax.lax.bitcast_convert_type({0}, jnp.int32) | s #i
len(s) >= 1 | jax.lax.bitcast_convert_type({0}, jnp.uint8) | (*s, 4) #?
len(s) >= 2 | jnp.linalg.qr({0})[0] | (*s[:-2], s[-2], min(s[-2:]))
len(s) >= 2 | jnp.linalg.qr({0})[1] | (*s[:-2], min(s[-2:]), s[-1])
len(s) >= 2 | jnp.linalg.qr({0}, mode="r") | (*s[:-2], min(s[-2:]), s[-1])
len(s) >= 2 | jnp.linalg.svd({0})[0] | (*s[:-1], s[-2])
len(s) >= 2 | jnp.linalg.svd({0}, full_matrices=False)[2] | (*s[:-2], min(s[-2:]), s[-1])
len(s) >= 2 | jnp.linalg.svd({0}, compute_uv=False) | (*s[:-2], min(s[-2:]))
len(s) >= 2 and s[-1] == s[-2] | jnp.linalg.eigh({0})[0] | s[:-1]
len(s) >= 2 and s[-1] == s[-2] | jnp.linalg.eigh({0})[1] | s
len(s) >= 2 and s[-1] == s[-2] | jnp.linalg.cholesky({0} + jnp.eye({0}.shape[-1])) | s
len(s) >= 2 | jnp.linalg.pinv({0}) | (*s[:-2], s[-1], s[-2])
len(s) >= 2 and s[-1] == s[-2] | jnp.linalg.det({0}) | s[:-2]
len(s) >= 2 and s[-1] == s[-2] | jnp.linalg.slogdet({0})[1] | s[:-2]
len(s) >= 2 | jnp.linalg.matrix_rank({0}) | s[:-2] #?
s == (8, 8) and t == (8, 8) | jax.scipy.linalg.solve_triangular({0} + jnp.eye(8), {1}) | (8, 8)
s == (8, 8) | jax.scipy.linalg.expm({0}) | (8, 8)
len(s) >= 2 | jnp.trace({0}) | s[2:]
len(s) >= 2 | jnp.diagonal({0}) | (*s[2:], min(s[:2]))
len(s) == 2 and len(t) == 2 | jax.scipy.linalg.block_diag({0}, {1}) | (s[0] + t[0], s[1] + t[1])
len(s) == 2 | jnp.cov({0}) | (s[0], s[0])
len(s) >= 1 | jnp.fft.rfft({0}) | (*s[:-1], s[-1] // 2 + 1) #?
len(s) >= 1 | jnp.fft.irfft(jnp.fft.rfft({0})) | s
len(s) >= 1 | jnp.fft.fft({0}, n=4) | (*s[:-1], 4) #?
len(s) >= 2 | jnp.fft.fft2({0}) | s #?
len(s) >= 2 | jnp.fft.rfft2({0}) | (*s[:-1], s[-1] // 2 + 1) #?
len(s) >= 1 | jnp.fft.fftn({0}) | s #?
len(s) >= 1 | jnp.fft.fftshift({0}) | s
len(s) >= 1 | {0} + jnp.fft.fftfreq({0}.shape[-1]) | s
len(s) == 2 | jax.lax.slice({0}, (1, 0), (5, 2)) | (4, 2)
len(s) == 2 | jax.lax.slice({0}, (0, 0), (6, 2), (2, 1)) | (3, 2)
len(s) == 2 | jax.lax.pad({0}, 0.0, ((1, 1, 0), (0, 0, 1))) | (s[0] + 2, 2 * s[1] - 1)
len(s) >= 2 | jax.lax.collapse({0}, 0, 2) | (s[0] * s[1], *s[2:])
len(s) >= 1 | jax.lax.reduce({0}, 0.0, jax.lax.add, (0,)) | s[1:]
len(s) >= 1 | jax.lax.reduce_max({0}, (0,)) | s[1:]
len(s) >= 1 | jax.lax.argmax({0}, 0, jnp.int32) | s[1:] #i
len(s) >= 1 | jax.lax.rev({0}, (0,)) | s
len(s) >= 1 and s[0] == 8 | jax.lax.split({0}, (2, 6))[1] | (6, *s[1:])
s == t and len(s) >= 1 | jax.lax.sort_key_val({0}, {1})[1] | s
len(s) >= 1 | jax.lax.associative_scan(jnp.add, {0}) | s
len(s) == 2 | jax.lax.ragged_dot({0}, jnp.ones((2, {0}.shape[1], 4)), jnp.array([3, 3])) | (s[0], 4)
len(s) == 3 and s == t | jax.lax.batch_matmul({0}, {1}) | s
len(s) >= 1 | jax.ops.segment_sum({0}, jnp.zeros({0}.shape[0], jnp.int32), 3) | (3, *s[1:])
len(s) >= 1 | jax.ops.segment_max({0}, jnp.zeros({0}.shape[0], jnp.int32), num_segments=3) | (3, *s[1:])
s == (8, 8, 8) and t == s | jax.lax.conv_general_dilated({0}, {1}, (1,), "SAME") | s
s == (8, 8, 8) and t == s | jax.lax.conv_general_dilated({0}, {1}, (2,), [(1, 2)], rhs_dilation=(1,), dimension_numbers=("NWC", "WIO", "NWC")) | (8, 2, 8)
s == (8, 8, 8) and t == s | jax.lax.conv({0}, {1}, (1,), "VALID") | (8, 8, 1)
s == (8, 8, 8) and t == s | jax.lax.conv_transpose({0}, {1}, (2,), "SAME") | (8, 16, 8)
s == (8, 8, 8) and t == s | jax.lax.conv_transpose({0}, {1}, (2,), "VALID") | (8, 22, 8)
s == (8, 8, 8) | jax.lax.conv_general_dilated_patches({0}, (3,), (1,), "VALID") | (8, 24, 6)
len(s) == 2 | jax.lax.reduce_window({0}, 0.0, jax.lax.add, (2, 1), (2, 1), "VALID") | (s[0] // 2, s[1])
len(s) == 2 | jax.lax.reduce_window({0}, -jnp.inf, jax.lax.max, (3, 1), (1, 1), "SAME") | s
len(s) == 2 | jax.image.resize({0}, (4, 6), "linear") | (4, 6)
len(s) == 2 | jax.image.resize({0}, {0}.shape, method="nearest") | s
s == (8, 8, 8) and t == s | jax.nn.dot_product_attention({0}, {1}, {1}) | s
len(s) >= 1 and s[-1] % 2 == 0 | jax.nn.glu({0}) | (*s[:-1], s[-1] // 2)
len(s) >= 1 | jax.lax.clamp(0.0, {0}, 1.0) | s
s == t | jax.lax.select_n({0} > 0, {0}, {1}) | s
len(s) >= 1 | jnp.take({0}, jnp.array([0, 1]), axis=0) | (2, *s[1:])
len(s) >= 1 | jax.lax.empty({0}.shape, jnp.float32) | s
len(s) >= 1 | jax.lax.associative_scan(jnp.maximum, {0}, axis={a}) | s
len(s) == 2 | jax.make_array_from_callback((8, 8), NamedSharding(mesh, P("a")), lambda i: np.ones((8, 8), np.float32)[i]) | (8, 8)
len(s) == 2 | jax.make_array_from_process_local_data(NamedSharding(mesh, P("a")), np.ones((8, 8), np.float32)) | (8, 8)
len(s) == 2 | jax.make_array_from_process_local_data(NamedSharding(mesh, P()), np.ones((8, 8), np.float32), (8, 8)) | (8, 8)
len(s) >= 0 | jnp.asarray(jax.experimental.multihost_utils.broadcast_one_to_all(np.ones({0}.shape, np.float32))) | s
len(s) >= 0 | jnp.asarray(jax.experimental.multihost_utils.process_allgather(np.ones({0}.shape, np.float32), tiled=True)) | s
len(s) == 2 | jax.experimental.multihost_utils.host_local_array_to_global_array(np.ones((8, 8), np.float32), mesh, P("b")) | (8, 8)
len(s) >= 1 | jax.sharding.auto_axes(lambda v: v * 2.0, out_sharding=P())({0}) | s
len(s) >= 1 | {0}.at[0].get() | s[1:]
len(s) >= 1 | {0}.at[:4].get() | (min(s[0], 4), *s[1:])
len(s) >= 1 | {0}.argsort() | s #i
len(s) >= 2 | {0}.diagonal() | (*s[2:], min(s[:2]))
len(s) >= 2 | {0}.trace() | s[2:]
len(s) >= 0 | jax.pure_callback(np.sin, jax.ShapeDtypeStruct({0}.shape, jnp.float32), {0}) | s
len(s) >= 1 | {0}.astype(jnp.bfloat16).astype(jnp.float32) | s
len(s) >= 1 | {0}.astype(jnp.int32) | s #i
len(s) >= 1 | {0} > 0 | s #b
len(s) >= 0 | {0}.copy() | s
len(s) >= 0 | {0} * 2.0 | s
len(s) >= 0 | -{0} | s
len(s) >= 0 | {0} ** 2 | s
len(s) >= 0 | jnp.float32({0}) | s
len(s) >= 0 | jnp.asarray({0}) | s
len(s) >= 0 | jnp.array({0}) | s
len(s) >= 0 | jnp.atleast_2d({0}) | (s if len(s) >= 2 else (1, *s) if s else (1, 1))
s == t | {0} + {1} | s
s == t | {0} * {1} | s
s == t | {0} - {1}.sum() | s
s == t | jnp.where({0} > 0, {0}, {1}) | s
len(s) >= 2 and t == s[1:] | {0} + {1} | s
len(s) >= 2 and t == s[1:] | {0} * {1}[None] | s
len(s) >= 1 | {0} - {0}.mean(axis=-1, keepdims=True) | s
len(s) >= 1 | {0} / (1.0 + jnp.abs({0}).max()) | s
len(s) == 2 | {0} + jnp.arange({0}.shape[-1], dtype=jnp.float32) | s
len(s) == 2 | {0} + jnp.linspace(0.0, 1.0, {0}.shape[0])[:, None] | s
len(s) == 2 and s[0] == s[1] | {0} * jnp.eye({0}.shape[0]) | s
len(s) == 2 and s[0] == s[1] | {0} @ jnp.identity({0}.shape[0]) | s
len(s) == 2 | {0} * jax.lax.iota(jnp.float32, {0}.shape[1]) | s
len(s) == 2 | {0} + jax.lax.broadcasted_iota(jnp.float32, {0}.shape, 1) | s
len(s) >= 1 | {0} + jnp.full({0}.shape, 2.0) | s
len(s) >= 1 | jnp.zeros({0}.shape, {0}.dtype) | s
len(s) >= 1 | jnp.empty({0}.shape) | s
len(s) >= 0 | jax.lax.full({0}.shape, 1.0) | s
len(s) >= 1 | jnp.add({0}, np.ones({0}.shape, np.float32)) | s
len(s) >= 1 | {0} * np.float32(2.0) | s
len(s) >= 1 | jax.vmap(lambda row: row * 2.0)({0}) | s
len(s) >= 2 and s == t | jax.vmap(jnp.add)({0}, {1}) | s
len(s) >= 2 | jax.vmap(lambda r: r.sum())({0}) | s[:1]
len(s) == 2 | jax.vmap(lambda r: r * 2.0, in_axes=1)({0}) | s[::-1]
len(s) == 2 | jax.vmap(lambda r: r * 2.0, in_axes=1, out_axes=1)({0}) | s
len(s) == 2 and t == s[1:] | jax.vmap(lambda r, w: r * w, in_axes=(0, None))({0}, {1}) | s
len(s) == 2 and s == t | jax.vmap(lambda r, w: (r * w).sum())({0}, {1}) | s[:1]
len(s) >= 1 | jax.vmap(lambda r: jax.lax.psum(r, "i"), axis_name="i")({0}) | s
len(s) >= 0 | jax.grad(lambda v: (v * v).sum())({0}) | s
len(s) >= 0 | jax.value_and_grad(lambda v: jnp.sin(v).mean())({0})[1] | s
len(s) == 2 and len(t) == 2 and s[1] == t[0] | jax.grad(lambda v, w: (v @ w).sum(), argnums=1)({0}, {1}) | t
len(s) >= 0 | jax.jvp(jnp.sin, ({0},), ({0},))[1] | s
len(s) >= 0 | jax.vjp(jnp.sin, {0})[0] | s
len(s) >= 0 | jax.linearize(jnp.sin, {0})[0] | s
len(s) >= 0 | jax.checkpoint(lambda v: jnp.sin(v) * 2.0)({0}) | s
len(s) >= 0 | jax.grad(jax.checkpoint(lambda v: jnp.tanh(v).sum()))({0}) | s
len(s) >= 0 | jax.named_call(lambda v: v + 1.0, name="step")({0}) | s
len(s) >= 0 | jax.named_scope("step")(lambda v: v + 1.0)({0}) | s
len(s) >= 0 | jax.experimental.pjit.pjit(lambda v: v * 2.0)({0}) | s
len(s) >= 0 | jax.jit(lambda v, n: v * n, static_argnums=1)({0}, 3) | s
len(s) >= 0 | jax.jit(lambda v, n: v * n, static_argnames="n")({0}, n=3) | s
len(s) >= 0 | jax.eval_shape(lambda v: v * 2.0, jax.ShapeDtypeStruct({0}.shape, jnp.float32)) | None
len(s) >= 0 | jax.block_until_ready({0}) | s
len(s) >= 0 | jax.ad_checkpoint.checkpoint_name({0}, "h") | s
len(s) >= 1 | jax.lax.map(lambda row: row * 2.0, {0}) | s
len(s) >= 1 | jax.lax.scan(lambda c, row: (c + row, row), jnp.zeros({0}.shape[1:]), {0})[1] | s
len(s) >= 1 | jax.lax.scan(lambda c, row: (c + row, row.sum()), jnp.zeros({0}.shape[1:]), {0})[0] | s[1:]
len(s) >= 0 | jax.lax.scan(lambda c, _: (c * 2.0, c.sum()), {0}, None, length=3)[0] | s
len(s) >= 0 | jax.lax.scan(lambda c, _: (c * 2.0, c.sum()), {0}, None, length=3)[1] | (3,)
len(s) >= 0 | jax.lax.fori_loop(0, 3, lambda i, c: c + 1.0, {0}) | s
s == t | jax.lax.fori_loop(0, 3, lambda i, c: c + {1}, {0}) | s
len(s) >= 0 | jax.lax.while_loop(lambda c: c.sum() < 0, lambda c: jnp.abs(c), {0}) | s
len(s) >= 0 | jax.lax.cond({0}.sum() > 0, lambda v: v * 2.0, lambda v: -v, {0}) | s
s == t | jax.lax.cond(True, lambda: {0}, lambda: {1}) | s
len(s) >= 0 | jax.lax.switch(1, [jnp.sin, jnp.cos, jnp.tanh], {0}) | s
len(s) >= 0 | jax.tree.map(lambda v: v + 1.0, {{'w': {0}}})['w'] | s
s == t | jax.tree.map(jnp.add, [{0}], [{1}])[0] | s
len(s) >= 0 | jax.tree_util.tree_leaves({{'w': {0}, 'b': 1.0}})[1] | s
len(s) >= 0 | jax.tree.leaves(({0}, 1.0))[0] | s
len(s) >= 0 | jax.tree_util.tree_map_with_path(lambda path, v: v * 2.0, {{'w': {0}}})['w'] | s
len(s) >= 0 | jax.tree.flatten({{'w': {0}}})[0][0] | s
len(s) >= 0 | jax.tree_util.Partial(helper, scale=3.0)({0}) | s
s == t | max([{0}, {1}], key=lambda v: v.ndim) | s
len(s) >= 0 | [v * 2.0 for v in ({0}, {0})][1] | s
s == t | {{k: v + 1.0 for k, v in zip("ab", ({0}, {1}))}}["b"] | s
len(s) >= 1 | jax.flatten_util.ravel_pytree({{'w': {0}}})[0] | (prod(s),)
len(s) >= 0 | sum([{0} for _ in range(3)]) | s
len(s) >= 0 | functools.reduce(jnp.add, [{0}, {0}]) | s
len(s) >= 0 | (lambda v, scale=2.0: v * scale)({0}) | s
len(s) >= 0 | helper({0}) | s
s == t | functools.partial(helper, bias={1})({0}) | s
len(s) >= 0 | Pair({0}, {0} * 2.0).total() | s
s == t | optax.sgd(0.1).update({{'w': {0}}}, optax.sgd(0.1).init({{'w': {1}}}))[0]['w'] | s
len(s) >= 0 | optax.l2_loss({0}) | s
s == t | optax.squared_error({0}, {1}) | s
s == t and len(s) >= 1 | optax.softmax_cross_entropy({0}, {1}) | s[:-1]
s == t | optax.sigmoid_binary_cross_entropy({0}, {1}) | s
len(s) >= 2 | optax.softmax_cross_entropy_with_integer_labels({0}, jnp.argmax({0}, axis=-1)) | s[:-1]
len(s) >= 0 | optax.apply_updates({{'w': {0}}}, {{'w': {0}}})['w'] | s
len(s) >= 0 | optax.{optimizer}(1e-3).init({{'w': {0}}})[0].mu['w'] | s
s == t | optax.{optimizer}(1e-3).update({{'w': {0}}}, optax.{optimizer}(1e-3).init({{'w': {1}}}), {{'w': {1}}})[0]['w'] | s
len(s) >= 0 | optax.scale_by_adam().init({{'w': {0}}}).nu['w'] | s
len(s) >= 1 | jax.random.normal(jax.random.fold_in(jax.random.key(0), 1), {0}.shape) * {0} | s
len(s) == 2 | jax.vmap(lambda k: jax.random.normal(k, (4,)))(jax.random.split(jax.random.key(0), 8)) | (8, 4)
len(s) >= 1 | jax.random.permutation(jax.random.key(0), {0}) | s
len(s) >= 1 | jax.random.choice(jax.random.key(0), {0}) | s[1:]
len(s) >= 1 | jax.random.categorical(jax.random.key(0), {0}) | s[:-1] #i
len(s) >= 1 | jax.random.bernoulli(jax.random.key(0), 0.5, {0}.shape) | s #b
len(s) >= 1 | jax.random.randint(jax.random.key(0), {0}.shape, 0, 8) | s #i
len(s) >= 1 | jax.random.bits(jax.random.PRNGKey(0), {0}.shape) | s #?
len(s) >= 1 | jax.random.beta(jax.random.key(0), 2.0, 3.0, {0}.shape) | s
len(s) >= 1 | jax.random.poisson(jax.random.PRNGKey(0), 2.0, {0}.shape) | s #i
len(s) >= 1 | jax.random.rademacher(jax.random.clone(jax.random.key(0)), {0}.shape) | s #i
len(s) >= 1 | jax.random.dirichlet(jax.random.key(0), jnp.ones(3), {0}.shape) | (*s, 3)
len(s) >= 1 | jax.random.ball(jax.random.key(0), 3, shape={0}.shape) | (*s, 3)
len(s) >= 1 | jax.random.orthogonal(jax.random.key(0), 4, {0}.shape[:1]) | (s[0], 4, 4)
len(s) >= 1 | jax.random.gamma(jax.random.key(0), 2.0, {0}.shape) | s
len(s) >= 1 | jax.nn.initializers.normal(0.02)(jax.random.key(0), {0}.shape) | s
len(s) == 2 | jax.nn.initializers.{initializer}()(jax.random.key(0), {0}.shape) | s
len(s) == 2 | jax.nn.initializers.constant(2.0)(jax.random.key(0), {0}.shape) | s
len(s) == 2 | jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")(jax.random.key(0), {0}.shape) | s
len(s) == 2 | jax.nn.initializers.ones(jax.random.key(0), {0}.shape, jnp.bfloat16) | s #?
len(s) >= 1 | jnp.asarray(np.random.default_rng(0).normal(size={0}.shape)) | s #?
len(s) >= 1 | jnp.asarray(np.random.default_rng(0).integers(0, 8, {0}.shape)) | s #i
len(s) >= 1 | jnp.asarray(np.random.default_rng(0).uniform(0.0, 1.0, {0}.shape), jnp.float32) | s
len(s) == 2 | jnp.asarray(np.random.randn(*{0}.shape)) | s #?
len(s) >= 1 | jnp.asarray(np.random.default_rng(0).standard_normal({0}.shape)) + {0} | s
len(s) >= 1 | jnp.asarray(np.random.RandomState(0).permutation({0}.shape[0])) | s[:1] #i
len(s) == 2 | jax.nn.initializers.lecun_normal()(jax.random.key(0), {0}.shape, jnp.float32) | s
len(s) >= 1 | jax.nn.initializers.zeros(jax.random.key(0), {0}.shape) | s
"""
_OPTIMIZERS = ("adam", "adamw", "lion", "nadam", "radam", "adamax", "lamb", "amsgrad")
_DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "uint32", "bool_")


@dataclass(frozen=True)
class Row:
    """One row of `ROWS`."""

    fits: Any
    text: str
    shape: Any
    kind: str

    @property
    def pairs(self) -> bool:
        """True if it names two arrays."""
        return "{1}" in self.text


@cache
def _rows(release: Release) -> tuple[Row, ...]:
    return tuple(row for row in _all_rows() if all(is_there(name, release) for name in _names_in(row.text)))


def _all_rows() -> Iterator[Row]:
    for line in ROWS.strip().splitlines():
        condition, text, result = line.split(" | ")
        shape, _, kind = result.partition(" #")
        yield Row(compile(condition, "row", "eval"), text, compile(shape, "row", "eval"), kind or "f")


def _names_in(text: str) -> Iterator[str]:
    for word in text.replace("(", " ").replace(")", " ").replace(",", " ").replace("[", " ").split():
        if word.startswith(("jnp.", "jax.")):
            yield word.replace("jnp.", "jax.numpy.")


@cache
def _initializers(release: Release) -> tuple[str, ...]:
    named = names_of(jax_initializers.make_initializer, "jax.nn.initializers", release)
    others = ("constant", "variance_scaling", "delta_orthogonal", "zeros_init", "ones_init")
    return tuple(name for name in named if name not in others)


def _row(scope: Scope) -> Drawn | None:
    row = scope.chance.choice(_rows(scope.release))
    first = scope.pick()
    if first is None:
        return None
    others: Sequence[Array] = scope.arrays[-5:] if row.pairs else (first,)
    fitting = [
        one
        for one in others
        if one.kind == "f" and eval(row.fits, {"s": first.shape, "t": one.shape})
    ]
    if not fitting:
        return None
    second = scope.chance.choice(fitting)
    rank = len(first.shape)
    axis = scope.chance.randrange(max(rank, 1))
    order = tuple(reversed(range(rank)))
    text = row.text.format(
        first.name, second.name, a=axis, perm=order, star=", ".join(map(str, order)), bcast=(4, *first.shape),
        optimizer=scope.chance.choice(_OPTIMIZERS), dtype=scope.chance.choice(_DTYPES),
        initializer=scope.chance.choice(_initializers(scope.release)),
    )  # fmt: skip
    shape = eval(row.shape, {"s": first.shape, "t": second.shape, "a": axis, "prod": prod})
    return Drawn(text, shape, row.kind)


_FAMILIES: tuple[tuple[Callable[[Scope], Drawn | None], int], ...] = (
    (_row, 60), (_unary, 8), (_elementwise, 8), (_reduction, 8), (_along, 4), (_like, 3), (_reshape, 6), (_numpy, 1),
)  # fmt: skip


def expression(scope: Scope) -> Drawn:
    """An expression over the arrays of a scope."""
    families, weights = zip(*_FAMILIES, strict=True)
    while True:
        drawn = scope.chance.choices(families, weights)[0](scope)
        if drawn is not None:
            return drawn
