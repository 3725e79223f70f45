"""SL307."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.facts import FileFacts
from shardlint.program import Program
from shardlint.program.values import Api, Constant, Items, options
from shardlint.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.site import Site
from shardlint_rules.mesh.axis_types import (
    CONSTRAINTS,
    speaks_of_explicit,
    targets,
    turned_explicit,
    written_for_auto,
)


class MakeMeshAxisTypes(Rule):
    """A mesh is made without `axis_types`, and used with constraints.

    ## What it does
    Reports `jax.make_mesh` and `AbstractMesh` without `axis_types` where a `with_sharding_constraint` or
    `eqx.filter_shard` of the project has a sharding over that mesh.

    Also where nothing in the project speaks of Explicit axes, and it pins a release of jax that made Auto
    ones while it is checked for a newer one (`--target`). Without such a pin, only with `--pedantic`: the
    old default may be meant.

    ## Why it hurts
    The default was Auto and became Explicit: for `make_mesh` with jax 0.9, for `AbstractMesh` with 0.12.
    Under Explicit axes a constraint that names an axis raises `ValueError: The spec of NamedSharding passed
    to with_sharding_constraint can only refer to Auto axes`, and many operations ask for an `out_sharding`.
    `jax.sharding.Mesh` stays Auto.

    ## Example
    ```python
    mesh = jax.make_mesh((4, 2), ("data", "model"))

    @jax.jit
    def block(x):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data")))
    ```

    ## Use instead
    ```python
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    @jax.jit
    def block(x):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data")))
    ```

    ## Fix safety
    Safe where the constraint surely is over this mesh: the program raises as it stands, and the fix says
    what the default was. Unsafe elsewhere: you may have meant Explicit axes.

    ## Evidence
    Rows F09j, F11b, L2g and C5 of the experiments, run on jax 0.10.2 and 0.12; on 0.8.3 and before the
    mesh is Auto.
    """

    code = "SL307"
    name = "make-mesh-axis-types"
    harm = Harm.CRASH
    holds: ClassVar[Mapping[str, str]] = {"jax": ">=0.9"}
    wakes = (Calls("jax.make_mesh", "jax.sharding.AbstractMesh"),)
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        if site.form != "call" or not turned_explicit(site, site.api):
            return
        if (
            site.expected_to_fail
            or site.guarded
            or site.arguments.open_keywords
            or site.arguments.open_positional
        ):
            return
        types = site.argument("axis_types")
        if types is not None and site.value(types) != Constant(None):
            return
        constraint = _over(site)
        name = site.api.rpartition(".")[2]
        if constraint is not None:
            file, call = constraint
            where = f"line {call.lineno}" if file is site.file else f"{file.path.name}:{call.lineno}"
            yield site.finding(
                site.call,
                "its axes are Explicit",
                f"On {site.on('jax')} {name} makes Explicit axes unless told otherwise, and the constraint at "
                f"{where} raises ValueError: it may name Auto axes only.",
                help="say axis_types=(jax.sharding.AxisType.Auto,) * n, or constrain by jax.reshard",
                fix=self._fix(site, types, Safety.SAFE),
            )
        elif (for_auto := written_for_auto(site, site.api)) or not speaks_of_explicit(site):
            known = (
                "the jax that it pins made Auto axes"
                if for_auto
                else "nothing in this project speaks of them"
            )
            yield site.finding(
                site.call,
                "its axes are Explicit",
                f"On {site.on('jax')} {name} makes Explicit axes unless told otherwise, and {known}: "
                "constraints raise, and many operations ask for an out_sharding.",
                help="say axis_types=(jax.sharding.AxisType.Auto,) * n",
                fix=self._fix(site, types, Safety.SAFE if for_auto else Safety.UNSAFE),
                certainty=Certainty.PROVEN if for_auto else Certainty.LIKELY,
            )

    def _fix(self, site: Site, types: ast.expr | None, safety: Safety) -> Fix | None:
        names = site.argument("axis_names")
        if names is None:
            return None
        from shardlint_rules.mesh.appending import appended

        value = site.value(names)
        if isinstance(value, Items) and not value.open:
            count = str(len(value.items))
        elif isinstance(value, Constant) and isinstance(value.value, str):
            count = "1"
        elif isinstance(names, ast.Name | ast.Attribute):
            count = f"len({site.text(names)})"
        else:
            return None
        auto, imports = site.spell("jax.sharding.AxisType.Auto")
        text = f"({auto},)" if count == "1" else f"({auto},) * {count}"
        why = "" if safety is Safety.SAFE else "you may have meant Explicit axes"
        if types is not None:
            edits = [site.replace(types, text), *imports]
        else:
            call = appended(site.node, "axis_types", text)
            edits = [site.replace(site.call, call), *imports]
        return site.fix(safety, f"add axis_types={text}", edits, why)


def _over(site: Site) -> tuple[FileFacts, ast.Call] | None:
    """A constraint of the project over the mesh that the site makes."""
    for file, call in _constraints(site.program, site.file):
        argument = _shardings(site.program, file, call)
        if argument is None:
            continue
        for target in targets(site.program, file, argument):
            over = any(all(mesh.place.node is site.call for mesh in way) for way in target.meshes)
            if target.names_an_axis and over:
                return file, call
    return None


def _constraints(program: Program, home: FileFacts) -> Iterator[tuple[FileFacts, ast.Call]]:
    seen: set[ast.Call] = set()
    for name in CONSTRAINTS:
        word = name.rpartition(".")[2]
        for file in program.project.with_attribute(home, word):
            if file is None:
                break  # too many to read
            for node in file.mentions(word):
                call = file.parent(node)
                if isinstance(call, ast.Call) and call.func is node and call not in seen:
                    seen.add(call)
                    yield file, call


def _shardings(program: Program, file: FileFacts, call: ast.Call) -> ast.expr | None:
    for option in options(program.value(file, call.func)):
        if isinstance(option, Api) and option.name in CONSTRAINTS:
            keyword = next((one.value for one in call.keywords if one.arg == CONSTRAINTS[option.name]), None)
            if keyword is not None:
                return keyword
            if len(call.args) > 1 and not any(isinstance(one, ast.Starred) for one in call.args[:2]):
                return call.args[1]
    return None
