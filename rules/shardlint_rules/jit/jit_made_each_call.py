"""SL234."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Api, Function, Transformed, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule, Uses, on_lines
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import FileFacts, Scope
from shardlint.syntax.nodes import walk
from shardlint_rules.jit._makers import CALLING_MAKERS, remade
from shardlint_rules.jit.reads import name_of, reads
from shardlint_rules.jit.repeated import (
    Loop,
    bound_in,
    called_in_a_loop,
    first_time,
    is_test,
    loop_around,
    meant_once,
    once_only,
)

_JAX = ("jax.jit", "jax.experimental.pjit.pjit", "jax.pmap")
_OTHERS = ("equinox.filter_jit", "flax.nnx.jit")
# Decorators of a module's own functions, and what is imported, are run once.
_INSIDE = (on_lines(r"(?!from |import |@)", "jit", "pmap"), "jit as ", "pmap as ")
# What these give is another function at each call; a partial of the same is no better.
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
# What a program does once, by name: there one compilation more is no matter.
_ONCE = regex(
    r"(?i)(?:^|_)(?:init\w*|set_?up|main|test|build|create|make|load|restore|save|run|train|fit|bench\w*|example|demo|"
    r"compile|warm_?up|reset|prepare|start|construct|convert|export|experiment|launch|from|initial\w*|parse|profile|plot|"
    r"check|verify|validate)(?:_|$)|^Make"
)
# What a program does again and again, by name: one step of it.
_STEPS = regex(
    r"^_*(?:(?:(?:train|eval|update|optimi[sz]er|one)_)?(?:step|update)(?:_(?:params|state|weights|model))?"
    r"|act|(?:get|select|sample|choose)_actions?|(?:train|test|eval|predict|update)_on_batch)$"
)


class JitMadeEachCall(Rule):
    """A jitted function is made anew each time it is needed.

    ## What it does
    Reports `jax.jit`, `pjit` or `pmap` of a lambda, a nested function, a partial, a bound method or another transform
    (`jax.jit(jax.grad(f))`) that is made and called in a loop, or in a function that is called in a loop, also by the
    class that its class inherits from. One that is called where it is made, in a function that is not named like what
    runs once (`init`, `train`), is likely, and so is one in a function that is named like a step (`update_params`,
    `train_step`). So is a call, in a loop, of a function that makes a jitted function, for the
    same in each turn: `make_update(config)(state, batch)`.

    ## Why it hurts
    Compiled programs are kept by function object. Each of these is a new one, so that each call traces and compiles
    again: a step of milliseconds takes seconds, on every device and process.

    ## Use instead
    Make it once: above the loop, at module level or in `__init__`, and give what it closes over as arguments.

    ## Evidence
    Run on jax 0.4.38 to 0.12: three calls compile three times for lambdas, nested functions, partials,
    `jax.grad(f)`, `jax.vmap(f)` and bound methods; not for functions of a module. `eqx.filter_jit` keeps bound methods
    of Modules and filtered transforms. Left alone: what is kept in an attribute or a table, what runs once, tests, and
    functions that close over what the loop makes. A function defined above a
    loop and jitted in each of its turns is traced once: it is the same function.
    """

    code = "SL234"
    name = "jit-made-each-call"
    harm = Harm.COST
    certainty = Certainty.POSSIBLE
    likely = ("in-a-loop", "each-call", "each-step", "maker")
    triggers = (
        Calls(*_JAX, *_OTHERS, file_says=_INSIDE),
        Uses(*_JAX, *_OTHERS, file_says=_INSIDE),
        CALLING_MAKERS,
    )
    fixes = "none"
    bound = True

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a wrapper that is made and called again and again, or for a call of what makes it."""
        if site.form == "line":
            yield from self._by_a_maker(site)
            return
        scope = site.scope.function()
        made, wrapped = _made(site)
        if made is None or wrapped is None or is_test(site.file, site.syntax):
            return
        wrapped = _bound_here(site, wrapped)
        what = _fresh(site, wrapped)
        if not what or not _called_here(site, made) or _may_be_traced(site):
            return
        loop = loop_around(site.file, made)
        if loop is not None and not _defined_outside(site, wrapped, loop):
            stays = meant_once(site.file, made, loop)
            if stays or (not once_only(site.file, made, loop) and not _differs(site, made, wrapped, loop)):
                why = f"it is called in a loop at line {loop.lineno}"
                yield self._finding(site, what, "each turn of the loop", why, "in-a-loop")
            return
        if scope is None or isinstance(scope.node, ast.Lambda):
            return
        call = called_in_a_loop(site.program, site.file, scope.node)
        closes = call is not None and _closes_over(site, made, wrapped)
        if call is not None and not (closes and _a_step(site, made, scope.name)):
            why = f"it is called in a loop at {site.where(call)}"
            yield self._finding(
                site, what, f"each call of `{scope.name}`", why, "closure" if closes else "in-a-loop"
            )
        elif _a_step(site, made, scope.name):
            why = f"by its name `{scope.name}` is a step, which runs again and again"
            if call is not None:
                why = f"`{scope.name}` is called in a loop at {site.where(call)}, and is a step by its name"
            yield self._finding(site, what, f"each call of `{scope.name}`", why, "each-step")
        elif _called_often(site, made) and not _closes_over(site, wrapped, wrapped):
            why = f"by its name `{scope.name}` does not run only once, and the function uses nothing that is made in it"
            yield self._finding(site, what, f"each call of `{scope.name}`", why, "each-call")

    def _by_a_maker(self, site: Site) -> Iterator[Finding]:
        """A function of the project that makes a jitted function is called for it again and again."""
        for one in remade(site) if site.wants("maker") else ():
            if site.region.traced in ("always", "sometimes"):  # to tell that may take much of the project
                return
            yield site.finding(
                one.call,
                f"On {site.release('jax')} it is traced and compiled again each time: compiled programs are kept by "
                "function object.",
                label=f"each call makes {one.inner} anew",
                help="call this once, outside of the loop, and keep what it gives",
                certainty=Certainty.POSSIBLE,
                form="maker",
                why=one.why,
            )

    def _finding(self, site: Site, what: str, when: str, why: str, form: str) -> Finding:
        where = "outside of the loop" if "turn" in when else "at module level"
        return site.finding(
            site.syntax,
            f"On {site.release('jax')} it is traced and compiled again at {when}: compiled programs are kept by "
            "function object.",
            label=f"{what} is a new function {when}",
            help=f"make it once, {where}, and give what changes as arguments",
            certainty=Certainty.POSSIBLE,
            form=form,
            why=why,
        )


def _made(site: Site) -> tuple[ast.AST | None, ast.AST | None]:
    """The expression or definition that the jitted function is, and what is jitted."""
    if site.decorated is not None:
        return site.decorated, site.decorated  # `@jax.jit`, `@jax.jit(...)`, `@partial(jax.jit, ...)`
    if site.form == "call" and site.arguments.positional:
        wrapped = site.arguments.positional[0].node
        given = wrapped in site.call.args or site.file.parent(wrapped) in site.call.keywords
        return (site.call, wrapped) if given else (None, None)  # a partial of jit may have it from elsewhere
    return None, None


def _bound_here(site: Site, node: ast.AST) -> ast.AST:
    """The expression that a name of this function stands for, where that is a lambda, a partial or a transform."""
    here = site.scope.function()
    if not isinstance(node, ast.Name) or here is None:
        return node
    bindings = site.file.bindings(here, node.id)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    loop = loop_around(site.file, node)
    if loop is not None and value is not None and loop not in site.file.ancestors(value):
        return node  # made above the loop: the same in each turn
    return value if isinstance(value, ast.Lambda | ast.Call) else node


def _fresh(site: Site, node: ast.AST) -> str:
    """What is jitted, in words, if it is another object each time the place is passed."""
    if node is site.decorated:
        return f"`{site.decorated.name}`" if site.decorated is not None and site.scope.function() else ""
    if isinstance(node, ast.Lambda):
        return "the lambda"
    found = options(site.value(node))
    if isinstance(node, ast.Name):
        here = site.scope.function()
        nested = [
            one
            for one in found
            if isinstance(one, Function) and site.file.home(one.place.node).function() is here
        ]
        return f"`{node.id}`" if here is not None and nested and len(nested) == len(found) else ""
    jax = site.api in _JAX
    if isinstance(node, ast.Call) and all(isinstance(one, Transformed) for one in found):
        names = {one.name for one in options(site.value(node.func)) if isinstance(one, Api)}
        kinds = _TRANSFORMS if jax else _TRANSFORMS[:1]
        return f"`{site.text(node.func)}(...)`" if names and names <= set(kinds) else ""
    if isinstance(node, ast.Attribute) and jax:
        bound = all(isinstance(one, Function) and one.bound for one in found)
        return f"the bound method `{site.text(node)}`" if bound and _of_an_instance(node) else ""
    return ""


def _defined_outside(site: Site, node: ast.AST, loop: Loop) -> bool:
    """Whether it is a function that was defined before a loop: jitted in each turn, it is still the same."""
    if not isinstance(node, ast.Name):
        return False
    found = [one for one in options(site.value(node)) if isinstance(one, Function)]
    return bool(found) and not any(loop in site.file.ancestors(one.place.node) for one in found)


def _of_an_instance(node: ast.Attribute) -> bool:
    return (
        isinstance(node.value, ast.Name | ast.Attribute) and not getattr(node.value, "id", "x")[0].isupper()
    )


def _called_here(site: Site, made: ast.AST) -> bool:
    """Whether the jitted function is called where it is made, and goes nowhere else."""
    if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
        home = site.file.home(made)
        uses = [
            node
            for node in site.file.mentions_in(home, made.name)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        ]
        return bool(uses) and all(_calls(site.file, use, home) for use in uses)
    parent = site.file.parent(made)
    if isinstance(parent, ast.Call) and parent.func is made:
        return True
    target = name_of(site.file, made)
    if target is None or site.file.home(target).kind != "function":
        return False
    uses, home = list(reads(site.file, target, only=False)), site.file.home(target)
    return bool(uses) and all(_calls(site.file, use, home) for use in uses)


def _calls(file: FileFacts, use: ast.AST, home: Scope) -> bool:
    """Whether a name is called in a scope itself: a function inside of it may outlive the call."""
    parent = file.parent(use)
    return (
        isinstance(parent, ast.Call) and parent.func is use and file.home(use).function() is home.function()
    )


def _called_often(site: Site, made: ast.AST) -> bool:
    """Whether a wrapper is called at once, with arguments, in a function that nothing says is called once."""
    call = site.file.parent(made)
    if not isinstance(call, ast.Call) or call.func is not made or not (call.args or call.keywords):
        return False
    if site.program.project.is_test(site.file.path):
        return False
    around = _functions_around(site, made)
    if not around or _kept(site, made) or any(_ONCE.search(one.name) for one in around):
        return False
    return not _called_once(site, around[0])


def _called_once(site: Site, function: ast.AST) -> bool:
    """Whether one call of a function is all there is, at module level or in what runs once by its name."""
    ends = site.program.flow.ends(site.file, function).found
    calls = [end for end in ends if end.kind == "called" and not end.wrappers]
    if len(ends) != 1 or len(calls) != 1 or loop_around(calls[0].place.file, calls[0].place.node) is not None:
        return False
    around = calls[0].place.file.home(calls[0].place.node).function()
    return around is None or (around.node is not function and _ONCE.search(around.name) is not None)


def _functions_around(site: Site, node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        one for one in site.file.ancestors(node) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _a_step(site: Site, made: ast.AST, name: str) -> bool:
    """Whether a function is a step by its name, and keeps nothing of what it makes."""
    return _STEPS.search(name) is not None and site.wants("each-step") and not _kept(site, made)


def _kept(site: Site, made: ast.AST) -> bool:
    """Whether a function around keeps what it gives, or makes the wrapper the first time only."""
    kept = any(
        "cache" in site.text(each) for one in _functions_around(site, made) for each in one.decorator_list
    )
    return kept or any(isinstance(one, ast.If) and first_time(one) for one in site.file.ancestors(made))


def _may_be_traced(site: Site) -> bool:
    return site.region.traced in ("always", "sometimes") or site.expected_to_fail


def _free_names(node: ast.AST) -> set[str]:
    """The names an expression or function reads that it does not bind itself."""
    inside = list(walk(node))
    own = {one.arg for one in inside if isinstance(one, ast.arg)}
    own |= {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)} - own


def _read_by(site: Site, made: ast.AST, wrapped: ast.AST) -> set[str]:
    """The names that the function and the settings of its jit read."""
    names = _free_names(wrapped)
    if isinstance(wrapped, ast.Name):
        for one in options(site.value(wrapped)):
            names |= _free_names(one.node) if isinstance(one, Function) else set()
    if isinstance(made, ast.Call):
        for keyword in made.keywords:
            names |= _free_names(keyword.value)
    return names


def _differs(site: Site, made: ast.AST, wrapped: ast.AST, loop: Loop) -> bool:
    """Whether the function rests on what each turn of a loop makes."""
    return bool(_read_by(site, made, wrapped) & bound_in(loop, made))


def _closes_over(site: Site, made: ast.AST, wrapped: ast.AST) -> bool:
    """Whether the function rests on what each call of the function around it is given or makes."""
    scope = site.scope.function()
    if scope is None:
        return False
    own = {name for name in _read_by(site, made, wrapped) if site.file.bindings(scope, name)}
    definition = {wrapped.id} if isinstance(wrapped, ast.Name) else set()
    return bool(own - definition - {"self"})
