"""Lines below a bracket that a fix moved."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.bracket_alignment import align_layer
from shardlint.rewrite.edits import Layer, back_through, forward_through
from shardlint.rewrite.fix import fix_files
from shardlint.rules_api.rule import Edit
from shardlint.source.text import Source

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("y = OLD(a,\n        b)\n", "y = longer(a,\n           b)\n", id="below"),
        pytest.param("y = OLD(a,\n        # why\n        b,\n    )\n", "y = longer(a,\n           # why\n           b,\n    )\n", id="a bracket by itself"),
        pytest.param("y = OLD(a, [b,\n            c],\n        d)\n", "y = longer(a, [b,\n               c],\n           d)\n", id="within"),
        pytest.param("y = OLD(\n    a,\n    b)\n", "y = longer(\n    a,\n    b)\n", id="hanging"),
        pytest.param("y = [f(a,\n       b), OLD]\n", "y = [f(a,\n       b), longer]\n", id="before it"),
        pytest.param("y = OLD(a, '''\n        b''',\n        c)\n", "y = longer(a, '''\n        b''',\n        c)\n", id="a string"),
    ],
)  # fmt: skip
def test_lines_below_a_bracket_move_with_it(before: str, after: str) -> None:
    start = before.index("OLD")
    layer = Layer.sort_edits([Edit(start, start + 3, "longer")])
    text = layer.apply_edits(before)
    moved = align_layer(Source(Path("x.py"), before), layer, [], text)
    assert moved.apply_edits(text) == after
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(after))
    assert back_through([layer, moved], forward_through([layer, moved], start)) == start


def test_a_fix_keeps_arguments_below_their_bracket(write: Write) -> None:
    text = """\
import jax
import numpy as np
from jax.sharding import Mesh


def test_it():
    with Mesh(np.array(jax.devices()),
              ("data",)) as mesh:
        print(mesh, jax.tree_map(lambda a: a,
                                 []))
    with Mesh(np.array(jax.devices()),
              ("data",)):
        print(jax.experimental.shard_map.shard_map(print,
                                                   mesh=mesh))
"""
    root = write({"test_x.py": text})
    fix_files([root], Options(targets={"jax": "0.12.0"}), unsafe=True, write=True)
    after = (root / "test_x.py").read_text()
    assert "    mesh = Mesh(np.array(jax.devices()),\n                ('data',))\n".replace("'", '"') in after
    assert '    with jax.set_mesh(Mesh(np.array(jax.devices()),\n                           ("data",))):\n' in after
