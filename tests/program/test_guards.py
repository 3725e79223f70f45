"""Code that is meant to fail, or that runs on some releases only: `here()` marks the place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardlint.facts.result_uses import reads_after
from shardlint.syntax.guards import expected_to_fail
from shardlint.syntax.release_guards import is_release_guarded
from tests.conftest import Asked

Ask = Callable[..., Asked]


@pytest.mark.parametrize(
    "text",
    [
        "with pytest.raises(ValueError): here()",
        "with pytest.raises(ValueError, match='x') as e:\n    if a: here()",
        "with self.assertRaises(ValueError): here()",
        "with self.assertRaisesRegex(ValueError, 'x'): f(here())",
        "with open(p), pytest.raises(E): here()",
        "with pytest.warns(W): here()",
        "with pytest.deprecated_call(): here()",
        "self.assertRaises(E, lambda: here())",
        "pytest.raises(E, f, here())",
        "def test():\n    def f(): here()\n    with pytest.raises(E): f()",
        "def test():\n    @jax.jit\n    def f(): here()\n    with pytest.raises(E):\n        f()",
        "def test():\n    def f(): here()\n    self.assertRaises(E, f)",
        "@pytest.mark.xfail\ndef test(): here()",
        "@pytest.mark.xfail(reason='x')\ndef test(): here()",
    ],
)
def test_it_is_meant_to_fail(ask: Ask, text: str) -> None:
    assert expected_to_fail(*ask(text).node("here()"))


@pytest.mark.parametrize(
    "text",
    [
        "here()",
        "with pytest.raises(E): f()\nhere()",
        "with raised(E): here()",
        "def test():\n    def f(): here()\n    with pytest.raises(E): f()\n    f()",
        "def f(): here()\nwith pytest.raises(E): f()",
        "def test():\n    def f(): here()",
        "try: here()\nexcept E: pass",
        "@pytest.mark.skip\ndef test(): here()",
    ],
)
def test_it_is_not(ask: Ask, text: str) -> None:
    assert not expected_to_fail(*ask(text).node("here()"))


@pytest.mark.parametrize(
    "text",
    [
        "try: here()\nexcept ImportError: pass",
        "try: here()\nexcept (AttributeError, KeyError): pass",
        "try: here()\nexcept: pass",
        "try: here()\nexcept Exception: pass",
        "try: here()\nexcept* TypeError: pass",
        "try: import a\nexcept ImportError: here()",
        "if jax.__version__ >= '0.5': here()",
        "if jax.__version_info__ < (0, 5):\n    f()\nelse:\n    here()",
        "here() if hasattr(jax, 'shard_map') else f()",
        "f() if hasattr(jax, 'shard_map') else here()",
        "NEW = jax.__version_info__ >= (0, 5)\nif NEW: here()",
        "NEW = hasattr(jax, 'shard_map')\ndef f():\n    if not NEW: here()",
        "try:\n    import a\n    HAS = True\nexcept ImportError:\n    HAS = False\nif HAS: here()",
        "def f():\n    if jax.__version__ < '0.5': return\n    here()",
        "def test():\n    if jax.__version__ < '0.5': pytest.skip('old')\n    here()",
        "@pytest.mark.skipif(jax.__version__ < '0.5', reason='')\ndef test(): here()",
        "if version.parse(jax.__version__) < v: here()",
        "if TYPE_CHECKING: here()",
        "if 'axis_types' in inspect.signature(f).parameters: here()",
    ],
)
def test_it_runs_on_some_releases_only(ask: Ask, text: str) -> None:
    assert is_release_guarded(*ask(text).node("here()"))


@pytest.mark.parametrize(
    "text",
    [
        "here()",
        "try: here()\nexcept ValueError: pass",
        "try: f()\nfinally: here()",
        "try: f()\nexcept ImportError: pass\nhere()",
        "if debug: here()",
        "DEBUG = True\nif DEBUG: here()",
        "if hasattr(here(), 'x'): pass",
        "def f():\n    here()\n    if jax.__version__ < '0.5': return",
        "def f():\n    if jax.__version__ < '0.5': g()\n    here()",
        "@pytest.mark.skipif(on_cpu, reason='')\ndef test(): here()",
        "for version in versions: here()",
    ],
)
def test_it_runs_on_all(ask: Ask, text: str) -> None:
    assert not is_release_guarded(*ask(text).node("here()"))


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("x = here()\nf(x)", [3]),
        ("x = here()\nx = g(x)\nf(x)", [3]),
        ("x = here()\nif a: x = 1\nf(x)", [4]),
        ("x = here()\nx = 1\nf(x)", []),
        ("for i in y:\n    f(x)\n    x = here()", [3]),
        ("if a:\n    x = here()\nelse:\n    f(x)", []),
        ("x = here()\ng = lambda: x", []),
    ],
)
def test_reads_of_a_binding(ask: Ask, body: str, lines: list[int]) -> None:
    asked = ask("def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    file, call = asked.node("here()")
    target = file.parent(call).targets[0]  # type: ignore[union-attr]
    assert [read.lineno for read in reads_after(file, file.evaluation_scope(target), target)] == lines
