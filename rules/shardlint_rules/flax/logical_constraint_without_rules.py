"""SL512."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.rule import Calls, Finding, Harm, Rule
from shardlint.site import Site
from shardlint_rules.flax.linen import CONSTRAINTS, rules_anywhere

_MESHES = ("Mesh", "make_mesh")


class LogicalConstraintWithoutRules(Rule):
    """A logical constraint is used in a project that never says what its logical axes are.

    ## What it does
    Reports `nn.with_logical_constraint` without `rules`, in a project that makes a mesh and mentions none of
    `logical_axis_rules`, `axis_rules` and `set_logical_axis_rules`.

    ## Why it hurts
    Logical names get their mesh axes from rules. Without any, the constraint gives back what it was given (or, under
    `jax.set_mesh`, makes it whole on every device), and nothing is raised.

    ## Example
    ```python
    class Mlp(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.with_logical_constraint(nn.Dense(16)(x), ("batch", "mlp"))

    with jax.set_mesh(mesh):
        y = jax.jit(model.apply)(variables, x)
    ```

    ## Use instead
    ```python
    class Mlp(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.with_logical_constraint(nn.Dense(16)(x), ("batch", "mlp"))

    with jax.set_mesh(mesh), nn.logical_axis_rules([("batch", "data"), ("mlp", "model")]):
        y = jax.jit(model.apply)(variables, x)
    ```

    ## Evidence
    Rows M3 and M3b of the experiments, run on flax 0.10.4, 0.11.2, 0.12.0, 0.12.4, 0.12.6 and 0.12.12. A project
    without a mesh is left alone: it may be a library whose users set the rules, or made for one device.
    """

    code = "SL512"
    name = "logical-constraint-without-rules"
    harm = Harm.SILENT
    holds: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    wakes = (Calls(*CONSTRAINTS),)

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a constraint."""
        given = site.arguments
        if site.form != "call" or site.expected_to_fail or given.open_keywords or given.open_positional:
            return
        if "rules" in given.keywords or len(given.positional) > 2 or rules_anywhere(site):
            return
        if not any(site.program.project.anywhere(name) for name in _MESHES):
            return
        yield site.finding(
            site.call,
            "nothing in this project sets axis rules",
            f"On {site.on('flax')} this shards nothing: only rules say which mesh axes logical names mean.",
            help="call it under nn.logical_axis_rules([(name, mesh axis), ...]), or write rules=...",
        )
