"""SL336."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint.model.values import CallResult, Constant, options
from shardlint.rules_api.rule import Certainty, Edit, Finding, Fix, Harm, Lines, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax.nodes import walk
from shardlint_rules.processes.given import given

# Whoever writes this down means no array.
_LISTS = ("list", "sequence", "tuple", "iterable", "collection", "int", "str")
_GIVE_LISTS = ("jax.devices", "jax.local_devices")
# A line that is longer becomes an `if`.
_WIDE = 80
_NUMBER = regex(r"_?(?:num|n|nr|max|min|total)_")


class TruthOfDevices(Rule):
    """A default is chosen by the truth of devices, which may be an array.

    ## What it does
    Reports `devices = devices or jax.devices()` for a parameter with a default of None, without an annotation that says
    it is a list. Left alone where calls in sight give it the list of `jax.devices()`, and none gives anything else.

    ## Why it hurts
    `mesh.devices` is a numpy array, and so is what `create_device_mesh` gives. The truth of an array with several
    elements is no truth: `ValueError: The truth value of an array with more than one element is ambiguous`.

    ## Fix safety
    Unsafe: an empty list counts as none before and as given after. For whoever gives devices it is the same.

    ## Evidence
    The proof raises with the devices of a mesh.
    """

    code = "SL336"
    name = "truth-of-devices"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("or",)
    triggers = (Lines(r"(?:self\.)?\w*devices\s*=\s*\w*devices\s+or\b", saying=("devices",)),)
    fixes = "unsafe"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a statement."""
        chosen = site.syntax.value if isinstance(site.syntax, ast.Assign) else None
        if not isinstance(chosen, ast.BoolOp) or len(chosen.values) != 2:
            return
        given, other = chosen.values
        if not isinstance(given, ast.Name) or not isinstance(chosen.op, ast.Or) or _NUMBER.match(given.id):
            return
        if not _may_be_array(site, given) or _lists_in_sight(site, given):
            return
        text = f"{site.text(other)} if {given.id} is None else {given.id}"
        yield site.finding(
            chosen,
            "an array of devices has no truth value",
            f"This raises ValueError where `{given.id}` is an array of several devices, such as mesh.devices.",
            help=f"write {text}",
            fix=_fix(site, chosen, given.id, other, text),
            kept="what is chosen instead would need brackets",
            certainty=Certainty.POSSIBLE,
            form="or",
            why=f"nothing says that `{given.id}` is a list",
        )


def _fix(site: Site, chosen: ast.BoolOp, name: str, other: ast.expr, text: str) -> Fix | None:
    if isinstance(other, ast.Lambda | ast.IfExp):
        return None
    statement, source = site.syntax, site.file.source
    assert isinstance(statement, ast.Assign)
    edits, write = [site.replace(chosen, text)], text
    start = source.offset(statement.lineno, 0)
    first, last = site.file.span(statement)
    indent = source.text[start:first]
    rest = source.text[last : last + 4].lstrip()
    alone = not indent.strip() and not rest.startswith(";") and "\n" not in text
    targets = [site.text(one) for one in statement.targets]
    if targets == [name] and alone and len(f"{indent}{name} = {text}") >= _WIDE:
        step = "\t" if indent.startswith("\t") else "  " if len(indent) % 4 else "    "
        write = f"if {name} is None: {name} = ..."
        edits = [Edit(first, last, f"if {name} is None:\n{indent}{step}{name} = {site.text(other)}")]
    return site.fix(Safety.UNSAFE, f"write {write}", edits, "an empty list counts as given")


def _may_be_array(site: Site, name: ast.Name) -> bool:
    """Whether a name is a parameter that nothing says to be a list."""
    scope = site.scope.function()
    if scope is None or not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    every = [one for one in walk(scope.node.args) if isinstance(one, ast.arg) and one.arg == name.id]
    if not every or len(site.file.bindings(scope, name.id)) > 2:
        return False
    said = site.text(every[0].annotation).lower() if every[0].annotation is not None else ""
    return not any(word in said for word in _LISTS)


def _lists_in_sight(site: Site, name: ast.Name) -> bool:
    """Whether calls give a parameter what `jax.devices()` returns, which is a list, and none gives what is not seen."""
    scope = site.scope.function()
    places = list(given(site.program, site.file, scope, name.id)) if scope is not None else []
    values = [one for place in places for one in options(site.program.value(place.file, place.node))]
    lists = [one for one in values if isinstance(one, CallResult) and one.api in _GIVE_LISTS]
    return bool(lists) and all(one in lists or one == Constant(None) for one in values)
