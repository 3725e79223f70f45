"""Programs that are generated, to compare what is predicted of their layouts with what jax does.

A program binds one array a line: at the top level, where each line is compiled, or in a function that is traced, which
costs jax a tenth of that. What it says comes from `vocabulary`; what a release lacks is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.layouts.vocabulary import Array, Drawn, Release, Scope, Shape, expression, is_there, random_array

NEWEST: Release = (0, 12)
_HEAD = """\
import functools
from dataclasses import dataclass

import jax
import jax.ad_checkpoint
import jax.experimental.multihost_utils
import jax.experimental.pjit
import jax.flatten_util
import jax.image
import jax.numpy as jnp
import jax.ops
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import optax
from jax.experimental import mesh_utils
from jax.sharding import {types}NamedSharding, PartitionSpec as P{more}

mesh = {mesh}


def helper(v, scale=2.0, bias=None):
    v = v * scale
    if bias is not None:
        v = v + bias
    return v


@dataclass
class Pair:
    left: jax.Array
    right: jax.Array

    def total(self):
        return self.left + self.right


"""
_SHAPES: tuple[Shape, ...] = ((8, 8), (8, 8), (8, 8), (8, 8), (8,), (8,), (16, 8), (8, 8, 8), (6, 2))
_SPECS = ("P()", 'P("a")', 'P("b")', 'P(None, "b")', 'P("a", "b")', 'P("b", "a")', 'P(("a", "b"))', 'P(None, "a")')
# What shard_map's body says beside expressions; `x` is an array of the body, `n` an axis.
_COLLECTIVES = ("jax.lax.psum({x}, {n})", "jax.lax.pmean({x}, {n})", "jax.lax.pmax({x}, {n})", "jax.lax.pmin({x}, {n})",
                "{x} * jax.lax.axis_index({n})", "{x} / jax.lax.psum(1, {n})", "jax.lax.ppermute({x}, {n}, [(0, 1), (1, 0)])",
                "jax.lax.all_gather({x}, {n}, tiled=True)", "jax.lax.all_gather({x}, {n})", "{x} / jax.lax.axis_size({n})", "jax.lax.psum_scatter(jax.lax.all_gather({x}, {n}), {n})",
                "jax.lax.psum_scatter({x}, {n}, tiled=True)", "jax.lax.all_to_all({x}, {n}, 0, 0, tiled=True)",
                "jax.lax.pshuffle({x}, {n}, list(reversed(range(jax.lax.psum(1, {n})))))", "jax.lax.pcast({x}, {n}, to='varying')", "jax.lax.pvary({x}, {n})",
                "jax.lax.psum({x}.sum(axis=0), {n})", "jax.lax.scan(lambda c, r: (c + r, None), jnp.zeros({x}.shape[1:]), {x})[0]",
                "jax.lax.scan(lambda c, r: (c + r, None), jnp.zeros_like({x}[0]), {x})[0]",
                "jax.lax.fori_loop(0, 3, lambda i, c: c + {x}, {x})", "jax.lax.fori_loop(0, 3, lambda i, c: c + {x}, jnp.zeros({x}.shape))",
                "jax.lax.cond(True, lambda: {x}.sum(), lambda: jnp.zeros(()))[None]", "jax.grad(lambda v: (v * {x}).sum())({x})")  # fmt: skip
_OF_COLLECTIVES = ("jax.lax.axis_size", "jax.lax.pcast", "jax.lax.pvary")


def program(seed: int, release: Release = NEWEST) -> str:
    """A program of a release; the same for the same seed."""
    return _Program(random.Random(seed), release).text()


class _Program:
    """One program: its lines, and the arrays that were bound so far."""

    def __init__(self, chance: random.Random, release: Release) -> None:
        self.chance = chance
        self.release = release
        self.scope = Scope(chance, release)
        self.lines: list[str] = []
        self.indent = ""
        self.typed = is_there("jax.sharding.AxisType", release)
        self.modern = is_there("jax.set_mesh", release)
        kinds = ["Auto", "Auto", "Auto", "Auto", "Explicit", "Explicit", "Explicit", "Explicit", "Explicit", "Mixed"]
        self.kind = chance.choice(kinds) if self.typed else "Auto"

    def text(self) -> str:
        """The whole of it."""
        styles: list[Callable[[], None]] = [self._eager, self._traced, self._traced, self._traced, self._mapped, self._trees]
        self._enter_context()
        self.chance.choice(styles)()
        return self._head() + "\n".join(self.lines) + "\n"

    def _head(self) -> str:
        types, mesh = "", 'jax.make_mesh((2, 4), ("a", "b"))'
        drawn = self.chance.random()
        if drawn < 0.1:
            mesh = 'jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))'
        elif drawn < 0.15:
            mesh = 'jax.sharding.Mesh(mesh_utils.create_device_mesh((2, 4)), ("a", "b"))'
        if self.typed:
            one, two = ("Auto", "Explicit") if self.kind == "Mixed" else (self.kind, self.kind)
            keyword = "" if drawn > 0.8 and self.release >= (0, 12) else "axis_types="
            types, mesh = "AxisType, ", f"{mesh[:-1]}, {keyword}(AxisType.{one}, AxisType.{two}))"
        more = "" if is_there("jax.shard_map", self.release) else "\nfrom jax.experimental.shard_map import shard_map"
        return _HEAD.format(types=types, mesh=mesh, more=more)

    def _enter_context(self) -> None:
        drawn = self.chance.random()
        if self.modern and drawn < 0.4:
            self.lines.append("with jax.set_mesh(mesh):")
            self.indent = "    "
        elif drawn < (0.43 if self.modern else 0.3) and self.kind == "Auto":
            self.lines.append("with mesh:")
            self.indent = "    "

    # statements

    def _bind(self, name: str, drawn: Drawn, indent: str | None = None) -> None:
        self.lines.append(f"{self.indent if indent is None else indent}{name} = {drawn.text}")
        if drawn.shape is not None:
            self.scope.arrays.append(Array(name, drawn.shape, drawn.kind))

    def _sharding(self, rank: int | None = None) -> str:
        """A sharding; of one in twenty the spec has more entries than `rank`."""
        memory = ', memory_kind="pinned_host"' if self.modern and self.chance.random() < 0.04 else ""
        return f"NamedSharding(mesh, {self._spec(rank)}{memory})"

    def _spec(self, rank: int | None = None) -> str:
        fits = [one for one in _SPECS if rank is None or _entries(one) <= rank]
        return self.chance.choice(_SPECS if self.chance.random() < 0.05 else fits)

    def _fresh(self) -> Drawn:
        shape = self.chance.choice(_SHAPES)
        drawn = random_array(self.scope, shape) if self.chance.random() < 0.1 else ""
        texts = [f"jnp.ones({shape})", f"jnp.zeros({shape})", f"np.ones({shape}, np.float32)", f"jnp.full({shape}, 2.0)"]
        return Drawn(drawn or self.chance.choice(texts), shape)

    def _placed(self) -> Drawn:
        made = self._fresh()
        assert made.shape is not None
        if self.chance.random() < 0.05:
            device = f"jax.devices()[{self.chance.randrange(2)}]"
            target = self.chance.choice((device, f"jax.sharding.SingleDeviceSharding({device})"))
            return Drawn(f"jax.device_put({made.text}, {target})", made.shape)
        return Drawn(f"jax.device_put({made.text}, {self._sharding(len(made.shape))})", made.shape)

    def _operation(self) -> Drawn:
        drawn = expression(self.scope)
        if self.chance.random() < 0.2:  # through a jitted helper
            used = [one.name for one in self.scope.arrays if one.name in drawn.text]
            return Drawn(f"jax.jit(lambda {', '.join(used)}: {drawn.text})({', '.join(used)})", drawn.shape, drawn.kind)
        return drawn

    def _constraint(self) -> Drawn:
        array = self.chance.choice(self.scope.arrays)
        rank = len(array.shape)
        target = self._spec(rank) if self.chance.random() < 0.3 and self.indent else self._sharding(rank)
        calls = ["jax.lax.with_sharding_constraint({0}, {1})", "jax.device_put({0}, {1})"]
        if is_there("jax.reshard", self.release):
            calls.append("jax.reshard({0}, {1})")
        call = self.chance.choice(calls)
        if call.startswith("jax.device_put") and target.startswith("P("):
            target = self._sharding(rank)
        return Drawn(call.format(array.name, target), array.shape, array.kind)

    def _compiled(self) -> Drawn:
        """A jit that says how its argument or result is placed."""
        array = self.chance.choice(self.scope.arrays)
        which = self.chance.choice(("in_shardings", "out_shardings", "donate_argnums=0, out_shardings"))
        return Drawn(f"jax.jit(lambda v: v + 1.0, {which}={self._sharding(len(array.shape))})({array.name})", array.shape)

    def _manual(self) -> Drawn:
        """shard_map of one expression."""
        body = self.chance.choice([one for one in _COLLECTIVES if self._has(one)])
        array = self.chance.choice(self.scope.arrays)
        rank = len(array.shape)
        axis = self.chance.choice(('"a"', '"b"', '("a", "b")') if "psum(" in body or "pmean(" in body else ('"a"', '"b"'))
        function = f"lambda x: {body.format(x='x', n=axis)}"
        specs = f"in_specs={self._spec(rank)}, out_specs={self._spec(rank)}{self._unchecked()}"
        return Drawn(f"{self._shard_map}({function}, mesh=mesh, {specs})({array.name})")

    def _has(self, text: str) -> bool:
        return all(is_there(name, self.release) for name in _OF_COLLECTIVES if name in text)

    @property
    def _shard_map(self) -> str:
        return "jax.shard_map" if is_there("jax.shard_map", self.release) else "shard_map"

    def _unchecked(self) -> str:
        keyword = "check_vma" if is_there("jax.shard_map", self.release) else "check_rep"
        return f", {keyword}=False" if self.chance.random() < 0.25 else ""

    def _step(self) -> Drawn:
        drawn = self.chance.random()
        if drawn < 0.08:
            return self._constraint()
        if drawn < 0.12:
            return self._compiled()
        return self._manual() if drawn < 0.16 else self._operation()

    # styles

    def _eager(self) -> None:
        """Each line at the top level."""
        for number in range(self.chance.randrange(4, 8)):
            make = self.chance.choice((self._fresh, self._placed, self._placed)) if number < 2 else self._step
            self._bind(f"v{number}", make())

    def _arguments(self) -> list[str]:
        count = self.chance.randrange(1, 4)
        for number in range(count):
            self._bind(f"x{number}", self._placed() if self.chance.random() < 0.85 else self._fresh())
        return [f"x{number}" for number in range(count)]

    def _traced(self) -> None:
        """The lines of one function, which is traced; sometimes it is compiled and run too."""
        names = self._arguments()
        outer = self.lines
        self.lines = []
        for number in range(self.chance.randrange(3, 8)):
            self._bind(f"y{number}", self._step(), "    ")
        last = f"y{self.chance.randrange(max(number - 1, 0), number + 1)}"
        body, self.lines = self.lines, outer
        call, decorator = self._call_of("step", names)
        if decorator == "grad":
            last, decorator = f"{last}.sum()", ""
        definition = [f"def step({', '.join(names)}):", *body, f"    return {last}", "", ""]
        self._define([decorator, *definition] if decorator else definition)
        self.lines.append(f"{self.indent}r = {call}")

    def _define(self, definition: list[str]) -> None:
        """Put a function before everything else."""
        self.lines = [*definition, *self.lines]

    def _call_of(self, name: str, names: list[str]) -> tuple[str, str]:
        """How a function is called, and a decorator for it."""
        arguments = ", ".join(names)
        drawn = self.chance.random()
        if drawn < 0.6:
            return f"jax.eval_shape({name}, {arguments})", "@jax.jit" if drawn < 0.2 else ""
        if drawn < 0.7:
            return f"jax.eval_shape(jax.grad({name}), {arguments})", "grad"
        if drawn < 0.75:
            return f"jax.eval_shape(jax.checkpoint({name}), {arguments})", ""
        if drawn < 0.8:
            return f"jax.jit({name}).lower({arguments})", ""
        if drawn < 0.84:
            return f"jax.jit({name}, donate_argnums=0)({arguments})", ""
        if drawn < 0.88:
            return f"jax.jit({name}, out_shardings={self._sharding(1)})({arguments})", ""
        return f"{name}({arguments})", "@jax.jit"

    def _mapped(self) -> None:
        """The lines of the body of shard_map."""
        count = len(self._arguments())
        self.scope.arrays = [Array(one.name, one.shape) for one in self.scope.arrays]
        ranks = [len(one.shape) for one in self.scope.arrays]
        outside = self.scope.arrays
        specs = [self._spec(rank) for rank in ranks]
        self.scope.arrays = [
            Array(f"p{place}", _part(one.shape, spec))
            for place, (one, spec) in enumerate(zip(outside, specs, strict=True))
        ]
        outer, self.lines = self.lines, []
        for number in range(self.chance.randrange(2, 6)):
            self._bind(f"y{number}", self._step_inside(), "    ")
        body, self.lines = self.lines, outer
        names = [f"p{place}" for place in range(count)]
        self._define([f"def body({', '.join(names)}):", *body, f"    return y{number}", "", ""])
        given = f"({', '.join(specs)},)"
        mesh = "" if self.indent and self.modern and self.chance.random() < 0.3 else "mesh=mesh, "
        rank = len(self.scope.arrays[-1].shape)
        mapped = f"{self._shard_map}(body, {mesh}in_specs={given}, out_specs={self._spec(rank)}{self._unchecked()})"
        arguments = ", ".join(one.name for one in outside)
        whole = self.chance.random() < 0.15
        self.lines.append(
            f"{self.indent}r = {mapped}({arguments})" if whole else f"{self.indent}r = jax.eval_shape({mapped}, {arguments})"
        )

    def _step_inside(self) -> Drawn:
        if self.chance.random() < 0.5:
            return expression(self.scope)
        body = self.chance.choice([one for one in _COLLECTIVES if self._has(one)])
        array = self.chance.choice(self.scope.arrays)
        axis = self.chance.choice(('"a"', '"b"'))
        keeps = body.startswith(("jax.lax.p", "{x}")) and "scatter" not in body and "sum(axis" not in body
        return Drawn(body.format(x=array.name, n=axis), array.shape if keeps else None)

    def _trees(self) -> None:
        """Parameters in a dict, and what training makes of them."""
        specs = [self._sharding(rank) for rank in (2, 1)]
        lines = [
            'params = {"w": jnp.ones((8, 8)), "b": jnp.zeros((8,))}',
            f'shardings = {{"w": {specs[0]}, "b": {specs[1]}}}',
            self.chance.choice((
                "params = jax.device_put(params, shardings)",
                "params = jax.tree.map(jax.device_put, params, shardings)",
                "params = {name: jax.device_put(one, shardings[name]) for name, one in params.items()}",
            )),
            f"batch = jax.device_put(jnp.ones((16, 8)), {self._sharding(2)})",
        ]  # fmt: skip
        update = self.chance.choice(("jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)", "optax.apply_updates(params, grads)",
                                     "{name: one - 0.1 * grads[name] for name, one in params.items()}"))  # fmt: skip
        forward = self.chance.choice(('batch @ params["w"] + params["b"]', 'jnp.einsum("bi,io->bo", batch, params["w"])',
                                      'jax.nn.relu(batch @ params["w"]) + params["b"]',
                                      'jax.vmap(lambda row: row @ params["w"] + params["b"])(batch)'))  # fmt: skip
        self._define([
            "def loss(params, batch):", f"    out = {forward}", "    return jnp.mean(out ** 2)", "", "",
            "def step(params, batch):", "    grads = jax.grad(loss)(params, batch)",
            f"    new = {update}", "    return new", "", "",
        ])  # fmt: skip
        moves = ["pairs = jax.pmap(lambda v: v * 2.0)(np.ones((8, 4), np.float32))",
                 "state = optax.adam(1e-3).init(params)[0].mu", "zeros = jax.tree.map(jnp.zeros_like, params)",
                 "total = sum(jnp.sum(one) for one in params.values())", 'first = params["w"] @ params["b"]',
                 "doubled = jax.pmap(lambda v: jax.lax.psum(v, 'i'), axis_name='i')(np.ones((8, 4), np.float32))",
                 "flat = jax.flatten_util.ravel_pytree(params)[0]", "both = jax.tree.map(jnp.add, params, params)",
                 "kept = jax.jit(lambda p: p, out_shardings=shardings)(params)"]  # fmt: skip
        calls = ["r = jax.eval_shape(step, params, batch)", "r = jax.jit(step)(params, batch)",
                 "r = jax.jit(step, donate_argnums=0, out_shardings=shardings)(params, batch)",
                 "for _ in range(2):\n{0}    params = jax.jit(step, out_shardings=shardings)(params, batch)",
                 "r = jax.jit(step, in_shardings=(shardings, None))(params, batch)"]  # fmt: skip
        lines += [*self.chance.sample(moves, 2), self.chance.choice(calls).format(self.indent)]
        self.lines += [f"{self.indent}{one}" for one in lines]


def _entries(spec: str) -> int:
    return 0 if spec == "P()" else 1 if spec.startswith("P((") else spec.count(",") + 1


def _part(shape: Shape, spec: str) -> Shape:
    """The part of an array that one device has."""
    found = list(shape)
    sizes = {"a": 2, "b": 4}
    entries = [("a", "b")] if spec.startswith("P((") else [(one.strip(' "'),) for one in spec[2:-1].split(",")]
    for place, axes in enumerate(entries[: len(shape)]):
        for axis in axes:
            found[place] = max(found[place] // sizes.get(axis, 1), 1)
    return tuple(found)
