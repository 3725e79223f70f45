"""A resolved place, and the questions a rule can ask about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shardlint.config.targets import Targets
from shardlint.facts.jit_settings import jit_wrappings
from shardlint.facts.location import Location
from shardlint.facts.result_uses import ResultUse, use_of_result
from shardlint.model import Program, api
from shardlint.model.branches import is_ruled_out
from shardlint.model.evaluator.assumed_values import Assuming
from shardlint.model.needs import GIVEN
from shardlint.model.signatures import JITS, Jitted
from shardlint.model.traced import Region
from shardlint.model.values import Api, CallArguments, Place, options
from shardlint.rules_api.rule import (
    CONDITIONAL,
    NO_FIX,
    Certainty,
    Edit,
    Finding,
    Fix,
    Form,
    Harm,
    Needed,
    Rule,
    Safety,
)
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.guards import expected_to_fail, is_branch_tested

if TYPE_CHECKING:
    import libcst as cst

    from shardlint.layouts.violation import Violation


class Site(Location):
    """One place that triggered a rule.

    `syntax` is the `ast` node (a Call for calls; a Name, Attribute or alias for uses). `api` is the canonical name of
    what is called or used, `written` the dotted name as it was imported. Both are the bare name for a method, and the
    kind for a broken contract. `form` is "partial" where the call binds arguments of the library function through
    `functools.partial`. For the form "with", `syntax` is what the `with` item enters, for "statement" a call by itself,
    for "line" a statement, for "keyword" an `ast.keyword`, for "parameter" an `ast.arg`; there is no name.
    """

    def __init__(
        self,
        program: Program,
        file: FileFacts,
        syntax: ast.AST,
        api: Api,
        form: Form,
        targets: Targets,
        rule: Rule,
        least: Certainty = Certainty.POSSIBLE,
        number: int = -1,
    ) -> None:
        super().__init__(program, file, syntax, targets)
        self.least = least
        """The least certainty that is of interest to anybody."""
        self._number = number
        self.api = api.name
        self.written = api.written
        self.form = form
        self.rule = rule

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of the rule here; without any, those on one visible path to the site."""
        if not self._is_rule_applicable():
            return
        if self.form == "violation":
            found = [] if self._is_excused else list(self.rule.check(self))
            yield from found
            return
        found, may_change = self._proven_findings()
        if (not found and not may_change) or self._is_excused:
            return
        yield from found
        if found:
            return
        seen = []
        for program, view in self.program.views_on_paths(self.file, self.syntax):
            if view.way is not None and any(expected_to_fail(one.file, one.node) for one in view.way.calls):
                continue  # a test calls it so, and expects it to raise
            seen.append((view, self._findings_on_path(program)))
        wrong = [(view, found, self._call_at_fault(view, found)) for view, found in seen if found]
        blamed = len(wrong) < len(seen) and all(call is not None for _, _, call in wrong)
        told = set()
        for view, found, call in wrong:
            for one in found:
                there = self._finding_on_way(view, one, call if blamed else None)
                if (there.start, there.end) not in told:  # one way to it is enough
                    told.add((there.start, there.end))
                    yield there

    def _findings_on_path(self, program: Program) -> list[Finding]:
        """Return the findings of the rule in the program on one path to the site."""
        api = Api(self.api, self.written)
        return Site(
            program, self.file, self.syntax, api, self.form, self.targets, self.rule
        )._findings_if_running()

    def _call_at_fault(self, view: Assuming, findings: Sequence[Finding]) -> Place | None:
        """The call of this file that leads to findings in the function that it calls: it may be that which is wrong."""
        if not self.rule.blames_calls or view.way is None or view.way.turn or not view.way.calls:
            return None
        call, function = view.way.calls[0], self.file.evaluation_scope(self.syntax).enclosing_function()
        if function is None or call.file is not self.file or not isinstance(call.node, ast.Call):
            return None
        name, owner = getattr(function.node, "name", ""), function.parent
        if name == "__init__" and owner is not None:
            name = getattr(owner.node, "name", "")
        if last_name(call.node.func) != name:
            return None  # handed on: it is called elsewhere
        start, end = self.file.character_span(function.node)
        return call if all(start <= one.start and one.end <= end for one in findings) else None

    def _proven_findings(self) -> tuple[list[Finding], bool]:
        """Return the findings that the text proves, and whether another path to the site may give others."""
        if not self.rule.assumes:
            return self._findings_if_running(), False
        needs = self.program.needs
        before = needs.begin_answer()
        try:
            found = self._findings_if_running()
        finally:
            needed = needs.end_answer(before)
        return found, needs.rests_on_given(needed)

    def _is_rule_applicable(self) -> bool:
        """Return whether the rule applies to the site (see `Rule`)."""
        rule = self.rule
        if rule.forms and self.form not in rule.forms:
            return False
        return not any(
            self.arguments.open_positional if kind == "positional" else self.arguments.open_keywords
            for kind in rule.closed
        )

    @property
    def _is_excused(self) -> bool:
        """True if nothing is said here: an error is expected, or the code runs on some releases only.

        Asked where there is something to say, as that is seldom.
        """
        return self.expected_to_fail or (self.guarded and not self.rule.in_version_checks)

    def _findings_if_running(self) -> list[Finding]:
        """Return the findings of the rule if the code runs as the rule requires. That is tested last, because it costs
        most.
        """
        found = list(self.rule.check(self))
        if found and self.rule.assumes and is_ruled_out(self.program.evaluator, self.file, self.syntax):
            return []
        if found and self.rule.where:
            traced = self.region.traced in ("always", "sometimes")
            if traced != (self.rule.where == "traced"):
                return []
        return found

    def _finding_on_way(self, view: Assuming, finding: Finding, call: Place | None) -> Finding:
        """A finding made on one way to the site: proven by its calls, unless something was assumed or tested.

        It stands at the `call` that leads there, where on other ways it is not so.
        """
        certainty, form = finding.certainty, finding.form
        if view.way is None or view.why or is_branch_tested(self.file, self.syntax):
            form = form or ("in-calls" if view.way is not None else "defaults")
            certainty = self.rule.unproven_certainty(form)
        way, place = view.way, (finding.start, finding.end)
        led = [*filter(None, (way.turn, self._describe_calls(way.calls)))] if way is not None else []
        if call is not None:
            led = [f"the operation is at line {getattr(self.syntax, 'lineno', 0)}; other calls of it are right"]
            place = self.file.character_span(call.node)
        why = "; ".join(filter(None, [*led, *view.why, finding.why]))
        return replace(finding, certainty=certainty, form=form, fix=None, why=why, start=place[0], end=place[1])

    @cached_property
    def violation(self) -> Violation:
        """The contract that is broken here, for sites of the form "violation"."""
        return self.violations[self._number]

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The contracts that are broken in the file, in text order."""
        from shardlint.facts.layouts import violations_of

        return violations_of(self.program, self.file, self.targets)

    def report_violation(
        self,
        message: str,
        *,
        help: str = "",
        why: str = "",
        harm: Harm | None = None,
        words: Mapping[str, str] | None = None,
        fix: Fix | None = None,
        form: str = "",
        label: str = "",
        at: ast.AST | None = None,
        span: tuple[int, int] | None = None,
        kept: str = "",
    ) -> Finding:
        """The finding of a broken contract: proven where its place surely runs, else of the form "conditional".

        That is where a condition or the default of an option decides.

        `words` fill in what stands in braces in the message. A `form` is that of a contract with an assumption. It
        stands at the place that breaks the contract, or `at` a node that explains it.
        """
        found = self.violation
        message = message if words is None else message.format_map(words)
        node = found.place.node if at is None else at
        own = self.file, getattr(node, "lineno", 0)
        led = [
            one
            for one in reversed(found.calls)
            if not isinstance(one.node, ast.FunctionDef) and (one.file, one.line) != own
        ]
        called = self._describe_calls(led)
        options = "the options of the program keep their defaults" if found.by_default else ""
        why = "; ".join(filter(None, (why, called, self._describe_inner_place(found), options)))
        form = form or (CONDITIONAL if not found.certain else "defaults" if found.assumed else "")
        return self.finding(
            node, message, help=help, why=why, certainty=Certainty.PROVEN, form=form, harm=harm, fix=fix, label=label,
            span=span, kept=kept,
        )  # fmt: skip

    def _describe_calls(self, calls: Iterable[Place]) -> str:
        """The calls that lead to a place, the nearest first, in words."""
        places = ", from ".join(map(self.where, calls))
        return f"{'called' if self.scope.enclosing_function() else 'used'} at {places}" if places else ""

    def _describe_inner_place(self, violation: Violation) -> str:
        return f"inside, at {self.where(violation.inside[-1])}" if violation.inside else ""

    # the call

    @property
    def call(self) -> ast.Call:
        """The call, for sites triggered by one."""
        assert isinstance(self.syntax, ast.Call)
        return self.syntax

    @cached_property
    def arguments(self) -> CallArguments:
        """The arguments given to the library function (without the function itself for a partial)."""
        arguments = self.program.evaluator.read_arguments(Place(self.file, self.call))
        if self.form == "partial":
            return CallArguments(
                arguments.place,
                arguments.positional[1:],
                arguments.keywords,
                arguments.open_positional,
                arguments.open_keywords,
            )
        return arguments

    def argument(self, name: str) -> ast.expr | None:
        """The expression given for a parameter, by position or keyword."""
        place = self.arguments.argument_for(name, api.SIGNATURES.get(self.api, ()))
        return place.node if place is not None and isinstance(place.node, ast.expr) else None

    def keyword(self, name: str) -> ast.keyword | None:
        """A keyword argument as written in this call."""
        return next((keyword for keyword in self.call.keywords if keyword.arg == name), None)

    def is_call_of(self, call: ast.Call, *names: str) -> bool:
        """Return whether a call is one of some library functions, whatever it may be bound to."""
        return all(isinstance(one, Api) and one.name in names for one in options(self.value(call.func)))

    @property
    def short_name(self) -> str:
        """The last part of the canonical name: "device_put"."""
        return self.api.rpartition(".")[2]

    @property
    def callee_expression(self) -> ast.expr:
        """The expression that names the called function: of a partial it is the first argument."""
        return self.call.args[0] if self.form == "partial" else self.call.func

    def find_wrapped(self, *apis: str) -> list[Jitted]:
        """Return the functions that the jit, or another of these functions, wraps here."""
        assert isinstance(self.syntax, ast.expr)
        return list(jit_wrappings(self.program, self.file, self.syntax, self.form, apis or JITS))

    @property
    def decorated(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The definition this call or name decorates, if it is a decorator."""
        parent = self.file.parent(self.syntax)
        if (
            isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef)
            and self.syntax in parent.decorator_list
        ):
            return parent
        return None

    # the program

    @property
    def assuming(self) -> bool:
        """True if the site is seen on one way to it, with what is most likely for what is not known."""
        self.program.needs.note_need(GIVEN)  # the answer is another one there
        return isinstance(self.program.evaluator, Assuming)

    @cached_property
    def result_use(self) -> tuple[ResultUse, str | None]:
        """Return the use of the call's result."""
        return use_of_result(self.file, self.call)

    # findings

    def wants(self, *forms: str) -> bool:
        """Return whether an unproven finding of one of these forms is wanted. Finding one is often most of the work."""
        return any(self.rule.unproven_certainty(form).is_at_least(self.least) for form in forms or ("",))

    def finding(
        self,
        node: ast.AST,
        message: str,
        *,
        label: str = "",
        via: Region | None = None,
        help: str = "",
        fix: Fix | None = None,
        harm: Harm | None = None,
        certainty: Certainty | None = None,
        span: tuple[int, int] | None = None,
        form: str = "",
        why: str = "",
        kept: str = "",
        obstacles: tuple[str, ...] | None = None,
    ) -> Finding:
        """A finding at a node (or at `span`, character offsets).

        `message` begins with the effect and names the array or function. `why` is the evidence; `via` adds the calls
        that lead to the node and what traces them. `help` is what to write. `label` is a short note at the underlined
        code. A finding with a `form` is not proven; it is likely if the rule lists the form as likely. `kept` is the
        reason why it is not rewritten; it is reported only if there is no fix.
        """
        if via is not None:
            why = "; ".join(filter(None, (via.describe(self.file), why)))
        kept = kept or self.rule.by_hand
        if fix is None and kept:
            help = f"{help}; {NO_FIX}{kept}" if help else f"{NO_FIX}{kept}"
        start, end = span if span is not None else self.file.character_span(node)
        is_proven = not form and (certainty or self.rule.certainty) is Certainty.PROVEN
        return Finding(
            type(self.rule),
            start,
            end,
            label,
            message,
            help,
            harm if harm is not None else self.rule.harm,
            Certainty.PROVEN if is_proven else self.rule.unproven_certainty(form),
            fix,
            form,
            why,
            obstacles,
        )

    # rewriting

    def parsed(self, node: ast.AST) -> cst.BaseExpression:
        """An expression as a libcst node, parsed from its own slice of the source."""
        from shardlint.rules_api.cst import parse_expression

        return parse_expression(self.text(node))

    @cached_property
    def node(self) -> Any:
        """The site's own call or name as a libcst node."""
        return self.parsed(self.syntax)

    def wrap_in_call(self, node: ast.AST, function: str) -> list[Edit]:
        """Edits that make an expression, which stays where it is, the argument of a call."""
        first, last = self.file.character_span(node)
        return [Edit(first, first, f"{function}("), Edit(last, last, ")")]

    def replace(self, node: ast.AST, replacement: cst.CSTNode | str) -> Edit:
        """Replace a node by a libcst node or by text."""
        start, end = self.file.character_span(node)
        if not isinstance(replacement, str):
            from shardlint.rules_api.cst import code_of_node

            replacement = code_of_node(replacement)
        return Edit(start, end, replacement)

    def spell(self, name: str) -> tuple[str, tuple[Edit, ...]]:
        """How to write a library name at this place, and the import edits that needs.

        An import that is there is used ("eqx.filter_shard" where `import equinox as eqx` stands); otherwise one is
        added after the module's imports.
        """
        from shardlint.rules_api.imports import spell_name

        return spell_name(self.program, self.file, self.syntax, name)

    def fix(
        self,
        safety: Safety,
        message: str,
        edits: Sequence[Edit],
        why: str = "",
        drops: Sequence[str] = (),
        together: Sequence[str] = (),
        uncovers: Sequence[str] = (),
        needs: Sequence[Needed] = (),
    ) -> Fix:
        """A fix of this finding. Its text gets the newlines of the file: rewritten code comes with its own."""
        newline = self.file.source.common_newline
        lines = re.compile(r"\r\n|\r|\n")
        kept = tuple(Edit(edit.start, edit.end, lines.sub(newline, edit.text)) for edit in edits)
        dropped = tuple(sorted(set(drops)))
        return Fix(safety, message, kept, why, dropped, tuple(together), tuple(uncovers), tuple(needs))
