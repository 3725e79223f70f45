"""Meshes and specs: literal, constant, through functions, or chosen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.facts.shardings import is_sharding, is_spec, literal_leaves
from shardlint.model.mesh.meshes import Mesh, Spec, mesh_of, sharding_parts, spec_of
from shardlint.model.values import Constant, Items, Table, options
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import jax
import numpy as np
from functools import partial
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P, PositionalSharding
AXES = ("data", "model")
DATA = "data"
def make(n, names=AXES):
    return jax.make_mesh((n, 2), names)
class Config:
    axes = ("c", "d")
"""


def meshes(ask: Ask, expression: str) -> list[Mesh | None]:
    asked = ask(f"{BEFORE}here = {expression}\n")
    value = asked.value(expression, nth=-1)
    return [mesh_of(option, asked.program.evaluator) for option in options(value)]


def specs(ask: Ask, expression: str, before: str = "") -> list[Spec | None]:
    asked = ask(f"{BEFORE}{before}here = {expression}\n")
    return [spec_of(option, asked.program.evaluator) for option in options(asked.value(expression, nth=-1))]


@pytest.mark.parametrize(
    "expression", ["jax.devices()", "unknown", "P('data')", "make", "Mesh", "None", "NamedSharding(m, P())"]
)
def test_what_is_no_mesh(ask: Ask, expression: str) -> None:
    assert meshes(ask, expression) == [None]


@pytest.mark.parametrize(
    ("expression", "names", "sizes", "types"),
    [
        ("Mesh(d, ('a', 'b'))", ("a", "b"), (None, None), "default"),
        ("Mesh(d, ['a', 'b'])", ("a", "b"), (None, None), "default"),
        ("Mesh(d, 'a')", ("a",), (None,), "default"),
        ("Mesh(d, axis_names=('a',))", ("a",), (None,), "default"),
        ("Mesh(np.array(d).reshape(2, 4), AXES)", ("data", "model"), (2, 4), "default"),
        ("Mesh(d, Config.axes)", ("c", "d"), (None, None), "default"),
        ("Mesh(d, Config().axes)", ("c", "d"), (None, None), "default"),
        ("Mesh(d, (DATA,) + ('m',))", ("data", "m"), (None, None), "default"),
        ("Mesh(d, names)", None, (), "default"),
        ("Mesh(d, ('a', name))", None, (), "default"),
        ("Mesh(d, ('a', *names))", None, (), "default"),
        ("Mesh(d)", None, (), "default"),
        ("Mesh(*args)", None, (), "default"),
        ("jax.make_mesh((2, 4), ('a', 'b'))", ("a", "b"), (2, 4), "default"),
        ("jax.make_mesh((n, 4), ('a', 'b'))", ("a", "b"), (None, 4), "default"),
        ("jax.make_mesh((True, 4), ('a', 'b'))", ("a", "b"), (None, 4), "default"),
        ("jax.make_mesh(axis_shapes=(8,), axis_names=('a',))", ("a",), (8,), "default"),
        ("jax.make_mesh((2, 4), ('a', 'b'), axis_types=(AxisType.Auto,) * 2)", ("a", "b"), (2, 4), "auto"),
        ("jax.make_mesh((2,), ('a',), axis_types=(AxisType.Explicit,))", ("a",), (2,), "explicit"),
        ("jax.make_mesh((2,), ('a',), axis_types=(jax.sharding.AxisType.Manual,))", ("a",), (2,), "manual"),
        (
            "jax.make_mesh((2, 4), AXES, axis_types=(AxisType.Auto, AxisType.Explicit))",
            ("data", "model"),
            (2, 4),
            "mixed",
        ),
        ("Mesh(d, names, axis_types=(AxisType.Explicit,) * len(names))", None, (), "explicit"),
        ("Mesh(d, names, axis_types=len(names) * [AxisType.Auto])", None, (), "auto"),
        ("Mesh(d, names, axis_types=(AxisType.Auto, *types) * len(names))", None, (), "unknown"),
        ("jax.make_mesh((2,), ('a',), axis_types=types)", ("a",), (2,), "unknown"),
        ("jax.make_mesh((2,), ('a',), axis_types=None)", ("a",), (2,), "default"),
        ("jax.make_mesh((2,), ('a',), **options)", ("a",), (2,), "unknown"),
        ("jax.sharding.Mesh(d, ('a',))", ("a",), (None,), "default"),
        ("AbstractMesh((2, 4), ('a', 'b'))", ("a", "b"), (2, 4), "default"),
        ("make(4)", ("data", "model"), (4, 2), "default"),
        ("make(4, ('x', 'y'))", ("x", "y"), (4, 2), "default"),
        ("make(names=('x', 'y'), n=8)", ("x", "y"), (8, 2), "default"),
        ("make(*args)", None, (), "default"),
        ("make(n)", ("data", "model"), (None, 2), "default"),
        ("partial(make, 4)()", ("data", "model"), (4, 2), "default"),
        ("partial(jax.make_mesh, axis_names=('x',))((8,))", ("x",), (8,), "default"),
    ],
)
def test_a_mesh(
    ask: Ask, expression: str, names: tuple[str, ...] | None, sizes: tuple[int | None, ...], types: str
) -> None:
    (mesh,) = meshes(ask, expression)
    assert mesh is not None
    assert (mesh.axis_names, mesh.sizes, mesh.axis_types) == (names, sizes, types)


def test_a_choice_of_meshes_is_both(ask: Ask) -> None:
    found = meshes(ask, "Mesh(d, ('a',)) if many else Mesh(d, ('b',))")
    assert [mesh.axis_names for mesh in found if mesh is not None] == [("a",), ("b",)]
    assert meshes(ask, "Mesh(d, ('a',)) if many else None")[1] is None


def test_a_mesh_is_known_across_files_and_attributes(ask: Ask) -> None:
    text = "from b import Trainer\nhere = Trainer().mesh\n"
    files = {"b.py": "from c import build\nclass Trainer:\n    def __init__(self): self.mesh = build()\n",
             "c.py": "import jax\ndef build(): return jax.make_mesh((8,), ('data',))\n"}  # fmt: skip
    asked = ask(text, files)
    mesh = mesh_of(asked.value("Trainer().mesh"), asked.program.evaluator)
    assert mesh is not None
    assert (mesh.axis_names, mesh.sizes, mesh.place.file.path.name) == (("data",), (8,), "c.py")


@pytest.mark.parametrize("expression", ["('data',)", "'data'", "Mesh(d, 'a')", "unknown('data')", "P"])
def test_what_is_no_spec(ask: Ask, expression: str) -> None:
    assert specs(ask, expression) == [None]


@pytest.mark.parametrize(
    ("expression", "entries"),
    [
        ("P()", []),
        ("P('data')", ["data"]),
        ("P(None, 'data')", ["-", "data"]),
        ("P(DATA, AXES)", ["data", "data+model"]),
        ("P(('data', 'model'), None)", ["data+model", "-"]),
        ("P(['data', 'model'])", ["data+model"]),
        ("P(P.UNCONSTRAINED, 'data')", ["free", "data"]),
        ("P(name)", ["?"]),
        ("P(('data', name))", ["?data"]),
        ("P(*AXES)", ["data", "model"]),
        ("P('data', *rest)", ["data", "..."]),
        ("P(**kw)", ["..."]),
        ("P('')", [""]),
        ("jax.P('data')", ["data"]),
        ("jax.sharding.PartitionSpec('data')", ["data"]),
        ("(lambda a: P(a))('x')", ["x"]),
        ("P('a' if many else 'b')", ["?"]),
    ],
)
def test_a_spec(ask: Ask, expression: str, entries: list[str]) -> None:
    (spec,) = specs(ask, expression)
    assert spec is not None
    shown = [
        "free"
        if entry.unconstrained
        else ("" if entry.known else "?") + ("+".join(entry.axes) if entry.axes else "-" * entry.known)
        for entry in spec.entries
    ]
    assert shown + ["..."] * spec.open == entries


def test_a_sharding_has_its_mesh_and_spec(ask: Ask) -> None:
    for expression in ("NamedSharding(make(4), P('data'))", "NamedSharding(spec=P('data'), mesh=make(4))",
                       "jax.sharding.NamedSharding(make(4), P('data'))", "partial(NamedSharding, make(4))(P('data'))",
                       "(lambda s: NamedSharding(make(4), s))(P('data'))"):  # fmt: skip
        asked = ask(f"{BEFORE}here = {expression}\n")
        parts = sharding_parts(asked.value(expression, nth=-1), asked.program.evaluator)
        assert parts is not None, expression
        mesh, spec = mesh_of(parts[0], asked.program.evaluator), spec_of(parts[1], asked.program.evaluator)
        assert mesh is not None and mesh.sizes == (4, 2), expression
        assert spec is not None and spec.entries[0].axes == ("data",), expression


def test_attributes_of_a_sharding_are_what_it_was_given(ask: Ask) -> None:
    asked = ask(f"{BEFORE}s = NamedSharding(make(4), P('data'))\nhere = s.mesh\nthere = s.spec\n")
    mesh = mesh_of(asked.value("s.mesh"), asked.program.evaluator)
    spec = spec_of(asked.value("s.spec"), asked.program.evaluator)
    assert mesh is not None and mesh.axis_names == ("data", "model")
    assert spec is not None and spec.entries[0].axes == ("data",)


def test_leaves_of_a_literal_tree(ask: Ask) -> None:
    asked = ask(f"{BEFORE}here = ({{'a': P('x'), 'b': [P('y'), None]}}, P())\n")
    found = literal_leaves(asked.value("({'a': P('x'), 'b': [P('y'), None]}, P())"))
    assert [is_spec(leaf) for leaf in found] == [True, True, False, True]
    assert literal_leaves(Items("tuple", (Constant(1), Table((("a", Constant(2)),))))) == [Constant(1), Constant(2)]
    asked = ask(f"{BEFORE}here = NamedSharding(m, P()) if a else PositionalSharding(d)\n")
    assert is_sharding(asked.value("NamedSharding(m, P()) if a else PositionalSharding(d)"))
