"""SL234."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.bound_names import (
    calls_of_made_function,
    reads_of_binding,
    settled_expression,
    sole_name_of,
)
from shardlint.facts.repeated import (
    SETUP_NAME,
    Loop,
    called_in_a_loop,
    is_called_few_times,
    is_first_time_test,
    is_meant_to_run_once,
    is_test,
    loop_around,
    names_bound_in,
    once_only,
    runs_rarely,
)
from shardlint.model.values import Api, Function, Transformed, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses, detector, on_lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import walk_nodes

_JAX = ("jax.jit", "jax.experimental.pjit.pjit", "jax.pmap")
_OTHERS = ("equinox.filter_jit", "flax.nnx.jit")
# Decorators of functions of a module, and imports, run once.
_INSIDE = (on_lines(r"(?!from |import |@)", "jit", "pmap"), "jit as ", "pmap as ")
_CONSTANT_ARRAYS = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "full", "empty", "arange"))
# Each call of these returns a new function object.
_TRANSFORMS = (
    "functools.partial",
    "jax.grad",
    "jax.value_and_grad",
    "jax.vmap",
    "jax.jacfwd",
    "jax.jacrev",
    "jax.hessian",
    "jax.checkpoint",
)
# Names of functions that set up a model or state: a loop that calls them is one over trials.
_SETS_UP = compile_lazily(r"^_*(?:init|set_?up|restore)(?:_|$)")
# Names of functions that run at each step.
_STEPS = compile_lazily(
    r"^_*(?:(?:(?:train|eval|update|optimi[sz]er|one)_)?(?:step|update)(?:_(?:params|state|weights|model))?"
    r"|act|(?:get|select|sample|choose)_actions?|(?:train|test|eval|predict|update)_on_batch)$"
)


class JitMadeEachCall(Rule):
    """A new jitted function is created for each call, so each call compiles again.

    A step of milliseconds takes seconds. jax caches compiled programs by function object: it traces and compiles each
    new function object.

    ## Reports
    Each form is a `jax.jit`, `pjit` or `pmap` of a lambda, nested function, partial, bound method or the result of
    another transform (`jax.jit(jax.grad(f))`). One function both creates the jit and calls it.

    - `in-a-loop` (likely): a jit created in a loop. Also a jit created in a function that is called in a loop, if the
      jitted function reads no variables of that function (see `closure`).
    - `each-call` (likely): a jit that is created and called in one expression, in a function that may run often. A
      function with a name such as `init`, `train` or `make_*` counts as run once.
    - `each-step` (likely): a jit created in a function whose name suggests a step (`update_params`, `train_step`).
    - `closure` (possible): a jit created in a function that is called in a loop, if the jitted function reads variables
      of that function.

    ## Write instead
    Create the jit once: above the loop, at module level or in `__init__`. Pass the variables of the closure as
    arguments.

    ## Limits
    Not reported: tests, jitted functions stored in an attribute or dict, functions that depend on objects created in
    the loop, and jits that cost little:

    - all arguments are constant arrays (`jnp.ones(8)`), as in a barrier
    - a test such as `if step % n == 0` around the jit, in the loop
    - every call of the jit is in a loop of the function that creates it
    - the function that creates it is named `init`, `setup` or `restore`
    - for `each-call`, all calls of the enclosing function are outside of loops, in a project that is no package

    `eqx.filter_jit` of a bound method or a filtered transform is cached, and is not reported.
    """

    code = "SL234"
    name = "jit-made-each-call"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("in-a-loop", "each-call", "each-step")
    triggers = (Calls(*_JAX, *_OTHERS, file_says=_INSIDE), Uses(*_JAX, *_OTHERS, file_says=_INSIDE))
    fixes = "none"
    bound = True

    @detector("call", "partial", "name")
    def report_jit(self, site: Site) -> Finding | None:
        """A jitted function that is created and called repeatedly."""
        scope = site.scope.enclosing_function()
        created, wrapped = _find_created(site)
        if created is None or wrapped is None or is_test(site.file, site.syntax):
            return None
        wrapped = _resolve_local_name(site, wrapped)
        what = _describe_new_function(site, wrapped)
        if not what or not _is_only_called_here(site, created) or _may_be_traced(site):
            return None
        calls = list(_calls_of_jitted(site, created))
        if calls and all(_computes_constants(site, call) for call in calls):
            return None
        loop = loop_around(site.file, created)
        if loop is not None and not _is_defined_outside_loop(site, wrapped, loop):
            stays = is_meant_to_run_once(site.file, created, loop)
            if stays or (
                not once_only(site.file, created, loop)
                and not runs_rarely(site.file, created, loop)
                and not _reads_from_loop(site, created, wrapped, loop)
            ):
                why = f"the loop at line {loop.lineno} calls it"
                return self._make_finding(site, what, "in each iteration", why, "in-a-loop")
            return None
        if scope is None or isinstance(scope.node, ast.Lambda):
            return None
        if _SETS_UP.match(scope.name) or (calls and all(loop_around(site.file, one) is not None for one in calls)):
            return None  # one compilation for a trial or for a loop of calls
        call = called_in_a_loop(site.program, site.file, scope.node)
        closes = call is not None and _closes_over(site, created, wrapped)
        step = _is_step(site, created, scope.name)
        looped = f"{site.where(call)} calls `{scope.name}` in a loop" if call is not None else ""
        if call is not None and not (closes and step):
            form, why = "closure" if closes else "in-a-loop", looped
        elif step:
            form, why = "each-step", looped or f"the name `{scope.name}` suggests that it runs at each step"
        elif _may_be_called_often(site, created) and not _closes_over(site, wrapped, wrapped):
            form, why = "each-call", f"`{scope.name}` may run more than once"
        else:
            return None
        return self._make_finding(site, what, f"at each call of `{scope.name}`", why, form)

    def _make_finding(self, site: Site, what: str, when: str, why: str, form: str) -> Finding:
        where = "above the loop" if "iteration" in when else "at module level"
        return site.finding(
            site.syntax,
            f"{what[0].upper()}{what[1:]} is recompiled {when}: jit gets a new function object each time.",
            help=f"jit it once, {where}, and pass changing values as arguments",
            form=form,
            why=f"{why}; {site.release('jax')} caches compiled programs by function object",
        )


def _find_created(site: Site) -> tuple[ast.AST | None, ast.AST | None]:
    """The expression or definition of the jitted function, and the function that is jitted."""
    if site.decorated is not None:
        return site.decorated, site.decorated  # `@jax.jit`, `@jax.jit(...)`, `@partial(jax.jit, ...)`
    if site.form == "call" and site.arguments.positional:
        wrapped = site.arguments.positional[0].node
        direct = wrapped in site.call.args or site.file.parent(wrapped) in site.call.keywords
        return (site.call, wrapped) if direct else (None, None)  # a partial of jit may pass another function
    return None, None


def _resolve_local_name(site: Site, node: ast.AST) -> ast.AST:
    """The lambda, partial or transform that a local name is bound to; else the node."""
    here = site.scope.enclosing_function()
    if not isinstance(node, ast.Name) or here is None:
        return node
    bindings = site.file.bindings(here, node.id)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    loop = loop_around(site.file, node)
    if loop is not None and value is not None and loop not in site.file.ancestors(value):
        return node  # created above the loop
    return value if isinstance(value, ast.Lambda | ast.Call) else node


def _describe_new_function(site: Site, node: ast.AST) -> str:
    """The jitted function in words, if it is a new object at each execution; else ""."""
    if node is site.decorated:
        return f"`{site.decorated.name}`" if site.decorated is not None and site.scope.enclosing_function() else ""
    if isinstance(node, ast.Lambda):
        return "the lambda"
    values = options(site.value(node))
    if isinstance(node, ast.Name):
        here = site.scope.enclosing_function()
        nested = [
            one
            for one in values
            if isinstance(one, Function) and site.file.evaluation_scope(one.place.node).enclosing_function() is here
        ]
        return f"`{node.id}`" if here is not None and nested and len(nested) == len(values) else ""
    jax = site.api in _JAX
    if isinstance(node, ast.Call) and all(isinstance(one, Transformed) for one in values):
        names = {one.name for one in options(site.value(node.func)) if isinstance(one, Api)}
        kinds = _TRANSFORMS if jax else _TRANSFORMS[:1]
        return f"`{site.text(node.func)}(...)`" if names and names <= set(kinds) else ""
    if isinstance(node, ast.Attribute) and jax:
        bound = all(isinstance(one, Function) and one.bound for one in values)
        return f"the bound method `{site.text(node)}`" if bound and _is_instance_attribute(node) else ""
    return ""


def _is_defined_outside_loop(site: Site, node: ast.AST, loop: Loop) -> bool:
    """True for a function defined outside the loop: it is the same object in each iteration."""
    if not isinstance(node, ast.Name):
        return False
    values = [one for one in options(site.value(node)) if isinstance(one, Function)]
    return bool(values) and not any(loop in site.file.ancestors(one.place.node) for one in values)


def _is_instance_attribute(node: ast.Attribute) -> bool:
    return (
        isinstance(node.value, ast.Name | ast.Attribute) and not getattr(node.value, "id", "x")[0].isupper()
    )


def _is_only_called_here(site: Site, created: ast.AST) -> bool:
    """True if the jitted function is called in the function that creates it, and used for nothing else."""
    if isinstance(created, ast.FunctionDef | ast.AsyncFunctionDef):
        home = site.file.evaluation_scope(created)
        uses = [
            node
            for node in site.file.mentions_in(home, created.name)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        ]
        return bool(uses) and all(_is_called(site.file, use, home) for use in uses)
    parent = site.file.parent(created)
    if isinstance(parent, ast.Call) and parent.func is created:
        return True
    target = sole_name_of(site.file, created)
    if target is None or site.file.evaluation_scope(target).kind != "function":
        return False
    uses, home = list(reads_of_binding(site.file, target, only=False)), site.file.evaluation_scope(target)
    return bool(uses) and all(_is_called(site.file, use, home) for use in uses)


def _is_called(file: FileFacts, use: ast.AST, scope: Scope) -> bool:
    """True if a name is called in the scope itself, not in a nested function."""
    parent = file.parent(use)
    return (
        isinstance(parent, ast.Call)
        and parent.func is use
        and file.evaluation_scope(use).enclosing_function() is scope.enclosing_function()
    )


def _calls_of_jitted(site: Site, created: ast.AST) -> Iterator[ast.Call]:
    """The calls of the jitted function, in the function that creates it."""
    if isinstance(created, ast.Call):
        yield from calls_of_made_function(site.file, created)
    elif isinstance(created, ast.FunctionDef | ast.AsyncFunctionDef):
        for use in site.file.mentions_in(site.file.evaluation_scope(created), created.name):
            parent = site.file.parent(use)
            if isinstance(parent, ast.Call) and parent.func is use:
                yield parent


def _computes_constants(site: Site, call: ast.Call) -> bool:
    """True for a call that has no data: all its arguments are constant arrays, as of a barrier."""
    given = [*call.args, *(one.value for one in call.keywords)]
    return bool(given) and all(_is_constant_array(site, settled_expression(site.file, one)) for one in given)


def _is_constant_array(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and site.is_call_of(node, *_CONSTANT_ARRAYS)


def _may_be_called_often(site: Site, created: ast.AST) -> bool:
    """True for a jit that is called at once, with arguments, in a function that may run often."""
    call = site.file.parent(created)
    if not isinstance(call, ast.Call) or call.func is not created or not (call.args or call.keywords):
        return False
    if site.program.project.is_test(site.file.path):
        return False
    around = _functions_around(site, created)
    if not around or _is_cached(site, created) or any(SETUP_NAME.search(one.name) for one in around):
        return False
    return not is_called_few_times(site.program, site.file, around[0])


def _functions_around(site: Site, node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        one for one in site.file.ancestors(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _is_step(site: Site, created: ast.AST, name: str) -> bool:
    """True for a function that is a step by its name and caches nothing."""
    return _STEPS.search(name) is not None and site.wants("each-step") and not _is_cached(site, created)


def _is_cached(site: Site, created: ast.AST) -> bool:
    """True if an enclosing function is cached, or creates the wrapper the first time only."""
    cached = any(
        "cache" in site.text(each) for one in _functions_around(site, created) for each in one.decorator_list
    )
    return cached or any(isinstance(one, ast.If) and is_first_time_test(one) for one in site.file.ancestors(created))


def _may_be_traced(site: Site) -> bool:
    return site.region.traced in ("always", "sometimes") or site.expected_to_fail


def _free_names(node: ast.AST) -> set[str]:
    """The names an expression or function reads that it does not bind itself."""
    inside = list(walk_nodes(node))
    own = {one.arg for one in inside if isinstance(one, ast.arg)}
    own |= {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)} - own


def _read_by(site: Site, created: ast.AST, wrapped: ast.AST) -> set[str]:
    """The names that the function and the settings of its jit read."""
    names = _free_names(wrapped)
    if isinstance(wrapped, ast.Name):
        for one in options(site.value(wrapped)):
            names |= _free_names(one.node) if isinstance(one, Function) else set()
    if isinstance(created, ast.Call):
        for keyword in created.keywords:
            names |= _free_names(keyword.value)
    return names


def _reads_from_loop(site: Site, created: ast.AST, wrapped: ast.AST, loop: Loop) -> bool:
    """True if the function reads a name that the loop binds."""
    return bool(_read_by(site, created, wrapped) & names_bound_in(loop, created))


def _closes_over(site: Site, created: ast.AST, wrapped: ast.AST) -> bool:
    """True if the function reads a local name of the enclosing function."""
    scope = site.scope.enclosing_function()
    if scope is None:
        return False
    own = {name for name in _read_by(site, created, wrapped) if site.file.bindings(scope, name)}
    definition = {wrapped.id} if isinstance(wrapped, ast.Name) else set()
    return bool(own - definition - {"self"})
