"""SL807."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.processes.conditions import ASKING_SAYS, SEVERAL_SAYS
from shardlint.model.values import Api, Place, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Methods, Rule, detector
from shardlint.rules_api.site import Site
from shardlint_rules.processes.sharded_arrays import is_split_over_parameter_mesh, is_split_over_processes
from shardlint_rules.processes.single_process_code import (
    is_for_several_processes,
    is_reached_with_one_process,
)

# Functions of numpy whose first arguments are arrays, which they take to the host.
_NUMPY = (
    "abs", "allclose", "argsort", "array", "array_equal", "asarray", "ascontiguousarray", "average", "clip",
    "concatenate", "copy", "count_nonzero", "dot", "exp", "histogram", "isclose", "isfinite", "isnan", "linalg.norm",
    "log", "median", "percentile", "quantile", "ravel", "sort", "sqrt", "stack", "testing.assert_allclose",
    "testing.assert_array_equal", "unique", "where",
)  # fmt: skip
# These call the method of an array, which jax runs on all devices. They take the arrays of a list to the host.
_BY_METHOD = frozenset(f"numpy.{name}" for name in (
    "all", "any", "argmax", "argmin", "cumsum", "max", "mean", "min", "nonzero", "prod", "round", "squeeze", "std",
    "sum", "transpose", "var",
))  # fmt: skip
_READING = (*(f"numpy.{name}" for name in _NUMPY), "numpy.save", "numpy.take", "jax.device_get")
# numpy.take calls the method of its first argument too.
_SECOND = ("numpy.save", "numpy.take")
_SILENT = "numpy.array_equal"
_MAPS = ("jax.tree.map", "jax.tree_util.tree_map")
_METHODS = ("tolist", "__array__")
_OF_CALLERS = ", and the mesh of `{}` is a parameter"
# What stands in a file that gets at an array placed over devices, also where another module places it.
_NEAR = (
    "jax", "jnp", "flax", "nnx", "shard", "Shard", "mesh", "Mesh", "device", "global_", "_global", "distribut",
    "placed", "place_", "_place",
)  # fmt: skip
_LOOKS = ("addressable", "is_fully_replicated", "process_allgather")


class HostReadOfGlobal(Rule):
    """The host reads an array that is sharded over the devices of several processes.

    With several processes this raises `RuntimeError: Fetching value for jax.Array that spans non-addressable devices`.
    `np.array_equal` catches the error and returns False. With one process there is no symptom.

    ## Reports
    Reported only in multi-process programs: the code calls `jax.distributed.initialize`, `jax.process_index` or
    `jax.process_count`. The host reads `x` by `np.asarray(x)`, `np.median(x)` and other numpy functions,
    `np.save(path, x)`, `jax.device_get(x)`, `x.tolist()` or `jax.tree.map(np.asarray, x)`.

    - `split` (likely): a read of an array that is sharded over a mesh of all devices, by `device_put`, `out_shardings`
      or `out_specs`.
    - `mesh-parameter` (likely): a read of an array sharded over a mesh that the function gets as a parameter.

    ## Write instead
    Call `multihost_utils.process_allgather(x, tiled=True)` on all processes, then read.

    ## Limits
    Not reported: `np.sum(x)`, `np.max(x)` and other numpy functions that call the method of `x`. jax runs these on the
    devices of all processes.
    """

    code = "SL807"
    name = "host-read-of-global"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("split", "mesh-parameter")
    assumptions: ClassVar[Mapping[str, str]] = {
        "split": "The program runs on more than one process.",
        "mesh-parameter": "The mesh that is passed has the devices of more than one process.",
    }
    triggers = (
        Calls(*_READING, *sorted(_BY_METHOD), *_MAPS, file_says=_NEAR),
        Methods(*_METHODS, file_says=_NEAR),
    )
    project_says = SEVERAL_SAYS
    or_file_says = ASKING_SAYS
    in_tests = False
    fixes = "none"

    @detector("call", "method", finds="split")
    def report_split(self, site: Site) -> Finding | None:
        """The first of what the call takes to the host that is split over processes."""
        if not is_for_several_processes(site.program, site.file):
            return None
        given = next((one for one in _find_read(site) if is_split_over_processes(site, one)), None)
        return _make_finding(site, given, "") if given is not None else None

    @detector("call", "method", finds="mesh-parameter")
    def report_split_over_parameter(self, site: Site) -> Finding | None:
        """The first of what the call takes to the host that is split over a mesh which callers give."""
        if not is_for_several_processes(site.program, site.file):
            return None
        given = next((one for one in _find_read(site) if is_split_over_parameter_mesh(site, one)), None)
        return _make_finding(site, given, _OF_CALLERS) if given is not None else None


def _find_read(site: Site) -> list[ast.expr]:
    """The arrays and trees that a function or method takes to the host, also one that is mapped over a tree."""
    args, func = site.call.args, site.call.func
    if site.api in _METHODS:
        return [func.value] if isinstance(func, ast.Attribute) else []
    if site.api in _MAPS:
        return args[1:2] if args and _copies_leaves_to_host(site, args[0]) else []
    if site.api in _SECOND:
        return args[1:2]
    parts = []
    for one in args[: 1 if site.api in _BY_METHOD else 3]:
        if isinstance(one, ast.List | ast.Tuple):
            parts += one.elts
        elif site.api not in _BY_METHOD:
            parts.append(one)
    return parts


def _make_finding(site: Site, expression: ast.expr, why: str) -> Finding | None:
    if is_reached_with_one_process(site.program, Place(site.file, site.call)) or _reads_or_gathers_shards(site):
        return None
    what = site.shown(expression)
    silent = site.api == _SILENT
    effect = "this returns False" if silent else "this raises RuntimeError"
    return site.finding(
        site.call,
        f"With several processes {effect}: `{what}` is sharded over the devices of all of them.",
        harm=Harm.SILENT if silent else Harm.CRASH,
        help=f"gather the array on all processes first: `multihost_utils.process_allgather({what}, tiled=True)`",
        why="the program is for several processes" + why.format(what),
    )


def _reads_or_gathers_shards(site: Site) -> bool:
    """Return whether the function reads the process's own part of its arrays, or gathers some."""
    function = site.scope.enclosing_function()
    around = site.text(function.node) if function is not None else site.file.source.text
    return any(word in around for word in _LOOKS)


def _copies_leaves_to_host(site: Site, function: ast.expr) -> bool:
    """Return whether the function mapped over leaves copies them to the host: `np.asarray`, `lambda x:
    np.asarray(x)`.
    """
    if isinstance(function, ast.Lambda):
        names = [one.arg for one in function.args.args]
        body = function.body
        if not isinstance(body, ast.Call) or len(body.args) < 1 or len(names) != 1:
            return False
        if not (isinstance(body.args[0], ast.Name) and body.args[0].id == names[0]):
            return False
        function = body.func
    found = options(site.value(function))
    return bool(found) and all(isinstance(one, Api) and one.name in _READING for one in found)
