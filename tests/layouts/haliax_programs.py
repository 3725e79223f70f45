"""Programs of haliax that are generated, to compare the axes, layouts and errors that are predicted with its own."""

from __future__ import annotations

import random

HEAD = """\
import equinox as eqx
import haliax as hax
import haliax.nn as hnn
import jax
import jax.numpy as jnp
import numpy as np
from haliax.partitioning import ResourceAxis, infer_resource_partitions, round_axis_for_partitioning
from jax._src import core
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

jax.core.is_constant_dim = core.is_constant_dim  # contractions of haliax read it, and new releases of jax lack it
mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
Batch, Pos, Embed, Mlp = hax.make_axes(batch=8, pos=4, embed=16, mlp=32)
Odd, Layers = hax.Axis("odd", 6), hax.Axis("layers", 3)
Other = Embed.resize(8)
key = jax.random.key(0)
"""
_AXES = {"Batch": 8, "Pos": 4, "Embed": 16, "Mlp": 32, "Odd": 6}
_NAMES = {"Batch": "batch", "Pos": "pos", "Embed": "embed", "Mlp": "mlp", "Odd": "odd"}
_UNARY = ("hax.exp", "hax.tanh", "hnn.relu", "hnn.gelu", "hax.square", "hax.rsqrt", "-", "hnn.silu", "hax.negative")
_BINARY = ("+", "-", "*", "/", "hax.maximum", "hax.add")
_REDUCE = ("sum", "mean", "max", "var", "any")
Chance = random.Random
Axes = tuple[str, ...]


class Maker:
    """A program as it grows: its lines, and the arrays of haliax by name with their axes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.arrays: dict[str, Axes] = {}
        self.indent = ""
        self.count = 0
        self.wrong = self.chance.random() < 0.5
        """Whether the program may have mistakes."""

    def one(self, *options: str) -> str:
        """One of several texts."""
        return self.chance.choice(options)

    def likely(self, share: float) -> bool:
        """True so often."""
        return self.chance.random() < share

    def bind(self, text: str, axes: Axes | None = None, name: str = "r") -> str:
        """A line that binds an array; `axes` if it is one of haliax."""
        self.count += 1
        made = f"{name}{self.count}"
        self.lines.append(f"{self.indent}{made} = {text}")
        if axes is not None:
            self.arrays[made] = axes
        return made

    def pick(self) -> tuple[str, Axes]:
        """An array."""
        return self.chance.choice(list(self.arrays.items()))

    def some_axes(self, least: int = 1, most: int = 3) -> Axes:
        """Axes for a new array."""
        pool = list(_AXES) if self.likely(0.3) else ["Batch", "Pos", "Embed", "Mlp"]
        return tuple(self.chance.sample(pool, self.chance.randint(least, most)))

    def spell(self, axis: str) -> str:
        """An axis, or its name."""
        if self.wrong and self.likely(0.1):
            return self.one('"nothing"', "Other", "Odd")
        return axis if self.likely(0.7) else f'"{_NAMES[axis]}"'

    def spelled(self, axes: Axes) -> str:
        """Several axes."""
        if len(axes) == 1 and self.likely(0.6):
            return axes[0]
        if self.likely(0.1):
            return "{" + ", ".join(f'"{_NAMES[one]}": {_AXES[one]}' for one in axes) + "}"
        return f"({', '.join(axes)},)"

    def mapping(self) -> str:
        """A mapping, which may not fit."""
        keys = self.chance.sample(["batch", "pos", "embed", "mlp", "odd"], self.chance.randint(1, 3))
        entries, free = [], ["data", "model"]
        self.chance.shuffle(free)
        for key in keys:
            if self.wrong and self.likely(0.25):
                value = self.one('"data"', '"model"', '"tensor"', '("data", "model")', "ResourceAxis.REPLICA")
            elif free:
                value = f'"{free.pop()}"' if self.likely(0.8) else f"ResourceAxis.{free.pop().upper()}"
            else:
                continue
            if key == "odd" and not self.wrong:
                continue
            entries.append(f'"{key}": {value}')
        if len(free) == 2 and not entries:
            entries = ['"embed": ("data", "model")']
        return "{" + ", ".join(entries) + "}"


def _create(make: Maker) -> None:
    axes = make.some_axes()
    shape = make.spelled(axes)
    sizes = ", ".join(str(_AXES[one]) for one in axes)
    plain = f"({', '.join(axes)},)" if make.likely(0.6) or make.wrong else str(tuple(_NAMES[one] for one in axes))
    text = make.one(
        f"hax.zeros({shape})", f"hax.ones({shape})", f"hax.full({shape}, 2.0)", f"hax.random.normal(key, {shape})",
        f"hax.random.uniform(key, {shape}, minval=-1.0)", f"hax.random.randint(key, {shape}, 0, 4)",
        f"hax.named(jnp.ones(({sizes},)), {plain})", f"hax.NamedArray(jnp.ones(({sizes},)), ({', '.join(axes)},))",
        f"hax.named(np.ones(({sizes},), np.float32), {plain})", f"hax.ones({shape}, dtype=jnp.bfloat16)",
    )  # fmt: skip
    if make.wrong and make.likely(0.05):
        text = f"hax.named(jnp.ones(({sizes}, 2)), ({', '.join(axes)},))"
    if make.likely(0.1):
        axes = axes[:1]
        text = f"hax.arange({axes[0]})"
    make.bind(text, axes, "x")


def _compute(make: Maker) -> None:
    name, axes = make.pick()
    kind = make.one("unary", "number", "both", "both", "reduce", "reduce", "softmax", "astype")
    if kind == "unary":
        function = make.one(*_UNARY)
        make.bind(f"-{name}" if function == "-" else f"{function}({name} * 1.0)", axes)
    elif kind == "number":
        text = make.one(f"{name} * 2.0", f"1 + {name}", f"{name} > 0", f"hax.where({name} > 0, {name}, 0.0)", f"2.0 - {name}")
        if not axes and "where" in text:
            text = f"{name} * 2.0"
        make.bind(text, axes)
    elif kind == "both":
        smaller = [(one, own) for one, own in make.arrays.items() if set(own) <= set(axes)]
        other, _ = make.chance.choice(smaller) if not make.wrong or make.likely(0.8) else make.pick()
        pair = (name, other) if make.likely(0.6) else (other, name)
        operator = make.one(*_BINARY)
        text = f"{operator}({', '.join(pair)})" if operator.startswith("hax") else f" {operator} ".join(pair)
        first, second = make.arrays[pair[0]], make.arrays[pair[1]]
        result = first if set(second) <= set(first) else second
        make.bind(text, result if second else first)
    elif kind == "reduce":
        if not axes:
            return
        gone = tuple(make.chance.sample(axes, make.chance.randint(1, len(axes))))
        function = make.one(*_REDUCE)
        given = make.spell(gone[0]) if len(gone) == 1 else f"({', '.join(map(make.spell, gone))})"
        text = f"{name}.{function}({given})" if make.likely(0.5) else f"hax.{function}({name}, {given})"
        if make.likely(0.1):
            gone, text = axes, f"hax.{function}({name})"
        make.bind(text, tuple(one for one in axes if one not in gone))
    elif kind == "softmax" and axes:
        axis = make.chance.choice(axes)
        make.bind(make.one(f"hnn.softmax({name} * 1.0, {make.spell(axis)})", f"hax.cumsum({name}, {make.spell(axis)})"), axes)
    elif kind == "astype":
        make.bind(f"{name}.astype(jnp.float32)", axes)


def _contract(make: Maker) -> None:
    (left, one), (right, two) = make.pick(), make.pick()
    every = tuple(dict.fromkeys((*one, *two)))
    if not every:
        return
    gone = tuple(make.chance.sample(every, make.chance.randint(1, min(2, len(every)))))
    kept = tuple(axis for axis in every if axis not in gone)
    given = make.spell(gone[0]) if len(gone) == 1 else f"({', '.join(gone)})"
    names = " ".join(_NAMES[axis] for axis in gone)
    out = " ".join(_NAMES[axis] for axis in kept)
    options = [f"hax.dot({left}, {right}, axis={given})", f"{left}.dot({right}, axis={given})"]
    options += [f'hax.einsum("{{{names}}} -> ", {left}, {right})', f'hax.einsum("-> {out}", {left}, {right})']
    if kept:
        order = tuple(make.chance.sample(kept, len(kept)))
        options.append(f"hax.dot({left}, {right}, axis=({', '.join(gone)},), out_axes=({', '.join(order)},))")
    text = make.one(*options)
    make.bind(text, order if "out_axes" in text else kept)


def _reshape(make: Maker) -> None:
    name, axes = make.pick()
    if not axes:
        return
    axis = make.chance.choice(axes)
    rest = tuple(one for one in axes if one != axis)
    kind = make.one("rearrange", "order", "rename", "take", "slice", "broadcast", "flatten", "split", "stack", "unbind", "rows")
    if kind == "rearrange":
        make.bind(f"{name}.rearrange(({make.spell(axis)}, ...))", (axis, *rest))
    elif kind == "order":
        order = tuple(make.chance.sample(axes, len(axes)))
        make.bind(f"hax.rearrange({name}, ({', '.join(order)},))", order)
    elif kind == "rename":
        make.bind(f'{name}.rename({{"{_NAMES[axis]}": "new"}})')
    elif kind == "take":
        text = make.one(f"hax.take({name}, {make.spell(axis)}, 0)", f"{name}[{axis}, 1]", f'{name}[{{"{_NAMES[axis]}": 0}}]')
        make.bind(text, rest)
    elif kind == "slice":
        make.bind(make.one(f"{name}[{make.spell(axis)}, 0:2]", f'{name}.slice({make.spell(axis)}, "part", start=0, length=2)'))
    elif kind == "broadcast":
        new = make.chance.choice(list(_AXES))
        make.bind(f"{name}.broadcast_axis({new})", (*(() if new in axes else (new,)), *axes))
    elif kind == "flatten" and len(axes) > 1:
        both = tuple(make.chance.sample(axes, 2))
        make.bind(f'{name}.flatten_axes(({", ".join(both)}), "flat")')
    elif kind == "split":
        make.bind(f'{name}.unflatten_axis({make.spell(axis)}, (hax.Axis("one", {_AXES[axis] // 2}), hax.Axis("two", 2)))')
    elif kind == "stack":
        make.bind(make.one(f'hax.stack("stack", [{name}, {name}])', f'hax.concatenate("{_NAMES[axis]}", [{name}, {name}])'))
    elif kind == "unbind":
        make.bind(f"{name}.unbind({make.spell(axis)})[0]", rest)
    elif kind == "rows":
        make.bind(f'{name}.take({make.spell(axis)}, hax.named(jnp.array([0, 1, 0]), "chosen"))')


def _place(make: Maker) -> None:
    name, axes = make.pick()
    mapping = make.mapping()
    text = make.one(
        f"hax.shard({name})", f"hax.shard({name}, {mapping})", f"hax.shard({name}, {mapping}, mesh)",
        f"hax.auto_sharded({name})", f"hax.shard({name}, mapping={mapping}, mesh=mesh)",
        f"jax.device_put({name}, NamedSharding(mesh, P()))", f"hax.shard_with_axis_mapping({name}, {mapping}, mesh)",
    )  # fmt: skip
    make.bind(text, axes, "s")


def _compile(make: Maker) -> None:
    name, axes = make.pick()
    body = make.one("a * 2.0", "hax.exp(a * 1.0)", "hax.shard(a)", "(a, hax.sum(a))", "a + 1", "hax.auto_sharded(a * 3.0)")
    mapping = make.mapping()
    options = make.one("", f", axis_resources={mapping}", f", axis_resources={mapping}, out_axis_resources={make.mapping()}",
                       f", out_axis_resources={mapping}", f", in_axis_resources={mapping}")  # fmt: skip
    jit = make.one("hax.named_jit", "hax.named_jit", "hax.named_jit", "jax.jit", "eqx.filter_jit")
    options = options if jit == "hax.named_jit" else ""
    make.bind(f"{jit}(lambda a: {body}{options})({name})", None if body.startswith("(") else axes, "j")


def _layer(make: Maker) -> None:
    one, two = make.chance.sample(["Embed", "Mlp", "Pos"], 2)
    given = [(name, axes) for name, axes in make.arrays.items() if one in axes and two not in axes]
    layer = make.bind(f"hnn.Linear.init({one}, {two}, key=key{make.one('', '', ', use_bias=False', ', out_first=False')})", name="m")
    for name, axes in given[:1]:
        make.bind(f"{layer}({name})", (*(each for each in axes if each != one), two))
    if make.likely(0.4):
        norm = make.bind(f"{make.one('hnn.LayerNorm', 'hnn.RmsNorm')}.init({one})", name="m")
        for name, axes in given[:1]:
            make.bind(f"{norm}({name} * 1.0)", axes)
    if make.likely(0.3):
        table = make.bind(f"hnn.Embedding.init({one}, {two}, key=key)", name="m")
        make.bind(f"{table}(hax.zeros(Batch, dtype=jnp.int32))", ("Batch", two))
    if make.likely(0.3):
        made = make.bind(f"hnn.MLP.init({one}, {two}, 8, {make.one('0', '1', '2')}, key=key)", name="m")
        for name, _ in given[:1]:
            make.bind(f"{made}({name} * 1.0)")


def _scan(make: Maker) -> None:
    name, axes = make.pick()
    if not axes:
        return
    axis = make.chance.choice(axes)
    rest = tuple(one for one in axes if one != axis)
    spelled = axis if make.likely(0.7) else f'"{_NAMES[axis]}"'
    make.bind(make.one(
        f"hax.fold(lambda c, a: c + hax.sum(a * 1.0).array, {spelled})(jnp.zeros(()), {name})",
        f"hax.scan(lambda c, a: (c + 1.0, a * 2.0), {spelled})(jnp.zeros(()), {name})",
        f"hax.map(lambda a: a * 2.0, {spelled})({name})", f"hax.vmap(lambda a: a * 2.0, {spelled})({name})",
        f"hax.vmap(lambda a, b: a * b, {spelled})({name}, {name})",
    ))  # fmt: skip
    if make.likely(0.5):
        stack = make.bind("hnn.Stacked.init(Layers, hnn.RmsNorm)(Embed)", name="m")
        for given, own in [one for one in make.arrays.items() if "Embed" in one[1]][:1]:
            make.bind(f"{stack}.fold({given} * 1.0)", own)
    if rest and make.likely(0.2):
        make.bind(f"hax.vmap(lambda k: hax.random.normal(k, {rest[0]}), Layers)(jax.random.split(key, 3))")


_STEPS = (_create, _compute, _compute, _compute, _contract, _reshape, _reshape, _place, _place, _compile, _layer, _scan)


def program(seed: int) -> str:
    """A program that makes, places and computes arrays of haliax; the same for the same seed."""
    make = Maker(seed)
    head = HEAD
    if make.likely(0.2):
        head = head.replace("AxisType.Auto, AxisType.Auto", "AxisType.Explicit, AxisType.Explicit")
    for _ in range(2):
        _create(make)
    blocks = make.chance.randint(1, 2)
    for _ in range(blocks):
        mapped = f"hax.axis_mapping({make.mapping()})"
        context = make.one("with mesh", "with jax.set_mesh(mesh)", "", f"with {mapped}", f"with mesh, {mapped}",
                           f"with mesh, {mapped}", f"with jax.set_mesh(mesh), {mapped}")  # fmt: skip
        if context:
            make.lines.append(f"{context}:")
            make.indent = "    "
        before = len(make.lines)
        for _ in range(make.chance.randint(2, 5)):
            make.chance.choice(_STEPS)(make)
        if len(make.lines) == before:
            make.lines.append(f"{make.indent}pass")
        make.indent = ""
    return head + "\n" + "\n".join(make.lines) + "\n"
