"""Where arrays are predicted to lie after they were restored is where orbax puts them."""

from __future__ import annotations

from tests.layouts.compare import Outcome, note, observe
from tests.programs import release, skip_without

skip_without("jax")
skip_without("orbax")

HEAD = """\
import tempfile
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
split = NamedSharding(mesh, P("data"))
x = jax.device_put(jnp.ones((16, 4)), split)
folder = tempfile.mkdtemp()
manager = ocp.CheckpointManager(folder + "/m")
saved = manager.save(0, args=ocp.args.StandardSave({"w": x}))
manager.wait_until_finished()
reader = ocp.StandardCheckpointer()
file = folder + "/m/0/default"
"""
PROGRAM = """\
a = reader.restore(file, {"w": jnp.zeros((16, 4))})["w"]
b = reader.restore(file, {"w": np.zeros((16, 4), "float32")})["w"]
c = reader.restore(file, {"w": x})["w"]
d = reader.restore(file, jax.eval_shape(lambda: {"w": jnp.zeros((16, 4))}))["w"]
e = reader.restore(file, {"w": jax.ShapeDtypeStruct((16, 4), jnp.float32, sharding=split)})["w"]
f = reader.restore(file)["w"]
g = jax.tree.map(lambda leaf: leaf * 2, reader.restore(file, target={"w": x}))
h = manager.restore(0, args=ocp.args.StandardRestore({"w": jnp.zeros((16, 4))}))["w"]
i = manager.restore(0)["w"]
j = manager.restore(0, args=ocp.args.StandardRestore())["w"]
args = ocp.checkpoint_utils.construct_restore_args({"w": x})
l = ocp.PyTreeCheckpointer().restore(file, item={"w": jnp.zeros((16, 4))}, restore_args=args)["w"]
whole = {"w": NamedSharding(mesh, P())}
n = ocp.PyTreeCheckpointer().restore(file, restore_args=ocp.checkpoint_utils.construct_restore_args({"w": x}, whole))["w"]
o = ocp.PyTreeCheckpointer().restore(file, restore_args={"w": ocp.ArrayRestoreArgs(sharding=split, global_shape=(16, 4))})["w"]
other = ocp.CheckpointManager(folder + "/o")
done = other.save(0, args=ocp.args.Composite(state=ocp.args.StandardSave({"w": x}), extra=ocp.args.PyTreeSave({"b": x})))
other.wait_until_finished()
p = other.restore(0, args=ocp.args.Composite(state=ocp.args.StandardRestore({"w": x}))).state["w"]
q = other.restore(0, args=ocp.args.Composite(extra=ocp.args.PyTreeRestore({"b": x}, restore_args=ocp.checkpoint_utils.construct_restore_args({"b": x}, {"b": split}))))["extra"]["b"]
k = c + e
m = a + x
"""


def test_what_is_predicted_of_orbax_is_what_it_does() -> None:
    text = HEAD + PROGRAM
    (seen,) = observe([text])
    assert "incompatible devices" in seen["said"], seen
    outcome = Outcome()
    note(outcome, text, seen, (*release("jax"), 0))
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.predicted == outcome.errors == 1
    assert outcome.known >= 0.5 * outcome.arrays, str(outcome)
