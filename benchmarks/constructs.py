"""Small programs in which one construct grows: nesting, rebinding, chains of calls. For growth.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

HEAD = """\
import jax
import jax.numpy as jnp
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(jax.devices(), ("data",))
spec = P("data")
other = P(None, "data")
"""
PUT = "jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))"


def _function_with_lines(lines: Iterator[str]) -> str:
    return (
        "\n\n@jax.jit\ndef step(x, y):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {PUT}\n"
    )


def _nest_headers(header: str, size: int) -> str:
    lines = [f"{' ' * depth}{header.format(depth=depth)}" for depth in range(size)]
    return _function_with_lines(iter([*lines, f"{' ' * size}x = {PUT}"]))


def nested_ifs(size: int) -> str:
    """Nested `if`s, each with two ways."""
    lines = [f"{' ' * depth}if y[{depth}]:" for depth in range(size)]
    lines.append(f"{' ' * size}x = {PUT}")
    lines += [f"{' ' * depth}else:\n    {' ' * depth} x = x + {depth}" for depth in reversed(range(size))]
    return _function_with_lines(iter(lines))


def nested_loops(size: int) -> str:
    """Loops within loops, as deep as Python allows (20), one such nest after the other."""
    depth = min(size, 18)
    return "".join(
        _replace_jit_by_shard_map(_nest_headers("for i{depth} in range(3):", depth))
        for _ in range(-(-size // depth))
    )


def _replace_jit_by_shard_map(text: str) -> str:
    decorator = "@partial(jax.shard_map, mesh=mesh, in_specs=(spec, spec), out_specs=spec)"
    return text.replace("@jax.jit", decorator)


def nest_calls(size: int) -> str:
    """A call within a call within a call."""
    inner = "x"
    for number in range(size):
        inner = f"twice({inner}, y)" if number % 2 else f"put({inner}, spec)"
    helpers = f"\n\ndef put(x, spec):\n    return {PUT}\n\n\ndef twice(x, y):\n    return put(x, spec) + put(y, spec)\n"
    return helpers + _function_with_lines(iter([f"x = {inner}"]))


def nested_functions(size: int) -> str:
    """Functions defined in functions."""
    lines = [f"{' ' * depth}def f{depth}(x, y):" for depth in range(size)]
    lines.append(f"{' ' * size}return {PUT}")
    lines += [f"{' ' * depth}return f{depth}(x, y)" for depth in reversed(range(1, size))]
    return _function_with_lines(iter([*lines, "x = f0(x, y)"]))


def repeated_rebinds(size: int) -> str:
    """One name bound again and again, each time from what it was, in code that is jitted and in code that is mapped."""
    text = _function_with_lines(f"x = {PUT} + {number}" for number in range(size))
    return text + _replace_jit_by_shard_map(text.replace("def step", "def mapped"))


def sequential_ifs(size: int) -> str:
    """One name bound again in one `if` after the other."""
    return _function_with_lines(f"if y[{number}]:\n        x = {PUT}" for number in range(size))


def repeated_swaps(size: int) -> str:
    """Two names that change places again and again."""
    text = _function_with_lines("x, y = y, x" for _ in range(size))
    return text + _replace_jit_by_shard_map(text.replace("def step", "def mapped"))


def elif_chain(size: int) -> str:
    """One chain of `elif`."""
    lines = ["if y == 0:", f"    x = {PUT}"]
    for number in range(1, size):
        lines += [f"elif y == {number}:", f"    x = {PUT}"]
    text = _function_with_lines(iter(lines))
    return text + _replace_jit_by_shard_map(text.replace("def step", "def mapped"))


def circular_helpers(size: int) -> str:
    """Helpers that call each other, each two others, in circles."""
    parts = []
    for number in range(size):
        one, two = (number * 7 + 1) % size, (number * 3 + 2) % size
        parts.append(f"\n\ndef h{number}(x, s):\n    return h{one}(x, s) + h{two}(h{one}(x, spec), s)\n")
    return (
        "".join(parts)
        + _function_with_lines(iter(["x = h0(x, spec)"]))
        + _replace_jit_by_shard_map(_function_with_lines(iter(["x = h0(x, spec)"])))
    )


def chained_maps(size: int) -> str:
    """Trees mapped one from the other."""
    lines = ["tree = {'a': spec, 'b': other}"]
    lines += ["tree = jax.tree.map(lambda s: s, tree)" for _ in range(size)]
    lines += ["x = jax.device_put(x, jax.tree.map(lambda s: NamedSharding(mesh, s), tree))"]
    return _function_with_lines(iter(lines))


def chained_jits(size: int) -> str:
    """A function through one jit after the other, each with shardings."""
    lines = ["\n\ndef f0(x):\n    return x * 2\n\n"]
    for number in range(size):
        lines.append(f"f{number + 1} = jax.jit(f{number}, in_shardings=NamedSharding(mesh, spec))")
    return "\n".join([*lines, f"out = f{size}(jnp.ones(8))", ""])


def shard_maps(size: int) -> str:
    """Mapped functions that map the one before."""
    parts = ["\n\ndef f0(x):\n    return jax.lax.psum(x, 'data')\n"]
    for number in range(size):
        parts.append(
            f"\n\ndef f{number + 1}(x):\n"
            f"    inner = jax.shard_map(f{number}, mesh=mesh, in_specs=spec, out_specs=spec)\n"
            "    return inner(x) + inner(x * 2)\n"
        )
    return "".join(parts)


def inherited_classes(size: int) -> str:
    """Classes that each inherit from the one before, and ask it for a field."""
    parts = ["\n\nclass C0:\n    def __init__(self, spec):\n        self.spec = spec\n"]
    for number in range(1, size + 1):
        parts.append(
            f"\n\nclass C{number}(C{number - 1}):\n    def __init__(self, spec):\n        super().__init__(spec)\n"
            f"        self.s{number} = self.spec\n\n    def put(self, x):\n"
            f"        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, self.s{number}))\n"
        )
    return "".join(parts) + f"\n\nout = C{size}(spec).put(jnp.ones(8))\n"


def grown_lists(size: int) -> str:
    """A list made longer by one, again and again, and gone through."""
    lines = ["specs = []"]
    lines += [f"specs.append(spec if y[{number}] else other)" for number in range(size // 2)]
    lines += [f"specs = specs + [P('data', {number})]" for number in range(size // 2)]
    lines += ["for one in specs:", "    x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, one))"]
    return _function_with_lines(iter(lines))


def nested_tables(size: int) -> str:
    """A table of tables, as configurations are, each field asked for."""
    rows = "".join(
        f"    'n{number}': {{'spec': spec, 'size': {number}, 'of': {{'mesh': mesh}}}},\n"
        for number in range(size)
    )
    lines = [
        f"x = jax.device_put(x, NamedSharding(CONFIG['n{number}']['of']['mesh'], CONFIG['n{number}']['spec']))"
        for number in range(size)
    ]
    return f"\nCONFIG = {{\n{rows}}}\n" + _function_with_lines(iter(lines))


def deep_tables(size: int) -> str:
    """A table in a table in a table."""
    inner, path = "spec", ""
    for number in range(size):
        inner, path = f"{{'k{number}': {inner}, 'other': other}}", f"['k{number}']{path}"
    lines = [f"x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, CONFIG{path}))"] * 4
    return f"\nCONFIG = {inner}\n" + _function_with_lines(iter(lines))


def nested_configs(size: int) -> str:
    """Objects made of objects, each with a field of the one before, with a default."""
    parts = [
        "\nfrom dataclasses import dataclass, field\n\n\n@dataclass\nclass D0:\n    spec: P = P('data')\n"
    ]
    for number in range(1, size + 1):
        parts.append(
            f"\n\n@dataclass\nclass D{number}:\n    one: D{number - 1} = field(default_factory=D{number - 1})\n"
            f"    two: D{number - 1} = field(default_factory=D{number - 1})\n\n    @property\n    def spec(self):\n"
            "        return self.one.spec if self.two.spec else self.two.spec\n"
        )
    put = f"jax.lax.with_sharding_constraint(x, NamedSharding(mesh, D{size}().spec))"
    return "".join(parts) + _function_with_lines(iter([f"x = {put}"]))


def long_lines(size: int) -> str:
    """Lines of generated data: a text with slashes, a list of calls, one of functions, a sum."""
    return "\n".join(
        [
            f"\ndata = '{'ab/c+' * size}'",
            f"calls = [{'f(g(x, 1)), ' * size}]",
            f"maps = [{'lambda x: x, ' * size}]",
            f"total = {' + '.join(['x[0].y'] * (size // 10))}",
            f"names = [{'a.b, ' * size}]",
            f"shapes = [{'zeros((8, 8)), ' * size}]",
            "",
        ]
    ) + _function_with_lines(iter([]))


DEPTH, LENGTH = (5, 10, 20, 40), (250, 500, 1_000, 2_000)
CONSTRUCTS: dict[str, tuple[Callable[[int], str], tuple[int, ...], str]] = {
    "ifs": (nested_ifs, DEPTH, "levels"),
    "loops": (nested_loops, DEPTH, "levels"),
    "nested-calls": (nest_calls, DEPTH, "levels"),
    "functions": (nested_functions, DEPTH, "levels"),
    "rebinds": (repeated_rebinds, LENGTH, "bindings"),
    "ways": (sequential_ifs, LENGTH, "bindings"),
    "swaps": (repeated_swaps, LENGTH, "swaps"),
    "elifs": (elif_chain, LENGTH[:3], "branches"),
    "helpers": (circular_helpers, LENGTH, "functions"),
    "tree-maps": (chained_maps, LENGTH, "maps"),
    "jits": (chained_jits, LENGTH, "jits"),
    "shard-maps": (shard_maps, (*DEPTH, *LENGTH), "maps"),
    "classes": (inherited_classes, (*DEPTH, *LENGTH[:2]), "classes"),
    "lists": (grown_lists, LENGTH, "items"),
    "tables": (nested_tables, LENGTH, "rows"),
    "deep-tables": (deep_tables, DEPTH, "levels"),
    "configs": (nested_configs, DEPTH, "classes"),
    "long-lines": (long_lines, (2_000, 4_000, 8_000, 16_000), "items a line"),
}


def construct_builder(name: str) -> Callable[[Path, int], int]:
    """Makes a folder hold one file of a construct."""
    make, _, _ = CONSTRUCTS[name]

    def build_construct(folder: Path, size: int) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "construct.py").write_text(HEAD + make(size))
        return size

    return build_construct
