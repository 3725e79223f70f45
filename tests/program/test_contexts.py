"""Which meshes are in context at a place: `here()` marks the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
import contextlib
from functools import partial
import jax
from jax.sharding import Mesh, use_mesh, use_abstract_mesh
mesh = Mesh(devices, ("data",))
other = jax.make_mesh((2, 4), ("x", "y"))
"""


def context(
    ask: Ask, text: str, files: dict[str, str] | None = None, where: str = "a.py", around: bool = False
) -> str:
    """The kinds of contexts with their axes; "?" when there may be others, "bare" when one way has none."""
    asked = ask(BEFORE + text, files)
    file, node = asked.node("here()", where, -1)
    found = (asked.program.surrounding_contexts if around else asked.program.mesh_contexts)(file, node)
    if found.never:
        return "never"
    axes = [f"{c.kind} {','.join(c.mesh.axis_names or ('?',)) if c.mesh else '-'}" for c in found.contexts]
    return " + ".join([*axes, *(["bare"] if found.bare else []), *([] if found.complete else ["?"])])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("here()", id="module"),
        pytest.param("with mesh: pass\nhere()", id="after"),
        pytest.param("with open(p): here()", id="harmless-manager"),
        pytest.param("with jax.default_device(d), jax.named_scope('x'): here()", id="harmless-managers"),
        pytest.param("def f(): here()\nf()", id="called"),
        pytest.param(
            "def f():\n    def g(): here()\n    with mesh: pass\n    g()\nf()", id="nested-function"
        ),
        pytest.param("@jax.jit\ndef f(): here()\nf()", id="jitted"),
        pytest.param("with mesh:\n    def f(): here()\nf()", id="defined-inside-called-outside"),
        pytest.param("with mesh:\n    f = lambda: here()\nf()", id="lambda-made-inside"),
        pytest.param("here()\njax.set_mesh(mesh)", id="set-later"),
        pytest.param("def f():\n    here()\n    use(2)\nf()\njax.set_mesh", id="mentioned"),
        pytest.param("with here() as x: pass", id="the-manager-itself"),
        pytest.param("with use(here()), mesh: pass", id="before-it-in-the-same-with"),
        pytest.param("with contextlib.suppress(E): here()", id="suppress"),
    ],
)
def test_proven_to_be_without(ask: Ask, text: str) -> None:
    assert context(ask, text) == "never"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("def f(): here()", "?", id="nobody-calls-it"),
        pytest.param("def f(): here()\ng(f)", "?", id="given-away"),
        pytest.param("class C:\n    def __call__(self): here()", "?", id="python-calls-it"),
        pytest.param("with unknown(): here()", "bare + ?", id="unknown-manager"),
        pytest.param(
            "with contextlib.ExitStack() as s:\n    s.enter_context(mesh)\n    here()",
            "bare + ?",
            id="exit-stack",
        ),
        pytest.param("mesh.__enter__()\nhere()", "bare + ?", id="entered-by-hand"),
        pytest.param("def setup(): jax.set_mesh(mesh)\nsetup()\nhere()", "bare + ?", id="set-in-a-function"),
        pytest.param("def f(): here()\n@jax.jit\ndef g(): f()", "?", id="traced-but-who-calls"),
        pytest.param("@with_mesh(mesh)\ndef f(): here()\nf()", "bare + ?", id="a-decorator-that-says-mesh"),
        pytest.param(
            "f = jax.shard_map(lambda x: here(), mesh=mesh, in_specs=s, out_specs=s)\nf()",
            "bare + ?",
            id="shard-map",
        ),
    ],
)
def test_not_proven(ask: Ask, text: str, found: str) -> None:
    assert context(ask, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("with mesh: here()", "with mesh data", id="with"),
        pytest.param("with mesh as m: here()", "with mesh data", id="with-as"),
        pytest.param("with Mesh(d, ('a', 'b')): here()", "with mesh a,b", id="with-literal"),
        pytest.param("with open(p), mesh: here()", "with mesh data", id="second-item"),
        pytest.param("with mesh:\n    with other: here()", "with mesh x,y", id="nested"),
        pytest.param("with mesh, other: here()", "with mesh x,y", id="nested-in-one"),
        pytest.param("with jax.set_mesh(mesh): here()", "set_mesh data", id="set_mesh-block"),
        pytest.param("with jax.sharding.set_mesh(mesh): here()", "set_mesh data", id="old-set_mesh"),
        pytest.param("jax.set_mesh(mesh)\nhere()", "set_mesh data", id="set_mesh-statement"),
        pytest.param("jax.set_mesh(mesh)\njax.set_mesh(other)\nhere()", "set_mesh x,y", id="set-twice"),
        pytest.param(
            "def f():\n    jax.set_mesh(mesh)\n    here()\nf()",
            "set_mesh data",
            id="statement-in-the-function",
        ),
        pytest.param("jax.set_mesh(mesh)\ndef f(): here()", "set_mesh data", id="statement-of-the-module"),
        pytest.param("with use_mesh(mesh): here()", "use_mesh data", id="use_mesh"),
        pytest.param("with use_abstract_mesh(mesh.abstract_mesh): here()", "abstract -", id="abstract"),
        pytest.param("def f(): here()\nwith mesh: f()", "with mesh data", id="through-a-caller"),
        pytest.param(
            "def f(): here()\ndef g():\n    with mesh: f()\ng()", "with mesh data", id="in-the-caller"
        ),
        pytest.param("def f(): here()\ndef g(): f()\nwith mesh: g()", "with mesh data", id="further-out"),
        pytest.param("def f(): here()\nwith mesh: f()\nf()", "with mesh data + bare", id="one-way-without"),
        pytest.param(
            "def f(): here()\nwith mesh: f()\nwith other: f()",
            "with mesh data + with mesh x,y",
            id="two-meshes",
        ),
        pytest.param("@jax.jit\ndef f(): here()\nwith mesh: f()", "with mesh data", id="jitted"),
        pytest.param(
            "def f(): here()\ng = jax.jit(f)\nwith mesh: g()", "with mesh data", id="jitted-by-call"
        ),
        pytest.param(
            "def f(): here()\nwith mesh: g = jax.jit(f)\ng()", "never", id="jitted-inside-called-outside"
        ),
        pytest.param(
            "def make(): return Mesh(d, ('z',))\nwith make(): here()", "with mesh z", id="through-a-function"
        ),
        pytest.param("def f(m):\n    with m.mesh: here()\nf(1)", "with mesh -", id="a-name-that-says-mesh"),
        pytest.param(
            "class C:\n    def __init__(self): self.mesh = Mesh(d, ('q',))\n    def run(self):\n"
            "        with self.mesh: here()\nC().run()",
            "with mesh q",
            id="attribute",
        ),
        pytest.param(
            "def f(n):\n    here()\n    f(n - 1)\nwith mesh: f(3)", "with mesh data", id="recursion"
        ),
        pytest.param("for i in x:\n    with mesh: here()", "with mesh data", id="in-a-loop"),
        pytest.param("with mesh:\n    [here() for i in x]", "with mesh data", id="comprehension"),
        pytest.param("with mesh:\n    if a: here()", "with mesh data", id="branch"),
        pytest.param("with use(1), mesh: here()", "with mesh data", id="unknown-around"),
        pytest.param("with mesh, use(1): here()", "with mesh data + ?", id="unknown-inside"),
        pytest.param("async def f():\n    async with mesh: here()\n", "with mesh data", id="async-with"),
    ],
)
def test_the_mesh_in_context(ask: Ask, text: str, found: str) -> None:
    assert context(ask, text) == found


def test_both_are_seen_around(ask: Ask) -> None:
    assert (
        context(ask, "with mesh:\n    with jax.set_mesh(other): here()", around=True)
        == "set_mesh x,y + with mesh data"
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"b.py": "from a import f, mesh\nwith mesh: f()"}, "with mesh data"),
        ({"b.py": "import a\nwith a.other: a.f()"}, "with mesh x,y"),
        ({"b.py": "from a import f\nf()"}, "never"),
        (
            {"b.py": "from a import f, mesh\nwith mesh: f()", "c.py": "import a\na.f()"},
            "with mesh data + bare",
        ),
        ({"b.py": "import a, jax\njax.set_mesh(a.mesh)\na.f()"}, "set_mesh data"),
        ({"b.py": "import a, jax\ndef go(): jax.set_mesh(a.mesh)", "c.py": "import a\na.f()"}, "never"),
    ],
)
def test_through_other_files(ask: Ask, files: dict[str, str], found: str) -> None:
    assert context(ask, "def f(): here()\n", files) == found


def test_nothing_is_in_context_in_code_that_only_calls_itself(ask: Ask) -> None:
    asked = ask(BEFORE + "@jax.jit\ndef f(x):\n    here()\n    return f(x)\n")
    found = asked.program.mesh_contexts(*asked.node("here()", "a.py", -1))
    assert not found.contexts
    assert not found.only("with mesh", "set_mesh")
