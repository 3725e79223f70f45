"""Tests of the promises of `Fixture`, each kept and broken."""

from __future__ import annotations

import pytest

from shardlint.verify.runner import Runner

from .conftest import Verify, kinds

STEP = """
def loss(p, x):
    return jnp.mean((jax.nn.gelu(x @ p["w1"]) @ p["w2"]) ** 2)

def init():
    key = jax.random.key(0)
    return {"w1": jax.random.normal(key, (16, 64)), "w2": jax.random.normal(key, (64, 16))}

def step(p, x):
    value, grads = jax.value_and_grad(loss)(p, x)
    return jax.tree_util.tree_map(lambda a, b: a - 0.1 * b, p, grads), value

SPECS = {"w1": P("data", "model"), "w2": P("model", "data")}
ARGS = [arg(init, specs=SPECS), arg(shape=(16, 16), spec=P("data"))]
"""


def test_a_sound_step_passes_both_levels_on_every_mesh(verify: Verify) -> None:
    results = verify(
        STEP
        + """
jitted = jax.jit(step, donate_argnums=0)
OUT = {"0/w1": P("data", "model"), "0/w2": P("model", "data"), "1": P()}
fx = Fixture(jitted, [MESH, "all:8"], ARGS, OUT,
             replicated_bytes_max=64, donate=(0,), reference="single_device")
""",
        "execute",
    )
    assert [(result.level, result.status) for result in results] == [
        ("compile", "pass"),
        ("execute", "pass"),
    ] * 4
    assert [list(result.mesh.values()) for result in results[::2] if result.mesh] == [
        [4, 2],
        [8, 1],
        [2, 4],
        [1, 8],
    ]
    assert results[0].target == "fx:step"
    assert results[0].line.partition("fx.py:")[2].isdigit()
    assert results[0].how.startswith("compiled as it is (jit), under ")
    assert any("largest difference from one device" in note for note in results[1].notes)


def test_a_wrong_sharding_is_told_by_leaf(verify: Verify) -> None:
    compiled, executed = verify(
        """
        @functools.partial(jax.jit, static_argnames="mesh")
        def step(p, mesh):
            whole = jax.lax.with_sharding_constraint(p["w1"] * 2, NamedSharding(mesh, JP()))
            return {"w1": whole, "w2": p["w1"] + 1}, 3
        ARGS = [arg(lambda: {"w1": np.ones((1024, 512), np.float32)}, spec=JP("data", "model"))]
        fx = Fixture(step, [MESH], ARGS, {"0/*": P("data", "model")})
        """,
        "execute",
    )
    for result in (compiled, executed):
        (failure,) = result.failures
        assert failure.failure_text().splitlines()[0] == (
            "out[0]['w1'] f32[1024,512]  expected P('data', 'model')  got P()"
            "  256.0 KiB -> 2.0 MiB/device (8x)"
        )
        assert result.checked == 2
        assert f"fx.py::fx --mesh data=4,model=2 --level {result.level}" in result.rerun
    assert compiled.how.startswith("compiled as it is (jit)")
    assert executed.how.startswith("called as it is")


def test_where_outputs_of_a_plain_function_lie_is_for_the_level_that_calls_it(verify: Verify) -> None:
    source = """
    def like(x):
        return {"zeros": jnp.zeros_like(x), "one": x + 1}
    OUT = {"zeros": P("data"), "one": P("data")}
    right = Fixture(like, [MESH], [X], OUT)
    compiled_only = Fixture(like, [MESH], [X], OUT, execute=False)
    """
    compiled, executed, *_ = verify(source, "execute", names=["right"])
    assert (compiled.status, executed.status) == ("pass", "pass")
    assert (compiled.checked, executed.checked) == (1, 2)
    assert "in a jit around it: out['zeros'] f32[8,4]  expected P('data')  got P()" in compiled.notes[0]
    assert [result.status for result in verify(source, "execute", names=["compiled_only"])] == [
        "fail",
        "skip",
    ]
    source = """
    def whole(x, mesh):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, JP()))
    fx = Fixture(whole, [MESH], [X], {"": P("data")})
    """
    compiled, executed = verify(source, "execute")
    assert (compiled.status, compiled.reason) == (
        "skip",
        "fn is a plain function: level execute checks the shardings of its outputs",
    )
    assert kinds(executed) == ["sharding"]


def test_a_leaf_on_one_device_is_no_sharding(verify: Verify) -> None:
    (_, result) = verify(
        """
        def alone(x):
            return jax.device_put(np.ones((8, 4)), jax.devices()[0])
        fx = Fixture(alone, [MESH], [X], {"": P("data")})
        """,
        "execute",
    )
    assert result.failures[0].actual == "one device"


def test_a_dropped_donation(verify: Verify) -> None:
    source = """
    def halve(x, y):
        return x.astype(jnp.bfloat16), y + 1
    Y = arg(shape=(16, 4), spec=P("data"))
    fx = Fixture(jax.jit(halve, donate_argnums=(0, 1)), [MESH], [X, Y], donate=(0, 1))
    not_given = Fixture(jax.jit(halve), [MESH], [X, Y], donate=(1,))
    fine = Fixture(jax.jit(halve, donate_argnums=(0, 1)), [MESH], [X, Y], donate=(1,))
    unused = Fixture(jax.jit(lambda x, y: y + 1, donate_argnums=(0, 1)), [MESH], [X, Y], donate=(0,))
    """
    lost, not_given, fine, unused = verify(source)
    assert [failure.where for failure in lost.failures] == ["args[0]"]
    assert "no output reuses its buffer" in lost.failures[0].message
    assert kinds(not_given) == ["donation"]
    assert "not donated by fn" in not_given.failures[0].message
    assert fine.status == "pass"
    assert kinds(unused) == ["donation"]
    results = verify(source, "execute", names=["fx", "fine"])
    assert [result.status for result in results] == ["fail", "fail", "pass", "pass"]
    assert "still alive" in results[1].failures[0].message


def test_a_wrong_number_is_told_by_leaf(verify: Verify) -> None:
    (compiled, result, _, looser, _, integers) = verify(
        """
        def wrong(x, mesh):
            return {"right": x + 1, "wrong": x * mesh.size, "count": 3}
        fx = Fixture(wrong, [MESH], [X], reference="single_device")
        def coarse(x, mesh):
            return x.astype(jnp.float32) * (1 + 1e-7 * (mesh.size > 1))
        coarse = Fixture(coarse, [MESH], [X], reference="single_device")
        def whole(x, mesh):
            return (x > 0) + jnp.int32(mesh.size > 1)
        whole = Fixture(whole, [MESH], [X], reference="single_device")
        """,
        "execute",
    )
    assert compiled.status == "skip"
    (failure,) = result.failures
    assert (failure.kind, failure.where, failure.path) == ("numbers", "out['wrong']", "wrong")
    assert "differs from one device by 7 relative, tolerance 1e-10" in failure.message
    assert looser.status == "pass"
    assert any("tolerance 1e-04" in note for note in looser.notes)
    assert "32 of 32 elements differ" in integers.failures[0].message


def test_numbers_that_are_none_prove_nothing(verify: Verify) -> None:
    (_, result) = verify(
        "fx = Fixture(lambda x: x / 0 * 0, [MESH], [X], reference='single_device')", "execute"
    )
    assert "no finite number is left to compare" in result.failures[0].message


def test_float64_that_a_program_refuses_is_said(verify: Verify) -> None:
    (_, result) = verify(
        """
        def carry(x):
            return jax.lax.fori_loop(0, 3, lambda _, c: (c * 2).astype(jnp.float32), x)
        fx = Fixture(carry, [MESH], [X], reference="single_device")
        """,
        "execute",
    )
    assert result.status == "pass"
    assert "does not run in float64" in result.notes[0]


def test_another_reference(verify: Verify) -> None:
    source = """
    right = Fixture(lambda x: x * 2, [MESH], [X], reference=lambda x: x + x)
    wrong = Fixture(lambda x: x * 2, [MESH], [X], reference="fx:other")
    def other(x):
        return x * 3
    """
    (_, right, _, wrong) = verify(source, "execute")
    assert right.status == "pass"
    assert "differs from the reference by 0.33" in wrong.failures[0].message


def test_a_function_with_its_own_mesh_has_no_run_on_one_device(verify: Verify) -> None:
    (_, result) = verify(
        """
        mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
        def own(x):
            return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, JP("data")))
        fx = Fixture(jax.jit(own), [MESH], [X], reference="single_device", context="none")
        """,
        "execute",
    )
    assert result.status == "fail"
    assert "fn makes its own mesh" in result.failures[0].message


def test_replicas_that_disagree(verify: Verify) -> None:
    (_, result) = verify(
        """
        def torn(x, mesh):
            parts = [jax.device_put(np.full((2,), i), d) for i, d in enumerate(mesh.devices.flat)]
            return jax.make_array_from_single_device_arrays((2,), NamedSharding(mesh, JP()), parts)
        fx = Fixture(torn, [MESH], [X], {"": P()})
        """,
        "execute",
    )
    assert kinds(result) == ["replicas"]
    assert "have different values" in result.failures[0].message


def test_a_mesh_that_does_not_divide_is_skipped_never_passed(verify: Verify) -> None:
    results = verify(
        """
        small = arg(shape=(4, 4), spec=P("data"))
        fx = Fixture(lambda x: x + 1, [{"data": 4}, {"data": 8}], [small], {"": P("data")})
        out = Fixture(lambda x: x[:6], [{"data": 2}, {"data": 4}], [X], {"": P("data")})
        nowhere = Fixture(lambda x: x, [{"data": 3}], [X], {"": P("data")})
        """
    )
    assert [result.status for result in results] == ["pass", "skip", "pass", "skip", "skip", "fail"]
    assert results[1].reason == "args[0]: dimension 0 of size 4 is not divisible by data = 8"
    assert results[3].reason == "out: dimension 0 of size 6 is not divisible by data = 4"
    assert results[5].failures[0].message == "checks nothing: it was skipped everywhere"


def test_a_fixture_that_checks_nothing_fails(verify: Verify) -> None:
    (nothing, no_leaf, no_match) = verify(
        """
        nothing = Fixture(lambda x: x, [MESH], [X])
        no_leaf = Fixture(lambda x: None, [MESH], [X], replicated_bytes_max=1)
        no_match = Fixture(lambda x: {"weight": x}, [MESH], [X], {"wieght": P("data")})
        """
    )
    assert nothing.failures[0].failure_text().startswith("checks nothing: declare out")
    assert no_leaf.failures[0].failure_text() == "checks nothing: no output leaf was compared"
    assert no_match.failures[0].failure_text() == "'wieght' matches no leaf; nearest: 'weight'"


def test_unlisted_leaves_may_not_be_large_and_replicated(verify: Verify) -> None:
    results = verify(
        """
        def both(x, mesh):
            return x + 1, jax.lax.with_sharding_constraint(x + 2, NamedSharding(mesh, JP()))
        large = Fixture(both, [MESH], [X], replicated_bytes_max=127)
        small = Fixture(both, [MESH], [X], replicated_bytes_max="128 B")
        listed = Fixture(both, [MESH], [X], {"1": P()}, replicated_bytes_max=0)
        """
    )
    assert [result.status for result in results] == ["fail", "pass", "pass"]
    assert results[0].failures[0].where == "out[1]"
    assert "replicated: 128 B is more than replicated_bytes_max (127 B)" in results[0].failures[0].message


def test_what_the_function_raises_names_its_line(verify: Verify) -> None:
    results = verify(
        """
        def broken(x):
            return x.reshape(7)
        fx = Fixture(broken, [MESH], [X], {"": P()})
        unknown = Fixture(lambda x: x, [MESH], [arg(shape=(8,), spec=P("expert"))], {"": P()})
        missing = Fixture("proj.nowhere:step", [MESH], [X], {"": P()})
        specs = Fixture(lambda x: x, [MESH], [arg(lambda: {"w": np.ones(8)}, specs={"v": P()})], {"": P()})
        """
    )
    broken, unknown, missing, specs = results
    assert "in broken" in broken.failures[0].message
    assert "mesh data=4,model=2 has no axis 'expert'" in unknown.failures[0].message
    assert "'proj.nowhere:step': no module 'proj'" in missing.failures[0].message
    assert "args[0] specs: 'v' matches no leaf; nearest: 'w'" in specs.failures[0].message


def test_the_first_glob_of_specs_counts(verify: Verify) -> None:
    (result,) = verify(
        """
        def init():
            return {"layer": {"w": np.ones((8, 4))}, "step": np.ones(())}
        ARGS = [arg(init, specs={"**/w": P("data"), "**": P()})]
        fx = Fixture(jax.jit(lambda p: p), [MESH], ARGS, {"**/w": P("data"), "**": P()})
        """
    )
    assert (result.status, result.checked) == ("pass", 2), result


def test_equinox_modules(verify: Verify) -> None:
    results = verify(
        """
        import equinox as eqx
        class Net(eqx.Module):
            w: jax.Array
            b: jax.Array
            activation: object
            rate: float
        def init():
            return Net(jnp.ones((8, 4)), jnp.zeros(4), jax.nn.relu, 0.5)
        def forward(net, x):
            new = Net(net.activation(net.w + x.sum()), net.b * net.rate, net.activation, net.rate)
            return new, x.sum()
        ARGS = [arg(init, specs={"w": P("data", "model"), "b": P()}), X]
        OUT = {"0/w": P("data", "model"), "0/b": P(), "1": P()}
        whole = {"donate": (0,), "reference": "single_device"}
        filtered = Fixture(eqx.filter_jit(forward, donate="all"), [MESH], ARGS, OUT, **whole)
        inner = eqx.filter_jit(forward, donate="all")
        plain = Fixture(lambda net, x: inner(net, x), [MESH], ARGS, OUT, donate=(0,))
        undonated = Fixture(forward, [MESH], ARGS, OUT, donate=(0,))
        second = Fixture(eqx.filter_jit(forward, donate="all-except-first"), [MESH], ARGS, OUT, donate=(0,))
        def specs():
            return jax.tree_util.tree_map(lambda leaf: JP("data") if np.ndim(leaf) == 2 else JP(), init())
        tree = arg(init, specs=specs)
        by_tree = Fixture(eqx.filter_jit(forward), [MESH], [tree, X], {"0/w": P("data")})
        """,
    )
    assert [(result.status, kinds(result)) for result in results] == [
        ("pass", []),
        ("pass", []),
        ("fail", ["donation", "donation"]),
        ("fail", ["donation", "donation"]),
        ("pass", []),
    ]
    assert results[1].how.startswith("a plain function, wrapped in equinox.filter_jit")
    assert "nor by a jit that it calls" in results[2].failures[0].message
    assert [failure.where for failure in results[3].failures] == ["args[0].w", "args[0].b"]


@pytest.mark.longer
def test_equinox_numbers(verify: Verify) -> None:
    (_, result) = verify(
        """
        import equinox as eqx
        net = eqx.nn.MLP(4, 4, 8, 2, key=jax.random.key(0))
        @eqx.filter_jit
        def forward(net, x):
            return jax.vmap(net)(x)
        specs = {"layers/*/weight": P("model"), "layers/*/bias": P()}
        ARGS = [arg(lambda: net, specs=specs), X]
        fx = Fixture(forward, [MESH], ARGS, {"": P("data", "model")}, reference="single_device")
        """,
        "execute",
    )
    assert result.status == "pass", result
    assert "tolerance 1e-10" in result.notes[-1]


@pytest.mark.longer
def test_nnx_modules(verify: Verify, runner: Runner) -> None:
    if "flax" not in runner.releases:
        pytest.skip("flax is not installed")
    results = verify(
        """
        from flax import nnx
        class Net(nnx.Module):
            def __init__(self, rngs):
                self.linear = nnx.Linear(4, 16, rngs=rngs)
            def __call__(self, x):
                return self.linear(x)
        def init():
            return Net(nnx.Rngs(0))
        def forward(net, x):
            return net(x), net
        ARGS = [arg(init, specs={"linear/kernel": P(None, "model"), "linear/bias": P("model")}), X]
        OUT = {"0": P("data", "model"), "1/linear/kernel": P(None, "model")}
        plain = Fixture(forward, [MESH], ARGS, OUT, reference="single_device")
        jitted = Fixture(nnx.jit(forward), [MESH], ARGS, OUT, reference="single_device")
        """,
        "execute",
    )
    assert [result.status for result in results] == ["pass", "pass", "skip", "pass"], results


def test_contexts(verify: Verify) -> None:
    results = verify(
        """
        def bare(x):
            return jax.lax.with_sharding_constraint(x, JP("data"))
        OUT = {"": P("data")}
        given = Fixture(bare, [MESH], [X], OUT)
        legacy = Fixture(bare, [MESH], [X], OUT, context="with")
        none = Fixture(bare, [MESH], [X], OUT, context="none")
        """
    )
    assert [result.status for result in results] == ["pass", "pass", "fail"]
    assert results[1].how.endswith("under with mesh")


def test_arguments_by_reference_and_random_keys(verify: Verify) -> None:
    results = verify(
        """
        def init(mesh):
            return jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, JP("model")))
        def noise(x, key, tokens):
            return x + jax.random.normal(key, x.shape) + tokens
        tokens = arg(shape=(8, 4), dtype="int32", below=100)
        ARGS = [arg("fx:init"), arg(lambda: jax.random.key(0)), tokens]
        fx = Fixture("fx:noise", [MESH], ARGS, {"": P("model")}, reference="single_device")
        """,
        "execute",
    )
    assert [result.status for result in results] == ["pass", "pass"], results
    assert any("largest difference from one device" in note for note in results[1].notes)


def test_a_crash_in_one_level_keeps_the_other(verify: Verify) -> None:
    compiled, executed = verify(
        """
        def crash(x):
            if not isinstance(x, jax.core.Tracer):
                import os
                os.abort()
            return x
        fx = Fixture(crash, [MESH], [X], {"": P("data")})
        """,
        "execute",
    )
    assert compiled.status == "pass"
    assert executed.status == "fail"
    assert executed.failures[0].message == "crashed with SIGABRT"


def test_a_file_that_cannot_be_imported(verify: Verify) -> None:
    (result,) = verify("import no_such_module")
    assert result.status == "fail"
    assert "No module named 'no_such_module'" in result.failures[0].message
