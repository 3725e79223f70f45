"""SL201."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.made_meshes import files_making_meshes, meshes_made_in
from shardlint.model.values import Api, CallResult, Constant, Place, Value
from shardlint.rewrite.edits import Layer
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.bindings import lookup_bindings
from shardlint_rules.jit import _memories
from shardlint_rules.jit._device_put_targets import (
    MAPS,
    Placement,
    annotated_sharding_class,
    find_placement,
    is_bound_by_partial,
    may_hold_numbers,
    possible_shardings,
    reason_called_eagerly,
    says_the_same,
    shard_map_around,
    source_of_none,
)
from shardlint_rules.jit._device_put_targets import PUT as _PUT
from shardlint_rules.jit.tracer_tests import knows_it_is_traced

_UNCHECKED = compile_lazily(r"check_(?:vma|rep)\s*=\s*False")
_SPEC = "jax.sharding.PartitionSpec"
_SHARDINGS = ("jax.sharding.NamedSharding", "jax.sharding.PositionalSharding", "jax.sharding.GSPMDSharding")


class DevicePutInJit(Rule):
    """`device_put` with a sharding inside traced code has no effect.

    On a mesh with Auto axes the call adds no operation to the compiled program. A committed value keeps its sharding.
    An uncommitted value ends up replicated.

    In a `shard_map` body:

    - If the `shard_map` is called outside jit, `device_put` always raises ValueError.
    - If it is called inside jit, `device_put` raises ValueError from jax 0.7.2 for a value that varies across devices.
      With `check_vma=False`, and on jax 0.6, it has no effect.

    ## Reports
    - proven: `jax.device_put(x, sharding)` in code traced by jit, filter_jit, scan, shard_map and similar functions.
      The traced function may come from another file, a dict or list, a decorator that the project defines, or
      `f.defvjp`.
    - proven: `device_put` passed to `jax.tree.map`, `map` or `functools.partial`, in traced code.
    - proven: `device_put(*args)` in traced code, if `args` is a literal tuple.
    - `known-calls-traced` (likely): `jax.device_put(x, sharding)` in a function that the project calls only from traced
      code. Code outside the project may still call it outside jit.
    - `spec` (likely): `device_put(x, P("data"))` in traced code, if every mesh of the project has Auto axes.
    - `annotated` (possible): `device_put(x, target)` in traced code, if `target` is annotated as a sharding.
    - `named-sharding` (possible): `device_put(x, target)` in traced code, if only the name of `target` suggests a
      sharding.
    - `mesh` (possible): `device_put(x, sharding)` in traced code, if the mesh may have Explicit axes.
    - `maybe-traced` (possible): `device_put(x, sharding)` in a function that is probably traced.

    ## Write instead
    Write `jax.lax.with_sharding_constraint`. Equinox code can use `eqx.filter_shard`, which also takes Modules.

    ## Fix
    Replaces the call with the constraint. Unsafe: the array is now sharded, so memory and communication change. Numbers
    and numpy arrays get `with_sharding_constraint`: `filter_shard` ignores numbers. No fix:

    - in a `shard_map`
    - for a sharding that may be None, if the code does not test it
    - for an argument of a function that also runs outside traced code, or that code outside the project may call.

    ## Limits
    Not reported:

    - `device_put` under `jax.set_mesh` with Explicit axes: it reshards the array
    - a `device_put` that changes the memory kind: it works in traced code too
    - code that checks for a tracer, such as `isinstance(x, jax.core.Tracer)`.
    """

    code = "SL201"
    name = "device-put-in-jit"
    harm = Harm.SILENT
    triggers = (Calls("jax.device_put"), Calls(*MAPS, file_says=("device_put",)))
    fixes = "unsafe"
    bound = True
    likely = ("known-calls-traced", "spec")
    assumptions: ClassVar[Mapping[str, str]] = {
        "known-calls-traced": "Calls outside the project are traced too.",
        "spec": "Meshes created outside the project have Auto axes too.",
    }
    behind = ("SL214",)

    @detector("call", "partial")
    def report_placement(self, site: Site) -> Finding | None:
        """A placement in traced code, or one that a `tree.map` makes of each leaf."""
        put = find_placement(site)
        if put is None or site.result_use[0] == "dropped":  # SL203 tells of dropped results
            return None
        form = self._find_form(site, put.target)
        if form is None:
            return None
        region = site.region if form != "known-calls-traced" else site.region_in_sight
        if form == "spec" and region.traced == "unknown":
            region = site.region_in_sight
        also = (
            reason_called_eagerly(site)
            if form != "known-calls-traced"
            else ""
            if _is_value_computed_here(site)
            else _reason_caller_decides(site)
        )
        effect = "has no effect in traced code" if not also else "has no effect when this is traced"
        message = f"`device_put` {effect}: `{_quote_shortened(put.what)}` keeps its sharding."
        help = "write `jax.lax.with_sharding_constraint`, or place the array before the call of the traced function"
        body, harm = shard_map_around(site, region), Harm.SILENT
        if body is not None:
            fix, kept = None, ""
            message, harm = self._effect_in_shard_map(site, body)
            help = f"remove the `device_put`: `in_specs` and `out_specs` of the `shard_map` at {site.where(body)} " + (
                "decide the sharding"
            )
        else:
            # Outside traced code a constraint to a sharding spreads an array too, where its mesh is.
            left = also if form or not _is_value_computed_here(site) else ""
            fix, kept = (None, left) if left else self._write_fix(site, put)
        return site.finding(
            put.function,
            message,
            via=region,
            help=help,
            fix=fix,
            kept=kept,
            harm=harm,
            form=form,
            why=self._explain_why(site, put.target, form),
        )

    def _effect_in_shard_map(self, site: Site, body: Place) -> tuple[str, Harm]:
        """The effect in the body of a shard_map, and its harm."""
        if _UNCHECKED.search(body.source_text()) or not site.allows("jax", ">=0.7.2"):
            message = "`device_put` has no effect in a `shard_map` body inside jit: each device keeps its shard."
            return message, Harm.SILENT
        message = "`device_put` raises ValueError in a `shard_map` body for a value that varies across devices."
        return message, Harm.CRASH

    def _explain_why(self, site: Site, target: ast.expr, form: str) -> str:
        """The evidence that the call is traced, and that its target is a sharding."""
        text = site.shown(target)
        reasons = {
            "known-calls-traced": "the project calls this function only from traced code",
            "spec": f"`{text}` is a spec, and every mesh of the project has Auto axes; with no mesh set it raises",
            "annotated": f"`{text}` is annotated as {annotated_sharding_class(site, target)}",
            "named-sharding": f"the name `{text}` suggests a sharding",
        }
        return reasons.get(form, "")

    def _find_form(self, site: Site, target: ast.expr) -> str | None:
        """Return the form of the finding, which names its uncertainty; None if there is no mistake."""
        values = possible_shardings(site, target)
        if values and all(isinstance(one, CallResult) and one.api == _SPEC for one in values):
            return self._explain_bare_spec(site)
        places, explicit = self._is_sharding(site, target, values), self._is_mesh_explicit(site, values)
        if places is None or explicit is True or knows_it_is_traced(site):
            return None
        unsure = "annotated" if annotated_sharding_class(site, target) else "named-sharding"
        form = unsure if not places else "" if explicit is False else "mesh"
        if form and not site.wants(form):
            return None
        if site.region.traced not in ("always", "sometimes") and not self._traced_in_sight(site, form):
            return None
        if _memories.mentions_memory_kinds(site):
            return None  # its input may come from another memory, which device_put does leave
        if site.region.traced == "unknown":
            return form or "known-calls-traced"
        return form or ("" if site.region.is_proven or reason_called_eagerly(site) else "maybe-traced")

    def _explain_bare_spec(self, site: Site) -> str | None:
        """Of a bare spec, which device_put reads against the mesh that is set: what _form says of shardings."""
        if not site.wants("spec") or knows_it_is_traced(site) or not _are_all_meshes_auto(site):
            return None
        if site.region.traced not in ("always", "sometimes") and not self._traced_in_sight(site, ""):
            return None
        return "spec" if not _memories.mentions_memory_kinds(site) else None

    def _traced_in_sight(self, site: Site, form: str) -> bool:
        """Return whether a visible call reaches the site in traced code, though others may be out of sight."""
        if site.region.traced != "unknown" or form or not site.wants("known-calls-traced"):
            return False
        return site.region_in_sight.traced in ("always", "sometimes")

    def _is_sharding(self, site: Site, target: ast.expr, values: list[Value]) -> bool | None:
        """Return whether the target is a sharding: True when it surely is, False when it may be, None when it is not.
        """
        if any(word in site.text(target) for word in _memories.WORDS):
            return None
        given = [one for one in values if one != Constant(None)]  # device_put(x, None) has no effect either
        if values and not given:
            return None
        sure = bool(given)
        for option in given:
            if isinstance(option, CallResult) and option.api in _SHARDINGS:
                if option.call is not None and option.call.may_have_argument("memory_kind", ()):
                    return None
            elif isinstance(option, Constant | CallResult | Api):
                return None
            else:
                sure = False
        if sure:
            return True
        return False if "shard" in site.text(target).lower() or annotated_sharding_class(site, target) else None

    def _is_mesh_explicit(self, site: Site, values: list[Value]) -> bool | None:
        """Return whether the mesh has Explicit axes, where device_put in jit does reshard; None when it may have."""
        answer: bool | None = False
        for option in values:
            if option == Constant(None):
                continue
            parts = site.sharding_parts(option)
            mesh = site.mesh_of(parts[0]) if parts is not None else None
            if mesh is None:
                # Auto is what Mesh() gives and nearly all code has; a project that says Explicit may mean this one.
                answer = None if site.is_named_anywhere("AxisType.Explicit") else answer
            elif site.shardings.axis_types(mesh) != "auto":
                return True
        return answer

    def _write_fix(self, site: Site, put: Placement) -> tuple[Fix | None, str]:
        """The fix; or why there is none."""
        if Constant(None) in possible_shardings(site, put.target):
            text, where = " ".join(site.text(put.target).split()), site.where(source_of_none(site, put.target))
            return None, f"`{text}` may be None ({where}), and a constraint by None raises; test it first"
        star = [one.value for one in site.call.args if isinstance(one, ast.Starred)]
        star += [one.value for one in site.call.keywords if not one.arg]
        if star and not (site.api == _PUT and len(site.call.args) + len(site.call.keywords) == 2):
            where = f"line {star[0].lineno}"
            return None, f"`{site.text(star[0])}` at {where} hides arguments of device_put; write them out"
        equinox = site.region.by.rpartition(".")[2].startswith("filter_") or site.file.contains_text("import equinox")
        mapped = site.call.args[int(put.function is not site.call.func)] if site.api in MAPS else None
        array = site.call.args[0] if star else site.argument("x") if site.api == _PUT else mapped
        if array is not None and may_hold_numbers(site, array):
            equinox = False
        name = "equinox.filter_shard" if equinox else "jax.lax.with_sharding_constraint"
        target = "device_or_shardings" if equinox else "shardings"
        spelling, imports = site.spell(name)
        edits = [site.replace(put.function, spelling)]
        keywords = site.call.keywords if site.api == _PUT else []
        more = [keyword.arg for keyword in keywords if keyword.arg not in ("x", "device")]
        if site.form == "call" and is_bound_by_partial(site, put.target):
            text = " ".join(site.text(put.target).split())
            if array is None or not says_the_same(site, put.target):
                return (
                    None,
                    f"line {put.target.lineno} reads `{text}` in another scope; give it a name in this one",
                )
            written = f"{spelling}({site.text(array)}, {text})"
            edits = [site.replace(site.call, written)]
            if site.api in MAPS and put.function is not site.call.func:
                leaf = next(one for one in ("x", "leaf", "leaf_") if not re.search(rf"\b{one}\b", text))
                written = f"lambda {leaf}: {spelling}({leaf}, {text})"
                edits = [site.replace(put.function, written)]
        elif more:
            if site.form != "call":
                return (
                    None,
                    f"the partial at line {site.call.lineno} binds `{more[0]}`, and only device_put takes it",
                )
            written = self._rewrite_as_constraint(site, spelling, target)
            edits = [site.replace(site.call, written)]
        else:
            edits += [
                Edit(start, start + len("device"), target)
                for start in (site.file.character_span(keyword)[0] for keyword in keywords if keyword.arg == "device")
            ]
            base = site.file.character_span(site.call)[0]
            moved = [Edit(edit.start - base, edit.end - base, edit.text) for edit in edits]
            written = Layer.sort_edits(moved).apply_edits(site.text())
        dropped = (put.function.id,) if isinstance(put.function, ast.Name) else ()
        message = f"write: {_find_statement(site, written)}"
        why = "it changes the compiled program"
        if not site.region.is_proven:
            why += ", and outside traced code a constraint raises for an array committed to one device"
        return site.fix(Safety.UNSAFE, message, [*edits, *imports], why, drops=dropped), ""

    def _rewrite_as_constraint(self, site: Site, spelling: str, target: str) -> str:
        """The call without the keywords that only device_put has (donate, may_alias, src)."""
        import libcst as cst

        from shardlint.rules_api import cst as islands

        call = cst.ensure_type(site.node, cst.Call)
        call = islands.without_keywords(call, {"donate", "may_alias", "src"})
        args = [
            arg.with_changes(keyword=cst.Name(target))
            if arg.keyword is not None and arg.keyword.value == "device"
            else arg
            for arg in call.args
        ]
        return islands.code_of_node(call.with_changes(func=cst.parse_expression(spelling), args=args))


def _reason_caller_decides(site: Site) -> str:
    """The reason not to rewrite what a caller passes."""
    function = site.scope.enclosing_function()
    name = getattr(function.node, "name", "the function") if function is not None else "the function"
    return f"code outside the project may call `{name}` outside jit, where device_put works"


def _quote_shortened(text: str) -> str:
    """An expression for a message, on one line."""
    line = " ".join(text.split())
    return line if len(line.split()) <= 6 else f"{line[:20].rstrip()}..."


def _find_statement(site: Site, written: str) -> str:
    """The statement with the call rewritten, where it fits on one line."""
    statement = site.file.statement(site.syntax)
    text = site.text(statement)
    if isinstance(statement, ast.Assign | ast.Expr | ast.Return) and len(text) <= 120 and "\n" not in text:
        return text.replace(site.text(), written)
    return " ".join(written.split())


def _is_value_computed_here(site: Site) -> bool:
    """Return whether the placed value was made in the function itself. Outside traced code a constraint shards that
    too.

    What a caller gives may lie anywhere.
    """
    node = site.call.args[0] if site.api == _PUT and site.form == "call" and site.call.args else None
    if isinstance(node, ast.Name):
        bindings, scope = lookup_bindings(site.file, node, node.id)
        if scope is None or scope.kind == "module":
            return False
        parts = (ast.Name, ast.Attribute, ast.Subscript)
        return bool(bindings) and not any(one.kind == "param" or isinstance(one.value, parts) for one in bindings)
    return isinstance(node, ast.Call | ast.BinOp) and not site.arguments.open_positional


def _are_all_meshes_auto(site: Site) -> bool:
    """Return whether the program makes meshes, and all of them with Auto axes."""
    return site.program.once(site.file, "SL201 auto", lambda: _is_made_with_auto_axes(site))


def _is_made_with_auto_axes(site: Site) -> bool:
    some = False
    for file in files_making_meshes(site.program, site.file.path, tests=False):
        for mesh in meshes_made_in(site.program, file) if file is not None else (None,):
            if mesh is None or site.shardings.axis_types(mesh) != "auto":
                return False
            some = True
    return some
