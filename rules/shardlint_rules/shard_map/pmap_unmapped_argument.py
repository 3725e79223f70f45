"""SL419."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates
from shardlint.rules_api.site import Site

_HELP = {
    "key": "split it: jax.random.split(key, jax.local_device_count())",
    "number": "add its position to static_broadcasted_argnums, or write None for it in in_axes",
    "array": "replicate it with `flax.jax_utils.replicate`, or write None for it in in_axes",
}


class PmapUnmappedArgument(Rule):
    """A pmapped function gets an argument without a leading device dimension.

    The call raises ValueError, for a single copy of a tree only with more than one device.

    ## Reports
    Arguments that `in_axes` splits over the devices and that are not static:

    - proven: a number, a random key, and an array or leaf of a tree that has no dimension.
    - proven: an array with several rows for each device, or with other rows than another argument.
    - `on-a-way` (likely): such an argument on a branch that may not run, or if an option keeps its default.
    - `unreplicated` (likely): a result of `unreplicate`, also of the previous loop iteration.

    ## Write instead
    `static_broadcasted_argnums`, `in_axes=None` or `functools.partial` for settings;
    `[x] * jax.local_device_count()` for one entry on each device.
    """

    code = "SL419"
    name = "pmap-unmapped-argument"
    harm = Harm.CRASH
    likely = ("unreplicated", "on-a-way")
    assumptions: ClassVar[Mapping[str, str]] = {
        "on-a-way": "The branch runs, and options keep their defaults.",
        "unreplicated": "The program runs on more than one device.",
    }
    triggers = (Violates("pmap.unmapped", "pmap.sizes", "rows.missing"),)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """The finding of the argument."""
        said, leaf = site.violation.said, _name_array(site)
        form, why = "", "pmap splits each argument along its first dimension"
        if site.violation.kind == "pmap.unmapped":
            effect, help = f"{leaf} has no dimension to split", _HELP[said["of"]]
        elif site.violation.kind == "pmap.sizes":
            effect = f"{leaf} has `{said['size']}` rows to split, {said['other']}"
            help = "reshape the batch to (jax.local_device_count(), -1, ...)"
        else:
            effect, form = f"{leaf} is a single copy, without a dimension for the devices", "unreplicated"
            help = "pass the replicated tree, and bind the single copy to another name"
            why = f"line {said['line']} of {said['file']} takes the copy; {why}"
        yield site.report_violation(f"The pmapped call raises ValueError: {effect}.", help=help, why=why, form=form)


def _name_array(site: Site) -> str:
    """The argument of a broken contract, or its leaf, as a message names it."""
    path = site.violation.said["array"]
    return f"leaf `{path}`" if path else f"`{site.shown()}`"
