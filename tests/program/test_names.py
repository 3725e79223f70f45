"""Names through scopes, aliases, files and partials."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.model.values import (
    Api,
    CallResult,
    Choice,
    ClassValue,
    Constant,
    Environment,
    Function,
    Items,
    Parameter,
    Place,
    Table,
    Transformed,
    Unknown,
    Value,
)
from tests.conftest import Asked

Ask = Callable[..., Asked]


def name(value: Value) -> str:
    """A value in a word, for tests."""
    match value:
        case Api():
            return value.name
        case Constant():
            return repr(value.value)
        case Function():
            return f"def {getattr(value.node, 'name', 'lambda')}" + (" bound" if value.bound else "")
        case ClassValue():
            return f"class {value.node.name}"
        case CallResult():
            return f"{name(value.by)}()"
        case Transformed():
            return f"{value.api.name}<{name(value.inner)}>"
        case Items():
            return f"{value.kind}[{', '.join(map(name, value.items))}{', ...' if value.open else ''}]"
        case Table():
            entries = [f"{key}: {name(item)}" for key, item in value.entries]
            return f"dict[{', '.join([*entries, *(['...'] * value.open)])}]"
        case Choice():
            return " | ".join(dict.fromkeys(map(name, value.options)))
    return "?" if isinstance(value, Unknown) else type(value).__name__.lower()


SPEC = "jax.sharding.PartitionSpec"


@pytest.mark.parametrize(
    ("text", "expression", "found"),
    [
        ("import jax\nhere = jax.device_put", "jax.device_put", "jax.device_put"),
        ("import jax as j\nhere = j.device_put", "j.device_put", "jax.device_put"),
        ("from jax import device_put as put\nhere = put", "put", "jax.device_put"),
        ("from jax import numpy as jnp\nhere = jnp.zeros", "jnp.zeros", "jax.numpy.zeros"),
        ("import jax.numpy as jnp\nhere = jnp.zeros", "jnp.zeros", "jax.numpy.zeros"),
        ("import jax.sharding\nhere = jax.sharding.Mesh", "jax.sharding.Mesh", "jax.sharding.Mesh"),
        ("from jax.sharding import PartitionSpec as P\nhere = P", "P", SPEC),
        ("import jax\nhere = jax.P", "jax.P", SPEC),
        ("from jax.experimental.pjit import PartitionSpec\nhere = PartitionSpec", "PartitionSpec", SPEC),
        ("import jax.sharding as shd\nhere = shd.PartitionSpec", "shd.PartitionSpec", SPEC),
        ("from jax import sharding\nhere = sharding.PartitionSpec", "sharding.PartitionSpec", SPEC),
        ("from jax.sharding import PartitionSpec\nP = PartitionSpec\nhere = P", "P", SPEC),
        ("from jax.sharding import PartitionSpec\nPS = P = PartitionSpec\nhere = PS", "PS", SPEC),
        ("import jax\nclass C:\n    put = jax.device_put\nhere = C.put", "C.put", "jax.device_put"),
        (
            "import jax\nclass C:\n    def __init__(self): self.put = jax.device_put\n"
            "    def f(self): return self.put",
            "self.put",
            "jax.device_put",
        ),
        ("import jax\ndef f(put=jax.device_put): return put", "put", "parameter"),
        ("from jax import *\nhere = device_put", "device_put", "jax.device_put"),
        ("import numpy as jnp\nhere = jnp.zeros", "jnp.zeros", "numpy.zeros"),
        ("here = nothing", "nothing", "?"),
        ("here = print", "print", "builtins.print"),
        ("print = 1\nhere = print", "print", "1"),
        ("def f(jax): return jax.device_put", "jax.device_put", "?"),
        ("import jax\ndef f():\n    jax = g()\n    return jax.device_put", "jax.device_put", "?"),
        ("import jax\ndel jax\nhere = jax.device_put", "jax.device_put", "?"),
        ("import jax\njax = fake()\nhere = jax.device_put", "jax.device_put", "?"),
        (
            "import jax\ndef f():\n    global put\n    put = 1\nput = jax.device_put\ndef g(): return put",
            "put",
            "jax.device_put | 1",
        ),
        (
            "put = None\ndef f():\n    global put\n    if put is None:\n        put = 1\n    return put\ndef g(): return f()",
            "f()",
            "1",
        ),
        (
            "put = None\ndef h():\n    put = 3\n    def f():\n        nonlocal put\n        put = 1\ndef f():\n"
            "    global put\n    put, a = 2, 1\ndef g(): return put",
            "put",
            "None | 2",
        ),
        ("put = 0\ndef f():\n    global put\n    put += 1\ndef g(): return put", "put", "0 | ?"),
        ("put = 0\ndef f():\n    global put\n    put = put + 1\ndef g(): return put", "put", "0 | ?"),
        (
            "try:\n    from jax import shard_map\nexcept ImportError:\n"
            "    from jax.experimental.shard_map import shard_map\n"
            "here = shard_map",
            "shard_map",
            "jax.shard_map",
        ),
        (
            "try:\n    import jax\nexcept ImportError:\n    jax = None\nhere = jax.jit",
            "jax.jit",
            "jax.jit | ?",
        ),
        (
            "import jax\nif a:\n    put = jax.device_put\nelse:\n    put = jax.jit\nhere = put",
            "put",
            "jax.device_put | jax.jit",
        ),
        (
            "import jax\nhere = jax.device_put if a else jax.jit",
            "jax.device_put if a else jax.jit",
            "jax.device_put | jax.jit",
        ),
        ("import jax\n(put := jax.device_put)\nhere = put", "put", "jax.device_put"),
        ("import jax\nput, _ = jax.device_put, 1\nhere = put", "put", "jax.device_put"),
        ("import jax\nputs = [jax.device_put]\nhere = puts[0]", "puts[0]", "jax.device_put"),
        ("import jax\nputs = {'a': jax.device_put}\nhere = puts['a']", "puts['a']", "jax.device_put"),
    ],
)
def test_a_name_is_known_by_where_it_comes_from(ask: Ask, text: str, expression: str, found: str) -> None:
    assert name(ask(text).value(expression, nth=-1)) == found


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("1", "1"),
        ("-1", "-1"),
        ("'a' + 'b'", "'ab'"),
        ("2 * 4 - 1", "7"),
        ("7 // 2", "3"),
        ("7 // 0", "?"),
        ("('a', 'b')", "tuple['a', 'b']"),
        ("('a',) + ('b',)", "tuple['a', 'b']"),
        ("('a',) * 2", "tuple['a', 'a']"),
        ("('a',) * 1000000", "tuple[, ...]"),
        ("[1, *two, 4]", "list[1, 2, 3, 4]"),
        ("[1, *other]", "list[1, ...]"),
        ("two[1]", "3"),
        ("two[5]", "?"),
        ("{'a': 1, **other}", "dict[a: 1, ...]"),
        ("dict(a=1)", "dict[a: 1]"),
        ("tuple([1, 2])", "tuple[1, 2]"),
        ("None or 'a'", "'a'"),
        ("other or 'a'", "? | 'a'"),
        ("twice('a')", "tuple['a', 'a']"),
        ("twice(x='b')", "tuple['b', 'b']"),
        ("twice(*other)", "tuple[?, ?]"),
        ("either(other)", "'a' | 'b'"),
        ("(lambda x: (x, 1))('a')", "tuple['a', 1]"),
        ("deep(1)", "?"),
        ("gen()", "?"),
        ("corou()", "?"),
        ("nothing_back()", "?"),
        ("defaulted()", "'d'"),
        ("Config().axis", "'data'"),
        ("Config.axis", "'data'"),
        ("Sub().axis", "'data'"),
        ("f'{two}'", "?"),
    ],
)
def test_constants_are_followed_and_nothing_is_guessed(ask: Ask, expression: str, found: str) -> None:
    text = f"""\
two = [2, 3]
def twice(x): return (x, x)
def either(x):
    if x: return 'a'
    return 'b'
def deep(x): return deep(x)
def gen(): yield 1
async def corou(): return 1
def nothing_back(): pass
def defaulted(x='d'): return x
class Config:
    axis = 'data'
class Sub(Config): pass
here = {expression}
"""
    assert name(ask(text).value(expression, nth=-1)) == found


@pytest.mark.parametrize(
    ("files", "text", "expression", "found"),
    [
        pytest.param({"b.py": "AXIS = 'data'"}, "from b import AXIS\nAXIS", "AXIS", "'data'", id="sibling"),
        pytest.param({"b.py": "AXIS = 'data'"}, "import b\nb.AXIS", "b.AXIS", "'data'", id="module"),
        pytest.param({"b.py": "AXIS = 'data'"}, "import b as c\nc.AXIS", "c.AXIS", "'data'", id="renamed"),
        pytest.param(
            {"b.py": "from c import *", "c.py": "AXIS = 'data'"},
            "from b import AXIS\nAXIS",
            "AXIS",
            "'data'",
            id="star",
        ),
        pytest.param({"b.py": "AXIS = 'data'"}, "from b import *\nAXIS", "AXIS", "'data'", id="star-here"),
        pytest.param(
            {"p/__init__.py": "from .b import AXIS", "p/b.py": "AXIS = 'data'"},
            "import p\np.AXIS",
            "p.AXIS",
            "'data'",
            id="re-export",
        ),
        pytest.param(
            {"p/__init__.py": "", "p/b.py": "AXIS = 'data'"},
            "import p.b\np.b.AXIS",
            "p.b.AXIS",
            "'data'",
            id="submodule",
        ),
        pytest.param(
            {"p/__init__.py": "", "p/b.py": "AXIS = 'data'"},
            "from p import b\nb.AXIS",
            "b.AXIS",
            "'data'",
            id="submodule-from",
        ),
        pytest.param(
            {"p/q/b.py": "AXIS = 'data'"},
            "from p.q import b\nb.AXIS",
            "b.AXIS",
            "'data'",
            id="namespace-package",
        ),
        pytest.param(
            {"src/p/__init__.py": "", "src/p/b.py": "AXIS = 'data'"},
            "from p.b import AXIS\nAXIS",
            "AXIS",
            "'data'",
            id="src-layout",
        ),
        pytest.param(
            {"b.py": "import a\nAXIS = a.OTHER"},
            "import b\nOTHER = b.AXIS\nb.AXIS",
            "b.AXIS",
            "?",
            id="circle",
        ),
        pytest.param(
            {"b.py": "from b import AXIS"}, "from b import AXIS\nAXIS", "AXIS", "?", id="from-itself"
        ),
        pytest.param(
            {"b.py": "from a import *"}, "from b import *\nAXIS", "AXIS", "?", id="stars-in-a-circle"
        ),
        pytest.param({"b.py": "AXIS = ("}, "from b import AXIS\nAXIS", "AXIS", "?", id="does-not-parse"),
        pytest.param(
            {"b.py": "AXIS = 'x'\nAXIS = 'data'"},
            "from b import AXIS\nAXIS",
            "AXIS",
            "'data'",
            id="last-one-stands",
        ),
        pytest.param(
            {"b.py": "if A:\n    AXIS = 'x'\nelse:\n    AXIS = 'data'"},
            "from b import AXIS\nAXIS",
            "AXIS",
            "'x' | 'data'",
            id="either",
        ),
        pytest.param(
            {"jax.py": "device_put = 1"},
            "import jax\njax.device_put",
            "jax.device_put",
            "jax.device_put",
            id="a-library-is-itself",
        ),
        pytest.param({}, "from gone import AXIS\nAXIS", "AXIS", "gone.AXIS", id="not-here"),
        pytest.param({"b.py": ""}, "from b import AXIS\nAXIS", "AXIS", "?", id="not-in-it"),
        pytest.param(
            {"b.py": "from jax.sharding import PartitionSpec as P"},
            "from b import P\nP",
            "P",
            SPEC,
            id="library-through-us",
        ),
        pytest.param(
            {
                "compat.py": "try:\n    from jax import shard_map\n"
                "except ImportError:\n    from jax.experimental.shard_map import shard_map"
            },
            "from compat import shard_map\nshard_map",
            "shard_map",
            "jax.shard_map",
            id="compat",
        ),
    ],
)
def test_names_of_other_files(
    ask: Ask, files: dict[str, str], text: str, expression: str, found: str
) -> None:
    assert name(ask(text, files).value(expression, nth=-1)) == found


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("from . import b\nb.AXIS", "'here'"),
        ("from .b import AXIS\nAXIS", "'here'"),
        ("from .. import b\nb.AXIS", "'above'"),
        ("from ..b import AXIS\nAXIS", "'above'"),
        ("from ..q.b import AXIS\nAXIS", "'here'"),
        ("from .gone import AXIS\nAXIS", "?"),
        ("from ....... import b\nb.AXIS", "?"),
    ],
)
def test_relative_imports(ask: Ask, statement: str, found: str) -> None:
    files = {
        "p/__init__.py": "",
        "p/b.py": "AXIS = 'above'",
        "p/q/__init__.py": "",
        "p/q/b.py": "AXIS = 'here'",
        "p/q/a.py": statement,
    }
    asked = ask("", files)
    assert name(asked.value(statement.splitlines()[-1], "p/q/a.py", -1)) == found


@pytest.mark.parametrize(
    ("text", "expression", "found"),
    [
        ("h = partial(jax.jit, donate_argnums=0)\nh", "h", "functools.partial<jax.jit>"),
        ("h = partial(f, 'a')()\nh", "h", "tuple['a', ?]"),
        ("h = partial(f, y='b')('a')\nh", "h", "tuple['a', 'b']"),
        ("h = partial(partial(f, 'a'), 'b')()\nh", "h", "tuple['a', 'b']"),
        ("h = jax.jit(f)\nh", "h", "jax.jit<def f>"),
        ("h = jax.jit(f)(1, 2)\nh", "h", "jax.jit<def f>()"),
        ("h = jax.jit(donate_argnums=0)\nh", "h", "jax.jit()"),
        ("h = eqx.filter_jit(donate='all')(f)\nh", "h", "equinox.filter_jit<def f>"),
        ("@jax.jit\ndef h(): pass\nh", "h", "jax.jit<def h>"),
        ("@partial(jax.jit, donate_argnums=0)\ndef h(): pass\nh", "h", "jax.jit<def h>"),
        ("@jax.jit\n@jax.vmap\ndef h(): pass\nh", "h", "jax.jit<jax.vmap<def h>>"),
        ("@unknown\ndef h(): pass\nh", "h", "<def h>"),
        ("class C:\n    @jax.jit\n    def m(self): pass\nh = C().m\nh", "h", "jax.jit<def m bound>"),
        ("class C:\n    @staticmethod\n    def m(x): pass\nh = C().m\nh", "h", "def m"),
        ("class C:\n    @classmethod\n    def m(cls): pass\nh = C.m\nh", "h", "def m bound"),
        ("class C:\n    def m(self): return self\nh = C().m\nh", "h", "def m bound"),
        ("class B:\n    def m(self): pass\nclass C(B): pass\nh = C().m\nh", "h", "def m bound"),
        ("class C: pass\ndef g(c: C): return c\n", "c", "class C()"),
    ],
)
def test_functions_through_wrappers(ask: Ask, text: str, expression: str, found: str) -> None:
    before = "from functools import partial\nimport jax, equinox as eqx\ndef f(x, y): return (x, y)\n"
    assert name(ask(before + text).value(expression, nth=-1)) == found


def test_calls_of_one_function_do_not_answer_for_each_other(ask: Ask) -> None:
    text = """\
from jax.sharding import PartitionSpec as P
def twice(x): return (x, x)
def same(x): return x
def pair(axis, other='m'):
    both = twice(axis)
    return (twice('z'), both, other, P('y'), P(axis))
one = pair('a')
two = pair('b', other='n')
same(same(same(two)))
"""
    asked = ask(text)
    fixed = "tuple['z', 'z']"
    one, two = asked.value("pair('a')"), asked.value("same(same(same(two)))")
    assert name(one) == f"tuple[{fixed}, tuple['a', 'a'], 'm', {SPEC}(), {SPEC}()]"
    assert name(two) == f"tuple[{fixed}, tuple['b', 'b'], 'n', {SPEC}(), {SPEC}()]"
    axes = []
    for spec in (item for value in (one, two) if isinstance(value, Items) for item in value.items[3:]):
        assert isinstance(spec, CallResult)
        assert spec.call is not None
        axes.append(name(asked.program.evaluator.value(spec.call.positional[0], spec.call.environment)))
    assert axes == ["'y'", "'a'", "'y'", "'b'"]


@pytest.mark.parametrize("before", [(), ("one",), ("two",), ("two", "one")])
def test_what_goes_round_is_the_same_whatever_was_asked_before(ask: Ask, before: tuple[str, ...]) -> None:
    asked = ask(
        "class C:\n"
        "    def __init__(self):\n"
        "        self.one = (self.two, 1)\n"
        "        self.two = (self.one, 2)\n"
        "    def use(self):\n"
        "        one = self.one\n"
        "        two = self.two\n"
    )
    for word in before:
        asked.value(f"self.{word}", nth=-1)
    assert name(asked.value("self.one", nth=-1)) == "tuple[tuple[?, 2], 1]"
    assert name(asked.value("self.two", nth=-1)) == "tuple[tuple[?, 1], 2]"


def test_imports_in_a_circle(ask: Ask) -> None:
    asked = ask("from b import x, y\nhere = (x, y)\n", {"b.py": "from a import x\ny = 1\n"})
    assert name(asked.value("(x, y)")) == "tuple[?, 1]"


def test_calls_that_branch_are_followed_once(ask: Ask) -> None:
    calls = [f"def f{n}(x=1): return (f{n + 1}(), f{n + 1}(0))\n" for n in range(10)]
    found = name(ask(f"{''.join(calls)}def f10(x=1): return 'a'\nhere = f0(1)\n").value("f0(1)"))
    assert found.count("'a'") == 2**10
    assert "?" not in found


def test_what_rests_on_a_parameter_of_an_inner_function_is_told_by_its_calls(ask: Ask) -> None:
    """Also after it was asked for where only the parameters of the outer function are told."""
    text = (
        "import jax\n\n\ndef outer(width):\n    part = lambda *names: jax.numpy.zeros(names)\n"
        "    return part('a', width), part('b', 1)\n"
    )
    asked, outer = ask(text), Environment({"width": Constant(8)})
    evaluator = asked.program.evaluator
    assert isinstance(evaluator.value(Place(*asked.node("names")), outer), Parameter)
    found = evaluator.value(Place(*asked.node("part('a', width)")), outer)
    assert isinstance(found, CallResult) and found.call is not None
    given = evaluator.value(found.call.positional[0], found.call.environment)
    assert name(given) == "tuple['a', 8]"


MAY_BE_NONE = """\
import jax
from jax.sharding import Mesh
mesh = Mesh(devices, ("data",)) if jax.device_count() > 1 else None
rows = Mesh(devices, ("rows",)) if mesh is not None else None
if n > 1:
    one, two = 1, 2
    first, second = "a", "b"
else:
    one = None
    first = None
"""
MESH, NONE = "jax.sharding.Mesh()", "jax.sharding.Mesh() | None"


@pytest.mark.parametrize(
    ("text", "expression", "found"),
    [
        pytest.param("here = mesh", "mesh", NONE, id="no-test"),
        pytest.param("if mesh is not None:\n    here = mesh", "mesh", MESH, id="test"),
        pytest.param("if mesh:\n    here = mesh", "mesh", MESH, id="truth"),
        pytest.param("def f():\n    if not mesh:\n        return\n    return mesh", "mesh", MESH, id="left-before"),
        pytest.param("if isinstance(mesh, Mesh) and n:\n    here = mesh", "mesh", MESH, id="isinstance"),
        pytest.param("here = None if mesh is None else mesh", "mesh", MESH, id="expression"),
        pytest.param("if mesh is None:\n    here = mesh", "mesh", NONE, id="the-other-way-round"),
        pytest.param("if mesh is not None or n:\n    here = mesh", "mesh", NONE, id="or"),
        pytest.param(
            "mesh = mesh\nif mesh is not None:\n    mesh = f() if n else None\n    here = mesh", "mesh", "? | None", id="rebound"
        ),
        pytest.param("if mesh is not None:\n    here = rows", "rows", MESH, id="made-under-the-same-test"),
        pytest.param("if rows is not None:\n    here = mesh", "mesh", NONE, id="another-name"),
        pytest.param("if one is not None:\n    here = first", "first", "'a'", id="none-next-to-none"),
        pytest.param("if two is not None:\n    here = first", "first", "'a' | None", id="a-name-that-is-never-none"),
    ],
)  # fmt: skip
def test_what_a_test_rules_out(ask: Ask, text: str, expression: str, found: str) -> None:
    assert name(ask(MAY_BE_NONE + text + "\n").value(expression, nth=-1)) == found
