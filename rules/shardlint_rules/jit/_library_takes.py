"""Parameters of jax functions for meshes, shardings and placement, on any release since 0.4. For SL236."""

from __future__ import annotations

import difflib

from shardlint.model.values import CallArguments
from shardlint.source.lazy import dataclass


@dataclass(frozen=True)
class Takes:
    """The parameters of a function: the first `required` have no default, `more` are keywords."""

    named: tuple[str, ...]
    required: int
    more: tuple[str, ...] = ()
    any_number: bool = False

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """All names of parameters."""
        return (*self.named, *self.more)


_JIT = Takes(
    (),
    0,
    (
        "fun", "in_shardings", "out_shardings", "static_argnums", "static_argnames", "donate_argnums",
        "donate_argnames", "keep_unused", "device", "backend", "inline", "abstracted_axes", "compiler_options",
        "in_axis_resources", "out_axis_resources",
    ),
    any_number=True,
)  # fmt: skip
TAKES = {
    "jax.jit": _JIT,
    "jax.device_put": Takes(("x",), 1, ("device", "src", "donate", "may_alias"), any_number=True),
    "jax.lax.with_sharding_constraint": Takes(("x", "shardings"), 2),
    "jax.reshard": Takes(("xs", "out_shardings"), 2),
    "jax.sharding.NamedSharding": Takes((), 0, ("mesh", "spec", "memory_kind"), any_number=True),
    "jax.make_mesh": Takes(
        (), 0, ("axis_sizes", "axis_shapes", "axis_names", "axis_types", "devices"), any_number=True
    ),
    "jax.sharding.Mesh": Takes(("devices", "axis_names"), 2, ("axis_types",), any_number=True),
    "jax.make_array_from_callback": Takes(("shape", "sharding", "data_callback"), 3, ("dtype",), any_number=True),
    "jax.make_array_from_process_local_data": Takes(("sharding", "local_data"), 2, ("global_shape",), any_number=True),
    "jax.make_array_from_single_device_arrays": Takes(("shape", "sharding", "arrays"), 3, ("dtype",)),
    "jax.experimental.mesh_utils.create_device_mesh": Takes(
        ("mesh_shape",), 1, ("devices", "contiguous_submeshes", "allow_split_physical_axes"), any_number=True
    ),
    "jax.tree.map": Takes(("f", "tree"), 2, ("is_leaf",), any_number=True),
}  # fmt: skip
"""By canonical name."""

# Parameters that a release renamed or removed: SL903 reports them.
_OTHERS = ("axis_resources", "named_shape")


@dataclass(frozen=True)
class Wrong:
    """A call that raises TypeError: the unknown keyword (or ""), the reason, and what to write."""

    keyword: str
    reason: str
    help: str


def find_wrong_argument(api: str, arguments: CallArguments, partial: bool) -> Wrong | None:
    """The argument that the function does not take, or that is missing; a partial may leave any out."""
    takes = TAKES[api]
    for keyword in arguments.keywords:
        if keyword not in (*takes.parameter_names, *_OTHERS) and not keyword.startswith("_"):
            close = difflib.get_close_matches(keyword, takes.parameter_names, 1, 0.5)
            if keyword == "sharding" and api == "jax.device_put":
                close = ["device"]
            help = (
                f"write {close[0]}="
                if close
                else f"use a parameter of the function: {', '.join(takes.parameter_names)}"
            )
            return Wrong(keyword, f"it has no parameter `{keyword}`", help)
    count = len(arguments.positional)
    if any(keyword in _OTHERS for keyword in arguments.keywords):
        return None  # it may replace the missing argument
    if arguments.open_positional or arguments.open_keywords:
        return None
    if count > len(takes.named) and not takes.any_number:
        return Wrong(
            "",
            f"it gets {count} positional arguments",
            f"pass only these arguments by position: {', '.join(takes.named)}",
        )
    missing = [name for name in takes.named[count : takes.required] if name not in arguments.keywords]
    if missing and not partial:
        return Wrong(
            "",
            f"`{missing[0]}` is missing",
            "pass the tree after the function: a parenthesis may be misplaced"
            if api == "jax.tree.map"
            else f"pass `{missing[0]}`",
        )
    return None
