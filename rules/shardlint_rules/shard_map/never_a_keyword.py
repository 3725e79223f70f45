"""SL422."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site

_REDUCING = ("x", "axis_name", "axis_index_groups")
# All that any release since 0.4 takes; what a release took away or renamed is SL903's.
_TAKEN = {
    "jax.pmap": (
        "fun", "axis_name", "in_axes", "out_axes", "static_broadcasted_argnums", "devices", "backend", "axis_size",
        "donate_argnums", "global_arg_shapes",
    ),
    "jax.shard_map": ("f", "mesh", "in_specs", "out_specs", "axis_names", "check_vma", "check_rep", "auto"),
    "jax.lax.psum": _REDUCING,
    "jax.lax.pmean": _REDUCING,
    "jax.lax.pmax": _REDUCING,
    "jax.lax.pmin": _REDUCING,
    "jax.lax.all_gather": ("x", "axis_name", "axis_index_groups", "axis", "tiled", "to"),
    "jax.lax.psum_scatter": ("x", "axis_name", "scatter_dimension", "axis_index_groups", "tiled"),
    "jax.lax.all_to_all": ("x", "axis_name", "split_axis", "concat_axis", "axis_index_groups", "tiled"),
    "jax.lax.ppermute": ("x", "axis_name", "perm"),
    "jax.lax.axis_index": ("axis_name",),
}  # fmt: skip
_SMAP = ("in_axes", "out_axes", "axis_name")


class NeverAKeyword(Rule):
    """`pmap`, `shard_map` or a collective is called with a keyword that no jax release accepts.

    The call raises `TypeError` at run time. The error comes late if the call is behind a flag or in the last step.

    ## Reports
    - proven: a keyword that these functions never had, such as `in_axis` for `in_axes` or `axis` for `axis_name`.

    ## Limits
    SL903 reports keywords that a release renamed.
    """

    code = "SL422"
    name = "never-a-keyword"
    harm = Harm.CRASH
    triggers = (Calls(*_TAKEN),)
    fixes = "none"

    @detector("call", "partial")
    def find_keywords(self, site: Site) -> Iterator[Finding]:
        """Each keyword that no release accepts."""
        # `jax.smap` is another spelling of shard_map, with keywords of its own.
        taken = (*_TAKEN[site.api], *(_SMAP if site.written.endswith(".smap") else ()))
        for keyword in site.call.keywords:
            if keyword.arg is None or keyword.arg in taken:
                continue
            name = site.short_name
            word = keyword.arg.partition("_")[0]
            alike = [parameter for parameter in taken if parameter.partition("_")[0] == word]
            close = difflib.get_close_matches(keyword.arg, alike or taken, 1) or alike
            yield site.finding(
                keyword,
                f"The call raises TypeError: `{name}` has no parameter `{keyword.arg}`.",
                help=f"write {close[0]}=" if close else f"write one of {', '.join(taken)}",
                why="no jax release since 0.4 accepts this keyword",
            )
