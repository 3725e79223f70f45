"""Axes of specs that nothing else in a project says: no mesh, no configuration, no rule, no comment. For SL351."""

from __future__ import annotations

import ast

from shardlint.model.mesh.table import made_meshes, making_meshes, untold_meshes
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint_rules.mesh.given import LOGICAL_NAMES

_MAKERS = ("Mesh", "make_mesh")
# Where whoever starts the program may say the names.
_ARGUMENTS = ("sys.argv", "parse_args", "environ", "getenv")
_TAKERS = ("NamedSharding", "with_sharding_constraint", "device_put")
_SETTINGS = (
    "in_shardings",
    "out_shardings",
    "in_axis_resources",
    "out_axis_resources",
    "in_specs",
    "out_specs",
    "out_sharding",
)


@dataclass(frozen=True)
class _Known:
    """The axes of the meshes that a program makes, and whether all are told.

    `outside`: one that is not told is made where the command line or the environment is read.
    """

    axes: frozenset[str]
    all: bool
    outside: bool


def names_of_a_mesh(site: Site) -> bool:
    """Whether a spec is what a mesh is given for the names of its axes."""
    return any(isinstance(one, ast.Call) and last_name(one.func) in _MAKERS for one in site.file.ancestors(site.call))


def said_nowhere(site: Site, axis: str) -> bool:
    """Whether nothing but specs says the name of an axis, in the files that run together and the configurations."""
    if axis.startswith("_"):
        return False
    # What a library's constant stands for (`ResourceAxis.DATA`) no text says, and a mesh may have it all the same.
    quoted = site.file.says(f'"{axis}"') or site.file.says(f"'{axis}'")
    return quoted and not _said(site, axis)


def declared(site: Site, but: set[str]) -> str:
    """An axis that a mesh of the program has, or that more than the specs of the file say; an empty string if none."""
    known = site.program.once(site.file, "SL351 known", lambda: _known(site))
    if known is None or known.outside:
        return ""
    if others := sorted(known.axes - but):
        return others[0]
    return next((axis for axis in sorted(_near(site) - but) if _said(site, axis)), "")


def names_of_others(site: Site, asks: tuple[str, ...]) -> bool:
    """Whether specs may hold names that are of no mesh: of dimensions, or left out where a mesh does not have them.

    Where axes are left out, and not all meshes are told, a name that nothing else says is none of them.
    """
    if site.program.project.holds(site.file.path, *LOGICAL_NAMES):
        return True
    known = site.program.once(site.file, "SL351 known", lambda: _known(site))
    return (known is None or known.all) and site.program.project.holds(site.file.path, *asks)


def _known(site: Site) -> _Known | None:
    """The axes of the meshes that are told; None where the program makes none."""
    axes: set[str] = set()
    makes, every, outside = False, True, False
    for file in making_meshes(site.program, site.file.path, tests=False):
        if file is None:
            return None
        makes = True
        untold = list(untold_meshes(site.program, file))
        every = every and not untold
        outside = outside or any(_from_outside(file, call) for call in untold)
        for mesh in made_meshes(site.program, file):
            axes.update(mesh.axis_names or () if mesh is not None else ())
    return _Known(frozenset(axes), every, outside) if makes else None


def _from_outside(file: FileFacts, call: ast.Call) -> bool:
    """Whether a mesh is made where the command line or the environment is read: in that function, or the module."""
    function = file.home(call).function()
    if function is None:
        return any(map(file.says, _ARGUMENTS[:2]))
    return any(word in file.text(function.node) for word in _ARGUMENTS)


def _near(site: Site) -> frozenset[str]:
    """The axes that the specs of the file name, by its text."""
    return frozenset(filter(None, site.program.project.told(site.file.path, "axes").split(",")))


def given_to_a_taker(site: Site) -> bool:
    """Whether a spec is written where it meets its mesh as it is: nothing leaves an axis out before."""
    inner: ast.AST = site.call
    for outer in site.file.ancestors(site.call):
        if isinstance(outer, ast.keyword) and outer.arg in _SETTINGS:
            return True
        if isinstance(outer, ast.Call):
            return inner is not outer.func and last_name(outer.func) in _TAKERS
        if not isinstance(outer, ast.Tuple | ast.List | ast.Dict | ast.IfExp | ast.keyword):
            return False
        inner = outer
    return False


def _said(site: Site, axis: str) -> bool:
    return site.program.once(site.file, ("SL351 said", axis), lambda: _found(site, axis))


def _found(site: Site, axis: str) -> bool:
    project = site.program.project
    if any(project.told(path, "outside", axis) for path in project.saying(site.file.path, (axis,))):
        return True
    return project.configurations.says(axis)
