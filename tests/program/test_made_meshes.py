"""The meshes that a project hands around."""

from __future__ import annotations

import pytest

from shardlint.facts.made_meshes import shared_meshes
from shardlint.model import Program
from tests.conftest import Write

BEFORE = """\
import functools
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
E = (AxisType.Explicit,)
devices = jax.devices()
"""
EXPLICIT = "Mesh(devices, ('a',), axis_types=E)"
AUTO = "Mesh(devices, ('a',))"


def lines(write: Write, files: dict[str, str]) -> list[tuple[str, int]]:
    modules = [name.removesuffix(".py").replace("/", ".") for name in files]
    main = "".join(f"import {module}\n" for module in modules)
    root = write({"main.py": main, **{name: BEFORE + text for name, text in files.items()}})
    program = Program(root)
    file = program.project.facts(root / "main.py")
    assert file is not None
    found = shared_meshes(program, file, "explicit")
    assert shared_meshes(program, file, "explicit") is found
    return sorted((mesh.path.name, mesh.line) for mesh in found)


@pytest.mark.parametrize(
    "other",
    [
        "",
        f"def total(x):\n    mesh = {AUTO}\n    return jax.device_put(x, NamedSharding(mesh, P()))\n",
        f"def total(x):\n    with {AUTO} as mesh:\n        return x / mesh.size\n",
        f"def make(mesh=None):\n    if mesh is None:\n        mesh = {AUTO}\n    return mesh\n",
        f"class C:\n    def __init__(self, mesh=None):\n        self.mesh = mesh or {AUTO}\n",
        f"def own():\n    return {AUTO}\ndef make(mesh=None):\n    return mesh if mesh is not None else own()\n",
        f"def make(old=False):\n    if old:\n        return {AUTO}\n    return {EXPLICIT}\nmesh = make()\n",
        f"def make(new=True):\n    if not new:\n        return {AUTO}\n    return {EXPLICIT}\nmesh = make()\n",
    ],
)
def test_meshes_that_nobody_else_meets_do_not_count(write: Write, other: str) -> None:
    assert ("a.py", 7) in lines(write, {"a.py": f"mesh = {EXPLICIT}\n", "b.py": other})


@pytest.mark.parametrize(
    "other",
    [
        f"mesh = {AUTO}\n",
        "mesh = Mesh(devices, ('a',), axis_types=types)\n",
        "mesh = Mesh(*arguments, **settings)\n",
        f"def make():\n    return {AUTO}\n",
        f"def run(step):\n    mesh = {AUTO}\n    return step(mesh)\n",
        f"def run(step):\n    mesh = {AUTO}\n    return functools.partial(step, mesh=mesh)\n",
        f"class C:\n    def __init__(self):\n        self.mesh = {AUTO}\n",
        f"def own():\n    return {AUTO}\ndef make(mesh=None):\n    return mesh if mesh is not None else own()\nmesh = own()\n",
        f"def make(old=False):\n    if old:\n        return {AUTO}\n    return {EXPLICIT}\nmesh = make(config.old)\n",
        f"def make(old=False):\n    if old:\n        return {AUTO}\n    return {EXPLICIT}\nmesh = make(**config)\n",
        f"def make(old=False):\n    if old:\n        return {AUTO}\n    return {EXPLICIT}\nmakers = [make]\n",
        f"def make(old):\n    if old:\n        return {AUTO}\n    return {EXPLICIT}\n",
    ],
)
def test_one_other_mesh_is_enough_for_none(write: Write, other: str) -> None:
    assert lines(write, {"a.py": f"mesh = {EXPLICIT}\n", "b.py": other}) == []


def test_tests_and_benchmarks_do_not_count(write: Write) -> None:
    files = {
        "a.py": f"mesh = {EXPLICIT}\n",
        "tests/test_a.py": f"mesh = {AUTO}\n",
        "bench.py": f"mesh = {AUTO}\n",
    }
    assert lines(write, files) == [("a.py", 7)]


def test_meshes_of_other_programs_do_not_count(write: Write) -> None:
    files = {"a.py": f"mesh = {EXPLICIT}\n", "b.py": f"mesh = {AUTO}\n", "run.py": "import a\n"}
    root = write({name: BEFORE + text for name, text in files.items()})
    program = Program(root)
    found = {}
    for name in files:
        file = program.project.facts(root / name)
        assert file is not None
        found[name] = [mesh.path.name for mesh in shared_meshes(program, file, "explicit")]
    assert found == {"a.py": ["a.py"], "b.py": [], "run.py": ["a.py"]}


def test_no_mesh_at_all(write: Write) -> None:
    assert lines(write, {"a.py": "x = 1\n"}) == []
