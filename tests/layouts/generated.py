"""Programs that are generated, one statement a line, to compare what is predicted of layouts with what jax does."""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.{kind}, AxisType.{kind}))
"""
_SHAPES = ("(8, 8)", "(8, 8)", "(8, 8)", "(8,)", "(16, 8)", "(8, 8, 8)", "(6, 2)")
_SPECS = (
    "P()",
    'P("a")',
    'P("b")',
    'P(None, "b")',
    'P("a", "b")',
    'P("b", "a")',
    'P(("a", "b"))',
    'P(None, "a")',
)
_UNARY = ("jnp.sin({0})", "jax.nn.relu({0})", "-{0}", "{0} * 2.0", "{0}.astype(jnp.float32)", "jax.nn.softmax({0})",
          "jnp.zeros_like({0})", "jnp.clip({0}, 0.0, 1.0)", "{0} ** 2", "jnp.tril({0})", "jnp.flip({0}, 0)")  # fmt: skip
_BINARY = (
    "{0} + {1}",
    "{0} * {1}",
    "jnp.maximum({0}, {1})",
    "jnp.where({0} > 0, {0}, {1})",
    "{0} - {1}.sum()",
)
_PRODUCTS = ("{0} @ {1}", "jnp.matmul({0}, {1})", 'jnp.einsum("ij,jk->ik", {0}, {1})', 'jnp.einsum("ij,kj->ik", {0}, {1})',
             "{0}.T @ {1}", 'jnp.einsum("ij,ij->i", {0}, {1})', "jnp.dot({0}, {1})")  # fmt: skip
_SHAPING = ("{0}.T", "{0}.sum(axis=0)", "{0}.mean(axis=-1, keepdims=True)", "{0}.max()", "{0}[0]", "{0}[:4]", "{0}[None]",
            "jnp.expand_dims({0}, -1)", "jnp.swapaxes({0}, 0, 1)", "{0}.reshape(-1, 8)", "{0}.reshape(-1)",
            "{0}.reshape(2, 4, -1)", "{0}.reshape(8, 2, -1)", "jnp.ravel({0})", "{0}.at[0].set(1.0)", "jnp.cumsum({0}, axis=0)",
            "jnp.sort({0}, axis=-1)", "jnp.roll({0}, 1, axis=0)", "{0}[..., 0]", "jnp.argmax({0}, axis=-1)",
            "jnp.squeeze({0}[None], 0)", "jnp.var({0}, axis=0)", "{0}[:, None]")  # fmt: skip
_SLICING = ("jax.lax.top_k({0}, 2)[0]", "jax.nn.one_hot(jnp.argmax({0}, axis=-1), 4)", "jax.lax.dynamic_slice_in_dim({0}, 0, 4, axis=0)",
            "jax.lax.dynamic_index_in_dim({0}, 1, axis=0)", "jnp.unstack({0}, axis=-1)[0]", "{0}[jnp.argmax({1}, axis=-1)]",
            "jax.lax.dynamic_update_slice_in_dim({0}, {1}[:2], 0, axis=0)", "jax.lax.dynamic_slice({0}, (0, 0), (4, 2))")  # fmt: skip
_JOINING = ("jnp.concatenate([{0}, {1}])", "jnp.stack([{0}, {1}])", "jnp.concatenate([{0}, {1}], axis=-1)")
_MAPPED = ("jax.vmap(lambda row: row * 2.0)({0})", "jax.vmap(jnp.add)({0}, {1})", "jax.vmap(lambda r: r.sum())({0})",
           "jax.grad(lambda v: (v * v).sum())({0})", "jax.lax.map(lambda row: row * 2.0, {0})",
           "jax.lax.scan(lambda c, row: (c + row, row), jnp.zeros(8), {0})[1]",
           "jax.eval_shape(lambda v: v @ v, {0})", "jax.tree.map(lambda v: v + 1.0, {{'w': {0}}})['w']")  # fmt: skip
_BODIES = ("x * 2.0", 'jax.lax.psum(x, "a")', "x.sum(axis=0)", 'jax.lax.pmean(x.sum(), "b")', "x - x.mean()", "jax.lax.cond(True, lambda: x.sum(), lambda: jnp.zeros(()))[None]",
           'x * jax.lax.axis_index("a")', "jax.lax.scan(lambda c, r: (c + r, None), jnp.zeros(x.shape[1:]), x)[0]",
           "jax.lax.fori_loop(0, 3, lambda i, c: c + x, x)", 'jax.lax.ppermute(x, "b", [(0, 1), (1, 0)])')  # fmt: skip

Draw = Callable[[], str]


def program(seed: int) -> str:
    """A program of about eight statements; the same for the same seed."""
    chance = random.Random(seed)
    kind = chance.choice(("Auto", "Explicit"))
    lines: list[str] = []
    names: list[str] = []
    indent = ""
    if chance.random() < 0.4:
        lines.append("with jax.set_mesh(mesh):")
        indent = "    "

    def array() -> str:
        return chance.choice(names[-4:])

    def sharding() -> str:
        memory = ', memory_kind="pinned_host"' if chance.random() < 0.07 else ""
        return f"NamedSharding(mesh, {chance.choice(_SPECS)}{memory})"

    def fresh() -> str:
        shape = chance.choice(_SHAPES)
        return chance.choice(
            (f"jnp.ones({shape})", f"jnp.zeros({shape})", f"np.ones({shape}, np.float32)", f"jax.random.normal(jax.random.key(0), {shape})")
        )  # fmt: skip

    def placed() -> str:
        if chance.random() < 0.08:
            return f"jax.device_put({fresh()}, jax.devices()[{chance.randrange(2)}])"
        return f"jax.device_put({fresh()}, {sharding()})"

    def applied() -> str:
        table = chance.choice(
            (_UNARY, _BINARY, _BINARY, _PRODUCTS, _PRODUCTS, _SHAPING, _SHAPING, _SLICING, _JOINING, _MAPPED)
        )
        text = chance.choice(table).format(array(), array())
        if chance.random() < 0.35:  # through a jitted helper
            inner = text
            used = sorted({name for name in names if name in inner}, key=len, reverse=True)
            return f"jax.jit(lambda {', '.join(used)}: {inner})({', '.join(used)})"
        return text

    def constrained() -> str:
        call = chance.choice(("jax.lax.with_sharding_constraint(v, {0})", "jax.reshard(v, {0})"))
        inner = call.format(sharding())
        name = array()
        return (
            f"jax.jit(lambda v: {inner})({name})"
            if chance.random() < 0.6
            else inner.replace("(v,", f"({name},")
        )

    def compiled() -> str:
        which = chance.choice(("in_shardings", "out_shardings"))
        return f"jax.jit(lambda v: v + 1.0, {which}={sharding()})({array()})"

    def manual() -> str:
        body, specs = chance.choice(_BODIES), [chance.choice(_SPECS[:6]) for _ in range(2)]
        check = ", check_vma=False" if chance.random() < 0.2 else ""
        return f"jax.shard_map(lambda x: {body}, mesh=mesh, in_specs={specs[0]}, out_specs={specs[1]}{check})({array()})"

    for number in range(chance.randrange(5, 10)):
        makers: list[Draw] = (
            [fresh, placed, placed] if number < 2 else [placed, applied, applied, applied, applied, applied]
        )
        if number >= 2:
            makers += [constrained, compiled, manual]
        lines.append(f"{indent}v{number} = {chance.choice(makers)()}")
        names.append(f"v{number}")
    return HEAD.format(kind=kind) + "\n".join(lines) + "\n"
