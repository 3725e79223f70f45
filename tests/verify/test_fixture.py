"""Declarations, before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardlint.verify
from shardlint.verify import Fixture, P, arg
from shardlint.verify.fixture import expand_meshes, ordered_factorisations, parse_bytes, parse_mesh


def test_importing_it_imports_no_jax() -> None:
    code = "import sys, shardlint.cli.verify; print(sorted({'jax', 'numpy'} & set(sys.modules)))"
    root = str(Path(shardlint.verify.__file__).parents[2])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fn": "proj.train"}, "module:attribute"),
        ({"fn": 3}, "module:attribute"),
        ({"meshes": {"data": 8}}, "meshes must be a list"),
        ({"meshes": []}, "meshes must be a list"),
        ({"meshes": ["every:8"]}, "'all:N'"),
        ({"meshes": [{"data": 0}]}, "positive size"),
        ({"args": ["proj:init"]}, "made with arg"),
        ({"out": P("data")}, "write a spec for each path"),
        ({"donate": (0,)}, "donate names argument 0"),
        ({"context": "mesh"}, "context must be one of"),
        ({"reference": "two_devices"}, "reference must be"),
        ({"replicated_bytes_max": "1 potato"}, "not a size"),
        ({"out": {"": "data"}}, "expected a spec"),
    ],
)
def test_a_declaration_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Fixture(**{"fn": "a:b", "meshes": [{"data": 8}], **changes})


@pytest.mark.parametrize(
    "keywords",
    [{}, {"source": "a:b", "shape": (8,)}, {"shape": (8,), "spec": P(), "specs": {"": P()}}],
)
def test_an_argument_is_one_thing(keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        arg(**keywords)


def test_every_way_to_share_devices() -> None:
    assert list(ordered_factorisations(8, 2)) == [(8, 1), (4, 2), (2, 4), (1, 8)]
    assert len(list(ordered_factorisations(8, 3))) == 10
    fixture = Fixture("a:b", [{"data": 4, "model": 2}, "all:8", {"model": 2, "data": 4}])
    assert [tuple(mesh.items()) for mesh in expand_meshes(fixture, ["data", "model"])] == [
        (("data", 4), ("model", 2)),
        (("data", 8), ("model", 1)),
        (("data", 2), ("model", 4)),
        (("data", 1), ("model", 8)),
        (("model", 2), ("data", 4)),
    ]
    with pytest.raises(ValueError, match="needs axis names"):
        expand_meshes(fixture, [])


def test_sizes_and_meshes() -> None:
    assert [parse_bytes(text) for text in (12, "12", "1KiB", "1.5 MB", "2gib")] == [
        12,
        12,
        1024,
        1500000,
        2**31,
    ]
    assert parse_bytes("1048576TiB") == 2**60
    for size in ("1" * 400, "9" * 400 + ".5 KiB", "1048577TiB", 10**400):
        with pytest.raises(ValueError, match=r"above 2\*\*60 bytes is not allowed; write one such as 4096"):
            parse_bytes(size)
    assert parse_mesh("data=4, model=2") == {"data": 4, "model": 2}
    for wrong in ("data", "data=0", "data=x", "data=2,data=4", ""):
        with pytest.raises(ValueError):
            parse_mesh(wrong)
