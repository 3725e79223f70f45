"""SL204."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.bound_names import calls_of_made_function
from shardlint.facts.explicit_axes import makes_explicit_meshes
from shardlint.facts.placements import PLACED_WORDS, is_inside_placing_call, is_placed_later
from shardlint.rules_api.rule import (
    Calls,
    Finding,
    Fix,
    Harm,
    Rule,
    Safety,
    Uses,
    Violates,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.jit.fresh_results import BESIDE, STATE, describe_fresh_result

_JITS = ("jax.jit", "equinox.filter_jit")
# The arrays may be placed in another file than the one that says what is made like them.
_SAYS = (*PLACED_WORDS, ".init", "zeros", "_like", "TrainState")
_PLACING = ("out_shardings", "out_axis_resources", "device", "backend")

_HELP = (
    "call the function without `jax.jit`, write `with jax.set_mesh(mesh):` around the call, or pass `out_shardings` "
    "to jit"
)


class JitInitLosesSharding(Rule):
    """`zeros_like` inside jit does not keep the sharding of its argument.

    The zeros depend only on shapes, so the compiled program reads no array and no sharding:

    - Without `jax.set_mesh`, the new arrays end up on the first device. For Adam the moments are twice the size of the
      model.
    - Under `jax.set_mesh` with Auto axes, they are replicated.
    - If the arguments are on a mesh with Explicit axes and no mesh is set, the new arrays are on the first device from
      jax 0.12. Older releases raise ValueError.

    ## Reports
    - proven: `jax.jit(optimizer.init)(params)` or `jax.jit(jnp.zeros_like)(x)` with sharded arrays and without
      `out_shardings`. Also a jit of a function that only calls these. Also `TrainState.create` in a jit: its moments
      are replicated.
    - proven: `jax.jit(optimizer.init)(params)` or `jax.jit(jnp.zeros_like)(x)` with arrays on a mesh with Explicit
      axes, if no mesh is in context.
    - `mesh-parameter` (likely): `jax.jit(optimizer.init)(params)` or `jax.jit(jnp.zeros_like)(x)` with arrays on a mesh
      that is a parameter of the enclosing function.
    - `used-with-sharded` (likely): a jit without arguments and `out_shardings` that creates zeros, such as a cache.
      Another jitted function takes the zeros together with sharded arrays of the same size or smaller.

    ## Write instead
    Remove the `jax.jit`: outside jit, `zeros_like` keeps the sharding. Or pass `out_shardings` to the jit.

    ## Fix
    Removes the jit, if the jit and its call are one expression. Unsafe: without jit the state is created array by
    array, and small counters stay on one device.

    ## Limits
    Not reported: optimizers without moments (plain `sgd`), and results that the next operation places. Under
    `jax.set_mesh` with Explicit axes the arrays keep their sharding, and nothing is reported.
    """

    code = "SL204"
    name = "jit-init-loses-sharding"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.4.38"}
    likely = ("mesh-parameter", "used-with-sharded")
    assumptions: ClassVar[Mapping[str, str]] = {
        "mesh-parameter": "The mesh that the caller passes has Auto axes.",
        "used-with-sharded": "An array as large as the sharded arrays should be sharded too.",
    }
    assumes = True
    project_says = PLACED_WORDS
    triggers = (
        Calls(*_JITS, file_says=_SAYS),
        Uses(*_JITS, file_says=_SAYS),
        Violates("made.whole", "made.apart", "made.off-mesh"),
    )
    fixes = "unsafe"

    @detector("name")
    def report_decorated(self, site: Site) -> Finding | None:
        """A decorated function whose result is fresh, called with what is sharded."""
        decorated = site.decorated
        if not isinstance(decorated, ast.FunctionDef) or len(decorated.decorator_list) != 1:
            return None
        ends = site.program.flow.ends(site.file, decorated).found
        places = [end.place.node for end in ends if end.kind == "called" and end.place.file is site.file]
        return self._compare_calls(site, decorated, [node for node in places if isinstance(node, ast.Call)])

    @detector("call")
    def report_wrapped(self, site: Site) -> Finding | None:
        """A jit whose result is fresh, called with what is sharded."""
        if not site.call.args or site.arguments.open_keywords or any(map(site.keyword, _PLACING)):
            return None
        return self._compare_calls(site, site.call.args[0], list(calls_of_made_function(site.file, site.call)))

    @detector("violation", of="made.whole", finds="used-with-sharded")
    def report_whole(self, site: Site) -> Finding:
        """An array that a jit makes unsharded, beside sharded ones."""
        said = site.violation.said
        return site.report_violation(
            f"`{said['array']}` is created unsharded on one device: the jit has no `out_shardings`.",
            help="pass `out_shardings` to jit",
            why=f"a jitted function takes it together with arrays of at most its size, sharded over `{said['axes']}`",
            harm=Harm.COST,
        )

    def _compare_calls(
        self, site: Site, function: ast.expr | ast.FunctionDef, calls: list[ast.Call]
    ) -> Finding | None:
        fresh = describe_fresh_result(site, function)
        if fresh is None:
            return None
        calls = [call for call in calls if not _is_placed(site, call)]
        known, form = [call for call in calls if _is_argument_sharded(site, call, auto=True)], ""
        if not known and not makes_explicit_meshes(site):
            known = [call for call in calls if _is_argument_sharded(site, call, auto=False)]
            form = "mesh-parameter"
        if not known:
            return None
        where = "replicated" if fresh == BESIDE else "on one device"
        return site.finding(
            site.syntax,
            f"{fresh[0].upper()}{fresh[1:]} ends up {where}: it depends on no sharded array.",
            why=f"only the shapes of the {'parameters' if fresh in (STATE, BESIDE) else 'arguments'} are used"
            + ("" if fresh == BESIDE else "; under jax.set_mesh it is replicated")
            + ("; no mesh of this project has Explicit axes" if form else ""),
            help="remove this `jax.jit`, because outside jit the init of an optimizer keeps the sharding, or pass "
            "`out_shardings` to jit"
            if fresh in (STATE, BESIDE)
            else "write `jnp.zeros_like` outside jit, where it keeps the sharding, or pass `out_shardings` to jit",
            fix=self._write_fix(site, known[0]),
            form=form,
        )

    @detector("violation", of="made.apart")
    def report_apart(self, site: Site) -> Finding:
        """An array that a jit makes like one over Explicit axes, without a mesh in context."""
        message = f"The result of `{site.shown()}` is on one device: the call reads only shapes, and no mesh is set."
        return site.report_violation(message, help=_HELP, why=_explain_apart(site))

    @detector("violation", of="made.off-mesh")
    def report_off_mesh(self, site: Site) -> Finding:
        """The same with the type of the mesh."""
        return site.report_violation(
            f"`{site.shown()}` raises ValueError: it runs on one device, but its type has a mesh of "
            f"{site.violation.said['devices']} devices.",
            help=_HELP,
            why=_explain_apart(site),
            harm=Harm.CRASH,
        )

    def _write_fix(self, site: Site, call: ast.Call) -> Fix | None:
        """The call without the jit, where both are one expression."""
        if not isinstance(site.syntax, ast.Call):
            return None
        function = site.call.args[0]
        plain = (
            isinstance(function, ast.Name | ast.Attribute)
            and len(site.call.args) == 1
            and not site.call.keywords
        )
        if call.func is not site.call or not plain:
            return None
        text = site.text(function)
        return site.fix(
            Safety.UNSAFE,
            f"write: {text}({', '.join(site.text(part) for part in call.args)})",
            [site.replace(site.call, text)],
            "the arrays are created one by one, and small counters stay on one device",
            drops=[part.id for part in walk_nodes(site.call.func) if isinstance(part, ast.Name)],
        )


def _explain_apart(site: Site) -> str:
    return f"only the shape of `{site.violation.said['array']}` is used, and no mesh is in context"


def _is_placed(site: Site, call: ast.Call) -> bool:
    return is_inside_placing_call(site, call) or is_placed_later(site, call)


def _is_argument_sharded(site: Site, call: ast.Call, auto: bool) -> bool:
    """True if the argument is sharded; with `auto`, surely over Auto axes."""
    return len(call.args) >= 1 and site.shardings.spread(
        site.program.followed(site.value(call.args[0])), auto=auto
    )
