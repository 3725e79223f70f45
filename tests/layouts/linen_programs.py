"""Programs of flax linen that are generated, to compare the variables that are predicted with those that flax makes."""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = """\
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.{kind}, AxisType.{kind}))
rules = (("rows", "a"), ("columns", "b"), ("other", "a"), ("none", None))
key = jax.random.key(0)
"""
_NAMES = ('(None, "b")', '("a", "b")', '("b",)', '("b", None)', '(None, ("a", "b"))')
_LOGICAL = (
    '("rows", "columns")',
    '("rows", "other")',
    '("unruled", "columns")',
    '("none", "columns")',
    "(None, None)",
)
_ACTIVATIONS = ("nn.relu(x)", "nn.gelu(x)", "jnp.tanh(x)", "x * 2.0", "nn.softmax(x)")

Chance = random.Random


def _initializer(chance: Chance) -> str:
    plain = chance.choice(("nn.initializers.lecun_normal()", "nn.initializers.ones", "nn.initializers.normal(0.02)",
                           "jax.nn.initializers.zeros", "nn.initializers.constant(0.5)"))  # fmt: skip
    if plain.startswith("nn.initializers.lecun") and chance.random() < 0.3:
        plain = "nn.initializers.xavier_uniform()"
    return chance.choice(
        (
            plain,
            f"nn.with_partitioning({plain}, {chance.choice(_NAMES)})",
            f"nn.with_logical_partitioning({plain}, {chance.choice(_LOGICAL)})",
        )
    )


def _layer(chance: Chance, blocks: list[str], nested: bool = True) -> str:
    """An expression that makes a layer, which keeps the number of dimensions."""
    size = chance.choice((8, 16))
    given = [str(size)]
    if chance.random() < 0.5:
        given.append(f"kernel_init={_initializer(chance)}")
    if chance.random() < 0.3:
        given.append(f"use_bias={chance.choice(('True', 'False'))}")
    if chance.random() < 0.15:
        given.append("dtype=jnp.bfloat16")
    if chance.random() < 0.15:
        given.append("param_dtype=jnp.bfloat16")
    options = [f"nn.Dense({', '.join(given)})"] * 3
    options += [
        "nn.LayerNorm()",
        "nn.LayerNorm(use_bias=False)",
        "nn.RMSNorm()",
        "nn.Dropout(0.5, deterministic=True)",
    ]
    options += [
        f"nn.Conv({size}, (3,))",
        f"nn.DenseGeneral({size})",
        f"nn.ConvTranspose({size}, (3,), strides=(2,))",
        f"nn.Conv({size}, (2,), strides=2, padding=1, kernel_dilation=2)",
        f"nn.MultiHeadDotProductAttention(2, qkv_features={size}, use_bias=False)",
        "nn.MultiHeadAttention(num_heads=4, normalize_qk=True)",
        "nn.BatchNorm(use_running_average=True)",
    ]
    if nested:
        inner = ", ".join(_layer(chance, blocks, False) for _ in range(2))
        options += [f"nn.Sequential([{inner}])", f"nn.remat(nn.Dense)({size})"]
    options += [f"{chance.choice(blocks)}()"] * 3 if blocks else []
    return chance.choice(options)


def _compact(chance: Chance, name: str, blocks: list[str]) -> list[str]:
    lines = [
        f"class {name}(nn.Module):",
        "    size: int = 8",
        "",
        "    @nn.compact",
        "    def __call__(self, x):",
    ]
    for number in range(chance.randrange(1, 5)):
        kind = chance.random()
        if kind < 0.55:
            layer = _layer(chance, blocks)
            if chance.random() < 0.2:
                layer = f'{layer[:-1]}{"" if layer.endswith("()") else ", "}name="named{number}")'
            lines.append(f"        x = {layer}(x)")
        elif kind < 0.7:
            lines.append(f"        x = {chance.choice(_ACTIVATIONS)}")
        elif kind < 0.85:
            init = chance.choice(
                (
                    "nn.initializers.ones",
                    "nn.initializers.zeros",
                    'nn.with_partitioning(nn.initializers.zeros, ("b",))',
                )
            )
            lines.append(f'        x = x + self.param("p{number}", {init}, (x.shape[-1],))')
        else:
            lines += ["        for _ in range(2):", f"            x = {_layer(chance, blocks, False)}(x)"]
    return [*lines, "        return x", "", ""]


def _with_setup(chance: Chance, name: str, blocks: list[str]) -> list[str]:
    count = chance.randrange(1, 4)
    lines = [f"class {name}(nn.Module):", "    def setup(self):"]
    calls = []
    for number in range(count):
        kind = chance.random()
        if kind < 0.6:
            lines.append(f"        self.part{number} = {_layer(chance, blocks)}")
            calls.append(f"        x = self.part{number}(x)")
        elif kind < 0.8:
            lines.append(f"        self.parts{number} = [{_layer(chance, blocks)} for _ in range(2)]")
            calls += [f"        for one in self.parts{number}:", "            x = one(x)"]
        else:
            lines.append(f'        self.w{number} = self.param("w{number}", nn.initializers.ones, (1,))')
            calls.append(f"        x = x * self.w{number}")
    return [*lines, "", "    def __call__(self, x):", *calls, "        return x", "", ""]


def _scanned(chance: Chance, name: str, blocks: list[str]) -> list[str]:
    size = chance.choice((8, 16))
    init = chance.choice((_initializer(chance), "nn.initializers.ones"))
    metadata = chance.choice(
        ("", ", metadata_params={nn.PARTITION_NAME: None}", ', metadata_params={nn.PARTITION_NAME: "a"}')
    )
    target = chance.choice((f"{name}Row", f"nn.remat({name}Row)"))
    return [
        f"class {name}Row(nn.Module):", "    @nn.compact", "    def __call__(self, x, row):",
        f"        x = x + nn.Dense(x.shape[-1], kernel_init={init})(x)", "        return nn.LayerNorm()(x), None", "", "",
        f"class {name}(nn.Module):", "    @nn.compact", "    def __call__(self, x):", f"        x = nn.Dense({size})(x)",
        f"        stack = nn.scan({target}, variable_axes={{\"params\": 0}}, split_rngs={{\"params\": True}}, length=3{metadata})",
        "        x, _ = stack()(x, None)", "        return x", "", "",
    ]  # fmt: skip


Step = Callable[[], str]


def program(seed: int) -> str:
    """A program that makes variables of a model in several ways, and uses them; the same for the same seed."""
    chance = random.Random(seed)
    lines: list[str] = []
    blocks: list[str] = []
    for number in range(chance.randrange(1, 3)):
        make = chance.choice((_compact, _compact, _with_setup, _scanned))
        lines += make(chance, f"Block{number}", blocks)
        blocks.append(f"Block{number}")
    kind = "Explicit" if chance.random() < 0.1 else "Auto"
    head = HEAD.format(kind=kind).splitlines()
    lines = [*head, "", "", *lines, f"model = {blocks[-1]}()"]
    lines.append(
        chance.choice(
            ("x = jnp.ones((8, 16))", 'x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("a")))')
        )
    )
    context = chance.choice(
        (
            "",
            "",
            "with jax.set_mesh(mesh):",
            "with mesh:",
            "with jax.set_mesh(mesh), nn.logical_axis_rules(rules):",
        )
    )
    lines += [context] if context else []
    indent = "    " if context else ""
    lines.append(indent + "v = " + chance.choice(
        ("model.init(key, x)", "jax.jit(model.init)(key, x)", "model.init(jax.random.key(1), jnp.ones((8, 16)))",
         "jax.jit(lambda k, a: nn.unbox(model.init(k, a)))(key, x)", "jax.jit(model.init)(key, jnp.ones((8, 16)))"))
    )  # fmt: skip
    if context and chance.random() < 0.4:
        indent = ""
    sharded = (
        "jax.jit(model.init, out_shardings=nn.get_sharding(jax.eval_shape(model.init, key, x), mesh))(key, x)"
    )
    logical = (
        "jax.jit(model.init, out_shardings=nn.logical_to_mesh_sharding("
        "nn.get_partition_spec(jax.eval_shape(model.init, key, x)), mesh, rules))(key, x)"
    )
    steps = (
        "nn.unbox(v)", "nn.meta.unbox(v)", 'model.apply(v, x, mutable=["batch_stats"])', "model.apply(v, x)",
        "jax.jit(model.apply)(v, x)", sharded, logical, f"nn.unbox({sharded})", "jax.eval_shape(model.init, key, x)",
        "model.init_with_output(key, x)", 'model.apply(nn.unbox(v), jnp.ones((8, 16)))',
        'nn.with_logical_constraint(jnp.ones((8, 16)), ("rows", "columns"))',
        'nn.with_logical_constraint(jnp.ones((8, 16)), ("rows", "columns"), rules=rules, mesh=mesh)',
        'jax.device_put(v, NamedSharding(mesh, P()))', "nn.unbox(nn.unbox(v))",
    )  # fmt: skip
    for number, step in enumerate(chance.sample(steps, 3)):
        lines.append(f"{indent}r{number} = {step}")
    return "\n".join(lines) + "\n"
