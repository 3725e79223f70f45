"""flax linen: what runs the methods of Modules: `init`, `apply`, `setup`, and lifted transforms.

Facts of flax, each tried: `init` runs the method and gives the variables in their boxes; what the method itself sees is
unboxed. `scan` and `vmap` run it for each row, and put an axis into each variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint.layouts.attributes import attribute_of_value
from shardlint.layouts.layout import Layout, Size
from shardlint.layouts.run_state import RunState
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    Call,
    DictValue,
    FunctionValue,
    Library,
    ListValue,
    Native,
    Unknown,
    Value,
    item_of,
    known_items,
    tree_leaves,
)
from shardlint.libraries.flax_modules import (
    APPLICATION,
    WORDS,
    Application,
    Lift,
    Lifted,
    Module,
    Scope,
    is_module_class,
    running_application,
)
from shardlint.libraries.registry import register_function


@register_function("flax.linen.Module.__method__")
def call_method(call: Call) -> Value:
    """A method of a Module."""
    body, module, *args = call.args
    if not isinstance(module, Module) or module.scope is None or getattr(body, "name", "") == "setup":
        return call.interpreter.call_value(body, (module, *args), call.keywords, call.place, call.open)
    return run_entered(replace(call, args=tuple(args)), module, lambda again: again.interpreter.call_value(
        body, (module, *again.args), again.keywords, again.place, again.open))  # fmt: skip


@register_function("flax.linen.Module.__call__")
def call_layer(call: Call) -> Value:
    """A layer of linen that is called."""
    module = call.args[0]
    apply = module.apply if isinstance(module, Module) else None
    if apply is None or module.scope is None:
        return Unknown("a Module outside of `apply`")
    return run_entered(replace(call, args=call.args[1:]), module, lambda again: apply(again, module))


def run_entered(call: Call, module: Module, body: Callable[[Call], Value]) -> Value:
    """Run a method as the innermost one: parts that it makes belong to the Module."""
    run, scope = call.interpreter, module.scope
    app = running_application(run)
    if app is None or scope is None or scope.app is not app:
        return body(call)
    if module.lifts and not any(one is module for one, _ in app.running):
        return _run_through_lifts(call, module, module.lifts, body)
    _set_up(call, module)
    again = any(one is module for one, _ in app.running)
    before = scope.doubts, scope.inside, run.doubts
    if not again:
        scope.counts.clear()
        scope.doubts, scope.inside = run.doubts, 0
    app.running.append((module, False))
    try:
        return body(call)
    finally:
        app.running.pop()
        if not again:
            if run.doubts - scope.doubts - scope.inside:
                _mark_open(app, scope)
            scope.doubts, scope.inside, doubts = before
            if app.running:
                outer = app.running[-1][0].scope
                if outer is not None:
                    outer.inside += run.doubts - doubts


def _mark_open(app: Application, scope: Scope) -> None:
    """Say that a Module may have other variables than those known."""
    for collection in app.made.entries:
        at: Scope | None = scope
        while at is not None:
            found = at.existing_variables(collection)
            if found is not None:
                found.open = True
                break
            at = at.parent
    app.made.open = app.made.open or not app.made.entries


def _set_up(call: Call, module: Module) -> None:
    """Name the parts that are fields, and run `setup`."""
    run, scope = call.interpreter, module.scope
    app = running_application(run)
    if module.is_set_up or scope is None or app is None:
        return
    module.is_set_up = True
    names = module.attributes
    for name, value in list(names.items()):
        if name not in ("name", "parent"):
            names[name] = _adopt_submodules(run, scope, name, value)
    setup = module.of.find_attribute("setup") if module.of is not None else MISSING
    if isinstance(setup, FunctionValue):
        before = dict(names)
        app.running.append((module, True))
        scope.doubts, scope.inside, held = run.doubts, 0, (scope.doubts, scope.inside)
        try:
            run.call_value(setup, (module,), {}, call.place)
        finally:
            app.running.pop()
        if run.doubts - scope.doubts:
            _mark_open(app, scope)
        scope.doubts, scope.inside = held[0] + run.doubts - scope.doubts, held[1]
        for name, value in list(names.items()):
            if before.get(name, MISSING) is not value:
                names[name] = _adopt_submodules(run, scope, name, value)


def _adopt_submodules(run: RunState, scope: Scope, name: str, value: Value) -> Value:
    """Return the value of an attribute, with the Modules in it as submodules."""
    if isinstance(value, Module):
        if value.scope is not None and value.scope.app is scope.app:
            return value
        known = scope.app.adopted.get(id(value))
        if known is None:
            part = value.with_parts(dict(value.attributes))
            assert isinstance(part, Module)
            part.region, part.scope = run.region, scope.scope_of_part(run, name)
            known = scope.app.adopted[id(value)] = value, part
        return known[1]
    if isinstance(value, tuple) and any(isinstance(one, Module) for one in value):
        return tuple(_adopt_submodules(run, scope, f"{name}_{place}", one) for place, one in enumerate(value))
    if isinstance(value, ListValue) and any(isinstance(one, Module) for one in value.items):
        items = [
            _adopt_submodules(run, scope, f"{name}_{place}", one) for place, one in enumerate(value.items)
        ]
        return ListValue(items, value.open, region=value.region)
    if isinstance(value, DictValue) and any(isinstance(one, Module) for one in value.entries.values()):
        entries = {
            key: _adopt_submodules(run, scope, f"{name}_{key}", one) for key, one in value.entries.items()
        }
        return DictValue(entries, value.open, region=value.region)
    return value


# init and apply


def _apply_module(call: Call, app: Application, args: tuple[Value, ...]) -> Value:
    """Run a method of a Module with variables; what it gives."""
    run, module = call.interpreter, call.args[0]
    chosen = call.keywords.get("method")
    keywords = {
        key: one for key, one in call.keywords.items()
        if key not in ("method", "mutable", "rngs", "capture_intermediates", "variables")
    }  # fmt: skip
    clone = module.with_parts(dict(module.attributes))
    assert isinstance(clone, Module)
    clone.region, clone.scope = run.region, Scope(app, doubts=run.doubts)
    app.uncommitted = all(
        leaf.committed is False for _, leaf in tree_leaves(args) if isinstance(leaf, Layout)
    )
    before = run.contexts
    run.contexts = {**before, APPLICATION: app}
    try:
        if chosen is None or isinstance(chosen, str):
            bound_method = attribute_of_value(run, clone, chosen or "__call__", call.place)
            return run.call_value(bound_method, args, keywords, call.place, call.open)
        body = getattr(chosen, "function", chosen)
        if isinstance(body, FunctionValue):
            return run.call_value(
                Library("flax.linen.Module.__method__"), (body, clone, *args), keywords, call.place, call.open
            )
        app.made.open = True
        return Unknown("a method")
    finally:
        run.contexts = before


@register_function("flax.linen.Module init init_with_output lazy_init")
def init_module(call: Call) -> Value:
    """The variables that a Module makes, in their boxes."""
    module, rngs = call.args[0], call.argument_at(1, "rngs")
    if not isinstance(module, Module):
        return Unknown("variables")
    app = Application(call.interpreter.region, True, DictValue(), rngs)
    found = _apply_module(call, app, call.args[2:])
    app.made.entries.pop("intermediates", None)
    _store_changed(app)
    variables = app.made if app.made.entries or not isinstance(found, Unknown) else AnyTree(Unknown())
    return (found, variables) if call.name.endswith("output") else variables


@register_function("flax.linen.Module apply")
def apply_module(call: Call) -> Value:
    """Return the result of a method with the variables given, and the changed collections if some are mutable."""
    module, given = call.args[0], call.argument_at(1, "variables")
    mutable = call.keywords.get("mutable", False)
    if not isinstance(module, Module):
        return Unknown("what a Module gives")
    app = Application(call.interpreter.region, False, given, call.keywords.get("rngs"))
    found = _apply_module(call, app, call.args[2:])
    if mutable is False or mutable is None:
        return found
    names = (mutable,) if isinstance(mutable, str) else known_items(mutable)
    if isinstance(mutable, Unknown) or call.open:
        return Unknown("what a Module gives")
    entries = {one: _copy_tree(item_of(given, one)) for one in names or () if isinstance(one, str)}
    app.made = DictValue(entries, open=names is None)
    _store_changed(app)
    return (found, app.made)


@register_function("flax.linen apply")
def apply_function(call: Call) -> Value:
    """A function of variables, which runs a function of a Module with them."""
    body, module, mutable = (
        call.argument_at(0, "fn"),
        call.argument_at(1, "module"),
        call.argument_at(2, "mutable", False),
    )

    def run_with_variables(again: Call) -> Value:
        keywords = {**again.keywords, "method": body, "mutable": mutable}
        return apply_module(replace(again, args=(module, *again.args), keywords=keywords))

    return Native(call.name, run_with_variables)


def _copy_tree(tree: Value) -> Value:
    if isinstance(tree, DictValue):
        return DictValue({key: _copy_tree(one) for key, one in tree.entries.items()}, tree.open)
    return tree if not isinstance(tree, Unknown) else AnyTree(Unknown())


def _store_changed(app: Application) -> None:
    for scope, collection, name, variable in app.changed:
        if app.initializing or isinstance(app.made.entries.get(collection), DictValue):
            scope.created_variables(collection).entries[name] = variable.attributes["value"]


# transforms


@register_function("flax.linen scan vmap scan_with_axes")
def make_lifted(call: Call) -> Value:
    """A Module or function that runs for each row, with variables of its own or shared ones."""
    call = replace(call, name=call.name.removesuffix("_with_axes"))
    given = call.argument_at(0, "target", None)
    if given is None:
        return Native(call.name, lambda again: make_lifted(replace(call, args=again.args)))
    axes = call.keywords.get("variable_axes")
    known = axes.entries if isinstance(axes, DictValue) and not axes.open else {}
    lift = Lift(call, {key: one for key, one in known.items() if isinstance(key, str)})
    if is_module_class(given):
        return Lifted(WORDS[call.function_name], (lift,), given)

    def run_lifted_module(again: Call) -> Value:
        owner = again.args[0] if again.args else None
        if not isinstance(owner, Module) or owner.scope is None:
            return Unknown("a lifted function")
        rest = replace(again, args=again.args[1:])
        return _run_lifted(
            rest, owner, lift, lambda args, kw: rest.interpreter.call_value(given, (owner, *args), kw, rest.place)
        )

    return Native(call.name, run_lifted_module)


def _run_through_lifts(
    call: Call, module: Module, lifts: tuple[Lift, ...], body: Callable[[Call], Value]
) -> Value:
    """Run a method within the transforms of its class, the outermost first."""
    first, *rest = lifts
    held = module.lifts
    module.lifts = tuple(rest)
    try:
        return _run_lifted(call, module, first, lambda args, keywords: run_entered(
            replace(call, args=args, keywords=keywords), module, body))  # fmt: skip
    finally:
        module.lifts = held


def _run_lifted(
    call: Call, module: Module, lift: Lift, body: Callable[[tuple[Value, ...], dict[str, Value]], Value]
) -> Value:
    """Run a function of a Module for each row; variables get an axis. The first argument of `scan` is the carry."""
    run, scope = call.interpreter, module.scope
    assert scope is not None
    is_scan = lift.call.function_name == "scan"
    carried = 1 if is_scan else 0
    default = lift.call.keywords.get("in_axes", 0)
    rows = call.args[carried:]
    whole = known_items(default) or (default,) * len(rows)
    split = [place for place, axis in enumerate(whole[: len(rows)]) if axis == 0 and rows[place] is not None]
    length = lift.call.keywords.get("length" if is_scan else "axis_size")
    size: Size = length if isinstance(length, int) else None
    for place in split:
        sizes = [
            leaf.shape[0] for _, leaf in tree_leaves(rows[place]) if isinstance(leaf, Layout) and leaf.shape
        ]
        size = sizes[0] if size is None and sizes else size
    known = all(axis in (0, None) or isinstance(axis, Library) for axis in whole) and not call.open
    module.scope = replace(scope, sized=(*scope.sized, (lift, size)))

    def run_inner(again: Call) -> Value:
        given = list(rows)
        found = again.args[carried] if is_scan and len(again.args) > carried else again.args[carried:]
        for place, one in zip(split, found if isinstance(found, tuple) else (), strict=False):
            given[place] = one
        if not known:
            given = [Unknown("a row")] * len(rows)
        return body((*again.args[:carried], *given), call.keywords)

    try:
        native, chosen = Native("flax.linen.lifted", run_inner), tuple(rows[place] for place in split)
        if is_scan:
            given = (native, call.args[0] if call.args else Unknown("a carry"), chosen)
            found = run.call_value(Library("jax.lax.scan"), given, {"length": length}, call.place)
        elif not split or not known:
            body(tuple(Unknown("a row") for _ in rows), {})
            found = Unknown("what a lifted vmap gives")
        else:
            mapped = run.call_value(Library("jax.vmap"), (native,), {}, call.place)
            found = run.call_value(mapped, chosen, {}, call.place)
    finally:
        module.scope = scope
    return (
        found
        if known and lift.call.keywords.get("out_axes", 0) == 0
        else Unknown("what a lifted function gives")
    )
