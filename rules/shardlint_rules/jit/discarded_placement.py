"""SL203."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import ClassVar

from shardlint.facts.placements import PLACED_WORDS
from shardlint.facts.repeated import is_test
from shardlint.facts.shardings import PLACING
from shardlint.facts.side_effects import called_function, has_no_effects
from shardlint.model.values import CallResult, Items, Leaves, Place, Table, Value, options
from shardlint.rules_api.rule import (
    Calls,
    Edit,
    Finding,
    Fix,
    Harm,
    Rule,
    Safety,
    Statements,
    detector,
)
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.enclosing import enclosing_nodes, is_exception_caught
from shardlint_rules.jit._discarded_maps import (
    MAPPED,
    UPDATES,
    find_dropped_update,
    find_map_statement,
    is_map_dropped,
)
from shardlint_rules.jit._discarded_results import MAKING, ONLY_GIVING, dropped_result_message
from shardlint_rules.jit._own_manager import MANAGER_WORDS, context_of_unused_manager
from shardlint_rules.jit._placing_calls import asks_for_a_place, is_call_placing
from shardlint_rules.jit._unread_collectives import SYNCED, unread_synced_call
from shardlint_rules.jit._unread_placements import find_unread_tree_name

_MAP = "jax.tree.map"
# Beside these a map over trees is looked at for placements too.
_NEAR = (*PLACED_WORDS, "pmap", "device_count")
_HALIAX = ("haliax.shard", "haliax.auto_sharded")
_EINSHARD = "einshard.einshard"
_ABSTRACT = "jax.sharding.use_abstract_mesh"
# `jax.set_mesh(mesh)` is not here: as a statement it sets the mesh.
_MANAGERS = (
    "jax.sharding.use_mesh",
    _ABSTRACT,
    "jax.experimental.mesh_utils.use_mesh",
)

# They read the annotations of NNX back.
_ANNOTATED = ("flax.nnx.get_partition_spec", "flax.nnx.get_named_sharding")
_NO_PLACE = "shardlint does not know which name below should hold the placed array"
_ITSELF = "the call may be there for its side effect or its error"
_AS_IT_WAS = "code below may need the old value"
_COLLECTED = "the list has no name"
_NOT_ENTERED = "shardlint does not know which statements belong in the `with` block"


class DiscardedPlacement(Rule):
    """The result of a placement or constraint is discarded.

    Arrays are immutable: each of these calls returns a new array. If the result is discarded, the array keeps its
    placement and nothing is raised. In traced code a discarded constraint adds no operation to the compiled program.

    ## Reports
    - proven: `device_put`, `with_sharding_constraint`, `filter_shard`, `reshard`, `hax.shard` or `einshard` as a
      statement.
    - proven: such a call whose result is assigned to a name or put into a tree, if nothing reads the name or tree.
    - proven: a mesh context manager called as a statement (`use_mesh(mesh)`): no mesh is set.
    - proven: a collective (`jax.lax.pmean(grads, "batch")`), `replicate`, `unreplicate`,
      `jax.make_array_from_process_local_data` or `optax.apply_updates` as a statement.
    - proven: `if n is None: jax.local_device_count()`. The result is discarded, and `n` stays None.
    - proven: a call of a project function as a statement, if the function only returns a new array.
    - `array-not-read` (possible): one of these calls as a statement, if nothing below reads the array either.
    - `computed` (likely): `x.at[i].set(y)` or a `jax.tree.map` as a statement, if nothing in it has a side effect.
    - `synced` (likely): `grads = sync(grads)`, `pmean` or a similar function, if nothing reads the name afterwards.

    ## Write instead
    Assign the result to the name that the following code reads.

    ## Fix
    Assigns the result to the variable that was passed, if the code below reads this variable. Unsafe: the array is now
    sharded, so memory and communication change.

    ## Limits
    Not reported:

    - `jax.set_mesh(mesh)`, which works as a statement
    - `device_put(x)` without a target
    - tests, benchmarks and calls in a `try`
    - code at the top level of a notebook cell
    - a result that is assigned to a name with a leading underscore.
    """

    code = "SL203"
    name = "discarded-placement"
    harm = Harm.SILENT
    likely = ("computed", "synced")
    assumptions: ClassVar[Mapping[str, str]] = {
        "computed": "No method called in the statement has a side effect.",
    }
    triggers = (
        Calls(*PLACING, *_MANAGERS),
        Calls(*_HALIAX, file_says=("haliax",)),
        Calls(_EINSHARD, file_says=("einshard",)),
        Calls(_MAP, file_says=_NEAR),
        Calls(*ONLY_GIVING),
        Statements("shard", "plac", "put", "constrain", "replicat", "commit", "distribut"),
        Statements(*MANAGER_WORDS),
        SYNCED,
        UPDATES,
        MAPPED,
    )
    fixes = "unsafe"

    @detector("line", finds="computed")
    def report_update(self, site: Site) -> Finding | None:
        """A statement `x.at[i].set(y)`, or a map over trees in a file that says nothing of where arrays are."""
        call = find_dropped_update(site)
        mapped = find_map_statement(site) if call is None and not any(map(site.file.contains_text, _NEAR)) else None
        if mapped is not None and is_map_dropped(site, mapped):
            call = mapped
        return self._report_computed(site, call) if call is not None else None

    @detector("line", finds="synced")
    def report_reduced(self, site: Site) -> Finding | None:
        """A call whose result is bound to the name of its argument, which nothing reads afterwards."""
        call = unread_synced_call(site)
        if (
            call is None
            or is_test(site.file, call)
            or is_exception_caught(site.file, call)
            or _is_shown_by_notebook(site)
        ):
            return None
        name = site.syntax.targets[0].id  # type: ignore[attr-defined]
        return site.finding(
            call.func,
            f"The result of this call is lost: nothing below reads it from `{name}`.",
            why=f"the function ends or reassigns `{name}` before any read",
            help="pass the array that the code below reads, and assign the result to its name",
        )

    @detector("statement")
    def report_own_manager(self, site: Site) -> Finding | None:
        """A context manager of the project as a statement."""
        entered = context_of_unused_manager(site)
        if entered is None:
            return None
        return site.finding(
            site.call.func,
            f"`{last_name(site.call.func)}` as a statement has no effect: it is a context manager.",
            why=f"only a `with` statement runs its `{entered}`",
            help=f"write `with {site.text()}:`",
            kept=_NOT_ENTERED,
        )

    @detector("statement")
    def report_helper(self, site: Site) -> Finding | None:
        """A function of the project as a statement that only returns an array."""
        function = (
            called_function(site.program.evaluator, Place(site.file, site.call))
            if not _is_used(site)
            else None
        )
        if function is None or not has_no_effects(function):
            return None
        if made := _placing_calls(site):
            return self._report_through(site, made)
        return self.report_dropped_result(site) if site.result_use[0] == "dropped" else None

    @detector("call", of=_MAP)
    def report_map(self, site: Site) -> Finding | None:
        """A map over trees that places each leaf, or only computes."""
        if _is_used(site):
            return None
        if made := _placing_calls(site):
            return self._report_through(site, made)
        return self._report_computed(site, site.call) if is_map_dropped(site, site.call) else None

    @detector("call", of=tuple(ONLY_GIVING))
    def report_dropped_result(self, site: Site) -> Finding | None:
        """A call without side effects whose result is dropped."""
        said = dropped_result_message(site, _find_subject(site))
        if (
            said is None
            or is_test(site.file, site.call)
            or is_exception_caught(site.file, site.syntax)
            or _is_shown_by_notebook(site)
        ):
            return None
        message, advice = said
        form = "array-not-read" if _is_array_done(site) else ""
        return site.finding(site.call.func, message, label="result dropped", help=advice, kept=_ITSELF, form=form)

    @detector("call", of=_MANAGERS)
    def report_manager(self, site: Site) -> Finding | None:
        """A context manager of jax as a statement."""
        if site.result_use[0] != "dropped" or _is_used(site):
            return None
        argument = site.text(site.call.args[0]) if site.call.args else "mesh"
        return site.finding(
            site.call.func,
            f"`{last_name(site.call.func)}` as a statement sets no mesh: it is a context manager.",
            label="never entered",
            help=f"write `with {site.text()}:`"
            if site.allows("jax", "<0.7.1") or site.api == _ABSTRACT
            else f"write `with jax.set_mesh({argument}):`",
            kept=_NOT_ENTERED,
        )

    @detector("call", of=tuple(PLACING))
    def report_lost_later(self, site: Site) -> Finding | None:
        """A placement that becomes a part of what is never read."""
        if site.result_use[0] != "used" or not asks_for_a_place(site):
            return None
        name = find_unread_tree_name(site)
        if (
            name is None
            or _is_benchmark_run(site)
            or is_exception_caught(site.file, site.syntax)
            or _is_shown_by_notebook(site)
            or _is_nnx_initialization(site)
        ):
            return None
        return site.finding(
            name,
            f"The placement at line {site.call.lineno} has no effect: nothing reads `{name.id}`.",
            why="arrays are immutable: the code below uses the array with its old placement",
            help=f"use `{name.id}` below",
            kept=_NO_PLACE,
        )

    @detector("call", of=(*PLACING, *_HALIAX, _EINSHARD))
    def report_lost(self, site: Site) -> Finding | None:
        """A placement whose result goes nowhere."""
        first = site.call.args[0] if site.call.args else None
        if first is None or (site.api in PLACING and not asks_for_a_place(site)):
            return None
        if _is_used(site) or _is_nnx_initialization(site):
            return None
        result_use, name = site.result_use
        value = site.shown(first)
        if result_use == "never read":
            return self._report_unread(site, name)
        collected = site.file.parent(site.call)
        whole = isinstance(collected, ast.Expr)
        kept = _reason_not_bindable(site, first) if whole else _COLLECTED
        return site.finding(
            site.call.func,
            f"This call has no effect: `{value}` keeps its placement.",
            label="result dropped",
            help=f"assign the result: {value} = {site.text(site.call.func)}({value}, ...)"
            if whole
            else "assign the list to a name, and use its entries",
            fix=None if kept else self._write_fix(site, first),
            kept=kept,
            form="array-not-read" if whole and _is_array_done(site) else "",
            why=_explain_why(site),
        )

    def _report_unread(self, site: Site, name: str | None) -> Finding:
        return site.finding(
            site.call.func,
            f"This call has no effect: no later line reads the placed array `{name}`.",
            why=_explain_why(site),
            help=f"use `{name}` below, or assign the result to the name that the code below reads",
            kept=_NO_PLACE,
        )

    def _report_through(self, site: Site, call_results: list[CallResult]) -> Finding | None:
        """A call that comes to placements: through `jax.tree.map`, or a function that does nothing else."""
        if not any(is_call_placing(one, site.program.evaluator) for one in call_results):
            return None
        by = call_results[0].api.rpartition(".")[2]
        where = call_results[0].call.place if call_results[0].call is not None else None
        at = f" at line {where.line}" if where is not None and where.file is site.file else ""
        value, name = _find_subject(site), site.result_use[1]
        if name:
            return self._report_unread(site, name)
        return site.finding(
            site.call.func,
            f"This call has no effect: `{value}` keeps its placement.",
            label="result dropped",
            why=f"it only returns the result of `{by}`{at}",
            help=f"assign the result: {value} = {site.text(site.call.func)}(...)",
            kept=_ITSELF,
        )

    def _report_computed(self, site: Site, call: ast.Call) -> Finding | None:
        """A statement that only makes new arrays."""
        if is_test(site.file, call) or is_exception_caught(site.file, call) or _is_shown_by_notebook(site):
            return None
        at = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Subscript)
        given = site.text(call).partition(".at[")[0] if at else site.text(call.args[1])
        value = " ".join(given.split())
        return site.finding(
            call.func,
            f"This statement has no effect: it returns a new array, and `{value}` stays as it was.",
            label="result dropped",
            help=f"assign the result: {value} = ...",
            kept=_AS_IT_WAS,
            form="computed",
            why="arrays are immutable, and no call in it has a known side effect",
        )

    def _write_fix(self, site: Site, first: ast.expr) -> Fix:
        name = ", ".join(site.text(one) for one in _find_variables(first))
        start, _ = site.file.character_span(site.syntax)
        written = f"{name} = {' '.join(site.text().split())}"
        return site.fix(
            Safety.UNSAFE,
            f"write: {written}",
            [Edit(start, start, f"{name} = ")],
            "the array is now sharded, so memory and communication change",
        )


def _reason_not_bindable(site: Site, first: ast.expr) -> str:
    """Why the result cannot be bound to what was given; empty where it can."""
    names = _find_variables(first)
    if not names or len({one.id for one in names}) < len(names):
        return f"`{site.shown(first)}` is not a variable"
    for name in names:
        bindings, owner = lookup_bindings(site.file, name, name.id)
        if not bindings or owner is not site.scope:
            return f"`{name.id}` is not a variable of this function"
    if not any(_read_later(site, name) for name in names):
        return f"nothing below reads `{site.text(first)}`"
    return ""


def _find_variables(node: ast.expr) -> list[ast.Name]:
    """The variable that is given, or those of a tuple or list of several; none where it is something else."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1 else [node]
    names = [one for one in parts if isinstance(one, ast.Name)]
    return names if len(names) == len(parts) else []


def _is_used(site: Site) -> bool:
    """Return whether a result is used, or is intended to be displayed or dropped."""
    if site.result_use[0] == "used" or is_exception_caught(site.file, site.syntax):
        return True
    return _is_shown_by_notebook(site) or _is_benchmark_run(site)


def _placing_calls(site: Site) -> list[CallResult]:
    return _find_placements(site.program.evaluator.trees.expand_tree_map(site.value(site.call)))


def _find_placements(value: Value) -> list[CallResult]:
    """The placements a value is, or has for leaves; none where it may be anything else."""
    found: list[CallResult] = []
    for option in options(value):
        if isinstance(option, Leaves):
            inner = _find_placements(option.of)
        elif isinstance(option, Items) and not option.open:
            inner = [one for item in option.items for one in _find_placements(item)]
        elif isinstance(option, Table) and not option.open:
            inner = [one for _, item in option.entries for one in _find_placements(item)]
        else:
            inner = (
                [option]
                if isinstance(option, CallResult) and option.api in (*PLACING, *MAKING, *_HALIAX)
                else []
            )
        if not inner:
            return []
        found += inner
    return found


def _find_subject(site: Site) -> str:
    """Return the text of the argument that a call places."""
    arguments = site.call.args[1:] if site.api == _MAP else site.call.args
    return site.shown(arguments[0]) if arguments else "the argument"


def _explain_why(site: Site) -> str:
    if site.region.is_proven:
        return "a discarded constraint adds no operation to the compiled program"
    return "arrays are immutable: the call returns a new array"


def _is_benchmark_run(site: Site) -> bool:
    """True in a test or benchmark outside traced code, which may call only to see that it runs."""
    function = site.scope.enclosing_function()
    names = [site.file.path.name]
    while function is not None:
        names.append(function.name)
        function = function.parent.enclosing_function() if function.parent is not None else None
    smoke = any(
        name.startswith(("test_", "bench")) or name.endswith(("_test.py", "_benchmark.py")) for name in names
    )
    return smoke and not site.region.is_proven


def _is_shown_by_notebook(site: Site) -> bool:
    """An expression at the top of a notebook's cell is there to be looked at."""
    if site.scope.kind != "module":
        return False
    text = site.file.source.text
    return site.file.source.in_cells or any(
        mark in text for mark in ("# %%", "# In[", "get_ipython()", "# +\n")
    )


def _is_nnx_initialization(site: Site) -> bool:
    """Return whether it is a step of an NNX model's sharded initialization, which flax does by itself since 0.12."""
    specs = site.argument("shardings") if site.api == "jax.lax.with_sharding_constraint" else None
    return specs is not None and all(
        isinstance(one, CallResult) and one.api in _ANNOTATED for one in options(site.value(specs))
    )


def _is_array_done(site: Site) -> bool:
    """True if the array that is passed is a value of this function that nothing below reads, also not its caller."""
    names = _find_variables(site.call.args[0]) if site.call.args else []
    if not names or site.scope.kind != "function":
        return False
    for name in names:
        bindings, owner = lookup_bindings(site.file, name, name.id)
        own = owner is site.scope and all(one.kind in ("assign", "unpack") for one in bindings)
        if not own or _read_later(site, name):
            return False
    return True


def _read_later(site: Site, name: ast.Name) -> bool:
    """Return whether the name is read after the call, on some path from the call."""
    position = (site.call.end_lineno or 0, site.call.end_col_offset or 0)
    in_loop = any(enclosing_nodes(site.file, site.syntax, ast.For, ast.While))
    for node in site.file.find_mentions(name.id):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node is not name:
            _, owner = lookup_bindings(site.file, node, name.id)
            if owner is site.scope and (in_loop or (node.lineno, node.col_offset) > position):
                return True
    return False
