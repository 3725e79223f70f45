"""`shardlint verify --init`: a fixture file from one run of a program, that passes as it is and catches what is broken later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardlint.run.init.recorded_calls import Argument, Function
from shardlint.run.init.write import fixture_file
from shardlint.verify.spec import P
from tests.programs import skip_without

pytestmark = pytest.mark.longer

PYTHON = os.environ.get("SHARDLINT_TEST_PYTHON", sys.executable)

PROGRAM = """
from functools import partial
from typing import NamedTuple
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import steps

def init(mesh):
    put = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))
    w = {"w1": put(np.ones((32, 64), np.float32), "data", "model"), "w2": put(np.ones((64, 32), np.float32), "model")}
    return w, steps.Moments(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, w))

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    with steps.around(mesh):
        params, moments = init(mesh)
        batch = jax.device_put(np.ones((8, 32), np.float32), NamedSharding(mesh, P("data")))
        tokens = jax.device_put(np.arange(16) % 7, NamedSharding(mesh, P("data")))
        for _ in range(2):
            params, moments = steps.update(params, moments, batch, 2)
        hidden = NamedSharding(mesh, P("data", "model"))
        forward = jax.jit(steps.forward, out_shardings=hidden)
        forward(params, batch=batch)
        steps.mean(batch)
        steps.count(tokens)
        jax.jit(lambda x: x + 1)(batch)
        steps.apply(steps.Holder(jnp.sin), batch)

if __name__ == "__main__":
    main()
"""

STEPS = """
import contextlib, dataclasses
from functools import partial
from typing import NamedTuple
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

class Moments(NamedTuple):
    count: jax.Array
    mean: dict

@jax.tree_util.register_pytree_node_class
class Holder:
    def __init__(self, fn):
        self.fn = fn
    def tree_flatten(self):
        return (), self.fn
    @classmethod
    def tree_unflatten(cls, fn, _):
        return cls(fn)

def around(mesh):
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh

@partial(jax.jit, donate_argnums=(0, 1), static_argnums=3)
def update(params, moments, batch, power):
    grads = jax.grad(lambda p: ((batch @ p["w1"] @ p["w2"]) ** power).mean())(params)
    mean = jax.tree.map(lambda m, g: 0.9 * m + g, moments.mean, grads)
    return jax.tree.map(lambda p, m: p - m, params, mean), Moments(moments.count + 1, mean)

def forward(params, batch):
    return batch @ params["w1"]

@jax.jit
def mean(x):
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
    total = lambda x: jax.lax.psum(x.sum(0), "data")
    return shard_map(total, mesh=mesh, in_specs=P("data"), out_specs=P())(x) / x.shape[0]

@jax.jit
def count(tokens):
    return jnp.zeros(7).at[tokens].add(1)

@jax.jit
def apply(holder, x):
    return holder.fn(x)
"""


def shardlint(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    return subprocess.run(
        [sys.executable, "-m", "shardlint", "verify", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def compiled(folder: Path, fixture: str) -> subprocess.CompletedProcess[str]:
    """Where the compiler tells what is wrong, nothing else is run."""
    return shardlint(folder, f"sharding_fixtures.py::{fixture}", "--level", "compile")


def test_fixtures_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "steps.py").write_text(STEPS)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "train.py")
    assert ended.returncode == 0, ended.stderr
    assert "wrote sharding_fixtures.py: 4 fixtures (update, forward, mean, count), which pass" in ended.stdout
    assert "main.<locals>.<lambda> is not included: it has no name" in ended.stdout
    assert "apply is not included: its arguments contain a Holder, which cannot be written as code" in ended.stdout
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert 'fn="steps:update"' in written
    assert "donate=(0, 1)," in written
    assert 'out_shardings=NamedSharding(mesh, PartitionSpec("data", "model"))' in written
    # It makes a mesh of eight devices by itself: there is no run of it on one.
    assert written.count("# not declared") == written.count("# not declared: reference: the run on one device raised") == 1
    goldens = tmp_path / "sharding_fixtures.golden"
    assert sorted(path.stem for path in goldens.iterdir()) == ["count", "forward", "mean", "update"]

    again = shardlint(tmp_path, "--init", "--", PYTHON, "train.py")
    assert again.returncode == 2
    assert "exists; name another with --init-file" in again.stderr

    broken = STEPS.replace("donate_argnums=(0, 1), ", "").replace(
        'jax.lax.psum(x.sum(0), "data")', "x.sum(0)"
    )
    broken = broken.replace('return batch @ params["w1"]', 'return batch @ params["w1"] * jax.device_count()')
    (tmp_path / "steps.py").write_text(broken)
    report = shardlint(tmp_path, "sharding_fixtures.py", "--output-format", "json", "--python", PYTHON)
    assert report.returncode == 1
    results: list[dict[str, Any]] = json.loads(report.stdout)["results"]
    kinds = {
        (result["fixture"].rpartition("::")[2], failure["kind"])
        for result in results
        for failure in result["failures"]
    }
    assert {("update", "donation"), ("forward", "numbers")} <= kinds
    assert any(name == "mean" for name, _ in kinds)
    assert not any(name == "count" for name, _ in kinds)


def test_nothing_to_write(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import jax\njax.jit(lambda x: x)(1.0)\n")
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "train.py")
    assert ended.returncode == 2
    assert "no fixture was written: no jitted function of the program can be declared" in ended.stderr
    assert "train.py:2: <lambda> is not included" in ended.stderr
    assert not (tmp_path / "sharding_fixtures.py").exists()


def test_a_file_that_is_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w').close()\n")
    (tmp_path / "sharding_fixtures.py").write_text("")
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "train.py")
    assert ended.returncode == 2
    assert "sharding_fixtures.py exists; name another with --init-file, or remove it" in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_what_to_run_is_asked_for(tmp_path: Path) -> None:
    assert "--init needs the program to run" in shardlint(tmp_path, "--init").stderr
    assert "--init-file needs --init" in shardlint(tmp_path, "--init-file", "fx.py").stderr


def function(**more: Any) -> Function:
    given: dict[str, Any] = {
        "name": "step",
        "reference_to": "train:step",
        "file": Path("train.py"),
        "line": 3,
        "mesh": {"data": 8},
        "explicit": False,
        "context": "set_mesh",
        "arguments": [],
        "out": {"": P()},
        "donate": [],
        "jit": None,
    }
    return Function(**{**given, **more})


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        (
            Argument("array((4, 2), 'float32')", (), 2, {"": P("data")}),
            'arg(shape=(4, 2), dtype="float32", spec=P("data")),',
        ),
        (Argument("array((4,), 'int32')", (), 50, {}), 'arg(shape=(4,), dtype="int32", below=50),'),
        (Argument("('a', None)", (), 2, {}), "arg(step_0),"),
        (Argument("'eval'", (), 2, {}), 'arg(lambda: "eval"),'),
        (
            Argument("{'w[0]': array((4,), 'f4')}", (), 2, {"w[0]": P(("data",))}),
            'arg(step_0, specs={"w[[]0]": P(("data",))}),',
        ),
    ],
)
def test_how_an_argument_is_written(argument: Argument, written: str) -> None:
    text = fixture_file([function(arguments=[argument])], "python train.py")
    assert written in text
    compile(text, "fx.py", "exec")


def test_what_does_not_hold_is_said() -> None:
    dropped = function(dropped=["reference: out differs"], reference=False)
    text = fixture_file([dropped, function(name="other", broken="it hangs")], "python train.py")
    assert "    # not declared: reference: out differs\n" in text
    assert "# train:step has no fixture: it hangs" in text
    assert "reference=" not in text


NETS = """
import jax, jax.numpy as jnp, numpy as np
import equinox as eqx
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

class Net(eqx.Module):
    first: eqx.nn.Linear
    act: callable = eqx.field(static=True)

    def __init__(self, width, act, *, key):
        self.first = eqx.nn.Linear(width, 2 * width, key=key)
        self.act = act

    @eqx.filter_jit
    def score(self, x):
        return jax.vmap(lambda x: self.act(self.first(x)))(x)

@eqx.filter_jit
def loss(net, x):
    return jnp.mean(net.score(x), keepdims=True)

class Linear(nnx.Module):
    def __init__(self, width, *, rngs):
        self.w = nnx.Param(jax.random.normal(rngs.params(), (width, width)))

@nnx.jit
def forward(model, x):
    return x @ model.w[...]

def twice(model, x):
    return 2 * x @ model.w[...]

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    x = jax.device_put(np.ones((32, 64), np.float32), NamedSharding(mesh, P("data")))
    net = Net(64, jax.nn.relu, key=jax.random.key(0))
    arrays, rest = eqx.partition(net, eqx.is_array)
    arrays = jax.device_put(arrays, NamedSharding(mesh, P("model")))
    net = eqx.combine(arrays, rest)
    net.score(x), loss(net, x)
    model = Linear(64, rngs=nnx.Rngs(0))
    nnx.update(model, jax.device_put(nnx.state(model), NamedSharding(mesh, P(None, "model"))))
    forward(model, x)
    nnx.jit(twice)(model, x)

if __name__ == "__main__":
    main()
"""


def test_modules_are_made_as_the_program_made_them(tmp_path: Path) -> None:
    skip_without("equinox", "flax")
    (tmp_path / "nets.py").write_text(NETS)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "nets.py")
    assert ended.returncode == 0, ended.stderr
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert "4 fixtures (Net_score, loss, forward, twice), which pass" in ended.stdout, ended.stdout + written
    assert 'fn="nets:Net.score"' in written
    assert "return nets.Net(64, jax.nn.relu, key=keys(()))" in written
    assert "return nets.Linear(64, rngs=flax.nnx.Rngs(0))" in written
    assert 'specs={"**": P("model")}' in written
    assert "result = flax.nnx.jit(nets.twice)(arg_0, arg_1)" in written


NNX_STEPS = """
import dataclasses, functools
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.1

class Net(nnx.Module):
    def __init__(self, width, *, rngs):
        self.first = nnx.Linear(width, width, use_bias=False, rngs=rngs)

@nnx.jit
def train_step(model, optimizer, x):
    loss, grads = nnx.value_and_grad(lambda model: jnp.mean(model.first(x) ** 2))(model)
    optimizer.update(model, grads)
    return jnp.full((8,), loss)

def plain_step(config, scale, w, x):
    return w - config.rate * scale * (x.T @ (x @ w))

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    x = jax.device_put(np.ones((32, 16), np.float32), NamedSharding(mesh, P("data")))
    model = Net(16, rngs=nnx.Rngs(0))
    nnx.update(model, jax.device_put(nnx.state(model), NamedSharding(mesh, P(None, "model"))))
    schedule = optax.linear_schedule(0.0, 1e-3, transition_steps=10)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.1))
    train_step(model, nnx.Optimizer(model, tx, wrt=nnx.Param), x)
    step = jax.jit(functools.partial(plain_step, Config(0.5), 2.0), donate_argnums=(0,))
    step(jax.device_put(np.ones((16, 16), np.float32), NamedSharding(mesh, P(None, "model"))), x)

if __name__ == "__main__":
    main()
"""


def test_optimizers_and_partials_are_made_as_the_program_made_them(tmp_path: Path) -> None:
    skip_without("flax", "optax")
    (tmp_path / "steps.py").write_text(NNX_STEPS)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "steps.py")
    assert ended.returncode == 0, ended.stderr
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert "2 fixtures (train_step, plain_step), which pass" in ended.stdout, ended.stdout + ended.stderr + written
    words = "".join(written.split()).replace(",)", ")")
    assert "optax.linear_schedule(0.0,0.001,transition_steps=10)" in words
    assert "wrt=flax.nnx.Param" in words
    assert "functools.partial(plain_step,steps.Config(rate=0.5),2.0)" in words


CONFIGURED = """
import collections, dataclasses, enum
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

class Kind(enum.Enum):
    GLU = "glu"

@dataclasses.dataclass(frozen=True)
class Config:
    mesh: Mesh
    rows: NamedSharding
    columns: P
    kind: Kind
    dtype: object = jnp.bfloat16
    state: object = np.dtype("float32")
    act: object = jax.nn.relu

@partial(jax.jit, static_argnums=2)
def layer(w, x, config):
    y = config.act(x @ w["up"].astype(config.state)) if config.kind is Kind.GLU else x
    return jax.lax.with_sharding_constraint(y, config.rows)

@jax.jit
def cast(w):
    return collections.OrderedDict((name, one * 2) for name, one in w.items())

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    config = Config(mesh, NamedSharding(mesh, P("data")), P(None, "model"), Kind.GLU)
    w = collections.OrderedDict(up=jax.device_put(np.ones((16, 32), np.float32), NamedSharding(mesh, config.columns)))
    layer(cast(w), jax.device_put(np.ones((8, 16), np.float32), config.rows), config)

if __name__ == "__main__":
    main()
"""


def test_configs_hold_meshes_specs_types_and_functions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONFIGURED)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "train.py")
    assert ended.returncode == 0, ended.stderr
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert "2 fixtures (cast, layer), which pass" in ended.stdout, ended.stdout + written
    for part in (
        "def layer_2(mesh):", "mesh=mesh", "columns=jax.sharding.PartitionSpec(None, \"model\")", "kind=train.Kind.GLU",
        "dtype=jax.numpy.bfloat16", "state=jax.numpy.dtype(\"float32\")", "act=jax.nn.relu", "collections.OrderedDict(",
        "rows=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(\"data\"))",
    ):  # fmt: skip
        assert part in written.replace("'", '"'), written
    broken = CONFIGURED.replace("jax.lax.with_sharding_constraint(y, config.rows)", "y")
    (tmp_path / "train.py").write_text(broken)
    caught = compiled(tmp_path, "layer")
    assert caught.returncode == 1
    assert 'expected P("data"' in caught.stdout.replace("'", '"'), caught.stdout


MADE_IN_JIT = """
import jax, jax.numpy as jnp, numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

class Net(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Param(jax.random.normal(rngs.params(), (16, 32)), out_sharding=(None, "model"))
    def __call__(self, x):
        return x @ self.up[...]

class Momentum(nnx.Pytree):
    def __init__(self, params):
        self.rate = 0.1
        self.mean = nnx.data(jax.tree.map(jnp.zeros_like, params))

@nnx.jit
def create():
    net = Net(nnx.Rngs(0))
    return net, Momentum(nnx.state(net, nnx.Param))

@nnx.jit
def step(net, momentum, x):
    return jnp.mean(net(x) ** 2) * momentum.rate

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    with jax.set_mesh(mesh):
        net, momentum = create()
    step(net, momentum, jax.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P("data"))))

if __name__ == "__main__":
    main()
"""


def test_what_a_function_of_the_program_made_is_made_by_it(tmp_path: Path) -> None:
    pytest.importorskip("flax", "0.12")
    pytest.importorskip("jax", "0.7")
    (tmp_path / "nets.py").write_text(MADE_IN_JIT)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "nets.py")
    assert ended.returncode == 0, ended.stderr
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert "2 fixtures (create, step), which pass" in ended.stdout, ended.stdout + written
    assert "return not_negative(under(jax.set_mesh(mesh), lambda: nets.create()[1]))" in written


OPTIMIZED = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

tx = optax.adam(1e-3)

@eqx.filter_jit(donate="all-except-first")
def step(x, net, state):
    grads = eqx.filter_grad(lambda net: jnp.mean(jax.vmap(net)(x) ** 2))(net)
    updates, state = tx.update(grads, state)
    return eqx.apply_updates(net, updates), state

def main():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    net = eqx.nn.MLP(16, 16, 32, 1, key=jax.random.PRNGKey(1))
    state = tx.init(eqx.filter(net, eqx.is_inexact_array))
    net, state = eqx.filter_shard((net, state), NamedSharding(mesh, P()))
    step(jax.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P("data"))), net, state)

if __name__ == "__main__":
    main()
"""


def test_the_state_of_an_optimizer_is_a_filtered_module(tmp_path: Path) -> None:
    skip_without("equinox", "optax")
    (tmp_path / "train.py").write_text(OPTIMIZED)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "train.py")
    assert ended.returncode == 0, ended.stderr
    written = (tmp_path / "sharding_fixtures.py").read_text()
    assert "1 fixture (step), which passes" in ended.stdout, ended.stdout + written
    assert "donate=(1, 2)," in written
    assert "optax.ScaleByAdamState(" in written
    assert "equinox.filter(\n" in written


FACTORY = """
from functools import partial
import jax, jax.numpy as jnp, optax
from jax.sharding import NamedSharding, PartitionSpec as P

def make(mesh, tx, scale=1.0):
    def loss_fn(params, x, y):
        return scale * jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)

    @partial(jax.jit, donate_argnums=(0, 1))
    def train_step(params, opt, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        updates, opt = tx.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, loss

    def hidden(params, x):
        return jnp.tanh(x @ params["w1"])

    return {"train": train_step, "hidden": jax.jit(hidden, out_shardings=NamedSharding(mesh, P("data", "model")))}
"""

IN_MAIN = """
from functools import partial
import jax, numpy as np, optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import steps

def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    put = lambda x, *spec: jax.device_put(x.astype(np.float32), NamedSharding(mesh, P(*spec)))
    params = {"w1": put(np.ones((32, 64)), None, "model"), "w2": put(np.ones((64, 32)), "model")}
    tx = optax.adam(1e-3)
    opt = tx.init(params)
    made = steps.make(mesh, tx)
    x = put(np.random.rand(16, 32), "data")

    def norm(tree):
        return optax.global_norm(tree)

    @partial(jax.jit, donate_argnums=0)
    def decay(params, rate):
        return jax.tree.map(lambda p: p * (1 - rate) / (1 + norm(params)), params)

    for _ in range(2):
        params, opt, loss = made["train"](params, opt, x, x + 1)
    made["hidden"](params, x)
    decay(params, 0.1)

if __name__ == "__main__":
    main()
"""


def test_functions_that_others_make(tmp_path: Path) -> None:
    skip_without("optax")
    (tmp_path / "train.py").write_text(IN_MAIN)
    (tmp_path / "steps.py").write_text(FACTORY)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "train.py")
    assert "3 fixtures (train_step, hidden, decay), which pass" in ended.stdout, ended.stdout + ended.stderr
    text = (tmp_path / "sharding_fixtures.py").read_text()
    assert "steps.make(mesh=mesh, tx=optax.adam(0.001), scale=1.0)" in text
    assert 'inner(train.main, "main.<locals>.decay", norm=inner(train.main, "main.<locals>.norm"))' in text

    (tmp_path / "steps.py").write_text(FACTORY.replace(", donate_argnums=(0, 1)", ""))
    ended = compiled(tmp_path, "train_step")
    assert ended.returncode == 1
    assert "expected buffer reused  got kept" in ended.stdout
    (tmp_path / "steps.py").write_text(FACTORY.replace('P("data", "model")', 'P("data")'))
    ended = compiled(tmp_path, "hidden")
    assert ended.returncode == 1
    assert "expected P('data', 'model')  got P('data')" in ended.stdout


PLACED = """\
from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec as P


class Net(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "data"))
        return nn.Dense(8, use_bias=False)(nn.relu(nn.Dense(self.width, use_bias=False, kernel_init=init)(x)))


def init_state(model, rng, mesh):
    def init(rng):
        params = model.init(rng, jnp.zeros((1, 8)))["params"]
        return TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))

    shardings = nn.get_sharding(jax.eval_shape(init, rng), mesh)
    return shardings, jax.jit(init, out_shardings=shardings)(rng)


def train_step(state, x, scale):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(state.apply_fn({"params": p}, x) ** 2))(state.params)
    return state.apply_gradients(grads=grads), loss * scale


class Trainer:
    def __init__(self, mesh, shardings, scale):
        self.mesh, self.scale = mesh, scale
        self.build(shardings)

    def build(self, shardings):
        out = (shardings, NamedSharding(self.mesh, P()))
        self.step = jax.jit(partial(train_step, scale=self.scale), out_shardings=out, donate_argnums=0)


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    shardings, state = init_state(Net(64), jax.random.PRNGKey(0), mesh)
    trainer = Trainer(mesh, shardings, 0.5)
    for _ in range(2):
        state, loss = trainer.step(state, jax.device_put(jnp.ones((16, 8)), NamedSharding(mesh, P("data"))))
    return state


if __name__ == "__main__":
    main()
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="what a function returns is seen from Python 3.12 on")
def test_train_states_their_makers_and_jits_of_objects(tmp_path: Path) -> None:
    skip_without("optax", "flax")
    (tmp_path / "prog.py").write_text(PLACED)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "prog.py")
    text = (tmp_path / "sharding_fixtures.py").read_text()
    assert "init_state" in ended.stdout and "train_step" in ended.stdout, ended.stdout + ended.stderr
    assert 'arrays_of(prog.init_state, ["model", "rng"], mesh=mesh)' in text
    assert "prog.Trainer(" in text and "prog.main" not in text
    assert "apply_fn=once(" in text and "prog.Net(width=64).apply" in text

    whole = "    shardings = jax.tree.map(lambda one: NamedSharding(mesh, P()), shardings)\n"
    (tmp_path / "prog.py").write_text(PLACED.replace("    return shardings, jax.jit", f"{whole}    return shardings, jax.jit"))
    ended = compiled(tmp_path, "init_state")
    assert ended.returncode == 1
    assert "expected P(None, 'data')  got P()" in ended.stdout
    (tmp_path / "prog.py").write_text(PLACED.replace("donate_argnums=0", "donate_argnums=()"))
    ended = compiled(tmp_path, "train_step")
    assert ended.returncode == 1
    assert "expected buffer reused  got kept" in ended.stdout


AHEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
SPLIT = NamedSharding(mesh, P("data"))


@partial(jax.jit, donate_argnums=0)
def step(w, x):
    @partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=(P("data"), P()), check_vma=False)
    def local(w, x):
        loss = jax.lax.psum(jnp.sum(x @ jax.lax.all_gather(w, "data", tiled=True)), "data")
        return w * 0.9, loss

    return local(w, x)


@jax.pmap
def copied(x):
    return x * 2


def only_compiled(w, x):
    return x @ w


def main():
    w = jax.device_put(np.random.RandomState(0).rand(64, 32).astype(np.float32), SPLIT)
    x = jax.device_put(np.random.RandomState(1).rand(16, 64).astype(np.float32), SPLIT)
    compiled = step.lower(w, x).compile()
    for _ in range(2):
        w, loss = compiled(w, x)
    print(loss, copied(jnp.ones((8, 4))).sum())
    print(jax.jit(only_compiled).lower(w, x).compile().cost_analysis() is None)


if __name__ == "__main__":
    main()
"""


def test_what_is_compiled_ahead_is_written_as_called(tmp_path: Path) -> None:
    (tmp_path / "ahead.py").write_text(AHEAD)
    ended = shardlint(tmp_path, "--init", "--", PYTHON, "-W", "ignore", "ahead.py")
    assert "wrote sharding_fixtures.py: 1 fixture (step), which passes" in ended.stdout, ended.stdout + ended.stderr
    assert ": copied is not included: calls through jax.pmap cannot be recorded" in ended.stdout
    assert ": only_compiled is not included: it was lowered or compiled ahead of time and never called" in ended.stdout
    assert ": step is not included" not in ended.stdout
    alone = AHEAD.replace("jax.lax.psum(jnp.sum(", "(jnp.sum(").replace('tiled=True)), "data")', "tiled=True)))")
    (tmp_path / "ahead.py").write_text(alone)
    ended = shardlint(tmp_path, "--level", "execute")
    assert ended.returncode == 1, ended.stdout
    assert "step" in ended.stdout and "have different values" in ended.stdout
    (tmp_path / "ahead.py").write_text(AHEAD.replace("@partial(jax.jit, donate_argnums=0)", "@jax.jit"))
    ended = compiled(tmp_path, "step")
    assert ended.returncode == 1
    assert "expected buffer reused  got kept" in ended.stdout
