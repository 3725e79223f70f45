"""Globs that `shardlint verify --init` writes in place of paths: few, and right for every path."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardlint.run.init.globs import specs_as_globs
from shardlint.verify.paths import idle_globs, select_glob
from shardlint.verify.spec import P

UP, DOWN = P(None, "model"), P("model", None)


def mlp(root: str, blocks: int = 2) -> dict[str, P]:
    leaves = {"up/w": UP, "up/b": P("model"), "down/w": DOWN, "down/b": P()}
    return {f"{root}/block_{at}/{name}": spec for at in range(blocks) for name, spec in leaves.items()}


def test_a_train_state_is_few_lines() -> None:
    specs = {**mlp("0"), "1/0/count": P(), **mlp("1/0/mu"), **mlp("1/0/nu"), "2": P()}
    globs = specs_as_globs(specs)
    assert globs == {"**/up/w": UP, "**/up/b": P("model"), "**/down/w": P("model"), "**": P()}


@pytest.mark.parametrize(
    ("specs", "others", "globs"),
    [
        ({"": P("data")}, (), {"": P("data")}),
        ({"0": P("data"), "1": P("data")}, (), {"**": P("data")}),
        ({"w[0]": P("data")}, (), {"w[[]0]": P("data")}),
        ({"0/a": P("data")}, ("0/b",), {"0/a": P("data")}),
        ({"l/0/w": P("data"), "l/1/w": P("data")}, ("l/2/w",), {"l/0/w": P("data"), "l/1/w": P("data")}),
    ],
)
def test_globs(specs: dict[str, P], others: tuple[str, ...], globs: dict[str, P]) -> None:
    assert specs_as_globs(specs, others) == globs


PATHS = st.lists(st.sampled_from(["0", "1", "a", "b", "layer_0", "layer_1", "w*", "[x"]), min_size=1, max_size=4)
SPECS = st.sampled_from([P(), P("data"), P("data", "model"), None])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PATHS.map("/".join), SPECS, min_size=1, max_size=20))
def test_each_path_gets_its_spec(tree: dict[str, P | None]) -> None:
    specs = {path: spec for path, spec in tree.items() if spec is not None}
    globs = specs_as_globs(specs, [path for path in tree if path not in specs])
    for path, spec in tree.items():
        found = select_glob(globs, path)
        assert (found and found[1]) == spec, (path, globs)
    assert not idle_globs(globs, list(tree))
    assert len(globs) <= len(specs)
