"""SL201."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.program.values import Api, Constant, Made, options
from shardlint.rule import Calls, Certainty, Edit, Finding, Fix, Harm, Rule, Safety
from shardlint.site import Site
from shardlint_rules.jit.placed import ASKS_TRACED

# Moving between memories is what device_put in jit is for; none of these place an array on a mesh.
_MEMORY = ("memory_kind", "memory.Space", "TransferToMemoryKind", "pinned_host", "unpinned_host", "Space.")
_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PositionalSharding", "jax.sharding.GSPMDSharding")


class DevicePutInJit(Rule):
    """`device_put` with a sharding inside traced code places nothing.

    ## What it does
    Reports `jax.device_put(x, sharding)` in code that is traced by jit, filter_jit, scan, shard_map and the like, also
    when a traced function reaches it through other functions and files.

    ## Why it hurts
    Inside a trace there is no array to move. On a mesh with Auto axes the call leaves no operation in the compiled
    program: the value keeps the sharding it came with, and what came uncommitted ends up replicated on every device.
    Nothing is raised, and the numbers are right.

    ## Example
    ```python
    @jax.jit
    def step(x):
        x = jax.device_put(x, NamedSharding(mesh, P("data")))
        return x * 2
    ```

    ## Use instead
    ```python
    @jax.jit
    def step(x):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
        return x * 2
    ```
    In Equinox code use `eqx.filter_shard`, which also takes Modules.

    ## Fix safety
    Unsafe: the constraint takes effect, so the compiled program changes its memory and communication.

    ## Evidence
    Rows B1, B2, B4, B5 and B9 of the experiments, run on jax 0.4.38 to 0.12. Under `jax.set_mesh` with Explicit axes
    `device_put` does reshard, and memory kinds are always honoured: both are left alone.
    """

    code = "SL201"
    name = "device-put-in-jit"
    harm = Harm.SILENT
    wakes = (Calls("jax.device_put"),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a placement call in traced code."""
        target = site.argument("device")
        if (
            target is None or site.form != "call" or site.fate[0] == "dropped"
        ):  # SL203 tells of dropped results
            return
        certainty = self._certainty(site, target)
        if certainty is None or site.expected_to_fail:
            return
        value = site.text(site.call.args[0]) if site.call.args else "the value"
        yield site.finding(
            site.call.func,
            site.region.describe(site.file),
            f"On {site.on('jax')} this places nothing: {value} stays as it came, "
            "replicated on all devices if it was fresh.",
            help="constrain it with jax.lax.with_sharding_constraint, or place it before the traced function is called",
            fix=self._fix(site),
            certainty=certainty,
        )

    def _certainty(self, site: Site, target: ast.expr) -> Certainty | None:
        places, explicit = self._places(site, target), self._explicit(site, target)
        if places is None or explicit is True or _knows_it_is_traced(site):
            return None
        # Its input may come from another memory, which device_put does leave.
        memories = any(map(site.file.says, ("pinned_host", "memory_kind")))
        sure = places and explicit is False and not memories
        if not (sure or site.likely) or site.region.traced not in ("always", "sometimes"):
            return None
        return Certainty.PROVEN if sure and site.region.proven else Certainty.LIKELY

    def _places(self, site: Site, target: ast.expr) -> bool | None:
        """Whether the target is a sharding: True when it surely is, False when it may be, None when it is not."""
        if any(word in site.text(target) for word in _MEMORY):
            return None
        sure = True
        for option in options(site.value(target)):
            if isinstance(option, Made) and option.api in _SHARDINGS:
                if option.call is not None and option.call.may_have("memory_kind", ()):
                    return None
            elif isinstance(option, Constant | Made | Api):
                return None
            else:
                sure = False
        return True if sure else (False if "shard" in site.text(target).lower() else None)

    def _explicit(self, site: Site, target: ast.expr) -> bool | None:
        """Whether the mesh has Explicit axes, where device_put in jit does reshard; None when it may have."""
        answer: bool | None = False
        for option in options(site.value(target)):
            parts = site.sharding_parts(option)
            mesh = site.mesh_of(parts[0]) if parts is not None else None
            if mesh is None:
                # Auto is what Mesh() gives and nearly all code has; a project that says Explicit may mean this one.
                answer = None if site.program.project.anywhere("AxisType.Explicit") else answer
            elif mesh.axis_types in ("explicit", "mixed", "unknown") or (
                mesh.axis_types == "default" and mesh.api == "jax.make_mesh" and site.runs("jax", ">=0.9")
            ):
                return True
        return answer

    def _fix(self, site: Site) -> Fix | None:
        if site.form != "call" or site.arguments.open_keywords or site.arguments.open_positional:
            return None
        equinox = site.region.by.rpartition(".")[2].startswith("filter_") or site.file.says("import equinox")
        name = "equinox.filter_shard" if equinox else "jax.lax.with_sharding_constraint"
        target = "device_or_shardings" if equinox else "shardings"
        spelling, imports = site.spell(name)
        edits = [site.replace(site.call.func, spelling)]
        keywords = site.call.keywords
        if any(keyword.arg not in ("x", "device") for keyword in keywords):
            call = self._rewritten(site, spelling, target)
            edits = [site.replace(site.call, call)]
            written = call
        else:
            edits += [
                Edit(start, start + len("device"), target)
                for start in (site.file.span(keyword)[0] for keyword in keywords if keyword.arg == "device")
            ]
            written = spelling + site.text()[len(site.text(site.call.func)) :].replace(
                "device=", f"{target}="
            )
        message = f"write: {_statement(site, written)}"
        return site.fix(
            Safety.UNSAFE,
            message,
            [*edits, *imports],
            "it changes the compiled program",
            drops=_dropped(site),
        )

    def _rewritten(self, site: Site, spelling: str, target: str) -> str:
        """The call without the keywords that only device_put has (donate, may_alias, src)."""
        import libcst as cst

        from shardlint import islands

        call = cst.ensure_type(site.node, cst.Call)
        call = islands.without_keywords(call, {"donate", "may_alias", "src"})
        args = [
            arg.with_changes(keyword=cst.Name(target))
            if arg.keyword is not None and arg.keyword.value == "device"
            else arg
            for arg in call.args
        ]
        return islands.code(call.with_changes(func=cst.parse_expression(spelling), args=args))


def _dropped(site: Site) -> tuple[str, ...]:
    """The name `device_put` itself, where it was imported by `from jax import device_put`."""
    return (site.call.func.id,) if isinstance(site.call.func, ast.Name) else ()


def _statement(site: Site, written: str) -> str:
    """The statement with the call rewritten, where it fits on one line."""
    statement = site.file.statement(site.syntax)
    text = site.text(statement)
    if isinstance(statement, ast.Assign | ast.Expr | ast.Return) and len(text) <= 120 and "\n" not in text:
        return text.replace(site.text(), written)
    return " ".join(written.split())


def _knows_it_is_traced(site: Site) -> bool:
    """`if isinstance(x, Tracer)` and the like: the code asks whether it is traced."""
    for outer in site.file.ancestors(site.syntax):
        if isinstance(outer, ast.If | ast.IfExp) and any(
            word in site.text(outer.test) for word in ASKS_TRACED
        ):
            return True
    return False
