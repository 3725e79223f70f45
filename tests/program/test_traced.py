"""Is a place traced, and why: `here()` marks the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.config.own_names import OwnNames
from tests.conftest import Asked

Ask = Callable[..., Asked]

BEFORE = """\
from functools import partial
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.experimental.shard_map import shard_map
"""


def traced(ask: Ask, text: str, files: dict[str, str] | None = None) -> str:
    return ask(BEFORE + text, files).traced()


# quiet: not traced, or nothing says so


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param("here()", "never", id="module"),
        pytest.param("class C:\n    x = here()", "never", id="class-body"),
        pytest.param("def f(): here()\nf()", "never", id="called-from-the-module"),
        pytest.param("def f(): here()", "unknown", id="nobody-calls-it"),
        pytest.param("class M(eqx.Module):\n    def __call__(self): here()", "unknown", id="module-call"),
        pytest.param("class M(nnx.Module):\n    def __init__(self): here()", "unknown", id="init"),
        pytest.param(
            "class M(nn.Module):\n    @nn.compact\n    def __call__(self): here()", "unknown", id="compact"
        ),
        pytest.param("def f(): here()\ng(f)", "unknown", id="given-away"),
        pytest.param("def f(): here()\ndef g(): f()", "unknown", id="called-by-one-nobody-calls"),
        pytest.param("def f(): here()\nf()\ndef g(): f()", "unknown", id="and-by-one-nobody-calls"),
        pytest.param("def f(): here()\nfs = [f]", "unknown", id="stored"),
        pytest.param("@unknown\ndef f(): here()", "unknown", id="unknown-decorator"),
        pytest.param("@unknown\n@jax.vmap\ndef f(): here()", "unknown", id="unknown-over-vmap"),
        pytest.param("@jax.vmap\ndef f(): here()\nf()", "never", id="vmap"),
        pytest.param("@jax.grad\ndef f(): here()\nf()", "never", id="grad"),
        pytest.param("def f(): here()\njax.tree.map(f, t)", "never", id="tree-map"),
        pytest.param("def f(): here()\njax.eval_shape(f)", "unknown", id="eval-shape"),
        pytest.param(
            "@jax.jit\ndef f(x): return jax.pure_callback(g, x, x)\ndef g(x): here()",
            "never",
            id="host-callback",
        ),
        pytest.param(
            "@jax.jit\ndef f(x):\n    def g(y): here()\n    jax.debug.callback(g, x)",
            "never",
            id="nested-callback",
        ),
        pytest.param(
            "@jax.jit\ndef f(x):\n    jax.debug.callback(lambda y: here(), x)", "never", id="callback-lambda"
        ),
        pytest.param(
            "def f(): here()\ndef g(): return f\njax.jit(g)", "unknown", id="handed-out-by-a-traced-one"
        ),
        pytest.param("def f(n):\n    here()\n    f(n - 1)\nf(1)", "never", id="recursion-from-the-host"),
        pytest.param("def f(): g()\ndef g():\n    f()\n    here()", "unknown", id="recursion-nobody-starts"),
        pytest.param("@partial(g, jax.jit)\ndef f(): here()", "unknown", id="partial-of-something-else"),
        pytest.param("jit = unknown\n@jit\ndef f(): here()", "unknown", id="a-jit-of-their-own"),
        pytest.param("@jax.jit\ndef f(x=here()): pass", "never", id="default"),
        pytest.param("@jax.jit\n@partial(g, here())\ndef f(): pass", "never", id="decorator-argument"),
        pytest.param("def f(): here()\nassert f", "unknown", id="looked-at"),
        pytest.param(
            "if a:\n    def f(): here()\nelse:\n    @jax.jit\n    def f(): pass\nf()",
            "never",
            id="other-branch",
        ),
        pytest.param(
            "@jax.custom_vjp\ndef f(x): pass\ndef g(x): here()\nf.defvjp(g, g)\nf(1)",
            "never",
            id="rule-on-host",
        ),
        pytest.param("def f(): here()\nfs = {'a': f}\nprint(fs)\nfs['a']()", "never", id="dict-on-host"),
        pytest.param(
            "def f(): here()\nfs = {'a': f, 'b': len}\n@jax.jit\ndef g(x): fs['b']()",
            "unknown",
            id="another-entry",
        ),
        pytest.param(
            "def f(): here()\nfs = {'a': f}\n@jax.jit\ndef g(x): fs['a']()\nopen(fs)",
            "sometimes",
            id="dict-given",
        ),
        pytest.param(
            "def timed(fn):\n    def inner(*a): return fn(*a)\n    return inner\n@timed\ndef f(x): here()\nf(1)",
            "never",
            id="decorator-of-the-project",
        ),
        pytest.param(
            "def timed(fn):\n    def inner(*a): return fn(*a)\n    return inner\n@timed\ndef f(x): here()\n"
            "@jax.jit\n@timed\ndef g(x): pass\nf(1)",
            "never",
            id="another-function-of-the-decorator",
        ),
        pytest.param(
            "def maybe(on):\n    def wrap(fn):\n        def inner(*a): return fn(*a)\n"
            "        return jax.jit(inner) if on else inner\n    return wrap\n@maybe(0)\ndef f(x): here()\nf(1)",
            "unknown",
            id="a-decorator-that-may-jit",
        ),
        pytest.param(
            "def kept(fn):\n    register(fn)\n    return jax.jit(lambda x: fn(x))\n@kept\ndef f(x): here()",
            "sometimes",
            id="registered",
        ),
    ],
)
def test_what_is_not_traced_or_not_known_to_be(ask: Ask, text: str, answer: str) -> None:
    assert traced(ask, text) == answer


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("@jax.jit\ndef f(): here()", id="decorator"),
        pytest.param("@jax.jit\ndef f(): here()\nf()", id="decorator-and-call"),
        pytest.param("@partial(jax.jit, donate_argnums=0)\ndef f(): here()", id="partial-decorator"),
        pytest.param("@jax.jit(donate_argnums=0)\ndef f(): here()", id="decorator-with-settings"),
        pytest.param("@eqx.filter_jit\ndef f(): here()", id="filter_jit"),
        pytest.param("@eqx.filter_jit(donate='all')\ndef f(): here()", id="filter_jit-with-settings"),
        pytest.param("@nnx.jit\ndef f(): here()", id="nnx-jit"),
        pytest.param("@unknown\n@jax.jit\ndef f(): here()", id="unknown-over-jit"),
        pytest.param(
            "myjit = partial(jax.jit, donate_argnums=0)\n@myjit\ndef f(): here()", id="named-partial"
        ),
        pytest.param("myjit = jax.jit\n@myjit\ndef f(): here()", id="named-jit"),
        pytest.param("def f(): here()\ng = jax.jit(f)\ng()", id="call"),
        pytest.param("def f(): here()\njax.jit(f)()", id="call-at-once"),
        pytest.param("def f(): here()\njax.jit(f).lower().compile()", id="lowered"),
        pytest.param("def f(): here()\njax.jit(fun=f)()", id="keyword"),
        pytest.param("def f(): here()\nf = jax.jit(f)\nf()", id="rebound"),
        pytest.param("def f(): here()\njax.jit(partial(f, 1))()", id="partial"),
        pytest.param("def f(): here()\nf2 = partial(f, 1)\njax.jit(f2)()", id="named-partial-of-it"),
        pytest.param("def f(): here()\njax.jit(jax.grad(f))()", id="grad"),
        pytest.param("def f(): here()\njax.jit(jax.vmap(f, in_axes=0))()", id="vmap"),
        pytest.param("g = jax.jit(lambda x: here())", id="lambda"),
        pytest.param("jax.jit(lambda x: [here() for y in x])(1)", id="comprehension-in-a-lambda"),
        pytest.param("class C:\n    @jax.jit\n    def m(self): here()", id="method"),
        pytest.param(
            "class C:\n    @partial(jax.jit, static_argnums=0)\n    def m(self): here()", id="method-partial"
        ),
        pytest.param("class C:\n    @staticmethod\n    @jax.jit\n    def m(x): here()", id="staticmethod"),
        pytest.param(
            "class C:\n    def __init__(self):\n"
            "        self.step = jax.jit(self._step)\n    def _step(self): here()\n"
            "    def run(self): self.step()",
            id="attribute",
        ),
        pytest.param(
            "class C:\n    def _m(self): here()\n    m = jax.jit(_m)\nC().m()", id="class-attribute"
        ),
        pytest.param(
            "class M(eqx.Module):\n    def __call__(self): here()\n    @jax.jit\n    def m(self): self.n()\n"
            "    def n(self): here()",
            id="method-of-method-nth-1",
        ),
        pytest.param("@jax.jit\ndef f():\n    def g(): here()\n    return g()", id="nested"),
        pytest.param("@jax.jit\ndef f():\n    def g(): here()\n    return h(g)", id="nested-given-away"),
        pytest.param("@jax.jit\ndef f(): return [g(x) for x in y]\ndef g(x): here()", id="called"),
        pytest.param("@jax.jit\ndef f(): g()\ndef g(): h()\ndef h(): here()", id="called-twice-removed"),
        pytest.param(
            "@jax.jit\ndef f(): g()\n@jax.jit\ndef k(): g()\ndef g(): here()", id="two-traced-callers"
        ),
        pytest.param("def f(c, x): here()\nlax.scan(f, 0, xs)", id="scan"),
        pytest.param("def f(x): here()\nlax.cond(p, f, f, 1)", id="cond"),
        pytest.param("lax.cond(p, lambda x: here(), lambda x: x, 1)", id="cond-lambda"),
        pytest.param("def f(x): here()\nlax.switch(i, [f, f], 1)", id="switch"),
        pytest.param("def f(x): here()\nlax.while_loop(c, f, 1)", id="while-loop"),
        pytest.param("lax.fori_loop(0, 1, lambda i, x: here(), 1)", id="fori-loop"),
        pytest.param("lax.fori_loop(0, 1, body_fun=lambda i, x: here(), init_val=1)", id="fori-loop-keyword"),
        pytest.param("f = shard_map(lambda x: here(), mesh, in_specs=s, out_specs=s)", id="shard-map-lambda"),
        pytest.param("@partial(shard_map, mesh=m, in_specs=s, out_specs=s)\ndef f(): here()", id="shard-map"),
        pytest.param("@jax.pmap\ndef f(): here()", id="pmap"),
        pytest.param("@jax.checkpoint\ndef f(): here()\n", id="checkpoint"),
        pytest.param("@jax.jit\ndef f(n):\n    here()\n    f(n - 1)", id="recursive"),
        pytest.param("@jax.jit\ndef f(): g(3)\ndef g(n):\n    here()\n    g(n - 1)", id="recursive-callee"),
        pytest.param("def make():\n    @jax.jit\n    def f(): here()\n    return f", id="made-and-returned"),
        pytest.param("def make():\n    def f(): here()\n    return jax.jit(f)", id="wrapped-and-returned"),
        pytest.param("def f(): here()\nj = jax.jit(f) if a else jax.pmap(f)\nj()", id="either-way"),
        pytest.param("(g := jax.jit(lambda: here()))()", id="walrus"),
        pytest.param("@jax.jit\ndef f():\n    class C:\n        x = here()", id="class-in-a-traced-function"),
        pytest.param(
            "@jax.custom_vjp\ndef f(x): pass\ndef g(x): here()\ndef h(r, x): pass\nf.defvjp(g, h)\njax.jit(jax.grad(f))(1)",
            id="forward-rule",
        ),
        pytest.param(
            "f = jax.custom_vjp(lambda x: x)\ndef g(x): pass\ndef h(n, r, x): here()\nf.defvjp(g, bwd=partial(h, 1))\n"
            "@jax.jit\ndef step(x): f(x)",
            id="backward-rule",
        ),
        pytest.param(
            "@jax.custom_jvp\ndef f(x): pass\n@f.defjvp\ndef g(p, t): here()\n@jax.jit\ndef step(x): f(x)",
            id="forward-mode-rule",
        ),
        pytest.param(
            "@eqx.filter_custom_vjp\ndef f(x): pass\n@f.def_bwd\ndef g(r, x): here()\n@eqx.filter_jit\ndef step(x): f(x)",
            id="equinox-rule",
        ),
        pytest.param("def f(): here()\nfs = {'a': f}\n@jax.jit\ndef g(x, k): fs[k]()", id="dict"),
        pytest.param("fs = {'a': lambda: here()}\n@jax.jit\ndef g(x, k): fs.get(k)()", id="dict-get"),
        pytest.param(
            "def f(): here()\n@jax.jit\ndef g(x):\n    for h in (f, f): h()", id="loop-over-a-tuple"
        ),
        pytest.param(
            "def f(): here()\nfs = {'a': f}\n@jax.jit\ndef g(x):\n    for k, h in fs.items(): h()",
            id="loop-over-items",
        ),
        pytest.param(
            "def f(): here()\nfs = [len, f]\n@jax.jit\ndef g(x):\n    for h, y in zip(fs, x): h()",
            id="loop-over-a-zip",
        ),
        pytest.param(
            "def f(): here()\nfs = [len, f]\n@jax.jit\ndef g(x): jax.lax.switch(x, fs)",
            id="switch-over-a-name",
        ),
        pytest.param(
            "def make():\n    def init(): pass\n    def step(): here()\n    return init, step\n"
            "init, step = make()\njax.jit(step)()\ninit()",
            id="two-returned",
        ),
        pytest.param(
            "m = partial(jax.tree.map, lambda x: here())\n@jax.jit\ndef g(x): m(x)", id="partial-of-a-map"
        ),
        pytest.param(
            "class C:\n    def __init__(self): self.fs = {'a': lambda: here()}\n"
            "    @jax.jit\n    def run(self, k): self.fs[k]()",
            id="dict-of-an-object",
        ),
        pytest.param(
            "def configured(n):\n    def wrap(fn):\n        @functools.wraps(fn)\n        def inner(*a): return fn(*a)\n"
            "        return jax.jit(inner)\n    return wrap\nimport functools\n@configured(1)\ndef f(x): here()",
            id="decorator-with-settings-of-the-project",
        ),
        pytest.param(
            "def timed(fn):\n    def inner(*a): return fn(*a)\n    return inner\n@jax.jit\n@timed\ndef f(x): here()",
            id="jit-over-a-decorator-of-the-project",
        ),
    ],
)
def test_what_is_traced(ask: Ask, text: str) -> None:
    nth = text.count("here()") - 1
    assert ask(BEFORE + text).traced(nth=nth) == "always"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def f(): here()\njax.jit(f)()\nf()", id="both"),
        pytest.param("@jax.jit\n@unknown\ndef f(): here()", id="a-decorator-that-may-call-it"),
        pytest.param(
            "class C:\n    def _m(self): here()\n    m = jax.jit(_m)\nC()._m()", id="method-both-ways"
        ),
        pytest.param("def f(): here()\n@jax.jit\ndef g(): f()\ndef main(): f()\nmain()", id="two-callers"),
        pytest.param("def f(): here()\n@jax.jit\ndef g(): f()\nuse(f)", id="traced-and-given-away"),
        pytest.param("def f(): here()\n@jax.jit\ndef g(): f()\ndef k(): f()", id="a-caller-nobody-calls"),
        pytest.param(
            "class C:\n    def __init__(self):\n        self.step = jax.jit(self.step)\n"
            "    def step(self): here()\n    def run(self): self.step()",
            id="method-set-again",
        ),
    ],
)
def test_what_is_traced_sometimes(ask: Ask, text: str) -> None:
    assert traced(ask, text) == "sometimes"


@pytest.mark.parametrize(
    ("files", "text", "answer"),
    [
        pytest.param(
            {"b.py": "import jax\nfrom a import f\n@jax.jit\ndef step(): f()"},
            "def f(): here()",
            "always",
            id="caller",
        ),
        pytest.param(
            {"b.py": "import jax\nimport a\njax.jit(a.f)()"},
            "def f(): here()",
            "always",
            id="through-the-module",
        ),
        pytest.param(
            {"b.py": "import jax\nfrom a import f as g\ng2 = jax.jit(g)\ng2()"},
            "def f(): here()",
            "always",
            id="renamed",
        ),
        pytest.param({"b.py": "from a import f\nf()"}, "def f(): here()", "never", id="host-caller"),
        pytest.param(
            {"b.py": "import a\ndef f(): pass\nf()"}, "def f(): here()", "unknown", id="another-of-that-name"
        ),
        pytest.param(
            {"b.py": "import jax\nmyjit = jax.jit"},
            "from b import myjit\n@myjit\ndef f(): here()",
            "always",
            id="jit-from-there",
        ),
        pytest.param(
            {"b.py": "import jax\ndef make(fn): return jax.jit(fn)"},
            "import b\ndef f(): here()\ng = b.make(f)",
            "unknown",
            id="a-helper-that-jits",
        ),
        pytest.param(
            {"p/__init__.py": "from .m import f", "p/m.py": "def f(): here()"},
            "import p, jax\njax.jit(p.f)()",
            "unknown",
            id="exported-by-a-package",
        ),
        pytest.param(
            {"p/__init__.py": "", "p/m.py": "def f(): here()"},
            "from p import m\njax.jit(m.f)()",
            "always",
            id="of-a-package",
        ),
        pytest.param(
            {"b.py": "from a import *\nf()"},
            "def f(): here()\njax.jit(f)()",
            "sometimes",
            id="through-a-star",
        ),
        pytest.param(
            {"b.py": "from a import *\nf = 1\nf()"},
            "def f(): here()\njax.jit(f)()",
            "always",
            id="star-hidden",
        ),
        pytest.param(
            {"b.py": "from a import *", "c.py": "import jax\nfrom b import f\njax.jit(f)()"},
            "def f(): here()",
            "always",
            id="through-a-file-that-has-a-star",
        ),
        pytest.param(
            {"b.py": "from a import *\nf = 1", "c.py": "import jax\nfrom b import f\njax.jit(f)()"},
            "def f(): here()",
            "unknown",
            id="star-hidden-for-importers",
        ),
        pytest.param(
            {"p/__init__.py": "from .m import *", "p/m.py": "import jax\ndef f(): here()\njax.jit(f)()"},
            "",
            "sometimes",
            id="exported-by-a-star",
        ),
        pytest.param(
            {"b.py": "import jax\nfrom a import f\njax.jit(f)(", "c.py": ""},
            "def f(): here()",
            "unknown",
            id="the-caller-does-not-parse",
        ),
    ],
)
def test_through_other_files(ask: Ask, files: dict[str, str], text: str, answer: str) -> None:
    asked = ask(BEFORE + text, files)
    where = "p/m.py" if "p/m.py" in files else "a.py"
    assert asked.traced(name=where) == answer


def test_a_jit_of_their_own_named_in_the_settings(ask: Ask) -> None:
    text = "from tools import fast\n@fast\ndef f(): here()\n@fast(donate=True)\ndef g(): here()\n"
    files = {"tools.py": "def fast(fn=None, **kw): return compiled(fn)"}
    assert ask(text, files).traced() == "unknown"
    told = ask(text, files, own=OwnNames(frozenset({"tools.fast"})))
    assert (told.traced(), told.traced(nth=1)) == ("always", "always")


def test_a_method_named_in_the_settings_and_a_namesake_inside_a_function(ask: Ask) -> None:
    text = "from tools import Tools, make\n@Tools.fast\ndef f(): here()\n@make()\ndef g(): here()\n"
    method = "class Tools:\n    @staticmethod\n    def fast(fn): return compiled(fn)\n"
    inner = "def make():\n    def fast(fn): return compiled(fn)\n    return fast\n"
    own = OwnNames(frozenset({"tools.Tools.fast"}))
    told = ask(text, {"tools.py": f"{method}{inner}"}, own=own)
    assert (told.traced(), told.traced(nth=1)) == ("always", "unknown")


def test_a_jit_of_a_library_named_in_the_settings(ask: Ask) -> None:
    text = "import lib\n@lib.fast\ndef f(): here()\n"
    assert ask(text).traced() == "unknown"
    assert ask(text, own=OwnNames(frozenset({"lib.fast"}))).traced() == "always"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import jax\n\n@jax.jit\ndef f():\n    here()\n", "in `f`, traced by jax.jit at line 3"),
        (
            "import equinox as eqx\n\n@eqx.filter_jit\ndef step():\n    place()\n\ndef place():\n    here()\n",
            "in `place`, called by `step` at line 5, traced by eqx.filter_jit at line 3",
        ),
        ("import jax\njax.jit(lambda: here())\n", "in a lambda, traced by jax.jit at line 2"),
        (
            "import jax\nfrom functools import partial\n@partial(jax.jit, donate_argnums=0)\ndef f(): here()\n",
            "in `f`, traced by jax.jit at line 3",
        ),
    ],
)
def test_the_reason_is_told(ask: Ask, text: str, why: str) -> None:
    assert ask(text).why() == why


def test_a_reason_in_another_file_names_it(ask: Ask) -> None:
    asked = ask(
        "def f():\n    here()\n",
        {"train.py": "import jax\nfrom a import f\n@jax.jit\ndef step():\n    f()\n"},
    )
    assert asked.why() == "in `f`, called by `step` at train.py:5, traced by jax.jit at train.py:3"


def test_a_chain_may_be_long(ask: Ask) -> None:
    calls = "".join(f"def f{n}(x):\n    return f{n - 1}(x)\n" for n in range(1, 600))
    asked = ask(f"import jax\ndef f0(x):\n    here()\n{calls}run = jax.jit(f599)\n")
    assert asked.traced() == "always"
    assert asked.why().count("called by") == 599


def test_a_round_of_callers_ends(ask: Ask) -> None:
    calls = "".join(f"def f{n}(x):\n    return f{n - 1}(x)\n" for n in range(1, 90))
    asked = ask(f"import jax\ndef f0(x):\n    here()\n    f89(x)\n{calls}run = jax.jit(f45)\n")
    assert asked.traced() in ("sometimes", "always")


# calls that cannot be, and branches that no traced call comes to

PUT = "def put(x, n=None):\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param(PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x, 3)", "never", id="given"),
        pytest.param(PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x)", "always", id="left-out"),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x, n=None)", "always", id="none"
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x, y): put(x, n=y)", "sometimes", id="told"
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x, y: jax.Array): put(x, n=y)",
            "never",
            id="annotated",
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x, y: jax.Array | None): put(x, n=y)",
            "sometimes",
            id="annotated-optional",
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x, n=jnp.sum(x))", "never", id="an-array"
        ),
        pytest.param(
            PUT + "    if n is not None:\n        return x\n    here()\n@jax.jit\ndef f(x): put(x, 3)",
            "never",
            id="left-before",
        ),
        pytest.param(
            PUT + "    if not n:\n        pass\n    else:\n        here()\n@jax.jit\ndef f(x): put(x)",
            "never",
            id="else",
        ),
        pytest.param(
            "def put(x, mode='a', on=True):\n    if on and mode == 'b': here()\n@jax.jit\ndef f(x): put(x)",
            "never",
            id="equal-and",
        ),
        pytest.param(
            "def put(x, mode='a', on=True):\n    if on and mode == 'b': here()\n"
            "@jax.jit\ndef f(x): put(x, mode='b')",
            "always",
            id="equal-met",
        ),
        pytest.param(
            "def put(x, mode=0):\n    mode = mode + 1\n    if mode == 1: here()\n@jax.jit\ndef f(x): put(x)",
            "always",
            id="rebound",
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x, 3)\nput(1)", "never", id="host-alone"
        ),
        pytest.param(
            PUT + "    if n is None: here()\n@jax.jit\ndef f(x): put(x)\nput(1, 2)",
            "always",
            id="traced-alone",
        ),
        pytest.param(
            "def inner(x): here()\ndef put(x, n=None):\n    if n is None: inner(x)\n@jax.jit\ndef f(x): put(x, 3)",
            "never",
            id="a-branch-further-out",
        ),
        pytest.param(
            PUT + "    g = lambda: x\n    if n is None:\n        def g(): here()\n    g()\n"
            "@jax.jit\ndef f(x): put(x, 3)",
            "always",
            id="in-a-nested-function",
        ),
        pytest.param(
            "class T:\n    def put(self, x, n=None):\n        if n is None: here()\n"
            "    def go(self):\n        jax.jit(lambda x: self.put(x, n=4))(1)\nT().go()",
            "never",
            id="method",
        ),
        pytest.param(
            "@partial(jax.jit, static_argnames='n')\ndef f(x, n=None):\n    if n is None: here()\nf(1, n=2)",
            "never",
            id="static",
        ),
        pytest.param("def f(a, b): here()\nf(1, 2)\njax.jit(f)(1)", "never", id="argument-missing"),
        pytest.param("def f(a, b): here()\nf(1, 2)\ng = jax.jit(f)\ng(1, 2, 3)", "never", id="one-too-many"),
        pytest.param(
            "def f(a, b): here()\nf(1, 2)\ng = jax.jit(f)\ng(1, c=3)", "never", id="unknown-keyword"
        ),
        pytest.param(
            "def f(a, b, c): here()\nf(1, 2, 3)\nclass T:\n    def go(self):\n"
            "        jax.jit(partial(f, 1), in_shardings=(s,))(2)",
            "never",
            id="stale-partial",
        ),
        pytest.param(
            "def f(a, b, c): here()\njax.jit(partial(f, 1), in_shardings=(s, s))(2, 3)",
            "always",
            id="partial",
        ),
        pytest.param("def f(a, *b, c=1): here()\njax.jit(f)(1, 2, 3, c=4)", "always", id="stars"),
        pytest.param("def f(a, b=1): here()\nargs = g()\njax.jit(f)(*args)", "always", id="open"),
        pytest.param(
            "class T:\n    @classmethod\n    def make(cls, x): here()\njax.jit(lambda x: T.make(x))(1)",
            "always",
            id="classmethod",
        ),
        pytest.param(
            "class T:\n    @staticmethod\n    def make(x): here()\njax.jit(lambda x: T.make(x))(1)",
            "always",
            id="staticmethod",
        ),
    ],
)
def test_only_calls_that_come_there_count(ask: Ask, text: str, answer: str) -> None:
    assert traced(ask, text) == answer
