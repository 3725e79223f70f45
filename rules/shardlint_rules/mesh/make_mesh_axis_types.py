"""SL307."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model import Program
from shardlint.model.values import Api, Constant, Items, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Fix, Harm, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.mesh._mapped_over import over_mesh
from shardlint_rules.mesh.axis_types import (
    CONSTRAINTS,
    constrained_nearby,
    sharding_argument,
    speaks_of_explicit,
    targets,
    written_for_auto,
)

# Releases whose make_mesh warns where it is not told.
_WARNS = ">=0.8.1,<0.9"
_SAY = "say axis_types=(jax.sharding.AxisType.Auto,) * n"
_KEPT = "not rewritten: the text does not show how many axes there are"
_UNSPOKEN = "nothing that runs with this file speaks of them"


class MakeMeshAxisTypes(Rule):
    """A mesh is made without `axis_types`, and used with constraints.

    ## What it does
    Reports `jax.make_mesh` and `AbstractMesh` without `axis_types` where a `with_sharding_constraint` or
    `eqx.filter_shard` of the project has a sharding over that mesh.

    Also where nothing that runs with the file speaks of Explicit axes, and it pins a release of jax that made Auto
    ones while it is checked for a newer one (`--target`); or some file that this one imports, or that imports it,
    constrains arrays by specs or by Flax's logical names. Without either, only with `--certainty possible`: meshes
    by which arrays are only placed do as well with Explicit axes.

    And where a `shard_map` over that mesh has an axis in its in_specs, in a project that places no array: no word of
    its files is a sharding, a placement or `set_mesh`.

    On jax 0.8.1 to 0.8.3 `make_mesh` without `axis_types` makes Auto axes, and warns of what is to come.

    ## Why it hurts
    The default was Auto and became Explicit: for `make_mesh` with jax 0.9, for `AbstractMesh` with 0.12.
    Under Explicit axes a constraint that names an axis raises `ValueError: The spec of NamedSharding passed
    to with_sharding_constraint can only refer to Auto axes`, and many operations ask for an `out_sharding`.
    A `shard_map` takes arrays only that are sharded already as its in_specs say: `ValueError: in_specs passed to
    shard_map: P('i', None) does not match the specs of the input`. `jax.sharding.Mesh` stays Auto.

    ## Fix safety
    Safe where the constraint surely is over this mesh: the program raises as it stands, and the fix says
    what the default was. Unsafe elsewhere: you may have meant Explicit axes.

    ## Evidence
    Run on jax 0.10.2 and 0.12; on 0.8.3 and before the mesh is Auto. That 0.8.1 began to warn is from jax's changelog;
    0.8.3 was seen to.
    """

    code = "SL307"
    name = "make-mesh-axis-types"
    harm = Harm.CRASH
    likely = ("meets-constraints",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.8.1"}
    triggers = (Calls("jax.make_mesh", "jax.sharding.AbstractMesh"),)
    forms = ("call",)
    closed = ("positional", "keywords")
    in_version_checks = False
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        warned = site.api == "jax.make_mesh" and site.allows("jax", _WARNS)
        if not (warned or site.shardings.turned_explicit(site.api)):
            return
        types = site.argument("axis_types")
        if types is not None and site.value(types) != Constant(None):
            return
        constraint = _over(site)
        if constraint is not None and site.shardings.turned_explicit(site.api):
            yield self._constrained(site, types, *constraint)
        elif site.allows("jax", _WARNS):
            yield self._warned(site, types)
        elif (mapped := over_mesh(site)) is not None and not speaks_of_explicit(site):
            yield self._mapped(site, types, *mapped)
        elif written_for_auto(site, site.api):
            yield self._explicit(site, types, "the jax that it pins made Auto axes", Safety.SAFE)
        elif not speaks_of_explicit(site):
            yield from self._unspoken(site, types)

    def _constrained(self, site: Site, types: ast.expr | None, file: FileFacts, call: ast.Call) -> Finding:
        where = f"line {call.lineno}" if file is site.file else f"{file.path.name}:{call.lineno}"
        return site.finding(
            site.call,
            f"On {site.release('jax')} {_name(site)} makes Explicit axes unless told otherwise, and the constraint at "
            f"{where} raises ValueError: it may name Auto axes only.",
            label="its axes are Explicit",
            help=f"{_SAY}, or constrain by jax.reshard; {_KEPT}",
            fix=self._fix(site, types, Safety.SAFE),
        )

    def _mapped(self, site: Site, types: ast.expr | None, file: FileFacts, call: ast.Call) -> Finding:
        where = f"line {call.lineno}" if file is site.file else f"{file.path.name}:{call.lineno}"
        return site.finding(
            site.call,
            f"On {site.release('jax')} {_name(site)} makes Explicit axes unless told otherwise, and the shard_map at "
            f"{where} raises ValueError: over these it takes arrays only that are sharded as its in_specs say, and "
            "nothing places any.",
            label="its axes are Explicit",
            help=f"{_SAY}, or place the arrays first; {_KEPT}",
            fix=self._fix(site, types, Safety.UNSAFE),
        )

    def _warned(self, site: Site, types: ast.expr | None) -> Finding:
        return site.finding(
            site.call,
            f"On {site.release('jax')} this warns: its axes are Auto, and from jax 0.9 on Explicit unless told "
            "otherwise. Constraints raise then, and many operations ask for an out_sharding.",
            label="jax 0.9 makes its axes Explicit",
            help=f"{_SAY}; {_KEPT}",
            fix=self._fix(site, types, Safety.SAFE),
            harm=Harm.REMOVED,
        )

    def _unspoken(self, site: Site, types: ast.expr | None) -> Iterator[Finding]:
        if not site.wants("meets-constraints", "never-explicit"):
            return
        near = constrained_nearby(site)
        if near is None:
            found = "no file that runs with this one has a word for Explicit axes"
            yield self._explicit(site, types, _UNSPOKEN, Safety.UNSAFE, "never-explicit", found)
        else:
            found = f"{near.path.name} constrains arrays by specs, and nothing in the program speaks of Explicit axes"
            yield self._explicit(site, types, _UNSPOKEN, Safety.UNSAFE, "meets-constraints", found)

    def _explicit(
        self, site: Site, types: ast.expr | None, known: str, safety: Safety, form: str = "", why: str = ""
    ) -> Finding:
        return site.finding(
            site.call,
            f"On {site.release('jax')} {_name(site)} makes Explicit axes unless told otherwise, and {known}: "
            "constraints raise, and many operations ask for an out_sharding.",
            label="its axes are Explicit",
            help=f"{_SAY}; {_KEPT}",
            fix=self._fix(site, types, safety),
            certainty=Certainty.POSSIBLE if form else Certainty.PROVEN,
            form=form,
            why=why,
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


def _name(site: Site) -> str:
    return site.api.rpartition(".")[2]


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
            return sharding_argument(call, option.name)
    return None
