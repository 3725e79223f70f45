"""SL236."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.facts.repeated import is_test
from shardlint.model.signatures import Parameters, parameters_of_definition
from shardlint.model.values import CallArguments, Place
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector, on_lines
from shardlint.rules_api.site import Site
from shardlint_rules.jit._library_takes import TAKES, find_wrong_argument
from shardlint_rules.jit._own_calls import CALLING, project_calls_in_statement

# A newer release may take more.
_KNOWN = "<0.13"


class CallDoesNotFit(Rule):
    """A call of a mesh, sharding or placement function has a missing, extra or unknown argument.

    The call raises TypeError. Usually the signature changed, and this call has not run since.

    ## Reports
    - proven: a call of a project function without a required argument, or with too many positional arguments. The name
      of the function contains mesh, shard, spec, partition, jit or a similar word.
    - proven: a call of `device_put`, `with_sharding_constraint`, `jax.jit`, `Mesh`, `tree.map` or a similar function
      without a required argument, or with a keyword that no release accepts: `device_put(x, sharding=s)`.

    ## Limits
    Not reported: methods, decorated functions, calls with `*` or `**`, and functions with several definitions. SL903
    reports renamed parameters.
    """

    code = "SL236"
    name = "call-does-not-fit"
    harm = Harm.CRASH
    triggers = (
        CALLING,
        Calls("jax.jit", file_says=("jit(", "jit,", "jit as ", on_lines(r"(?!from |import |@)", "jit"))),
        Calls(*(name for name in TAKES if name != "jax.jit")),
    )
    fixes = "none"

    @detector("line")
    def compare_with_definition(self, site: Site) -> Iterator[Finding]:
        """Each call of a project function that raises."""
        if is_test(site.file, site.syntax):
            return
        for call, function in project_calls_in_statement(site):
            parameters = parameters_of_definition(function.node)
            wrong = _explain_misfit(parameters, site.program.evaluator.read_arguments(Place(site.file, call)))
            if not wrong or not isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            takes = ", ".join(f"`{name}`" for name in (*parameters.positional, *parameters.keyword_only))
            yield site.finding(
                call.func,
                f"Calling `{function.node.name}` raises TypeError: {wrong}.",
                why=f"the definition at {site.where(function.place)} takes {takes or 'no arguments'}",
                help=f"pass the arguments of the definition: {takes}" if takes else "pass no arguments",
            )

    @detector("call", "partial")
    def compare_with_signature(self, site: Site) -> Finding | None:
        """A call of a library function that raises."""
        wrong = find_wrong_argument(site.api, site.arguments, site.form == "partial")
        if wrong is None or not site.allows("jax", _KNOWN):
            return None
        return site.finding(
            (site.keyword(wrong.keyword) if wrong.keyword else None) or site.call.func,
            f"Calling `{site.api}` raises TypeError: {wrong.reason}.",
            why=f"read from the signature on {site.release('jax')}",
            help=wrong.help,
        )


def _explain_misfit(parameters: Parameters, arguments: CallArguments) -> str:
    """Why the arguments do not fit the parameters; "" if they do."""
    if parameters.accepts_call(arguments):
        return ""
    count = len(arguments.positional)
    known = (*parameters.positional, *parameters.keyword_only)
    if not parameters.double_star and any(name not in known for name in arguments.keywords):
        return ""
    required = parameters.positional[count : parameters.required]
    missing = [name for name in required if name not in arguments.keywords]
    if missing:
        return f"`{missing[0]}` is missing"
    return f"it gets {count} positional arguments and takes {len(parameters.positional)}"
