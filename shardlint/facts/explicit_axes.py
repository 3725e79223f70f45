"""Explicit axes: does a project mean them, and were its meshes made where Auto axes were the default?"""

from __future__ import annotations

import ast

from shardlint.facts.location import Location
from shardlint.facts.shardings import EXPLICIT_SINCE
from shardlint.model.mesh.meshes import mesh_of
from shardlint.model.values import CallResult, options

_BEFORE_TYPES = "<0.5.3"
# What shows that a project means Explicit axes; `out_sharding` is a keyword of NNX's variables too.
_EXPLICIT_WORDS = (
    "AxisType.Explicit",
    "AxisTypes.Explicit",
    "auto_axes",
    "explicit_axes",
    "jax.reshard",
    "sharding.reshard",
    "import reshard",
)
_NNX = "nnx"


def written_for_auto(location: Location, api: str) -> bool:
    """Return whether the project was written for a release on which meshes made by `api` had Auto axes: the one it
    pins.
    """
    if location.pinned("jax", _BEFORE_TYPES):
        return True
    since = EXPLICIT_SINCE.get(api)
    return since is not None and location.pinned("jax", since.replace(">=", "<")) and not speaks_of_explicit(location)


def speaks_of_explicit(location: Location) -> bool:
    """Return whether the project mentions Explicit axes anywhere."""
    if any(location.is_named_anywhere(word) for word in _EXPLICIT_WORDS):
        return True
    return location.is_named_anywhere("out_sharding") and not location.is_named_anywhere(_NNX)


def makes_explicit_meshes(location: Location) -> bool:
    """Return whether some mesh of the project may have Explicit axes: code names the type, or a call (tests aside) no
    type.
    """
    turned = tuple(api for api in EXPLICIT_SINCE if location.shardings.is_explicit_by_default(api))
    return location.program.once(
        location.file, ("makes explicit meshes", turned), lambda: _makes_explicit(location, turned)
    )


def _makes_explicit(location: Location, turned: tuple[str, ...]) -> bool:
    program, path = location.program, location.file.path
    for file in program.project.files_holding(path, ("Explicit",)):
        if file is None or file.find_mentions("Explicit"):
            return True
    names = tuple(api.rpartition(".")[2] for api in turned)
    for file in program.project.files_calling(path, names) if names else ():
        if file is None:
            return True
        for node in (node for name in names for node in file.find_mentions(name)):
            call = file.parent(node)
            if isinstance(call, ast.Call) and call.func is node:
                found = options(program.value(file, call))  # a project may have a function of that name too
                made = [one for one in found if not isinstance(one, CallResult) or one.api in turned]
                meshes = [mesh_of(one, program.evaluator) for one in made]
                if any(mesh is not None and mesh.axis_types in ("default", "unknown") for mesh in meshes):
                    return True
    return False
