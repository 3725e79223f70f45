"""Numbers: element by element, beside a process that has one device, and told apart from chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import Verify, kinds

compare = pytest.importorskip("shardlint.verify.inside.compare", exc_type=ImportError)


def size(got: Any, want: Any) -> float:
    (found,), _ = compare.compare_leaves({"": ("out", np.asarray(got))}, {"": ("out", np.asarray(want))})
    return float(found.size)


def test_a_mask_or_a_counter_hides_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((64, 64))
    for masked in (np.s_[:, 3], np.s_[:, :60], np.s_[np.triu_indices(64)]):
        for mask in (-1e30, -1e9, -np.inf, np.finfo(np.float32).min):
            want, got = x.copy(), 4 * x
            want[masked] = got[masked] = mask
            assert size(got, want) > 1
            got = x * (1 + 1e-15)
            got[masked] = mask
            assert size(got, want) < 1e-14
    added = np.where(np.arange(64) % 2 == 0, 0.0, -1e9)
    assert size(4 * x + added, x + added) > 1
    assert size([4.0, 6e11 * (1 + 1e-16), 7.0], [1.0, 6e11, 28.0]) > 0.5


def test_rounding_is_measured_by_the_numbers_beside() -> None:
    x = np.random.default_rng(0).standard_normal(10_000)
    x[5] = 1e-14  # what is left where large numbers cancel
    assert size(x + 1e-15, x) < 1e-14
    assert size([0.0, 1e-16, 1.0], [0.0, 0.0, 1.0]) <= 1e-15


@pytest.mark.longer
def test_what_is_zero_but_for_rounding_is_no_difference(verify: Verify) -> None:
    """The gradient of a bias of keys: softmax does not see what is added to all of them."""
    source = """
    def loss(bias, x, mesh):
        keys = x + bias
        weights = jax.nn.softmax(x @ keys.T, axis=-1)
        return ((weights @ x) ** 2).sum()
    fx = Fixture(lambda b, x, mesh: jax.grad(loss)(b, x, mesh), [MESH], [arg(shape=(4,)), X],
                 reference="single_device")
    both = Fixture(lambda b, x, mesh: (jax.grad(loss)(b, x, mesh), x.sum(1)), [MESH], [arg(shape=(4,)), X],
                 reference="single_device")
    """
    right, both = verify(source, only="execute")
    assert (right.status, both.status) == ("pass", "pass"), right
    source = """
    fx = Fixture(lambda x, mesh: jnp.where(jnp.arange(4) > 0, x * 1e-18, x) * mesh.size, [MESH], [X],
                 reference="single_device")
    """
    (wrong,) = verify(source, only="execute")
    assert kinds(wrong) == ["numbers"]


def test_a_program_that_asks_for_its_devices_itself(verify: Verify) -> None:
    source = """
    jax.config.update("jax_num_cpu_devices", 8)
    fx = Fixture(lambda x: x.sum(0) / jax.device_count(), [MESH], [X], reference="single_device")
    """
    (result,) = verify(source, only="execute")
    assert kinds(result) == ["numbers"]
    assert "the program sets 8 devices" in result.notes[0]


def test_integers_are_compared_exactly() -> None:
    large = np.array([2**62, 5])
    assert size(np.array([2**62 + 1, 5]), large) == float("inf")
    assert size(large, large) == 0


SEES = """
    import jax as other
    from jax import device_count
    COUNT = device_count()
    seen = [
        lambda x: x.sum(0) / jax.device_count(),
        lambda x: x.sum(0) / device_count(),
        lambda x: x.sum(0) / len(jax.devices()),
        lambda x: x.sum(0) / other.local_device_count(),
        lambda x: x.sum(0) / COUNT,
    ]
"""


def test_the_run_on_one_device_sees_one(verify: Verify) -> None:
    source = SEES + "".join(
        f"    f{index} = Fixture(seen[{index}], [MESH], [X], reference='single_device')\n"
        for index in range(5)
    )
    results = [result for result in verify(source, only="execute") if result.level == "execute"]
    assert [kinds(result) for result in results] == [["numbers"]] * 5
    assert all("differs from one device by 0.8" in result.failures[0].message for result in results)


def test_a_file_that_needs_its_devices_is_run_beside_them_and_says_so(verify: Verify) -> None:
    source = """
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    right = Fixture(lambda x: x.sum(0), [MESH], [X], reference="single_device")
    wrong = Fixture(lambda x: x.sum(0) / jax.device_count(), [MESH], [X], reference="single_device")
    """
    right, wrong = verify(source, only="execute")
    assert right.status == "pass"
    assert right.notes[0].startswith(
        "the single-device reference ran on one of 8 devices, because a process with one device raised"
    )
    assert kinds(wrong) == ["numbers"]


def test_a_config_that_holds_its_mesh(verify: Verify) -> None:
    source = """
    class Config:
        def __init__(self, mesh):
            self.mesh = mesh
    def config(mesh):
        return Config(mesh)
    def forward(x, config):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(config.mesh, JP("data")))
    def typed(x, config):
        return jax.sharding.reshard(x * 2, NamedSharding(config.mesh, JP("data")))
    A = [X, arg(config)]
    fx = Fixture(forward, [MESH], A, {"": P("data")}, reference="single_device")
    fails = Fixture(
        lambda x, config: x * 2 if config.mesh.size > 1 else 1 / 0, [MESH], A, reference="single_device"
    )
    """
    right, wrong = verify(source, only="execute")
    assert (right.status, right.checked) == ("pass", 2), right
    assert wrong.failures[0].message.startswith("the run on one device raised ZeroDivisionError")


def test_both_runs_are_given_the_same_numbers(verify: Verify) -> None:
    source = """
    def chance():
        return np.random.default_rng().standard_normal((8, 4))
    fx = Fixture(lambda x, k: x * 2 + k, [MESH], [arg(chance, spec=P("data")), X], reference="single_device")
    def sized(mesh):
        return np.ones((mesh.size, 4))
    shaped = Fixture(lambda x: x * 2, [MESH], [arg(sized)], reference="single_device")
    """
    drawn, shaped = verify(source, only="execute")
    assert drawn.status == "pass"
    assert (
        drawn.notes[0]
        == "args[0] has other values if it is made on one device; both runs got those of one device"
    )
    assert shaped.status == "pass"
    assert "differs in a process with one device" in shaped.notes[0]


@pytest.mark.parametrize(
    "drawn",
    [
        "x + np.random.default_rng().standard_normal(x.shape)",
        # Drawn elsewhere, and noticed by the same two calls.
        pytest.param("x + np.random.standard_normal(x.shape)", marks=pytest.mark.longer),
        pytest.param("x * random.random()", marks=pytest.mark.longer),
        pytest.param("x * (time.time_ns() % 1_000_003)", marks=pytest.mark.longer),
        "jitted(x)",
    ],
)
def test_host_randomness_is_called_so(verify: Verify, drawn: str) -> None:
    source = f"""
    import random, time
    jitted = jax.jit(lambda x: x * np.random.standard_normal(x.shape))
    fx = Fixture(lambda x: {drawn}, [MESH], [X], reference="single_device")
    """
    (result,) = verify(source, only="execute")
    assert kinds(result) == ["numbers"]
    assert (
        "is not deterministic: two calls on the mesh with the same arguments differ" in result.failures[0].message
    )


@pytest.mark.longer
def test_nan_on_both_sides_proves_nothing(verify: Verify) -> None:
    source = """
    def norms(x):
        return jax.grad(lambda x: jnp.sqrt((x * (x > 0)) ** 2).sum())(x)
    def right(x):
        return jnp.where(x > 0, x, -jnp.inf)
    fx = Fixture(norms, [MESH], [X], reference="single_device")
    masked = Fixture(right, [MESH], [X], reference="single_device")
    """
    result, masked = verify(source, only="execute")
    assert "elements are NaN on both sides, which proves nothing" in result.failures[0].message
    assert masked.status == "pass"


def test_zeros_on_both_sides_prove_nothing(verify: Verify) -> None:
    source = """
    W = arg(lambda: jnp.zeros((4, 4)))
    fx = Fixture(lambda x, w, mesh: (x * mesh.size) @ w, [MESH], [X, W], {"": P("data")}, reference="single_device")
    some = Fixture(lambda x, w: {"a": x, "b": x @ w}, [MESH], [X, W], reference="single_device")
    """
    result, some = verify(source, only="execute")
    assert result.failures[0].message.startswith(
        "comparing with one device proves nothing: every number is 0"
    )
    assert (some.status, some.checked) == ("pass", 1)
    assert some.notes[-1] == "equal to one device, which proves nothing: out['b'] (0 on both sides)"


def test_an_array_that_one_device_of_several_holds(verify: Verify) -> None:
    source = """
    def host(x):
        return jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    fx = Fixture(jax.jit(host), [MESH], [X], replicated_bytes_max="1MiB", reference="single_device")
    small = Fixture(jax.jit(host), [MESH], [X], replicated_bytes_max=8)
    """
    result, small = verify(source, only="execute")
    assert result.status == "pass", result
    assert small.failures[0].actual == "one device"
