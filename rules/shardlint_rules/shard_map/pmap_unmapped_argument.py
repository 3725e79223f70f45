"""SL419."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site

_HELP = {
    "key": "split the key: `jax.random.split(key, jax.local_device_count())`",
    "number": "add the position of the argument to `static_broadcasted_argnums`, or write None for it in `in_axes`",
    "array": "replicate the argument with `flax.jax_utils.replicate`, or write None for it in `in_axes`",
}

_BY_KEYWORD = "pass the argument by position, with None for it in `in_axes`: pmap splits all keyword arguments"


class PmapUnmappedArgument(Rule):
    """A pmapped function gets an argument without a leading device dimension.

    The call raises ValueError. For a random key it raises IndexError or TypeError in newer releases. A tree without the
    device dimension may work on one device, and raises on several.

    ## Reports
    Arguments that `in_axes` maps over the devices and that are not static:

    - proven: a number, a random key, an array of shape (), or a tree with such a leaf.
    - proven: an array whose mapped dimension is larger than the number of devices, or differs from that of another
      argument.
    - `unreplicated` (likely): a result of `unreplicate`. The previous loop iteration may have assigned it.

    ## Write instead
    For a value that is equal on all devices, write `in_axes=None`, `static_broadcasted_argnums` or `functools.partial`.
    For one entry on each device, add a dimension: `jnp.stack([x] * jax.local_device_count())`.
    """

    code = "SL419"
    name = "pmap-unmapped-argument"
    harm = Harm.CRASH
    likely = ("unreplicated",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "unreplicated": "The program runs on more than one device.",
    }
    triggers = (Violates("pmap.unmapped", "pmap.sizes", "rows.missing"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the argument."""
        said, leaf = site.violation.said, _name_array(site)
        form, why = "", "pmap splits each argument along its first dimension"
        if site.violation.kind == "pmap.unmapped":
            place = site.violation.place
            by_keyword = isinstance(place.file.parent(place.node), ast.keyword) and said["of"] == "number"
            help = _BY_KEYWORD if by_keyword else _HELP[said["of"]]
            effect = f"{leaf} has no dimension to split"
        elif site.violation.kind == "pmap.sizes":
            effect = f"{leaf} has `{said['size']}` rows to split, {said['other']}"
            help = "reshape the batch to `(jax.local_device_count(), -1, ...)`"
        else:
            effect, form = f"{leaf} is a single copy, without a dimension for the devices", "unreplicated"
            help = "pass the replicated tree, and bind the single copy to another name"
            why = f"line {said['line']} of {said['file']} takes the copy; {why}"
        yield site.report_violation(f"The pmapped call raises: {effect}.", help=help, why=why, form=form)


def _name_array(site: Site) -> str:
    """The argument of a broken contract, or its leaf, as a message names it."""
    path = site.violation.said["array"]
    return f"leaf `{path}`" if path else f"`{site.shown()}`"
