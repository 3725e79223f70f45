"""Declaration of a function to verify: its arguments, its meshes, and its expected results."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardlint.verify.claims import Claim
from shardlint.verify.spec import P
from shardlint.verify.topology import parse_topology

SINGLE_DEVICE = "single_device"
CONTEXTS = ("set_mesh", "with", "none")
AUTO, EXPLICIT = "auto", "explicit"


@dataclass(frozen=True)
class Argument:
    """One argument of the function under test; made with `arg`."""

    source: str | Callable[..., Any] | None
    shape: tuple[int, ...] | None
    dtype: Any
    spec: Any
    specs: Any
    below: int


def arg(
    source: str | Callable[..., Any] | None = None,
    *,
    shape: Sequence[int] | None = None,
    dtype: Any = "float32",
    spec: Any = None,
    specs: Any = None,
    below: int = 2,
) -> Argument:
    """Describe one argument.

    `source` is a callable, or a reference `"module:attribute"` to one (or to a value), that makes
    the argument; it is called with nothing, or with the mesh if it has a parameter named `mesh`.
    Without a source, `shape` and `dtype` describe an array, filled where numbers are needed with
    reproducible normal floats or with integers from 0 up to, not including, `below`.

    `spec` is the spec of every array in the argument. `specs` gives them one by one: a mapping of
    path glob to spec, or a pytree of specs, or a reference or callable giving either. With neither,
    arrays that already lie on several devices stay as they are, and others are replicated. Leaves
    that are not arrays are passed on untouched.

    Raises `TypeError` when both or neither of source and shape are given, or both of spec and
    specs.
    """
    if (source is None) == (shape is None):
        raise TypeError("arg() takes either a source or a shape")
    if spec is not None and specs is not None:
        raise TypeError("arg() takes spec (one for all leaves) or specs (one by one), not both")
    return Argument(source, None if shape is None else tuple(shape), dtype, spec, specs, below)


@dataclass(frozen=True)
class Fixture:
    """A function, the meshes to run it on, and what must hold of it there.

    `fn`: the function, or a reference `"module:attribute"`. One with `.lower` (`jax.jit`,
    `eqx.filter_jit`) is compiled as it is. If it takes `mesh` and `args` do not fill that
    parameter, it is given the mesh.

    `meshes`: axis sizes in order, or `"all:8"` for every way to share 8 devices among the axes the
    specs name.

    `args`: one `arg` each.

    `out`: path glob -> spec of output leaves. A path joins keys by `/`, as in
    `"0/layers/1/weight"`; a single array has the path `""`; `*` stands for one segment, `**` for
    any number; the first glob that matches a leaf counts, and each must decide one.

    `replicated_bytes_max`: output leaves not named in `out` may not hold more bytes than this
    (`1024` or `"1MiB"`) whole on every device, nor on one device of several.

    `donate`: indexes into `args` whose buffers must all be reused.

    `reference`: `"single_device"` runs the same function in a process with one device in float64 and compares all
    numbers; a callable or `"module:attribute"` gives a function with the same arguments to compare
    against instead.

    `context`: what the function is called under: `"set_mesh"` (`jax.set_mesh`; `with mesh:` where
    jax has neither it nor `use_mesh`), `"with"` (`with mesh:`) or `"none"`. Choose the one your
    program uses: helpers that ask for the current mesh see only one of them.

    `axis_types`: what the axes of the mesh are, `"auto"` (the compiler chooses shardings; the default) or
    `"explicit"` (shardings are part of types, and the program is written so). Only of explicit axes can level
    `trace` prove anything.

    `execute`: False for a program too large to run here. It is compiled, and never run.

    `processes`: also run the function as so many `jax.distributed` processes, which share the devices.

    `forbid`: collectives the compiled function may not have, `["all_gather over model", "all_to_all"]`:
    a kind (or `any`), and the mesh axes it must run over to count.

    `budget`: how many bytes they may move on one device in one call, `{"all_gather": "64MiB", "all_reduce
    over data": "1GiB"}`; in a loop each trip counts.

    `memory_max`: the most bytes one call may need on one device: arguments, outputs and temporaries, less
    what takes a donated buffer (level `compile`). `hbm_max`: the same, of the accelerator's own compiler
    (level `topology`); without, what a device has.

    `gradients`: path glob -> spec of the gradients of `fn`, which returns a scalar (or a tuple that begins
    with one). Paths begin with the argument's index: `"0/**/w1"`.

    `topology`: also compile it for these accelerators, which need not be there, such as `["v5e:4x4"]`.

    Raises `TypeError` or `ValueError` for a declaration that could never be run.
    """

    fn: str | Callable[..., Any]
    meshes: Sequence[Mapping[str, int] | str]
    args: Sequence[Argument] = ()
    out: Mapping[str, Any] = field(default_factory=dict)
    replicated_bytes_max: int | str | None = None
    donate: Sequence[int] = ()
    reference: str | Callable[..., Any] | None = None
    context: str = "set_mesh"
    axis_types: str = AUTO
    execute: bool = True
    forbid: Sequence[str] = ()
    budget: Mapping[str, int | str] = field(default_factory=dict)
    memory_max: int | str | None = None
    hbm_max: int | str | None = None
    gradients: Mapping[str, Any] = field(default_factory=dict)
    processes: int | None = None
    topology: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (callable(self.fn) or _is_reference(self.fn)):
            raise TypeError(f"Fixture fn must be a callable or 'module:attribute', not {self.fn!r}")
        if isinstance(self.meshes, str | Mapping) or not self.meshes:
            raise TypeError("Fixture meshes must be a list such as [{'data': 4, 'model': 2}, 'all:8']")
        for mesh in self.meshes:
            _check_mesh(mesh)
        for argument in self.args:
            if not isinstance(argument, Argument):
                raise TypeError(
                    f"Fixture args must be made with arg(...), one for each argument, not {argument!r}; for a tree "
                    "write arg(make_it, specs={\"path/of/leaf\": P(...)})"
                )
        for name, declared in (("out", self.out), ("gradients", self.gradients)):
            if not isinstance(declared, Mapping):
                raise TypeError(f"{name} is {declared!r}; write a spec for each path, as in {{\"**\": "
                                'P("data")}')
        for index in self.donate:
            if not 0 <= index < len(self.args):
                raise ValueError(f"donate names argument {index}, but there are {len(self.args)} args")
        if self.context not in CONTEXTS:
            raise ValueError(f"context must be one of {', '.join(CONTEXTS)}, not {self.context!r}")
        if self.axis_types not in (AUTO, EXPLICIT):
            raise ValueError(f"axis_types must be {AUTO!r} or {EXPLICIT!r}, not {self.axis_types!r}")
        if self.processes is not None and (not isinstance(self.processes, int) or self.processes < 2):
            raise ValueError(f"processes must be a number of 2 or more, not {self.processes!r}")
        if not self.execute and (self.processes or self.reference is not None):
            field_name = "processes" if self.processes else "reference"
            raise ValueError(f"{field_name} needs a program that runs, and execute=False is set")
        if isinstance(self.topology, str):
            raise TypeError(f"topology must be a list such as ['v5e:4x4'], not {self.topology!r}")
        for name in self.topology:
            parse_topology(name)
        if (
            isinstance(self.reference, str)
            and self.reference != SINGLE_DEVICE
            and not _is_reference(self.reference)
        ):
            raise ValueError(
                f"reference must be 'single_device', 'module:attribute' or a callable, not {self.reference!r}"
            )
        self.replicated_limit()
        for spec in (*self.out.values(), *self.gradients.values()):
            P.make_spec(spec)
        if isinstance(self.forbid, str):
            raise TypeError(f"forbid must be a list such as ['all_gather over model'], not {self.forbid!r}")
        self.forbidden_claims()
        self.budget_by_claim()
        for limit in (self.memory_max, self.hbm_max):
            if limit is not None:
                parse_bytes(limit)

    def expected_specs(self) -> dict[str, P]:
        """`out` with every spec as a `P`."""
        return {path: P.make_spec(spec) for path, spec in self.out.items()}

    def replicated_limit(self) -> int | None:
        """`replicated_bytes_max` in bytes."""
        return None if self.replicated_bytes_max is None else parse_bytes(self.replicated_bytes_max)

    def hbm_limit(self) -> int | None:
        """`hbm_max` in bytes."""
        return None if self.hbm_max is None else parse_bytes(self.hbm_max)

    def forbidden_claims(self) -> list[Claim]:
        """`forbid`, read. Raises `ValueError` for what is not a collective."""
        return [Claim.parse_claim(text) for text in self.forbid]

    def budget_by_claim(self) -> dict[Claim, int]:
        """`budget`, read, in bytes. Raises `ValueError` for what is not a collective or no size."""
        return {Claim.parse_claim(text): parse_bytes(most) for text, most in self.budget.items()}

    def expected_gradients(self) -> dict[str, P]:
        """`gradients` with every spec as a `P`."""
        return {path: P.make_spec(spec) for path, spec in self.gradients.items()}

    def limits_compiled(self) -> bool:
        """Return whether the fixture limits the communication or the memory of the compiled program."""
        return bool(self.forbid or self.budget) or self.memory_max is not None

    def declares_nothing(self) -> bool:
        """Return whether no level has anything to check."""
        declared = (self.out, self.gradients, self.donate, self.processes, self.topology)
        limits = (self.replicated_bytes_max, self.reference, self.hbm_max)
        return not any(declared) and not self.limits_compiled() and all(limit is None for limit in limits)

    def function_label(self) -> str:
        """How reports name the function: as it was written, or its module and name."""
        if isinstance(self.fn, str):
            return self.fn
        inner: Any = getattr(self.fn, "__wrapped__", self.fn)
        while isinstance(inner, functools.partial):
            inner = inner.func
        name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
        return f"{getattr(inner, '__module__', '?')}:{name}"


def expand_meshes(fixture: Fixture, axes: Sequence[str]) -> list[dict[str, int]]:
    """Every mesh a fixture is to run on, in order and once, with `"all:N"` shared among `axes`.

    Raises `ValueError` when `"all:N"` meets no axis.
    """
    meshes: list[dict[str, int]] = []
    for mesh in fixture.meshes:
        if isinstance(mesh, str):
            if not axes:
                raise ValueError(f"{mesh!r} needs axis names, but no spec of the fixture names one")
            found = [
                dict(zip(axes, sizes, strict=True))
                for sizes in ordered_factorisations(int(mesh[4:]), len(axes))
            ]
        else:
            found = [dict(mesh)]
        # Order matters: the same sizes over differently ordered axes place arrays on other devices.
        meshes += [new for new in found if all(list(new.items()) != list(old.items()) for old in meshes)]
    return meshes


def ordered_factorisations(count: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `count` as an ordered product of `axes` positive sizes, largest first sizes
    first.
    """
    if axes == 1:
        yield (count,)
        return
    for size in range(count, 0, -1):
        if count % size == 0:
            for rest in ordered_factorisations(count // size, axes - 1):
                yield (size, *rest)


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_MOST_BYTES = 2**60


def parse_bytes(size: int | str) -> int:
    """Bytes from `4096`, `"1MiB"`, `"1.5 GB"`. Raises `ValueError` for anything else."""
    count = size if isinstance(size, int) else _spelt_bytes(size)
    if count > _MOST_BYTES:
        raise ValueError("a size above 2**60 bytes is not allowed; write one such as 4096, '1MiB' or '1.5GB'")
    return int(count)


def _spelt_bytes(size: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"{size!r} is not a size such as 4096, '1MiB' or '1.5GB'")
    return float(match[1]) * _UNITS[match[2].lower()]


def parse_mesh(text: str) -> dict[str, int]:
    """Axis sizes from `data=4,model=2`. Raises `ValueError` for anything else."""
    mesh: dict[str, int] = {}
    for part in text.split(","):
        axis, _, size = (piece.strip() for piece in part.partition("="))
        if not axis or not size.isdigit() or axis in mesh:
            raise ValueError(f"{text!r} is not a mesh such as data=4,model=2")
        mesh[axis] = int(size)
    _check_mesh(mesh)
    return mesh


def devices_of(mesh: Mapping[str, int]) -> int:
    """How many devices a mesh has."""
    return math.prod(mesh.values())


def _check_mesh(mesh: Mapping[str, int] | str) -> None:
    if isinstance(mesh, str):
        if not re.fullmatch(r"all:[1-9]\d*", mesh):
            raise ValueError(f"a mesh must be axis sizes or 'all:N', not {mesh!r}")
    elif not mesh or not all(isinstance(size, int) and size > 0 for size in mesh.values()):
        raise ValueError(f"a mesh needs a positive size for each axis, not {dict(mesh)!r}")


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.]+:[\w.]+", value) is not None
