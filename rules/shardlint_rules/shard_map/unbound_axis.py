"""SL406."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar, Literal

from shardlint.model import Program
from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint_rules.shard_map.branches import rests_on_plain_flags

# Inside of these an axis may be bound; of a decorator that is not known nobody can tell.
_BINDERS = (
    "jax.shard_map",
    "jax.pmap",
    "jax.vmap",
    "jax.experimental.maps.xmap",
    "flax.linen.vmap",
    "flax.nnx.vmap",
    "flax.nnx.pmap",
    "flax.nnx.shard_map",
    "equinox.filter_pmap",
    "equinox.filter_vmap",
    "haliax.vmap",
    "",
)
# What binds an axis where a function may be called that is not seen.
_BINDING = (
    *(f"{name}{sign}" for name in ("shard_map", "pmap", "xmap") for sign in ("(", ",")),
    *("@jax.pmap", "@pmap", "@jax.shard_map", "@shard_map", "axis_env"),
    r"(?s)vmap\b.{0,300}?axis_name",
)
_DEPTH = 4


class UnboundAxis(Rule):
    """A collective runs where no `shard_map`, `pmap` or `vmap` binds its axis.

    Tracing raises NameError (`unbound axis name`), often late: when the program first evaluates the model. In a
    `shard_map` with `check_vma=True`, which is the default, `psum`, `pmean`, `pmax`, `pmin` and `ppermute` raise
    another error: an AssertionError without a message, or KeyError on jax 0.7.

    ## Reports
    - proven: a collective over a named axis in a function that is compiled but not mapped: no `shard_map`, `pmap` or
      `vmap(axis_name=)` is on the call path. The function is compiled by `jax.jit`, `eqx.filter_jit`, `nnx.jit`,
      `nn.jit`, `pjit`, `hax.named_jit` or a wrapper of the project.
    - proven: a collective in a function mapped by `pmap` or `shard_map` over another axis.
    - `no-axis-bound` (likely): such a collective in a compiled function that code outside the project may call, if no
      file of the program binds an axis.

    ## Limits
    Not reported: functions that are also called inside a mapped one, collectives under a condition that may depend on
    the axes, and code that catches the NameError (`try: jax.lax.psum(1, axis)`).
    """

    code = "SL406"
    name = "unbound-axis"
    harm = Harm.CRASH
    likely = ("no-axis-bound",)
    assumptions: ClassVar[Mapping[str, str]] = {
        "conditional": "The program takes the branch with this mesh or pmap.",
        "no-axis-bound": "No code outside the program maps the function over the axis.",
    }
    triggers = (Violates("collective.unbound"),)
    fixes = "none"

    @detector("violation")
    def report_collective(self, site: Site) -> Finding | None:
        """The collective, unless a caller that is seen may bind its axis."""
        found, said = site.violation, site.violation.said
        if not found.certain and not rests_on_plain_flags(found):
            return None
        form, why = "", f"the collective runs under {said['under']}"
        if said["under"] == "jax.jit":
            root = found.root
            bound = _find_binder(site.program, root.file, root.node, 0) if root is not None else "unseen"
            if bound == "somewhere" or (bound == "unseen" and not _binds_nowhere(site)):
                return None
            if bound:
                form, why = "no-axis-bound", f"{why}; no file of the program binds an axis"
        if said["bound"]:
            why += f"; the axes that are bound here: {said['bound']}"
        if not found.certain:
            why += "; the branch tests a flag that does not depend on the axes"
        mapped = said["under"].startswith(("jax.pmap", "jax.shard_map"))
        return site.report_violation(
            f"Tracing raises an error: nothing binds the axis `{said['axis']}` here.",
            help="write an axis that is bound here: an axis of the mesh of `shard_map`, or the `axis_name` of `pmap`"
            if mapped
            else "remove the collective (arrays under jit are global), or map the function with `jax.shard_map`",
            why=why,
            form=form,
        )


def _binds_nowhere(site: Site) -> bool:
    """Return whether no code that may run with a file binds any axis."""
    return site.wants("no-axis-bound") and not site.program.project.is_text_in_files(site.file.path, *_BINDING)


def _find_binder(
    program: Program, file: FileFacts, node: ast.AST, depth: int
) -> Literal["", "unseen", "somewhere"]:
    """Return whether a path to a function binds an axis ("somewhere"), or is not visible ("unseen")."""
    ends = program.flow.ends(file, node)
    unseen = depth > _DEPTH or ends.cut
    for end in ends.found:
        if any(wrapper.api in _BINDERS for wrapper in end.wrappers):
            return "somewhere"
        unseen = unseen or end.kind == "escaped"
        caller = end.place.scope.enclosing_function() if end.kind == "called" and depth <= _DEPTH else None
        if caller is not None:
            bound = _find_binder(program, end.place.file, caller.node, depth + 1)
            if bound == "somewhere":
                return bound
            unseen = unseen or bool(bound)
    return "unseen" if unseen else ""
