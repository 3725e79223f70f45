"""SL819."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import Place
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.syntax import FileFacts
from shardlint.syntax.nodes import walk

_KNOWN = (
    "initialization_timeout",
    "local_device_ids",
    "heartbeat_timeout_seconds",
    "cluster_detection_method",
)


class InitializeWithoutCluster(Rule):
    """`jax.distributed.initialize()` is called whatever the program runs on, and raises on a single machine.

    ## What it does
    Reports `jax.distributed.initialize()` that is told no coordinator, stands in no condition and no `try`, and whose
    function, if it is in one, is called so too, in a program that says elsewhere what it does with one process
    (`jax.process_count() == 1` or `> 1`).

    ## Why it hurts
    Without arguments it looks for a cluster: Slurm, Open MPI, Kubernetes or a TPU pod. Where there is none it raises
    `ValueError: coordinator_address should be defined`: on a workstation, in a notebook, in a test.

    ## Use instead
    A flag of the program, or `try: jax.distributed.initialize()` with `except ValueError`.

    ## Evidence
    One process on jax 0.12, on a machine of no cluster. Recorded in simply.
    """

    code = "SL819"
    name = "initialize-without-cluster"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    triggers = (Calls("jax.distributed.initialize"),)
    in_tests = False
    fixes = "none"
    forms = ("call",)
    closed = ("positional", "keywords")

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a call."""
        call = site.call
        if call.args or any(one.arg not in _KNOWN for one in call.keywords):
            return
        if conditional(site.file, call):
            return
        function = site.scope.function()
        ends = site.program.flow.ends(site.file, function.node).found if function is not None else []
        places = [one.place for one in ends if one.kind == "called"]
        if any(conditional(place.file, place.node) for place in places):
            return
        asked = _asked(site)
        if asked is None:
            return
        where = f"{asked.file.path.name}:{asked.line}"
        yield site.finding(
            call,
            "raises where there is no cluster",
            "On a machine that is part of no cluster this raises ValueError: coordinator_address should be defined.",
            help="call it where a flag says so, or catch ValueError around it",
            form="always",
            why=f"{where} asks whether there is one process",
        )


def conditional(file: FileFacts, node: ast.AST) -> bool:
    """Whether a place stands in a condition other than the main guard, or in a `try`."""
    for outer in file.ancestors(node):
        if isinstance(outer, ast.Try | ast.IfExp | ast.BoolOp | ast.With | ast.Match):
            return True
        if isinstance(outer, ast.If) and "__name__" not in file.text(outer.test):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return _left_before(outer, node)
    return False


def _left_before(function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.AST) -> bool:
    """Whether an earlier statement of a function may leave it."""
    line = getattr(node, "lineno", 0)
    return any(
        isinstance(part, ast.Return | ast.Raise) and part.lineno < line
        for statement in function.body
        if statement.lineno < line
        for part in walk(statement)
    )


def _asked(site: Site) -> Place | None:
    """Where the program asks whether there is one process."""
    pattern = r"(?:)process_count\(\)\s*(?:>|==|!=)\s*1\b"
    for file in site.program.project.holding(site.file.path, (pattern,)):
        if file is None or site.program.project.is_test(file.path):
            continue
        for mention in file.mentions("process_count"):
            compared = next((one for one in file.ancestors(mention) if isinstance(one, ast.Compare)), None)
            if compared is not None:
                return Place(file, compared)
    return None
