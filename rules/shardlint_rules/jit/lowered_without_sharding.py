"""SL247."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.mesh.meshes import leaves
from shardlint.model.signatures import JITS
from shardlint.model.values import CallArguments, CallResult, Items, Transformed, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Methods, Rule
from shardlint.rules_api.site import Site

_STRUCT = "jax.ShapeDtypeStruct"
_SIGNATURE = ("shape", "dtype")


class LoweredWithoutSharding(Rule):
    """A function is lowered for one argument with its sharding, and for another without.

    ## What it does
    Reports `jax.ShapeDtypeStruct(shape, dtype)` among the arguments of `jitted.lower(...)` where another argument is
    described with its `sharding=`, and the jit has no `in_shardings`. Scalars are left alone.

    ## Why it hurts
    What has no sharding is compiled to lie whole on every device of the mesh. Called with a batch that is split over
    it, the compiled function raises `ValueError`: its input shardings are others than those of the arguments. Called
    with an array of the host, it gives each device all of it to compute.

    ## Use instead
    `jax.ShapeDtypeStruct(shape, dtype, sharding=batch_sharding)`, or `in_shardings` for all arguments.

    ## Evidence
    The proof shows the error on jax 0.4.38 to 0.12.
    """

    code = "SL247"
    name = "lowered-without-sharding"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("beside",)
    triggers = (Methods("lower"),)
    project_says = ("ShapeDtypeStruct",)
    forms = ("method",)
    in_tests = False
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an argument without a sharding."""
        given = [*site.call.args, *(one.value for one in site.call.keywords if one.arg is not None)]
        if not given[1:] or any(isinstance(one, ast.Starred) for one in given) or not _says_nothing(site):
            return
        described = [(node, _described(site, node)) for node in given]
        if not any(found and all(_sharding(one) for one in found) for _, found in described):
            return
        for node, found in described:
            if not found or any(_sharding(one) or _is_scalar(site, one) for one in found):
                continue
            place = found[0].place
            yield site.finding(
                place.node if place.file is site.file else node,
                f"On {site.release('jax')} this is compiled to be whole on every device: a batch that is split raises "
                "ValueError when the compiled function is called, and one of the host is computed by each device.",
                label="no sharding is given here, and another argument has one",
                help="give sharding= what the step is called with",
                form="beside",
                why=f"line {site.call.lineno} lowers the function for both",
            )


def _says_nothing(site: Site) -> bool:
    """Whether what is lowered is a jit that says nothing of its inputs."""
    function = site.call.func
    if not isinstance(function, ast.Attribute):
        return False
    found = options(site.value(function.value))
    return bool(found) and all(
        isinstance(one, Transformed)
        and one.api.name in JITS
        and (one.call is None or not (one.call.may_have("in_shardings", ()) or one.call.open_keywords))
        for one in found
    )


def _described(site: Site, node: ast.expr) -> list[CallArguments]:
    """The calls that describe the arrays which an argument holds; none where it holds anything else."""
    found = leaves(site.program.evaluator.trees.expanded(site.value(node)))
    made = [one.call for one in found if isinstance(one, CallResult) and one.api == _STRUCT]
    calls = [one for one in made if one is not None]
    return calls if len(calls) == len(found) else []


def _sharding(struct: CallArguments) -> bool:
    """Whether a description has a sharding, or may have."""
    return struct.open_keywords or "sharding" in struct.keywords


def _is_scalar(site: Site, struct: CallArguments) -> bool:
    shape = struct.get("shape", _SIGNATURE)
    value = site.program.evaluator.value(shape, struct.environment) if shape is not None else None
    return isinstance(value, Items) and not value.items and not value.open
