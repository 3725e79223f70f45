"""Programs and runs made by hand, for what draws, writes and compares them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardlint.verify.facts import Array, Collective, Line, Product, Program, Warned
from shardlint.verify.html.layout import Axes
from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result, Run
from shardlint.verify.spec import P

MIB = 2**20
MODEL = '''\
"""A small model."""
import jax.numpy as jnp


def mlp(p, x):
    """Two layers."""
    h = jnp.einsum("bsd,df->bsf", x, p["w1"])  # to the hidden size
    return jnp.einsum("bsf,fd->bsd", h, p["w2"])


def loss(p, x):
    return jnp.mean(mlp(p, x) ** 2)
'''
STAMP = {"jax": "0.12.0", "jaxlib": "0.12.0"}


def array(where: str, shape: tuple[int, ...], axes: Axes, mesh: Mapping[str, int], **more: Any) -> Array:
    parts = math.prod(mesh[name] for names in axes for name in names)
    whole = 4 * math.prod(shape)
    spec = str(P(*(None if not names else names[0] if len(names) == 1 else names for names in axes)))
    return Array(
        role="in" if where.startswith("args") else "out",
        where=where,
        path=where.partition("[")[2],
        array=f"f32[{','.join(map(str, shape))}]",
        shape=shape,
        spec=spec,
        bytes=whole // parts,
        bytes_whole=whole,
        copies=math.prod(mesh.values()) // parts,
        axes=axes,
        **more,
    )


def program(mesh: Mapping[str, int], file: Path | str = "", leaves: int = 2, backend: str = "cpu") -> Program:
    """A step over axes `data` and `model` (and what else the mesh has), with all there is to show."""
    both: Axes = (("data",), ("model",))
    arrays = [
        array(f"args[0]['w'][{index}]", (1024, 4096), both, mesh, donated=True, aliased=index != 1)
        for index in range(leaves)
    ]
    arrays += [
        array(f"out[0]['w'][{index}]", (1024, 4096), both, mesh, expected="P('data', 'model')")
        for index in range(leaves - 1)
    ]
    arrays.append(
        array(f"out[0]['w'][{leaves - 1}]", (1024, 4096), ((), ()), mesh, expected="P('data', 'model')")
    )
    arrays.append(array("out[1]", (8,), (("data", "model"),), mesh))
    arrays.append(Array("out", "out[2]", "2", "f32[8]", (8,), "one device", 32, 32, 1))
    arrays.append(Array("out", "out[3]", "3", "f32[8]", (8,), "an order no spec says", 32, 32, 1))
    at = str(file)
    first, second = Line(at, 7, "mlp"), Line(at, 8, "mlp")
    size = mesh["data"]
    return Program(
        mesh=dict(mesh),
        backend=backend,
        arrays=tuple(arrays),
        collectives=(
            Collective("all-reduce", ("model",), mesh["model"], "f32[16,1024]", 8 * MIB, 4, second),
            Collective(
                "all-gather", ("data",), size, "f32[1024,4096]", 16 * MIB, 4, first, "args[0]['w'][0]"
            ),
            Collective("all-reduce", ("data", "model"), size, "f32[]", 4, None, Line(at, 12, "loss")),
            Collective("collective-permute", ("data",), size, "f32[9]", 36, 1, Line()),
        ),
        products=(
            Product(first, "bsd,df->bsf", ("model",), (), ("data",), "hybrid", 10**9, 4, (1,)),
            Product(second, "bsf,fd->bsd", (), (), ("data",), "data", 10**6, 4),
        ),
        warned=(Warned("rematerialised", "made whole to go from P('data') to P('model')", second, 16 * MIB),),
        argument_bytes=20 * MIB,
        output_bytes=21 * MIB,
        alias_bytes=16 * MIB,
        temporary_bytes=5 * MIB,
    )


def run(file: Path, meshes: list[dict[str, int]], leaves: int = 2) -> Run:
    """A run of one fixture: of its meshes the first fails."""
    results = []
    for index, mesh in enumerate(meshes):
        failures = []
        if not index:
            failures = [
                Failure(
                    "sharding",
                    "it has no out_shardings",
                    f"out[0]['w'][{leaves - 1}]",
                    array="f32[1024,4096]",
                    expected="P('data', 'model')",
                    actual="P()",
                    bytes_expected=2 * MIB,
                    bytes_actual=16 * MIB,
                ),
                Failure("golden", "differs from fx.golden/step.toml\n- P('data')\n+ P()", "out[1]"),
            ]
        results += [
            result(
                mesh,
                "compile",
                FAIL if failures else PASS,
                failures=failures,
                program=program(mesh, file, leaves),
            ),
            result(
                mesh, "execute", SKIP if index == 1 else PASS, reason="not executed" if index == 1 else ""
            ),
        ]
    results.append(Result("SL201", "compile", PASS, checked=3))
    return Run(results, {"python": "3.13.0", **STAMP}, ["no memory limit"], ["caught a fault"], ["wrote x"])


def result(mesh: dict[str, int], level: str, status: str, **more: Any) -> Result:
    return Result(
        "proj.train:step",
        level,
        status,
        mesh,
        checked=4,
        line="proj/train.py:41",
        how="compiled as it is (jit)",
        rerun="shardlint verify proj/fx.py::step",
        seconds=1.25,
        **{"fixture": "proj/fx.py::step", **more},
    )


def hostile(text: str, file: Path | str) -> Run:
    """A run in which every text that a program or a file can choose is `text`."""
    mesh = {text: 2, "data": 2, "model": 2}
    line = Line(str(file), 7, text)
    made = Program(
        mesh=mesh,
        backend=text,
        arrays=(
            Array("out", text, text, text, (8,), text, 8, 8, 1, ((text,),), text),
            Array("in", text, text, text, (8,), text, 8, 8, 1, None, text, True, None),
        ),
        collectives=(Collective(text, (text,), 2, text, 8, 1, line, text),),
        products=(Product(Line(text, 3, text), text, (text,), (text,), (text,), text, 8, 1, (0,)),),
        warned=(Warned(text, text, line, 8),),
        notes=(text,),
        argument_bytes=8,
    )
    failure = Failure(text, f"{text}\n+ {text}\n- {text}", text, text, text, text, text, 1, 2)
    told = Result(
        target=text,
        level="compile",
        status=FAIL,
        mesh=mesh,
        reason=text,
        failures=[failure],
        notes=[text],
        line=text,
        how=text,
        rerun=text,
        output=[text],
        program=made,
        fixture=f"{text}::{text}",
        topology=text,
    )
    proof = Result(text, text, FAIL, reason=text, failures=[failure])
    skipped = Result(text, "execute", SKIP, mesh, reason=text, fixture=f"{text}::{text}")
    return Run([told, skipped, proof], {text: text}, [text], [text], [text])
