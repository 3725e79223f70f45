"""SL802."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint.facts.bound_names import settled_expression
from shardlint.rules_api.rule import Edit, Finding, Harm, Lines, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.patterns import compile_lazily
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.processes.environment import Setting, find_setting

_NAMES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_FLAG = compile_lazily(r"^\s*--?[A-Za-z]")
_DASHES = compile_lazily(
    r"(?:^|(?<=\s))(?:[-\u2010-\u2015\u2212]*[\u2010-\u2015\u2212][-\u2010-\u2015\u2212]*)(?=[a-z])"
)
_GLUED = compile_lazily(r"(?<=[\w/.])(?:--xla|,\s*--xla|;\s*--xla)")


class XlaFlagsOverwritten(Rule):
    """Flags in `XLA_FLAGS` run into each other, are misspelled, or are overwritten.

    XLA aborts on an unknown flag, such as two flags without a space between them. Flags that are overwritten are lost
    without a message.

    ## Reports
    For `XLA_FLAGS` and `LIBTPU_INIT_ARGS`:

    - proven: `os.environ.get("XLA_FLAGS", "") + "--xla_..."` or `+= "--xla_..."`, with no space before the flag.
    - proven: a string with a comma, a semicolon or nothing between two flags, or with a dash that is not a hyphen
      (`–`).
    - proven: an assignment that replaces flags set by an earlier assignment in the same block.

    ## Fix
    Adds the missing space or writes hyphens. Safe: XLA aborts on the old text, and a space before the first flag has no
    effect. There is no fix for overwritten flags.

    ## Limits
    Not reported: an assignment that replaces flags set outside the program.
    """

    code = "SL802"
    name = "xla-flags-overwritten"
    harm = Harm.CRASH
    triggers = (
        Lines(
            r"[^#\n]*(?:environ\b|putenv\()(?=[^\n]*\n?[^\n]*(?:XLA_FLAGS|LIBTPU_INIT_ARGS))",
            saying=("environ", "putenv("),
        ),
    )
    fixes = "safe"

    @detector("line")
    def report_text(self, site: Site) -> Finding | None:
        """A text that is no list of flags."""
        found = _find_setting(site)
        for part, said in _list_constants(found.value) if found is not None else ():
            wrong = _DASHES.search(said) or _GLUED.search(said)
            if found is None or wrong is None:
                continue
            dash = _DASHES.search(said) is not None
            text = site.text(part)
            fixed = text.replace(wrong[0], "--") if dash else _GLUED.sub(" --xla", text)
            fix = site.fix(Safety.SAFE, "write -- and a space", [site.replace(part, fixed)])
            what = "a dash that is not a hyphen" if dash else f"`{wrong[0].strip()}` with no space before it"
            return site.finding(
                part,
                f"XLA aborts on an unknown flag: `{found.name}` has {what}.",
                help="write two hyphens before each flag, and a space between flags",
                fix=fix if fixed != text else None,
            )
        return None

    @detector("line")
    def report_sum(self, site: Site) -> Finding | None:
        """A flag that is added without a space: `old + "--flag"`."""
        found = _find_setting(site)
        for left, right in _list_sums(found) if found is not None else ():
            start = _leading_text(right)
            if found is None or start is None or not _FLAG.match(str(start.value)) or str(start.value)[:1].isspace():
                continue
            if left is not None and not _ends_without_blank(site, left, found):
                continue
            begin = _find_opening(site, start)
            return site.finding(
                right,
                f"XLA aborts if `{found.name}` is already set: no space separates the two flags.",
                label="no space before this flag",
                help="begin the string of the new flag with a space",
                fix=site.fix(Safety.SAFE, "begin the string with a space", [Edit(begin, begin, " ")])
                if begin
                else None,
            )
        return None

    @detector("line")
    def report_replacement(self, site: Site) -> Finding | None:
        """Flags that replace those of an earlier statement."""
        found = _find_setting(site)
        if found is None or found.keeps_only or found.added or found.name in site.text(found.value):
            return None
        value = settled_expression(site.file, found.value)
        if not isinstance(value, ast.Constant | ast.JoinedStr) or value is not found.value:
            return None
        before = _earlier_setting(site, found)
        if before is None:
            return None
        return site.finding(
            found.value,
            f"The `{found.name}` of line {before.lineno} are lost: this assignment replaces them.",
            help="write all flags in one string, with a space between flags",
            harm=Harm.SILENT,
        )


def _find_setting(site: Site) -> Setting | None:
    """The flags that the statement sets."""
    found = find_setting(site.syntax)
    return found if found is not None and found.name in _NAMES else None


def _list_sums(setting: Setting) -> list[tuple[ast.expr | None, ast.expr]]:
    """The texts that are added, each after the text before it; None if that is the environment itself."""
    if setting.added:
        return [(None, setting.value)]
    return [
        (one.left, one.right)
        for one in walk_nodes(setting.value)
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)
    ]


def _find_opening(site: Site, start: ast.Constant) -> int | None:
    """The offset in the file at which the text of a constant begins."""
    parent = site.file.parent(start)
    node = parent if isinstance(parent, ast.JoinedStr) else start
    at = site.file.character_span(node)[0]
    match = re.match(r"[fFrRbBuU]*(?:\"\"\"|'''|\"|')", site.file.source.text[at : at + 8])
    return at + match.end() if match else None


def _list_constants(value: ast.expr) -> Iterator[tuple[ast.Constant, str]]:
    """The texts an expression is made of."""
    for part in walk_nodes(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and "xla" in part.value:
            yield part, part.value


def _leading_text(node: ast.expr) -> ast.Constant | None:
    """The text that an expression begins with."""
    while True:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            node = node.left
        elif isinstance(node, ast.JoinedStr) and node.values:
            node = node.values[0]
        else:
            return node if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _ends_without_blank(site: Site, left: ast.expr, setting: Setting) -> bool:
    """Return whether the text before is the value of the environment, with no blank after it."""
    last: ast.expr = left
    while isinstance(last, ast.BinOp) and isinstance(last.op, ast.Add):
        last = last.right
    last = settled_expression(site.file, last)
    while isinstance(last, ast.BoolOp):
        last = last.values[0]
    text = site.text(last)
    return setting.name in text and not isinstance(last, ast.Constant | ast.JoinedStr | ast.BinOp)


def _earlier_setting(site: Site, setting: Setting) -> ast.stmt | None:
    """An earlier statement of the same block that sets the same variable, with nothing in between that reads it."""
    parent = site.file.parent(site.syntax)
    block = getattr(parent, "body", None)
    if not isinstance(block, list) or site.syntax not in block:
        return None
    for statement in reversed(block[: block.index(site.syntax)]):
        other = find_setting(statement)
        if other is not None and other.name == setting.name:
            same = ast.dump(other.value) == ast.dump(setting.value)
            return None if same or other.keeps_only else statement
        if any(isinstance(part, ast.Call) for part in walk_nodes(statement)):
            return None
    return None
