"""SL213."""

from __future__ import annotations

from shardlint.rules_api.rule import Finding, Harm, Rule, Violates, detector
from shardlint.rules_api.site import Site


class ArgumentShardingDiffers(Rule):
    """The sharding of an argument differs from the `in_shardings` or `in_specs` of the called function.

    `jit` does not move a committed array to the sharding in `in_shardings`: the call raises `ValueError`. It moves only
    numpy arrays and uncommitted arrays. From jax 0.10.2, `shard_map` raises too if the array is on a mesh with Explicit
    axes and its sharding differs from `in_specs`.

    ## Reports
    - proven: a committed array is passed to a jitted function, and its sharding differs from `in_shardings`.
    - proven: an array on a mesh with Explicit axes is passed to a `shard_map`, and its sharding differs from
      `in_specs`.

    ## Write instead
    If a jitted function only places the array, write `out_shardings` in place of `in_shardings`, as above. Otherwise
    call `jax.device_put(x, sharding)` before the call. If another jitted function returns the array, give that function
    `out_shardings`.

    ## Limits
    Reported only if shardlint can compute the shape and the sharding of the argument from the code, also through calls.
    If the mesh comes from a `make_mesh` without `axis_types`, SL307 reports the `make_mesh`: its axes are Explicit from
    jax 0.9.
    """

    code = "SL213"
    name = "argument-sharding-differs"
    harm = Harm.CRASH
    triggers = (Violates("argument.sharding"),)
    in_version_checks = False
    fixes = "none"

    @detector("violation")
    def report_argument(self, site: Site) -> Finding | None:
        """The argument of a call whose sharding is declared otherwise."""
        said = site.violation.said
        if said.get("types") == "default":
            return None  # SL307 reports the mesh
        array = f"its argument `{said['array']}`" if said["array"] else "its argument"
        declared = "in_shardings" if said["operation"] == "jit" else "in_specs"
        have = f"on `{said['have']}`" if said["have"].startswith("device") else f"`{said['have']}`"
        placed = "it is" if said["line"] in ("0", "None") else f"line {said['line']} places it as"
        return site.report_violation(
            f"This call raises ValueError: the sharding of {array} differs from its {declared}.",
            help="call `jax.device_put` on the argument before this call. "
            "If a jitted function returns the array, give that function `out_shardings`.",
            why=f"{placed} {have}, and {declared} declare `{said['wanted']}`",
        )
