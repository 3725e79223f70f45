"""einshard's expressions: our parser and our codemod beside einshard itself, where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.libraries.einshard import Expression, Fault, parse_expression
from shardlint.rewrite.fix import fix_files

installed = pytest.mark.skipif(importlib.util.find_spec("einshard") is None, reason="einshard is not here")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("x y -> x y**", "*"),
        ("x y -> x y*4", "4"),
        ("x1 y -> x1 y*", "1"),
        ("x, y -> x y*", ","),
        ("x y = x y*", "= x y*"),
        ("(x y) -> x y*", "(x"),
        ("x y* -> x y*", "*"),
        ("x y -> x (y)*", "(y)*"),
        ("x y -> x y0", "0"),
        ("x y -> x y²", "y²"),
        ("x y ->", ""),
        ("x y -> x..", ".."),
        ("x y -> x -> y*", "->"),
        ("", ""),
    ],
)
def test_a_fault_is_where_it_stands(text: str, at: str) -> None:
    found = parse_expression(text)
    assert isinstance(found, Fault)
    assert text[found.start : found.end] == at


def test_elements_know_their_place() -> None:
    text = " a  ...->2  a3* * ... "
    found = parse_expression(text)
    assert isinstance(found, Expression)
    shown = [text[one.start : one.end] for one in (*found.left, *found.right)]
    assert shown == ["a", "...", "2", "a3*", "*", "..."]
    assert [(one.name, one.count, one.starred) for one in found.right[:3]] == [
        (None, 2, False),
        ("a", 3, True),
        (None, 1, True),
    ]
    assert (found.star_count, found.fixed_device_count(), found.has_ellipsis) == (2, 2, True)


def _sentences() -> list[str]:
    """Expressions, most of them nearly right: pieces of the grammar in an order drawn at random."""
    draw = random.Random(0)
    good = ["x", "y", "xy", "b_q", "α", "..."]
    pieces = [*good, *good, "4", "10", "07", "²", "*", "*", "**", "..", ",", "(", "->", "\t"]
    found = []
    for _ in range(4000):
        left = [draw.choice(good if draw.random() < 0.9 else pieces) for _ in range(draw.randrange(1, 4))]
        parts = [*left, "->", *(draw.choice(pieces) for _ in range(draw.randrange(1, 5)))]
        found.append("".join(part + draw.choice(["", " ", " ", " ", "  "]) for part in parts))
    return found


@installed
def test_what_einshard_parses_is_what_we_parse() -> None:
    script = """
        import json, sys
        from einshard.parser import parse_expression
        answers = []
        for text in json.load(sys.stdin):
            try:
                found = parse_expression(text, 0)
            except ValueError:
                answers.append(None)
                continue
            shown = lambda one: "..." if one is ... else one
            answers.append([[shown(one) for one in side] for side in found.get()[1]] if found.is_success() else None)
        print(json.dumps(answers))
        """
    sentences = _sentences()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        input=json.dumps(sentences),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    parsed = 0
    for text, answer in zip(sentences, json.loads(done.stdout), strict=True):
        found = parse_expression(text)
        if answer is None:
            assert isinstance(found, Fault), text
            continue
        parsed += 1
        assert isinstance(found, Expression), text
        left = ["..." if one.ellipsis else one.name for one in found.left]
        right = ["..." if one.ellipsis else [one.name, one.count, one.starred] for one in found.right]
        assert [left, right] == answer, text
    assert 300 < parsed < 3000


FILES = {
    "tensor": [
        "x y -> x y*",
        "x y -> x* y",
        "... -> * ...",
        "... y -> ... y*",
        "x ... -> x* ...",
        "x y -> y* x",
    ],
    "both": ["x y -> x2 y4", "... -> * ...", "x y -> x* y", "... y -> ... y*"],
    "rest": ["x y -> x2 y*", "x y -> x y*", "x y -> * x y"],
    "part": ["x y -> x y2 4", "x y -> x y*"],
    "copies": ["x y -> 4 x y2", "x y -> * x y"],
    "eight": ["x y -> x8 y", "x y -> x* y"],
}


@pytest.mark.longer
@installed
def test_the_codemod_places_arrays_as_einshard_does(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").touch()
    for name, expressions in FILES.items():
        source = "import jax\nfrom einshard import einshard, make_sharding\n\n\ndef place(x):\n    return [\n"
        source += "".join(f"        einshard(x, {text!r}),\n" for text in expressions)
        made = (f"        jax.device_put(x, make_sharding({text!r}, n_dims=2)),\n" for text in expressions)
        source += "".join(made) + "    ]\n"
        (tmp_path / f"{name}_old.py").write_text(source, encoding="utf-8")
        new = tmp_path / f"{name}_new.py"
        new.write_text(source, encoding="utf-8")
        fix_files([new], Options(select=("SL654",), targets={"jax": "0.4.38"}), unsafe=True, write=True)
        assert "einshard" not in new.read_text("utf-8")
    script = """
        import importlib, sys
        import numpy as np
        x = np.arange(16 * 32.0).reshape(16, 32)
        for name in sys.argv[1:]:
            old, new = (importlib.import_module(f"{name}_{kind}").place(x) for kind in ("old", "new"))
            for one, two in zip(old, new, strict=True):
                pieces = [{s.device.id: s.index for s in a.addressable_shards} for a in (one, two)]
                assert one.sharding.is_equivalent_to(two.sharding, 2), (one.sharding, two.sharding)
                assert pieces[0] == pieces[1] and one.committed == two.committed
                assert (one == x).all() and (two == x).all()
        print("same")
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *FILES],
        cwd=tmp_path,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.strip() == "same", done.stderr


def test_the_codemod_refuses_what_one_mesh_cannot_do(tmp_path: Path) -> None:
    file = tmp_path / "load.py"
    text = "from einshard import einshard\nx = einshard(1, 'x y -> x2 y4')\ny = einshard(1, 'x y -> x4 y2')\n"
    file.write_text(text, encoding="utf-8")
    report = fix_files([file], Options(select=("SL654",)), unsafe=True, write=True)
    assert file.read_text("utf-8") == text
    assert ["different shapes" in finding.help for finding in report.fixed[0].left] == [True, True]
