"""Fields of instances, trees, loops and comprehensions, and what is only assumed."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.model import Program
from shardlint.model.mesh.meshes import mesh_of, spec_of
from shardlint.model.values import Assumed, CallResult, Choice, Constant, Items, Leaves, Unknown, Value

HEAD = """
import jax
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
"""


@pytest.fixture
def last(tmp_path: Path) -> Callable[[str], tuple[Program, Value]]:
    def evaluated(code: str) -> tuple[Program, Value]:
        path = tmp_path / "m.py"
        path.write_text(HEAD + code)
        program = Program(tmp_path)
        file = program.project.facts(path)
        assert file is not None
        statement = file.tree.body[-1]
        assert isinstance(statement, ast.Expr)
        return program, program.value(file, statement.value)

    return evaluated


CONFIG = """
@dataclass
class Base:
    batch: int
    axes: tuple = ("data", "model")
@dataclass
class Config(Base):
    size: int = field(default=4)
    names: list = field(default_factory=lambda: ["a"])
    @property
    def first(self): return self.axes[0]
    @cached_property
    def spec(self): return P(self.first, None)
    def of(self, name): return P(name, self.axes[1])
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Config(8).batch", Constant(8)),
        ("Config(8, ('x', 'y')).first", Constant("x")),
        ("Config(8, axes=('x', 'y')).axes[1]", Constant("y")),
        ("Config(8).size", Constant(4)),
        ("Config(8).first", Constant("data")),
        ("Config(8).names", Items("list", (Constant("a"),))),
    ],
)
def test_fields_of_a_dataclass_made_in_sight(last, code, found):
    assert last(CONFIG + code)[1] == found


@pytest.mark.parametrize(
    "annotation", ["Config", "'Config'", "Config | None", "Optional[Config]", "'Config | None'"]
)
def test_a_default_is_only_assumed_where_the_object_is_made_elsewhere(last, annotation):
    code = f"from typing import Optional\ndef f(config: {annotation} = None):\n    return config.first\n"
    program, value = last(f"{CONFIG}{code}f(unknown())")
    assert isinstance(value, Assumed) or not isinstance(value, Constant)
    assuming = program.assuming_view()
    assert assuming.assume_value(value) == Constant("data")
    assert assuming.why == ["`axes` of `Config` has this default"]


def test_a_property_and_a_method_of_an_instance_make_specs(last):
    program, value = last(CONFIG + "Config(8, ('x', 'y')).spec")
    spec = spec_of(value, program.evaluator)
    assert spec is not None
    assert [entry.axes for entry in spec.entries] == [("x",), ()]
    program, value = last(CONFIG + "Config(8, ('x', 'y')).of('z')")
    spec = spec_of(value, program.evaluator)
    assert spec is not None
    assert [entry.axes for entry in spec.entries] == [("z",), ("y",)]


def test_what_init_assigns_is_told_by_the_call(last):
    code = """
class Trainer:
    def __init__(self, mesh, axis="data"):
        self.mesh = mesh
        self.sharding = NamedSharding(mesh, P(axis))
Trainer(jax.make_mesh((8,), ("data",))).sharding.mesh
"""
    program, value = last(code)
    mesh = mesh_of(value, program.evaluator)
    assert mesh is not None
    assert mesh.axis_names == ("data",)


@pytest.mark.parametrize(
    "code",
    [
        "jax.tree.map(lambda s: NamedSharding(mesh, s), {'w': P('data'), 'b': P()})['w']",
        "{k: NamedSharding(mesh, v) for k, v in {'w': P('data'), 'b': P()}.items()}['w']",
        "[NamedSharding(mesh, s) for s in (P('data'), P())][0]",
        "jax.tree.map(lambda s: NamedSharding(mesh, s), unknown())['w']['x']",
        "jax.tree_util.tree_map(partial(NamedSharding, mesh), unknown())['w']",
    ],
)
def test_trees_of_shardings(last, code):
    _, value = last("mesh = jax.make_mesh((8,), ('data',))\n" + code)
    made = [one for one in getattr(value, "options", (value,)) if isinstance(one, CallResult)]
    assert made
    assert {one.api for one in made} == {"jax.sharding.NamedSharding"}


def test_a_tree_of_unknown_structure_has_known_leaves(last):
    program, value = last("jax.tree.map(lambda x: jax.device_put(x, unknown()), unknown())")
    tree = program.evaluator.trees.expand_tree_map(value)
    assert isinstance(tree, Leaves)
    assert isinstance(tree.of, CallResult)
    assert tree.of.api == "jax.device_put"


def test_a_nested_target_is_no_element_of_the_outer_value(last):
    assert not isinstance(last("pair = ((1, 2), 3)\n(a, b), c = pair\nb")[1], Constant)


def test_a_loop_variable_is_any_of_the_elements(last):
    _, value = last("for name in ('a', 'b'):\n    pass\nname")
    assert {one.value for one in value.options} == {"a", "b"}


XY = (Constant("x"), Constant("y"))
CHOSEN = """
class Wide:
    ROWS = ("data", "fsdp")
class Flat:
    ROWS = "data"
class Axes:
    def __init__(self):
        self._kind = None
        self.own = "mine"
    def _choose(self, wide):
        self._kind = Wide if wide else Flat
    def __getattr__(self, name):
        if self._kind is None:
            self._choose(False)
        return getattr(self._kind, name)
class Around:
    def __init__(self, inner): self.inner = inner
    def __getattr__(self, key): return getattr(self.inner, key)
class Held:
    SIZE = 4
class Other:
    def __getattr__(self, name): return getattr(self.inner, name + "_axis")
class Round:
    def __init__(self): self.other = Round()
    def __getattr__(self, name): return getattr(self.other, name)
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("Around(Held()).SIZE", Constant(4)),
        ("Around(Around(Held)).SIZE", Constant(4)),
        ("Axes().own", Constant("mine")),
    ],
)
def test_what_hands_attributes_on(last, code, found):
    assert last(CHOSEN + code)[1] == found


def test_the_first_of_what_attributes_are_handed_on_to_is_assumed(last):
    _, value = last(CHOSEN + "Axes().ROWS")
    assert isinstance(value, Assumed)
    assert value.value == Items("tuple", (Constant("data"), Constant("fsdp")))
    assert "Wide" in value.why


@pytest.mark.parametrize("code", ["Other().SIZE", "Round().SIZE", "Around(unknown()).SIZE", "Axes().COLUMNS"])
def test_what_is_handed_on_to_nobody_known(last, code):
    assert isinstance(last(CHOSEN + code)[1], Unknown)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("[a for a in ('x', 'y', 'z') if a != 'y']", ("x", "z")),
        ("[a for a in ('x', 'y', 'z') if a in ('x', 'y') and not a == 'x']", ("y",)),
        ("[a for a in ('x', None, 'z') if a]", ("x", "z")),
        ("[a for a in ('x', None) if a is None or a == 'x' if a]", ("x",)),
    ],
)
def test_comprehensions_leave_elements_out(last, code, kept):
    assert last(code)[1] == Items("list", tuple(Constant(one) for one in kept))


def test_what_a_comprehension_leaves_out_may_be_assumed_or_unknown(last):
    assert last("[a for a in ('x', 'y') if a != unknown()]")[1] == Items("list", (), True, (Choice(XY),))
    _, value = last(CHOSEN + "[a for a in ('x', 'data') if a != Axes().ROWS[0]]")
    assert isinstance(value, Assumed)
    assert value.value == Items("list", (Constant("x"),))
