"""SL419."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site

_HELP = {
    "key": "split the key: `jax.random.split(key, jax.local_device_count())`",
    "number": "add the position of the argument to `static_broadcasted_argnums`, or write None for it in `in_axes`",
    "array": "replicate the argument with `flax.jax_utils.replicate`, or write None for it in `in_axes`",
}

_BY_KEYWORD = "pass the argument by position, with None for it in `in_axes`: pmap splits all keyword arguments"
_WHY = "pmap splits each argument along its first dimension"


class PmapUnmappedArgument(Rule):
    """A pmapped function gets an argument without a leading device dimension.

    The call raises ValueError. If the first argument is a random key or has shape (), newer releases raise IndexError
    or TypeError. A tree without the device dimension may work on one device and raise on several.

    ## Reports
    These arguments, if `in_axes` maps them over the devices and they are not static:

    - proven: a number, a random key, an array of shape (), or a tree with such a leaf.
    - proven: an array whose mapped dimension is larger than the number of devices, or differs from that of another
      argument.
    - `unreplicated` (likely): a result of `unreplicate`. The previous loop iteration may have assigned it.

    ## Write instead
    - For a value that is equal on all devices, write None for it in `in_axes`, or bind it with `functools.partial`.
    - For a Python number, `static_broadcasted_argnums` works too.
    - For a random key, write `jax.random.split(key, jax.local_device_count())`.
    - For an array or tree with one copy on each device, write `flax.jax_utils.replicate(x)`.
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

    @detector("violation", of="pmap.unmapped")
    def report_number(self, site: Site) -> Finding:
        """An argument without a dimension."""
        of, place = site.violation.said["of"], site.violation.place
        by_keyword = isinstance(place.file.parent(place.node), ast.keyword) and of == "number"
        return site.report_violation(
            f"The pmapped call raises: {_name_array(site)} has no dimension to split.",
            help=_BY_KEYWORD if by_keyword else _HELP[of],
            why=_WHY,
        )

    @detector("violation", of="pmap.sizes")
    def report_size(self, site: Site) -> Finding:
        """An argument with another number of rows."""
        said = site.violation.said
        return site.report_violation(
            f"The pmapped call raises: {_name_array(site)} has `{said['size']}` rows to split, "
            f"not as many as {said['other']}.",
            help="reshape the batch to `(jax.local_device_count(), -1, ...)`",
            why=_WHY,
        )

    @detector("violation", of="rows.missing", finds="unreplicated")
    def report_copy(self, site: Site) -> Finding:
        """A single copy of what was replicated."""
        said = site.violation.said
        return site.report_violation(
            f"The pmapped call raises: {_name_array(site)} is a single copy, without a dimension for the "
            "devices.",
            help="pass the replicated tree, and bind the single copy to another name",
            why=f"line {said['line']} of {said['file']} takes the copy; {_WHY}",
        )


def _name_array(site: Site) -> str:
    """The argument of a broken contract, or its leaf, as a message names it."""
    path = site.violation.said["array"]
    return f"leaf `{path}`" if path else f"`{site.shown()}`"
