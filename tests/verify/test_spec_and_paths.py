from __future__ import annotations

import pytest

from shardlint.verify import P
from shardlint.verify.paths import glob_matches, nothing_matches, path_text, select_glob, unmatched_globs


@pytest.mark.parametrize(
    "text",
    [
        "P(",
        "P",
        "Q('data')",
        "P(1)",
        "P(*x)",
        "P(a='b')",
        "__import__('os')",
        "P('a', 'a')",
        "P(['a'])",
        "P(x)",
    ],
)
def test_what_is_not_a_spec_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        P.parse_spec(text)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("P()", P()),
        ("P('data')", P("data")),
        (" P(None, ('x', 'y')) ", P(None, ("x", "y"))),
        ("PartitionSpec('data', None)", P("data", None)),
    ],
)
def test_specs_are_parsed(text: str, spec: P) -> None:
    assert P.parse_spec(text) == spec
    assert P.parse_spec(repr(spec)) == spec


def test_a_jax_spec_is_taken_everywhere() -> None:
    jax = pytest.importorskip("jax")
    assert P.make_spec(jax.sharding.PartitionSpec("data", ("x", "y"), None)) == P("data", ("x", "y"), None)
    assert P.make_spec(None) == P()
    with pytest.raises(TypeError, match="expected a spec"):
        P.make_spec(("data",))


def test_misfit() -> None:
    mesh = {"data": 4, "model": 2}
    assert P("data", "model").explain_misfit((8, 4), mesh) is None
    assert P(("data", "model")).explain_misfit((8,), mesh) is None
    assert P("data").explain_misfit((6, 4), mesh) == "dimension 0 of size 6 is not divisible by data = 4"
    assert P(None, ("data", "model")).explain_misfit((6, 4), mesh) == (
        "dimension 1 of size 4 is not divisible by data*model = 8"
    )
    with pytest.raises(ValueError, match="mesh data=4,model=2 has no axis 'expert'"):
        P("expert").explain_misfit((8,), mesh)
    with pytest.raises(ValueError, match="2 entries, but the array has 1 dimensions"):
        P("data", None).explain_misfit((8,), mesh)


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("", "", True),
        ("", "0", False),
        ("*", "", False),
        ("*", "w", True),
        ("*", "0/w", False),
        ("**", "", True),
        ("**", "0/a/b", True),
        ("0/**/w1", "0/w1", True),
        ("0/**/w1", "0/layers/3/w1", True),
        ("0/**/w1", "1/w1", False),
        ("0/*/w1", "0/layers/3/w1", False),
        ("0/w*", "0/w12", True),
        ("lin/kernel", "lin/kernel/value", True),
        ("value", "value", True),
    ],
)
def test_globs(glob: str, path: str, holds: bool) -> None:
    assert glob_matches(glob, path) is holds


def test_the_first_glob_counts() -> None:
    assert select_glob({"0/a": 1, "**": 2}, "0/a") == ("0/a", 1)
    assert select_glob({"**": 2, "0/a": 1}, "0/a") == ("**", 2)
    assert select_glob({"0/a": 1}, "0/b") is None


def test_a_glob_that_selects_nothing_names_the_nearest() -> None:
    lost = unmatched_globs(["0/layers/*/wieght", "**"], ["0/layers/1/weight", "1"])
    assert list(lost) == ["0/layers/*/wieght"]
    assert "nearest: '0/layers/1/weight'" in nothing_matches("0/layers/*/wieght", lost["0/layers/*/wieght"])
    assert "there are no arrays" in nothing_matches("w", [])


def test_paths_of_all_kinds_of_keys() -> None:
    tree_util = pytest.importorskip("jax").tree_util
    keys = (
        tree_util.SequenceKey(0),
        tree_util.DictKey("a"),
        tree_util.GetAttrKey("b"),
        tree_util.FlattenedIndexKey(2),
    )
    assert path_text(keys) == "0/a/b/2"
