"""Tests of declarations that no level checked, which fail, and of ones that prove nothing, which are reported."""

from __future__ import annotations

import pytest

from .conftest import Verify, kinds

UNTRACEABLE = """
@jax.jit
def update(w, x):
    value, grad = jax.value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
    return w - grad, value

def step(w, x):
    w, value = update(w, x)
    if float(value) > 1e9:
        raise FloatingPointError
    return w, value

ARGS = [arg(shape=(4, 4)), X]
OUT = {"0": P()}
"""


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ('forbid=["any over data"]', "forbid 'any over data'"),
        ('budget={"all_reduce": "1B"}', "budget 'all_reduce'"),
        ('memory_max="1B"', "memory_max"),
        ('gradients={"0": P()}', "gradients '0'"),
    ],
)
def test_a_declaration_that_no_level_could_check_fails(verify: Verify, declared: str, named: str) -> None:
    compiled, executed = verify(
        f"{UNTRACEABLE}\nfx = Fixture(step, [MESH], ARGS, OUT, {declared})", "execute"
    )
    assert (compiled.level, kinds(compiled), executed.status) == ("compile", ["unchecked"], "pass")
    message = compiled.failures[0].message
    assert message.startswith(f"{named} was not checked: fn is a plain function, which cannot be ")


def test_only_the_level_that_was_asked_for_runs_and_says_what_it_leaves_out(verify: Verify) -> None:
    source = UNTRACEABLE + 'fx = Fixture(step, [MESH], ARGS, OUT, forbid=["any over data"], memory_max="1B")'
    (executed,) = verify(source, only="execute")
    assert (executed.level, executed.status, executed.checked) == ("execute", "pass", 1)
    assert "not checked at this level: forbid 'any over data', memory_max" in executed.notes


def test_what_only_a_topology_can_check_needs_one(verify: Verify) -> None:
    (_, last) = verify(
        'fx = Fixture(jax.jit(lambda x: x), [MESH], [X], {"": P("data")}, hbm_max="1GiB")', level=None
    )
    assert kinds(last) == ["unchecked"]
    assert (
        "hbm_max was not checked: it needs level topology, and no topology is declared"
        in last.failures[0].message
    )


def test_a_donated_argument_without_arrays_is_not_checked(verify: Verify) -> None:
    source = """
    jitted = jax.jit(lambda x, n: x + 1, donate_argnums=0)
    fx = Fixture(lambda x, n: jitted(x, n), [MESH], [X, arg(lambda: ())], {"": P("data")}, donate=(0, 1))
    """
    compiled, executed = verify(source, "execute")
    assert compiled.status == "pass"
    assert "donate 1 was not checked: the argument contains no array" in executed.failures[0].message


def test_a_wrapper_donates_nothing_for_a_plain_function(verify: Verify) -> None:
    results = verify(
        """
        inner = jax.jit(lambda s, x: s + x)
        giving = jax.jit(lambda s, x: s + x, donate_argnums=0)
        kept = Fixture(lambda s, x: inner(s, x), [MESH], [X, X], donate=(0,), execute=False)
        given = Fixture(lambda s, x: giving(s, x), [MESH], [X, X], donate=(0,), execute=False)
        changed = Fixture(lambda s, x: giving(s * 2, x), [MESH], [X, X], donate=(0,), execute=False)
        """
    )
    assert [kinds(result) for result in results] == [["donation"], [], ["donation"]]


@pytest.mark.parametrize(
    ("mesh", "spec", "why"),
    [
        ('{"data": 1}', 'P("data")', "the mesh has one device"),
        (
            '{"data": 8, "model": 1}',
            'P(None, "model")',
            "every axis that P(None, 'model') names has size 1 on this mesh",
        ),
    ],
)
def test_a_spec_that_any_placement_meets_proves_nothing(
    verify: Verify, mesh: str, spec: str, why: str
) -> None:
    compiled, executed, empty = verify(
        f'fx = Fixture(jax.jit(lambda x: x * 1), [{mesh}], [arg(shape=(8, 8))], {{"": {spec}}})', "execute"
    )
    assert (compiled.status, executed.status, empty.status) == ("skip", "skip", "fail")
    assert compiled.reason == f"out '' proves nothing: {why}"


def test_an_axis_of_size_one_is_told_beside_what_is_proved(verify: Verify) -> None:
    whole, split = verify(
        """
        both = Fixture(jax.jit(lambda x: x), [{"data": 8, "model": 1}],
                       [arg(shape=(8, 8), spec=P("data"))], {"": P("data", "model")})
        A = [{"w": P("data"), "b": P(None, "model")}]
        two = Fixture(jax.jit(lambda x: {"w": x, "b": x.sum(0, keepdims=True) * jnp.ones((8, 1))}),
                      [{"data": 8, "model": 1}], [arg(shape=(8, 8), spec=P("data"))],
                      {"w": P("data"), "b": P(None, "model")}, forbid=["any over model", "all_to_all"])
        """
    )
    assert (whole.status, whole.checked) == ("pass", 1)
    assert whole.notes == ["axis 'model' has size 1 on this mesh, so nothing is proved of it"]
    assert split.notes[0].startswith("out 'b' proves nothing: ")
    assert split.notes[1] == "forbid 'any over model' proves nothing: axis 'model' has size 1 on this mesh"
    assert split.checked == 2


def test_one_device_and_limits_prove_nothing_there(verify: Verify) -> None:
    results = verify(
        """
        fx = Fixture(jax.jit(lambda x: x * 2), [{"data": 1}], [X], reference="single_device",
                     forbid=["any over data"], budget={"all_gather": 0}, replicated_bytes_max=0)
        """,
        "execute",
    )
    assert [result.status for result in results] == ["skip", "skip", "fail"]
    for field in ("forbid 'any over data'", "budget 'all_gather'", "replicated_bytes_max"):
        assert f"{field} proves nothing: the mesh has one device" in results[0].reason


def test_a_limit_of_what_out_names_whole_proves_nothing(verify: Verify) -> None:
    (result,) = verify(
        'fx = Fixture(jax.jit(lambda x: x), [MESH], [X], {"**": P("data")}, replicated_bytes_max=0)'
    )
    assert (result.status, result.checked) == ("pass", 1)
    assert result.notes == [
        "replicated_bytes_max proves nothing: out names every output leaf"
    ]


def test_a_glob_that_earlier_ones_shadow_fails(verify: Verify) -> None:
    source = """
    def two(x):
        return {"w": x, "b": x + 1}
    fx = Fixture(jax.jit(two), [MESH], [X], {"w": P("data"), "**/w": P("model"), "b": P("data")})
    both = Fixture(jax.jit(two), [MESH], [X], {"w": P("data"), "b": P("data"), "*": P("model")})
    rest = Fixture(jax.jit(two), [MESH], [X], {"w": P("data"), "*": P("data")})
    """
    results = verify(source)
    assert [kinds(result) for result in results] == [["pattern"], ["pattern"], []]
    assert (
        results[0].failures[0].message == "'**/w' has no effect: 'w' before it matches the same leaves"
    )
    assert "has no effect: " in results[1].failures[0].message
    explicit = """
    fx = Fixture(lambda x: {"w": x, "b": x}, [MESH], [X], {"*": P("data"), "b": P()}, axis_types="explicit")
    """
    assert [kinds(result) for result in verify(explicit, "execute")] == [["pattern"]] * 3


def test_arrays_in_a_class_jax_does_not_know_are_told(verify: Verify) -> None:
    source = """
    class Out:
        def __init__(self, y):
            self.deep = {"y": [y]}
    class Slots:
        __slots__ = ("y",)
    def slots(x):
        out = Slots()
        out.y = x
        return {"loss": x.sum(), "state": out}
    class Config:
        def __init__(self):
            self.name, self.activation = "mlp", jax.nn.relu
    ALL = {"replicated_bytes_max": "1MiB"}
    fx = Fixture(lambda x: {"loss": x.sum(), "state": Out(x * 3)}, [MESH], [X], **ALL)
    slotted = Fixture(slots, [MESH], [X], **ALL)
    none = Fixture(lambda x: (x, Config()), [MESH], [X], **ALL)
    given = Fixture(lambda x, o: x * 2, [MESH], [X, arg(lambda: Out(jnp.ones(3)))], **ALL)
    """
    results = [result for result in verify(source, "execute") if result.level == "execute"]
    assert [kinds(result) for result in results] == [["opaque"], ["opaque"], [], []]
    message = results[0].failures[0].failure_text()
    assert message.startswith(
        "out['state']  holds an array (.deep['y'][0]), but fx.Out is not a pytree (register it"
    )
    assert "args[1] holds an array" in results[3].notes[0]
