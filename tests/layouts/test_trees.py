"""Predictions about functions of trees, compared with jax and flax."""

from __future__ import annotations

from tests.layouts.compare import Outcome, note, observe
from tests.programs import release, skip_without

skip_without("jax")
skip_without("flax")

HEAD = """\
import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict

tree = {"w": jnp.ones((4, 2)), "b": {"y": jnp.ones((3,)), "x": jnp.zeros((5,), "int32")}, "a": None}
"""
PROGRAMS = [
    'parts, structure = jax.tree.flatten(tree)\na = parts[0]\nb = parts[2]\nc = jax.tree.unflatten(structure, [x * 2 for x in parts])\nd = c["w"]\n',
    "a = jax.tree.leaves(tree)\nb = jax.tree_util.tree_leaves([tree, (1.0, a)])\n",
    'same = jax.tree.structure(tree)\na = jax.tree_util.tree_unflatten(same, jax.tree.leaves(tree))["b"]["y"]\n',
    "a = jax.tree.reduce(lambda x, y: x + y.sum(), tree, 0.0)\n",
    "pairs, same = jax.tree_util.tree_flatten_with_path(tree)\na = {jax.tree_util.keystr(path): leaf for path, leaf in pairs}\n",
    'flat = flatten_dict({"p": {"q": tree["w"]}, "r": tree["w"]})\na = flat[("p", "q")]\nb = unflatten_dict({k: v * 2 for k, v in flat.items()})\n',
    'flat = flatten_dict({"p": {"q": tree["w"]}, "r": tree["w"]}, sep="/")\na = unflatten_dict(flat, sep="/")\n',
    "spread = jax.NamedSharding(jax.make_mesh((8,), ('d',)), jax.P())\n"
    "made = jax.make_array_from_process_local_data(spread, {'x': tree['w'], 'y': tree['b']['y']})\na = made['x']\n",
    "spread = jax.NamedSharding(jax.make_mesh((8,), ('d',)), jax.P())\n"
    "made = jax.make_array_from_process_local_data(spread, jax.tree.map(jnp.sort, eval('tree')))\na = made['w']\n",
    'def name(path, x):\n    return x * 2 if path[0].key == "w" else x[None]\n\na = jax.tree_util.tree_map_with_path(name, tree)\n',
]


def test_what_is_predicted_of_trees_is_what_jax_does() -> None:
    texts = [HEAD + text for text in PROGRAMS]
    outcome = Outcome()
    for text, seen in zip(texts, observe(texts), strict=True):
        assert not seen["error"], f"{seen}\n{text}"
        note(outcome, text, seen, (*release("jax"), 0))
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.known >= 0.9 * outcome.arrays, str(outcome)
