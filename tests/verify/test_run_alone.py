"""Functions of regions run once more on one device: what is meant is quiet, and how values make up one device's."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs import skip_without
from tests.verify.running import run

pytestmark = pytest.mark.longer

np = pytest.importorskip("numpy")
DATA = Path(__file__).parent / "data"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked from one import of jax")
def test_what_each_device_is_meant_to_do_by_itself_is_no_finding(tmp_path: Path) -> None:
    skip_without("jax")
    path = DATA / "alone_right.py"
    one = run([path], tmp_path)[path]
    assert one.code == 0, one.output
    assert one.facts.notes == []
    assert [found for found in one.facts.found if found.kind == "differs-from-one-device"] == []


@pytest.mark.parametrize(
    ("parts", "whole", "expected"),
    [
        ([[1, 2], [3, 4], [5, 6], [7, 8]], [1, 2, 3, 4, 5, 6, 7, 8], "split"),
        ([[5, 6], [7, 8], [1, 2], [3, 4]], [1, 2, 3, 4, 5, 6, 7, 8], None),
        ([[1, 2], [1, 2], [3, 4], [3, 4]], [1, 2, 3, 4], "split"),
        ([[1, 2], [3, 4], [1, 2], [3, 4]], [1, 2, 3, 4], "split"),
        ([[1, 2]] * 4, [1, 2], ""),
        ([[1, 0], [2, 0], [3, 0], [4, 8]], [10, 8], "sum"),
        ([[1, 0], [2, 0], [3, 0], [4, 8]], [2.5, 2], "mean"),
        ([[1, 0], [2, 0], [3, 0], [4, 8]], [4, 8], "max"),
        ([[2, 4]] * 4, [8, 16], None),
        ([[0, 1]] * 4, [0, 1, 2, 3, 4, 5, 6, 7], None),
        ([[[1], [2]]] * 4, [1, 2], None),
    ],
)
def test_how_the_parts_make_up_the_whole(parts: Any, whole: Any, expected: str | None) -> None:
    from shardlint.run.observe.operation_comparison import find_relation

    first, second = np.asarray(parts, np.float32), np.asarray(whole, np.float32)
    assert find_relation(first, second, {"a": 2, "b": 2}) == expected


@pytest.mark.parametrize(
    ("part", "whole"), [((4, 600, 300), (8, 600, 1200)), ((70_000,), (560_000,)), ((3,), (3,)), ((), ())]
)
def test_samples_of_parts_are_those_of_the_whole(part: tuple[int, ...], whole: tuple[int, ...]) -> None:
    from shardlint.run.observe.operation_comparison import choose_sample

    rows, all_rows = choose_sample(part, whole) or ([], [])
    assert [len(each) for each in all_rows] == [
        len(one) * (size // few) for one, size, few in zip(rows, whole, part, strict=True)
    ]
    assert np.prod([len(each) for each in rows]) <= 2**14
    for one, every, few, size in zip(rows, all_rows, part, whole, strict=True):
        assert len({*every.tolist()}) == len(every)
        assert every.reshape(size // few, -1).tolist() == [(one + few * at).tolist() for at in range(size // few)]


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 2), (4,)), ((0,), (0,))])
def test_what_is_no_part_has_no_sample(shapes: Any) -> None:
    from shardlint.run.observe.operation_comparison import choose_sample

    assert choose_sample(*shapes) is None


SIZE, PAIRS, CHAIN, OTHER = 4, [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 2), (2, 3)], 5


def test_one_device_stands_in_for_a_mesh() -> None:
    jax = pytest.importorskip("jax")
    from shardlint.run.observe.stand_in import stand_in

    class Mesh:
        shape, size = {"x": 4}, 4

    mesh, alone = Mesh(), Mesh()
    seen = []

    def helper() -> Any:
        return SIZE, PAIRS, CHAIN, OTHER

    def function(count: int = 4) -> None:
        seen.append((mesh is alone, count, jax.device_count(), *helper()))

    for numbers in (False, True):
        with stand_in(SimpleNamespace(device_count=None, local_device_count=None), function, mesh, alone, numbers):
            function()
    function()
    whole = jax.device_count()
    assert seen == [
        (True, 4, whole, SIZE, PAIRS, CHAIN, OTHER),
        (True, 1, whole, 1, [(0, 0)], [], OTHER),
        (False, 4, whole, SIZE, PAIRS, CHAIN, OTHER),
    ]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("broadcast_in_dim", {"broadcast_dimensions": (0, 2)}),
        ("transpose", {"permutation": (1, 0, 2)}),
        ("reshape", {}),
    ],
)
def test_a_constant_that_is_laid_out_is_split_nowhere(name: str, params: dict[str, Any]) -> None:
    from shardlint.run.observe.flat_operations import FlatOperation, FlatRegion
    from shardlint.run.observe.sharded_dimensions import parts_after_operation

    flat = FlatRegion()
    give = flat.new_number(SimpleNamespace(shape=(4, 8, 16)))
    [part] = parts_after_operation(FlatOperation(name, params, [None], [give], None, []), flat, {}, {"x": 4})
    assert part.dims == (frozenset(),) * 3
