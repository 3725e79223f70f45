"""SL236."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.signatures import Parameters, of_definition
from shardlint.model.values import CallArguments, Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, on_lines
from shardlint.rules_api.site import Site
from shardlint_rules.jit._constructors import MAKING, made_here, missing
from shardlint_rules.jit._library_takes import TAKES, wrong_of
from shardlint_rules.jit.own_calls import CALLING, own_calls
from shardlint_rules.jit.repeated import is_test

# The releases whose signatures were read; a newer one may take more.
_KNOWN = "<0.13"


class CallDoesNotFit(Rule):
    """A function for meshes, shardings or placement is called with arguments that it does not take.

    ## What it does
    Reports a call of a function of the project, one whose name says mesh, shard, spec, partition, jit or the like, that
    leaves out an argument without a default, or gives more by position than it takes: a parameter was added or taken
    away, and this call was not changed. An object of the project's that is
    made without the mesh, sharding or spec it must have: an argument of its `__init__`, or a field of a linen or
    Equinox module, dataclass or NamedTuple.
    Also a call of `device_put`, `with_sharding_constraint`, `jax.jit`, `Mesh`, `tree.map` and the like with a keyword
    that no release takes (`device_put(x, sharding=s)`, `jit(f, out_sharding=s)`), or without what it must have.

    ## Why it hurts
    The call raises TypeError: in the script or branch that nobody ran since.

    ## Evidence
    Read off the definition; for functions of jax off the signatures of 0.4.38 to 0.12 (what a release renamed is
    SL903). Left alone: methods, decorated functions, calls with `*` or `**`, and names that are
    bound more than once.
    """

    code = "SL236"
    name = "call-does-not-fit"
    harm = Harm.CRASH
    triggers = (
        CALLING,
        MAKING,
        Calls("jax.jit", file_says=("jit(", "jit,", "jit as ", on_lines(r"(?!from |import |@)", "jit"))),
        Calls(*(name for name in TAKES if name != "jax.jit")),
    )
    forms = ("line", "call", "partial")
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a call that raises."""
        if site.form != "line":
            yield from self._of_library(site)
            return
        if is_test(site.file, site.syntax):
            return
        yield from self._made(site)
        for call, function in own_calls(site):
            arguments = site.program.evaluator.arguments(Place(site.file, call))
            parameters = of_definition(function.node)
            wrong = _wrong(parameters, arguments)
            if not wrong or not isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            file = function.place.file
            where = (
                f"line {function.place.line}"
                if file is site.file
                else f"{file.path.name}:{function.place.line}"
            )
            yield site.finding(
                call.func,
                f"This raises TypeError: `{function.node.name}` at {where} takes {_listed(parameters)}.",
                label=wrong,
                help="give it what the definition asks for",
            )

    def _made(self, site: Site) -> Iterator[Finding]:
        """Objects of the project that are made without the mesh or sharding that they must have."""
        for call, cls, parameters in made_here(site):
            arguments = site.program.evaluator.arguments(Place(site.file, call))
            left_out = missing(site, cls, parameters, arguments)
            if left_out is None or site.guarded:
                continue
            file, line = cls.place.file, cls.place.line
            where = f"line {line}" if file is site.file else f"{file.path.name}:{line}"
            yield site.finding(
                call.func,
                f"This raises TypeError: `{cls.node.name}` at {where} takes {_listed(parameters)}, and `{left_out}` "
                "has no default.",
                label=f"`{left_out}` is missing",
                help=f"give it {left_out}",
            )

    def _of_library(self, site: Site) -> Iterator[Finding]:
        wrong = wrong_of(site.api, site.arguments, site.form == "partial")
        if wrong is None or not site.allows("jax", _KNOWN):
            return
        name = site.api.rpartition(".")[2]
        yield site.finding(
            (site.keyword(wrong.keyword) if wrong.keyword else None) or site.call.func,
            f"On {site.release('jax')} this raises TypeError when it is reached.",
            label=f"{name}: {wrong.said}",
            help=wrong.help,
        )


def _wrong(parameters: Parameters, arguments: CallArguments) -> str:
    """What does not fit, in words."""
    if parameters.fits(arguments):
        return ""
    given = len(arguments.positional)
    known = (*parameters.positional, *parameters.keyword_only)
    if not parameters.double_star and any(name not in known for name in arguments.keywords):
        return ""
    missing = [
        name for name in parameters.positional[given : parameters.required] if name not in arguments.keywords
    ]
    return f"`{missing[0]}` is missing" if missing else f"{given} arguments by position"


def _listed(parameters: Parameters) -> str:
    names = [*parameters.positional, *parameters.keyword_only]
    return ", ".join(f"`{name}`" for name in names) if names else "no arguments"
