"""Programs fixed by `fix --unsafe-fixes` and run on eight simulated devices: the shardings are those asked for."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.fix import FixReport, fix_files
from tests.programs import Warmed, since_jax_0_12, skip_without

pytestmark = pytest.mark.longer

Write = Callable[..., Path]
OPTIONS = Options(targets={"jax": "0.12.0", "equinox": "0.13.8"})
HEAD = """\
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
other = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
rep = NamedSharding(mesh, P())
row = NamedSharding(mesh, P("data"))
col = NamedSharding(mesh, P(None, "model"))
x = np.ones((32, 16), np.float32)


def net():
    return eqx.nn.Linear(16, 8, key=jax.random.key(0))


"""
# A program, what it gives, and the specs its arrays shall have.
FILTER_JIT = {
    "numbers of a parameter": (
        """
        def sharded_jit(fn, ins, outs, donate=()):
            donate = (donate,) if isinstance(donate, int) else donate
            return eqx.filter_jit(fn, in_shardings=ins, out_shardings=outs, donate_argnums=tuple(donate))


        def run():
            step = sharded_jit(lambda state, xs, more: (state + xs, more * 2), (row, row, col), (row, col), (0, 2))
            given = [jax.device_put(jnp.asarray(x), one) for one in (row, row, col)]
            out = step(*given)
            assert [one.is_deleted() for one in given] == [True, False, True]
            return out
        """,
        "run()", ["P('data')", "P(None, 'model')"],
    ),
    "numbers in a dict of a function": (
        """
        def options(donate):
            found = {"out_shardings": (row, rep)}
            if donate:
                found["donate_argnums"] = (0,)
            return found


        def made(donate):
            return eqx.filter_jit(lambda state, xs: (state + xs, xs.sum()), **options(donate))


        def run():
            for donate in (False, True):
                step = made(donate)
                state, xs = jax.device_put((jnp.asarray(x), jnp.asarray(x)), row)
                out = step(state, xs)
                assert [state.is_deleted(), xs.is_deleted()] == [donate, False]
            return out
        """,
        "run()", ["P('data')", "P()"],
    ),
    "a name for several functions": (
        """
        donating = functools.partial(eqx.filter_jit, donate_argnums=(0,))


        @functools.partial(donating, in_shardings=(row, rep), out_shardings=row)
        def train(state, scale):
            return state * scale


        @donating
        def average(mean, xs, decay=0.5):
            return decay * mean + (1 - decay) * xs


        def run():
            state, mean = jax.device_put((jnp.asarray(x), jnp.asarray(x)), row)
            trained = train(state, 2.0)
            averaged = average(mean, trained)
            assert [one.is_deleted() for one in (state, mean, trained)] == [True, True, False]
            return trained, averaged, average(mean=averaged, xs=trained)
        """,
        "run()", ["P('data')", "P('data')", "P('data')"],
    ),
    "a Module that is called static": (
        """
        class Net(eqx.Module):
            weight: jax.Array

            @eqx.filter_jit(static_argnums=0, donate_argnums=1, in_shardings=(row,), out_shardings=row)
            def step(self, state):
                return state * self.weight


        def run():
            one, state = Net(jnp.ones(16)), jax.device_put(jnp.asarray(x), row)
            out = one.step(state)
            assert [state.is_deleted(), one.weight.is_deleted()] == [True, False]
            return out
        """,
        "run()", ["P('data')"],
    ),
    "static arguments": (
        """
        def apply(mode: str, model, xs, scale=2.0):
            ys = jax.vmap(model)(xs)
            return ys * scale if mode == "scaled" else ys


        step = eqx.filter_jit(apply, static_argnums=(0,), in_shardings=(rep, row), out_shardings=row)
        """,
        "step('scaled', net(), x)", ["P('data')"],
    ),
    "shardings that change after the decoration": (
        """
        table, more, held = {"xs": row}, [rep, row], type("Held", (), {"rows": row})()


        @eqx.filter_jit(in_shardings=(rep, table["xs"]), out_shardings=table["xs"])
        def by_key(net, xs):
            return jax.vmap(net)(xs)


        by_attribute = eqx.filter_jit(lambda net, xs: jax.vmap(net)(xs), in_shardings=(rep, held.rows), out_shardings=held.rows)
        by_list = eqx.filter_jit(lambda net, xs: jax.vmap(net)(xs), in_shardings=tuple(more), out_shardings=more[-1])
        by_loop = {}
        for name, one in table.items():
            by_loop[name] = eqx.filter_jit(lambda net, xs: jax.vmap(net)(xs), in_shardings=(rep, one), out_shardings=one)


        def change(changed):
            changed["xs"] = col


        def run():
            change(table)
            held.rows, one = col, col
            more.append(col)
            return [step(net(), x) for step in (by_key, by_attribute, by_list, by_loop["xs"])]
        """,
        "run()", ["P('data')"] * 4,
    ),
    "a factory that is called at once, on one way, or with more settings": (
        """
        def plain(net, xs): return jax.vmap(net)(xs)


        def jit_for(sharded):
            return eqx.filter_jit(in_shardings=(rep, row), out_shardings=row) if sharded else eqx.filter_jit


        at_once = eqx.filter_jit(in_shardings=(rep, row), out_shardings=row)(plain)
        sharded = functools.partial(eqx.filter_jit, in_shardings=(rep, row), out_shardings=row)


        @sharded(donate="none")
        def more(net, xs): ys = plain(net, xs); return ys


        def run():
            assert jit_for(False)(plain)(net(), x).shape == (32, 8)
            return at_once(net(), x), jit_for(True)(plain)(net(), x), more(net(), x)
        """,
        "run()", ["P('data')"] * 3,
    ),
    "a default": (
        """
        @eqx.filter_jit(in_shardings=(rep, row), out_shardings=row)
        def apply(net, xs, scale=2.0):
            return jax.vmap(net)(xs) * scale
        """,
        "apply(net(), x)", ["P('data')"],
    ),
    "a dict call": (
        """
        options = dict(in_shardings=(rep, row), out_shardings=row, donate="warn")


        @eqx.filter_jit(**options)
        def apply(net, xs):
            return jax.vmap(net)(xs)
        """,
        "apply(net(), x)", ["P('data')"],
    ),
    "a dict": (
        """
        @eqx.filter_jit(**{"in_shardings": (rep, row), "out_shardings": row})
        def apply(net, xs):
            return jax.vmap(net)(xs)
        """,
        "apply(net(), x)", ["P('data')"],
    ),
    "a lambda": ("double = eqx.filter_jit(lambda a: a * 2, in_shardings=row, out_shardings=row)", "double(x)", ["P('data')"]),
    "a long lambda": (
        "gram = eqx.filter_jit(lambda a, k: a @ a.T * k, in_shardings=(row, None), out_shardings=row, donate='warn')",
        "gram(x, 2.0)", ["P('data')"],
    ),
    "a method of an object": (
        """
        class Trainer:
            def __init__(self):
                self.step = eqx.filter_jit(self._step, in_shardings=(rep, row), out_shardings=(rep, row))

            def _step(self, net, xs):
                return net.weight, jax.vmap(net)(xs)
        """,
        "Trainer().step(net(), x)", ["P()", "P('data')"],
    ),
    "a partial": (
        """
        def scaled(scale, net, xs):
            return jax.vmap(net)(xs) * scale


        step = eqx.filter_jit(functools.partial(scaled, 2.0), in_shardings=(rep, row), out_shardings=row)
        """,
        "step(net(), x)", ["P('data')"],
    ),
    "a transform": (
        """
        def loss(net, xs):
            return jnp.mean(jax.vmap(net)(xs) ** 2)


        step = eqx.filter_jit(eqx.filter_value_and_grad(loss), in_shardings=(rep, row), out_shardings=(rep, rep))
        """,
        "(lambda v, g: (v, g.weight))(*step(net(), x))", ["P()", "P()"],
    ),
    "a transform between": (
        """
        @eqx.filter_jit(in_shardings=(rep, row), out_shardings=(rep, rep))
        @eqx.filter_value_and_grad
        def loss(net, xs):
            return jnp.mean(jax.vmap(net)(xs) ** 2)
        """,
        "(lambda v, g: (v, g.weight))(*loss(net(), x))", ["P()", "P()"],
    ),
}  # fmt: skip
DEVICE_PUT = {
    "numbers and arrays of numpy": (
        """
        STEPS = 7


        @eqx.filter_jit
        def scaled(a, scale: float = 2.0):
            held = jax.device_put({"half": 1 / 2, "rows": np.arange(16.0)}, rep)
            total = jax.device_put(scale, rep).reshape(1) * jax.device_put(STEPS, rep).astype(jnp.float32)
            return jax.device_put(a * total * held["half"].reshape(1) + held["rows"].at[0].set(1), row)
        """,
        "scaled(x)", ["P('data')"],
    ),
    "a partial that is mapped, and star arguments": (
        """
        put = functools.partial(jax.device_put, device=row)
        where, named = (row,), {"device": col}


        @jax.jit
        def double(xs):
            first, second = map(put, xs)
            mapped = jax.tree.map(put, [first * 2])
            return first, mapped[0], jax.device_put(second * 2, *where), jax.device_put(second * 3, **named)
        """,
        "double((x, x))", ["P('data')", "P('data')", "P('data')", "P(None, 'model')"],
    ),
    "a field": (
        """
        class Layer(eqx.Module):
            weight: jax.Array
            rows: NamedSharding = eqx.field(static=True)

            @eqx.filter_jit
            def __call__(self, a):
                return jax.device_put(a @ self.weight, self.rows)


        def start():
            return Layer(jnp.ones((16, 8)), row)(x)
        """,
        "start()", ["P('data')"],
    ),
    "shardings that a function computes": (
        """
        def shardings_of(tree):
            def one(leaf):
                return row if leaf.ndim > 1 else rep

            return jax.tree.map(one, tree)


        @jax.jit
        def double(tree):
            return jax.tree.map(jax.device_put, {"x": tree["x"] * 2}, shardings_of(tree))
        """,
        'double({"x": x})', ["P('data')"],
    ),
    "a dict of shardings": (
        """
        @jax.jit
        def step(batch):
            return jax.device_put(batch, {"x": row, "y": col})
        """,
        "step({'x': x, 'y': x})", ["P('data')", "P(None, 'model')"],
    ),
    "a tuple by name": (
        """
        places = (row, col)


        @jax.jit
        def step(a, b):
            a, b = jax.device_put((a, b), places)
            return a * 2, b
        """,
        "step(x, x)", ["P('data')", "P(None, 'model')"],
    ),
    "a map": (
        """
        @jax.jit
        def step(batch):
            return jax.tree.map(jax.device_put, batch, {"x": row, "y": col})
        """,
        "step({'x': x, 'y': x})", ["P('data')", "P(None, 'model')"],
    ),
    "a map of a lambda": (
        """
        where = {"x": row, "y": col}


        @eqx.filter_jit
        def step(batch):
            return jax.tree_util.tree_map(lambda t, s: jax.device_put(t, s), batch, where)
        """,
        "step({'x': x, 'y': x})", ["P('data')", "P(None, 'model')"],
    ),
    "a map of a partial": (
        """
        @jax.jit
        def step(batch):
            return jax.tree.map(functools.partial(jax.device_put, device=row), batch)
        """,
        "step({'x': x})", ["P('data')"],
    ),
    "a partial of a map": (
        """
        place = functools.partial(jax.tree.map, functools.partial(jax.device_put, device=row))


        @jax.jit
        def step(batch):
            return place({"x": batch["x"] * 2})


        def run():
            return step(place({"x": x}))
        """,
        "run()", ["P('data')"],
    ),
    "a partial of a map with a lambda": (
        """
        place = functools.partial(jax.tree_util.tree_map, lambda leaf: jax.device_put(leaf, col))


        @jax.jit
        def step(batch):
            return place({"x": batch["x"] * 2})
        """,
        "step({'x': x})", ["P(None, 'model')"],
    ),
    "a parameter": (
        """
        def make_step(where):
            @jax.jit
            def step(x):
                return jax.device_put(x, where) * 2

            return step
        """,
        "make_step(row)(x)", ["P('data')"],
    ),
    "a closure that is made and differentiated": (
        """
        def make_loss(where):
            def loss(w, x):
                w = jax.device_put(w, where)
                return jnp.mean((x @ w) ** 2)

            return loss


        update = jax.jit(lambda w, x: w - 0.1 * jax.grad(make_loss(col))(w, x))
        value = jax.jit(jax.value_and_grad(make_loss(row)))
        """,
        "value(x.T, x)[1]", ["P('data')"],
    ),
    "the rules of a custom derivative": (
        """
        @jax.custom_vjp
        def scale(w, x):
            return w * x


        def forward(w, x):
            return scale(w, x), (w, x)


        def backward(kept, g):
            w, x = kept
            return jax.device_put(g * x, col), jax.device_put(g * w, row)


        scale.defvjp(forward, backward)
        step = jax.jit(jax.grad(lambda w, x: scale(w, x).sum(), argnums=(0, 1)))
        """,
        "step(x, x * 2)", ["P(None, 'model')", "P('data')"],
    ),
    "the rule of a custom forward derivative": (
        """
        @jax.custom_jvp
        def act(x):
            return jnp.tanh(x)


        @act.defjvp
        def act_jvp(primals, tangents):
            y = jax.device_put(jnp.tanh(primals[0]), row)
            return y, (1 - y * y) * tangents[0]


        @eqx.filter_jit
        def step(x):
            return jax.jvp(act, (x,), (x,))[0]
        """,
        "step(x)", ["P('data')"],
    ),
    "a dict of lambdas": (
        """
        put = jax.device_put
        OPS = {"double": lambda x: x * 2, "put": lambda x: put(x, row)}


        @jax.jit
        def step(x):
            for name in ("double", "put"):
                x = OPS[name](x)
            return x
        """,
        "step(x)", ["P('data')"],
    ),
    "a dict of an object": (
        """
        class Pipeline:
            def __init__(self):
                self.ops = {"norm": lambda x: x / 2, "put": lambda x: jax.device_put(x, col)}

            def run(self, x):
                for op in self.ops.values():
                    x = op(x)
                return x


        run = jax.jit(Pipeline().run)
        """,
        "run(x)", ["P(None, 'model')"],
    ),
    "one of two that a function makes": (
        """
        def make():
            def init():
                return jnp.ones((32, 16))

            def step(x):
                return jax.device_put(x + 1, row)

            return init, jax.jit(step)


        init, step = make()
        """,
        "step(init())", ["P('data')"],
    ),
    "a decorator of the project with settings": (
        """
        def configured(donate):
            def decorate(function):
                @functools.wraps(function)
                def inner(*args):
                    return function(*args)

                return jax.jit(inner, donate_argnums=donate)

            return decorate


        @configured(donate=())
        def step(x):
            return jax.device_put(x * 2, row)
        """,
        "step(x)", ["P('data')"],
    ),
    "a jit over a decorator of the project": (
        """
        def named(function):
            def inner(*args):
                with jax.named_scope(function.__name__):
                    return function(*args)

            return inner


        @jax.jit
        @named
        def step(x):
            return jax.device_put(x * 2, col)
        """,
        "step(x)", ["P(None, 'model')"],
    ),
    "a field that may be None": (
        """
        class Block(eqx.Module):
            weight: jax.Array
            where: NamedSharding | None = eqx.field(static=True, default=None)

            def __call__(self, x):
                x = x @ self.weight
                if self.where is not None:
                    x = jax.device_put(x, self.where)
                return x


        @eqx.filter_jit
        def step(block, x):
            return block(x)


        def run():
            weight = jnp.ones((16, 8))
            assert np.array_equal(step(Block(weight), x), step(Block(weight, row), x))
            return step(Block(weight, row), x)
        """,
        "run()", ["P('data')"],
    ),
    "a mesh that is made under a condition": (
        """
        eight = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,)) if len(jax.devices()) > 1 else None
        where = NamedSharding(eight, P("data")) if eight is not None else None


        @jax.jit
        def step(x):
            x = x * 2
            if eight is not None:
                x = jax.device_put(x, where)
            return x
        """,
        "step(x)", ["P('data')"],
    ),
    "two meshes of which one is None": (
        """
        if jax.device_count() > 1:
            eight = Mesh(np.array(jax.devices()), ("data",))
            where = NamedSharding(eight, P("data"))
        else:
            eight = where = None


        @jax.jit
        def step(x):
            return x * 2 if eight is None else jax.device_put(x * 2, where)
        """,
        "step(x)", ["P('data')"],
    ),
    "a parameter of a helper": (
        """
        def place(x, where):
            return jax.device_put(x, where)


        @jax.jit
        def step(x):
            return place(x * 2, row)
        """,
        "step(x)", ["P('data')"],
    ),
}  # fmt: skip
MESHES = {
    "a global that a function makes": (
        """
        MESH = None


        def shared():
            global MESH
            if MESH is None:
                MESH = Mesh(np.array(jax.devices()), ("data",))
            return MESH


        def batch_sharding():
            return NamedSharding(shared(), P("data"))


        @jax.jit
        def step(x):
            return jax.device_put(x * 2, batch_sharding())


        def run():
            with shared():
                return step(x)
        """,
        "run()", ["P('data')"],
    ),
    "a global that a function rebinds": (
        """
        MESH = None


        def start(n):
            global MESH
            MESH = Mesh(np.array(jax.devices()[:n]), ("data",))


        @jax.jit
        def step(x):
            return jax.device_put(x * 2, NamedSharding(MESH, P("data")))


        def run():
            start(8)
            with MESH:
                return step(x)
        """,
        "run()", ["P('data')"],
    ),
    "the object's": (
        """
        class Trainer:
            def __init__(self, mesh):
                self.mesh = mesh
                self.step = jax.jit(self._step, out_shardings=NamedSharding(mesh, P("data", "model")))

            def _step(self, x):
                return jax.lax.with_sharding_constraint(x, P("data", "model")) + 1
        """,
        "Trainer(other).step(x)", ["P('data', 'model')"],
    ),
    "a field": (
        """
        class Block(eqx.Module):
            grid: Mesh = eqx.field(static=True)

            @eqx.filter_jit
            def run(self, x):
                return eqx.filter_shard(x, P("data"))
        """,
        "Block(other).run(x)", ["P('data')"],
    ),
    "a parameter": (
        """
        def block(x, grid: Mesh):
            return jax.lax.with_sharding_constraint(x, P("data"))


        step = jax.jit(block, static_argnums=1)
        """,
        "step(x, other)", ["P('data')"],
    ),
    "the one entered": (
        """
        def run():
            fast = jax.jit(lambda a: a * 2, in_shardings=P("data"), out_shardings=P("data"))
            with other:
                return fast(x)
        """,
        "run()", ["P('data')"],
    ),
    "an object that takes its mesh from a configuration": (
        """
        class Config:
            def __init__(self, mesh):
                self.mesh = mesh


        class Net:
            def __init__(self, config):
                self.mesh = config.mesh
                self.step = jax.jit(self._step)

            def _step(self, x):
                return jax.lax.with_sharding_constraint(x, P("data"))


        def run():
            return Net(Config(other)).step(jax.device_put(x, NamedSharding(other, P())))
        """,
        "run()", ["P('data')"],
    ),
    "a parameter that brings the mesh": (
        """
        class Config:
            mesh: Mesh


        @functools.partial(jax.jit, static_argnums=1)
        def step(x, config: Config):
            return jax.lax.with_sharding_constraint(x, P("data"))


        def run():
            config = Config()
            config.mesh = other
            return step(jax.device_put(x, NamedSharding(other, P())), config)
        """,
        "run()", ["P('data')"],
    ),
}  # fmt: skip
EVERY = [*FILTER_JIT.values(), *DEVICE_PUT.values(), *MESHES.values()]
NAMES = [
    *(f"filter_jit-{name}" for name in FILTER_JIT),
    *(f"device_put-{name}" for name in DEVICE_PUT),
    *(f"mesh-{name}" for name in MESHES),
]
skip_without("jax", "equinox")


def program(case: tuple[str, str, list[str]]) -> str:
    body, call, _ = case
    return f"""\
{HEAD}{textwrap.dedent(body).strip()}


def main():
    return {call}


if __name__ == "__main__":
    import json

    found = [leaf.sharding for leaf in jax.tree.leaves(main())]
    print(json.dumps([f"P{{tuple(one.spec)}}".replace(",)", ")") if hasattr(one, "spec") else "one" for one in found]))
"""


def fixed(root: Path) -> FixReport:
    return fix_files([root], OPTIONS, unsafe=True, write=True)


@since_jax_0_12
@pytest.mark.parametrize("case", EVERY, ids=NAMES)
def test_a_fixed_program_has_the_shardings_asked_for(
    write: Write, warmed: Warmed, case: tuple[str, str, list[str]]
) -> None:
    root = write({"main.py": program(case)})
    (outcome,) = fixed(root).fixed
    assert outcome.done and not outcome.left, [finding.help for finding in outcome.left]
    again = (root / "main.py").read_bytes()
    fixed(root)
    assert (root / "main.py").read_bytes() == again
    ran = warmed.run("main.py", folder=root)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == case[2]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(
            """
            def place(x):
                return jax.device_put(x, row)


            @jax.jit
            def step(x):
                return place(x * 2)


            if __name__ == "__main__":
                step(place(x))
            """,
            "calls the function outside jit, where device_put works", id="a helper that is also eager",
        ),
        pytest.param(
            """
            where = row if jax.device_count() > 1 else None


            @jax.jit
            def step(x):
                return jax.device_put(x * 2, where)
            """,
            "`where` may be None (line 21), and a constraint by None raises", id="a sharding that may be None",
        ),
        pytest.param(
            """
            where = None


            def set_up(n):
                global where
                where = NamedSharding(Mesh(np.array(jax.devices()[:n]), ("data",)), P("data"))


            def make():
                return eqx.filter_jit(lambda x: x + 1, in_shardings=(where,))
            """,
            "line 26 assigns the global `where` again, maybe before the function is traced", id="a global sharding",
        ),
        pytest.param(
            """
            class Trainer:
                def __init__(self, one: Mesh, two: Mesh):
                    self.one, self.two = one, two
                    self.first = one
                    self.second = two
                    self.step = jax.jit(self._step)

                def _step(self, x):
                    return jax.lax.with_sharding_constraint(x, P("data"))


            if __name__ == "__main__":
                Trainer(mesh, other).step(x)
            """,
            "the object has meshes in `self.first` and `self.second`", id="two meshes of an object",
        ),
        pytest.param(
            """
            class Server:
                def __init__(self, one: Mesh):
                    self.one = one

                @staticmethod
                @jax.jit
                def draw(key):
                    return jax.lax.with_sharding_constraint(jax.random.normal(key, (8, 4)), P("data"))


            if __name__ == "__main__":
                Server(other).draw(jax.random.key(0))
            """,
            "the object has a mesh in `self.one`", id="a mesh of an object, in a static method",
        ),
        pytest.param(
            """
            step = jax.jit(lambda x: x * 2, in_shardings=row).lower(x)
            compiled = step.compile()


            if __name__ == "__main__":
                with mesh:
                    batch = {"x": jnp.ones((32, 16), np.float32)}
                    compiled(batch["x"])
            """,
            "under jax.set_mesh `batch[\"x\"]` (at main.py:28) would be replicated, and the call with in_shardings would reject it",
            id="compiled ahead",
        ),
    ],
)  # fmt: skip
def test_what_is_not_fixed_says_why(write: Write, body: str, why: str) -> None:
    text = HEAD + textwrap.dedent(body).strip() + "\n"
    root = write({"main.py": text})
    (outcome,) = fixed(root).fixed
    assert (root / "main.py").read_text() == text
    assert any(why in finding.help for finding in outcome.left), [finding.help for finding in outcome.left]


def test_the_mesh_of_the_module_is_not_taken_where_another_function_makes_its_own(write: Write) -> None:
    text = """\
import equinox as eqx
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


class Net(eqx.Module):
    def __call__(self, x):
        return jax.lax.with_sharding_constraint(x, P("data"))


def main():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    print(NamedSharding(mesh, P()))
    return eqx.filter_jit(Net())(jax.numpy.ones(8))


if __name__ == "__main__":
    main()
"""
    root = write({"main.py": text})
    (outcome,) = fixed(root).fixed
    assert (root / "main.py").read_text() == text
    (left,) = outcome.left
    assert "line 14 creates a mesh that may differ from `mesh` of the module" in left.help


def test_a_factory_that_is_called_again_makes_another_mesh(write: Write) -> None:
    text = """\
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P


def make_mesh(shape=(4, 2)):
    return Mesh(np.array(jax.devices()).reshape(shape), ("data", "model"))


mesh = make_mesh()
step = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("data")))


def main():
    print(make_mesh((2, 4)))
    return step(jax.numpy.ones(8))


if __name__ == "__main__":
    main()
"""
    root = write({"main.py": text})
    (outcome,) = fixed(root).fixed
    assert (root / "main.py").read_text() == text
    (left,) = outcome.left
    assert "line 15 creates a mesh that may differ from `mesh` of the module" in left.help


TWO_MESHES = """\
import jax
from jax.sharding import PartitionSpec as P

auto = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(auto, auto))
flat = jax.make_mesh((8,), ({axis!r},), axis_types=(auto,))


@jax.jit
def step(x):
    return jax.lax.with_sharding_constraint(x, P("data"))


if __name__ == "__main__":
    step(jax.numpy.ones(8))
"""


def test_of_two_meshes_the_one_with_the_axes_of_the_spec_is_meant(write: Write) -> None:
    root = write({"main.py": TWO_MESHES.format(axis="all")})
    fixed(root)
    assert "with_sharding_constraint(x, NamedSharding(mesh, P(\"data\")))" in (root / "main.py").read_text()


def test_of_two_meshes_with_the_axis_none_is_taken(write: Write) -> None:
    root = write({"main.py": TWO_MESHES.format(axis="data")})
    (outcome,) = fixed(root).fixed
    assert "the mesh may be `mesh` or `flat`" in outcome.left[0].help


PLACES = """\
import jax
from jax.experimental import mesh_utils
{imported}

x = jax.device_put(jax.numpy.ones(8), PositionalSharding(mesh_utils.create_device_mesh((8,))))
"""


@pytest.mark.parametrize(
    ("imported", "after"),
    [
        (
            "from jax.sharding import PositionalSharding",
            "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P",
        ),
        (
            "from jax.sharding import (\n    PositionalSharding,\n)",
            "from jax.sharding import (\n    Mesh,\n    NamedSharding,\n    PartitionSpec as P,\n)",
        ),
    ],
)
def test_an_import_is_broken_only_where_it_is_long_in_the_end(write: Write, imported: str, after: str) -> None:
    """Together with the name that goes it would be too long for a line."""
    settings = "[tool.ruff]\nline-length = 80\n"
    root = write({"main.py": PLACES.format(imported=imported), "pyproject.toml": settings})
    fixed(root)
    assert after in (root / "main.py").read_text()


@since_jax_0_12
def test_a_package_that_exports_what_another_module_jits(write: Write, warmed: Warmed) -> None:
    root = write({
        "net/__init__.py": "from net.core import *\n",
        "net/core/__init__.py": "from net.core.steps import forward as forward\nfrom net.core.layout import rows\n",
        "net/core/layout.py": """\
            import jax
            import numpy as np
            from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

            rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
            """,
        "net/core/steps.py": """\
            import jax
            from net.core.layout import rows


            def forward(x):
                return jax.device_put(x * 2, rows)
            """,
        "main.py": """\
            import jax
            import jax.numpy as jnp
            from net import forward

            step = jax.jit(forward)
            print(step(jnp.ones((8, 2))).sharding.spec)
            """,
    })  # fmt: skip
    outcomes = fixed(root).fixed
    assert not any(outcome.left for outcome in outcomes)
    assert "jax.lax.with_sharding_constraint(x * 2, rows)" in (root / "net/core/steps.py").read_text()
    ran = warmed.run("main.py", folder=root)
    assert ran.returncode == 0 and "data" in ran.stdout, ran.stderr
