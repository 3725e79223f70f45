"""Constraints written into the body of a function: on its parameters first, and on what it returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from shardlint.rewrite.indent import UNIT, indent_unit, indented_as
from shardlint.rules_api.imports import spell_name
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox._shardings_inside.given_shardings import (
    Given,
    ShardingPerArgument,
    SingleSharding,
)
from shardlint_rules.equinox._shardings_inside.layout import (
    assignment_lines,
    indented_call_lines,
    line_length,
)
from shardlint_rules.equinox.wrapped_functions import Definition, NotRewritten


def input_constraint_lines(shard: str, names: list[str], asked: Given, spare: int, what: str, room: int) -> list[str]:
    """Statements that rebind parameters to their constrained selves. The last `spare` parameters have defaults."""
    if asked is None:
        return []
    if isinstance(asked, SingleSharding):
        names = asked.parameters_with_entries(names, spare, what)
        if len(names) == 1 and not asked.surely:
            names = [f"({names[0]},)"]
        joined = ", ".join(names)
        many = f"({joined})" if len(names) > 1 else joined
        lines = (
            _constraint_lines(joined, shard, many, asked, room - len(UNIT if asked.when else ""))
            if names
            else []
        )
        if names and names[-1].startswith("*"):
            lines.append(f"{names[-1][1:]} = tuple({names[-1][1:]})")
        if asked.when and lines:
            inside = "".join(f"\n{UNIT}{part}" for line in lines for part in line.split("\n"))
            return [f"if {asked.when}:{inside}"]
        return lines
    if not len(names) - spare <= len(asked.texts) <= len(names):
        raise NotRewritten(
            f"in_shardings has {len(asked.texts)} entries and {what} {len(names)} positional parameters"
        )
    pairs = [(name, text) for name, text in zip(names, asked.texts, strict=False) if text is not None]
    if asked.optional:
        return list(_one_by_one(shard, pairs, asked, room))
    calls = ", ".join(asked.constrain_one(shard, name, text) for name, text in pairs)
    together = f"{', '.join(name for name, _ in pairs)} = {calls}"
    if not pairs:
        return []
    if len(together) <= room and "\n" not in together:
        return [together]
    return [line for name, text in pairs for line in _constrain_to_entry(name, shard, asked, text, room)]


def _constraint_lines(target: str, shard: str, value: str, single_sharding: SingleSharding, room: int) -> list[str]:
    """A statement that constrains what is named, all of it."""
    if single_sharding.parted is not None:
        return [f"{target} = {single_sharding.constrain_value(shard, value)}"]
    return assignment_lines(target, shard, value, single_sharding.text, room)


def _constrain_to_entry(name: str, shard: str, shardings: ShardingPerArgument, text: str, room: int) -> list[str]:
    """A statement that constrains a parameter to one of the entries."""
    if text in shardings.trees:
        return [f"{name} = {shardings.constrain_one(shard, name, text)}"]
    return assignment_lines(name, shard, name, text, room)


def _one_by_one(shard: str, pairs: list[tuple[str, str]], shardings: ShardingPerArgument, room: int) -> Iterator[str]:
    """A statement for each parameter, under a test where its sharding may be None."""
    for name, text in pairs:
        lines = _constrain_to_entry(name, shard, shardings, text, room - len(UNIT))
        if text in shardings.optional:
            inside = "".join(f"\n{UNIT}{part}" for line in lines for part in line.split("\n"))
            yield f"if {text} is not None:{inside}"
        else:
            yield from lines


def names_with_star(names: list[str], star: ast.arg | None, asked: Given) -> tuple[list[str], Given]:
    """The names that are constrained where a function takes `*args` too: that as one more, with what is left for it."""
    if star is None or asked is None:
        return names, asked
    if isinstance(asked, SingleSharding) and (asked.surely or not names):
        return [*names, star.arg], replace(asked, surely=True, count=None)
    if isinstance(asked, SingleSharding):
        return [*names, f"*{star.arg}"], replace(asked, count=None)
    if len(asked.texts) < len(names):
        raise NotRewritten(f"`*{star.arg}` at line {star.lineno} takes some of the arguments with an entry")
    asked.refuse_optional()
    rest = asked.texts[len(names) :]
    if not rest:
        return names, asked
    if None in rest:
        raise NotRewritten(
            f"the entry of `*{star.arg}` at line {star.lineno} is None, "
            "and filter_shard does not accept None"
        )
    together = ", ".join(text for text in rest if text is not None)
    together = f"({together},)" if len(rest) == 1 else f"({together})"
    trees = (*asked.trees, together) if set(rest) & set(asked.trees) else asked.trees
    every = (*asked.texts[: len(names)], together)
    return [*names, star.arg], ShardingPerArgument(every, asked.sources, (), asked.parted, trees)


class Body:
    """The edits of one function's body. `names` are the parameters that positions fill."""

    def __init__(self, site: Site, function: Definition, names: list[str], spare: int) -> None:
        self.site = site
        self.file = site.file
        self.function = function
        self.names, self.spare = names, spare
        self.edits: list[Edit] = []
        self.shown: list[str] = []
        first = function.body[0]
        docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if docstring and len(function.body) == 1:
            raise NotRewritten(f"the body of `{function.name}` at line {function.lineno} is a docstring only")
        self.first = function.body[1] if docstring else first
        self.shard, imported = spell_name(site.program, self.file, self.first, "equinox.filter_shard")
        self.edits += imported
        self.imported = len(self.edits)
        self.opened = self._opened_block_indent()

    def constrain_inputs(self, asked: Given, comments: list[str]) -> None:
        """Rebind the parameters, above everything else in the body."""
        if asked is None:
            return
        names, asked = names_with_star(self.names, self.function.args.vararg, asked)
        room = line_length(self.file) - (len(self.opened) if self.opened is not None else self._body_indent())
        what = f"`{self.function.name}`"
        lines = input_constraint_lines(self.shard, names, asked, self.spare, what, room)
        self.shown += [" ".join("".join(lines).split())] if len(lines) == 1 else lines
        if lines:
            self._insert_statements([*comments, *lines])
        elif comments:
            raise NotRewritten(f"a comment next to the shardings at line {self.site.call.lineno} would be lost")

    def constrain_results(self, asked: Given, comments: list[str]) -> None:
        """Constrain every returned value."""
        if asked is None:
            return
        if self.opened is not None and len(self.edits) == self.imported:
            self._open_one_line_body([])
        for statement in self.file.walk_scope(self.file.scope(self.function)).returns:
            value = statement.value
            if value is None or (isinstance(value, ast.Constant) and value.value is None):
                continue
            assert isinstance(statement, ast.Return)
            if comments:
                comments = self._comments_above(statement, comments)
            if (
                isinstance(asked, ShardingPerArgument)
                and isinstance(value, ast.Tuple)
                and not any(isinstance(e, ast.Starred) for e in value.elts)
            ):
                self._constrain_each_result(asked, statement, value)
            else:
                self._constrain_whole_result(asked, statement, value)
        if comments:
            raise NotRewritten(f"a comment next to the shardings at line {self.site.call.lineno} would be lost")

    def _comments_above(self, statement: ast.Return, comments: list[str]) -> list[str]:
        """Comments above a statement; those that cannot be put there."""
        source = self.file.source
        start = self.file.character_span(statement)[0]
        begin = source.line_starts[statement.lineno - 1]
        indent = source.text[begin:start]
        if indent.strip():
            return comments
        self.edits.append(Edit(begin, begin, "".join(f"{indent}{one}{source.common_newline}" for one in comments)))
        return []

    def _constrain_each_result(self, shardings: ShardingPerArgument, statement: ast.Return, value: ast.Tuple) -> None:
        if len(value.elts) != len(shardings.texts):
            entries, values = len(shardings.texts), len(value.elts)
            raise NotRewritten(
                f"out_shardings has {entries} entries and line {statement.lineno} returns {values} values"
            )
        pairs = list(zip(value.elts, shardings.texts, strict=True))
        parts = (
            "..." if text is None else shardings.constrain_one(self.shard, "...", text) for text in shardings.texts
        )
        self.shown.append(f"return {', '.join(parts)}")
        texts = [shardings.constrain_variable(self.shard, self.site.text(one), text) for one, text in pairs]
        if any(text in shardings.optional and not isinstance(one, ast.Name) for one, text in pairs):
            self._constrain_result_parts(shardings, statement, value, shown=True)
            return
        indent, unit = self._statement_indent(statement), self._indent_unit()
        column = len(indent or "")
        long = column + len(f"return {', '.join(texts)}") > line_length(self.file)
        if long and indent is not None and statement.lineno == statement.end_lineno:
            lines = [
                indented_call_lines(
                    self.shard, self.site.text(one), text, indent + unit, unit, line_length(self.file)
                )
                if text is not None and text not in (*shardings.optional, *shardings.trees)
                else made
                for (one, text), made in zip(pairs, texts, strict=True)
            ]
            inside = "".join(f"{indent}{unit}{line},\n" for line in lines)
            self.edits.append(self.site.replace(statement, f"return (\n{inside}{indent})"))
            return
        for (element, text), made in zip(pairs, texts, strict=True):
            if text in (*shardings.optional, *shardings.trees):
                self.edits.append(self.site.replace(element, made))
            elif text is not None:
                start, end = self.file.character_span(element)
                self.edits.append(Edit(start, start, f"{self.shard}("))
                self.edits.append(Edit(end, end, f", {text})"))

    def _constrain_whole_result(
        self, asked: SingleSharding | ShardingPerArgument, statement: ast.Return, value: ast.expr
    ) -> None:
        if isinstance(asked, SingleSharding):
            text = asked.text
            if asked.when:
                self._constrain_where_requested(asked, statement, value)
                return
            if asked.parted is not None:
                self._constrain_result_tree(asked, value)
                return
        else:
            if None in asked.texts or asked.optional or asked.trees:
                self._constrain_result_parts(asked, statement, value)
                return
            if len(asked.texts) == 1 or isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Constant):
                raise NotRewritten(
                    f"out_shardings has {len(asked.texts)} entries, and line {statement.lineno} does "
                    "not return as many values"
                )
            text = f"({', '.join(text for text in asked.texts if text is not None)})"
        self.shown.append(f"return {self.shard}(..., {text})")
        self._wrap_value(statement, value, text)

    def _constrain_result_tree(self, single_sharding: SingleSharding, value: ast.expr) -> None:
        """A result that is constrained where the tree has a sharding."""
        self.shown.append(f"return {single_sharding.constrain_value(self.shard, '...')}")
        text = self.site.text(value)
        bare = isinstance(value, ast.Tuple) and not text.startswith("(")
        self.edits.append(
            self.site.replace(value, single_sharding.constrain_value(self.shard, f"({text})" if bare else text))
        )

    def _constrain_result_parts(
        self, shardings: ShardingPerArgument, statement: ast.Return, value: ast.expr, shown: bool = False
    ) -> None:
        """A result whose parts have no names yet; of a tuple that is `shown` they are as many."""
        names = [f"result{index}" for index in range(len(shardings.texts))]
        indent = self._statement_indent(statement)
        taken = any(self.file.mentions_in(self.file.scope(self.function), name) for name in names)
        other = not shown and isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Constant)
        if indent is None or taken or other or len(names) < 2:
            raise NotRewritten(
                f"one entry of out_shardings is None, and `return` at line {statement.lineno} does "
                "not show the value it is for"
            )
        parts = [
            shardings.constrain_variable(self.shard, name, text)
            for name, text in zip(names, shardings.texts, strict=True)
        ]
        self.shown.append(f"return {', '.join(parts)}")
        start, end = self.file.character_span(statement)
        self.edits.append(Edit(start, start + len("return"), f"{', '.join(names)} ="))
        self.edits.append(Edit(end, end, f"\n{indent}return {', '.join(parts)}"))

    def _constrain_where_requested(
        self, single_sharding: SingleSharding, statement: ast.Return, value: ast.expr
    ) -> None:
        """A result that is constrained only where something is asked for."""
        text, indent = self.site.text(value), self._statement_indent(statement)
        inside = f"return {single_sharding.constrain_if_given(self.shard, text)}"
        if isinstance(value, ast.Name) and len(indent or "") + len(inside) <= line_length(self.file):
            self.shown.append(f"return {single_sharding.constrain_if_given(self.shard, text)}")
            self.edits.append(self.site.replace(value, single_sharding.constrain_if_given(self.shard, text)))
            return
        if indent is None or self.file.mentions_in(self.file.scope(self.function), "result"):
            raise NotRewritten(
                f"`{single_sharding.text}` may be None, and `return` at line {statement.lineno} is not on its own "
                "line, or the function already uses the name `result`"
            )
        made = f"result = {single_sharding.constrain_value(self.shard, 'result')}"
        self.shown.append(f"if {single_sharding.when}: {made}")
        start = self.file.character_span(statement)[0]
        self.edits.append(Edit(start, start + len("return"), "result ="))
        end = self.file.character_span(statement)[1]
        lines = (f"if {single_sharding.when}:", f"{self._indent_unit()}{made}", "return result")
        self.edits.append(Edit(end, end, "".join(f"\n{indent}{line}" for line in lines)))

    def _wrap_value(self, statement: ast.Return, value: ast.expr, text: str) -> None:
        whole = self.site.text(statement)
        start, end = self.file.character_span(value)
        begin = self.file.character_span(statement)[0]
        bare = isinstance(value, ast.Tuple) and not self.site.text(value).startswith("(")
        written = f"({self.site.text(value)})" if bare else self.site.text(value)
        before, after = whole[: start - begin], whole[end - begin :]
        indent, unit = self._statement_indent(statement), self._indent_unit()
        if (
            indent is not None
            and "\n" in whole
            and before.count("(") == 1
            and after.rstrip().endswith(")")
            and "," not in after
        ):
            # It stands in brackets of its own: they become the call's.
            bracket = begin + before.index("(")
            newline = "" if "\n" in after else "\n" + indent
            gap = "" if before[before.index("(") - 1].isspace() else " "
            self.edits.append(Edit(bracket, bracket, f"{gap}{self.shard}"))
            self.edits.append(Edit(end, end, f",\n{indent}{unit}{text},{newline}"))
            return
        one_line = f"return {self.shard}({written}, {text})"
        simple = "\n" not in whole and len(indent or "") + len(one_line) <= line_length(self.file)
        if (
            simple
            or indent is None
            or whole != f"return {self.site.text(value)}"
            or self._spans_a_string(value)
        ):
            opening, closing = ("(", ")") if bare else ("", "")
            self.edits.append(Edit(start, start, f"{self.shard}({opening}"))
            self.edits.append(Edit(end, end, f"{closing}, {text})"))
            return
        inner = re.sub(r"\n(?=[ \t]*\S)", f"\n{unit}", written.replace("\r\n", "\n"))
        lead = indent + unit
        wrapped = f"return {self.shard}(\n{lead}{inner},\n{lead}{text},\n{indent})"
        self.edits.append(self.site.replace(statement, wrapped))

    def _spans_a_string(self, value: ast.expr) -> bool:
        return any(
            isinstance(part, ast.JoinedStr | ast.Constant) and part.lineno != part.end_lineno
            for part in walk_nodes(value)
        )

    def _opened_block_indent(self) -> str | None:
        """The indentation of the block that a body on the line of its `def` is opened into; None of any other body."""
        source, function = self.file.source, self.function
        start = self.file.character_span(function.body[0])[0]
        line = source.line_starts[function.body[0].lineno - 1]
        head = source.text[line:start]
        if not head.strip():
            return None
        first = source.line_text(function.lineno)
        outer = first[: len(first) - len(first.lstrip())]
        return outer + indent_unit(self.file, outer)

    def _open_one_line_body(self, lines: list[str]) -> None:
        """Put the statements of a body that stands on one line on lines of their own, and others ahead of the first."""
        source, text = self.file.source, self.file.source.text
        lead = f"{source.common_newline}{self.opened}"
        body = self.function.body
        start = self.file.character_span(body[0])[0]
        colon = len(text[:start].rstrip(" \t"))
        ends = [colon, *(self.file.character_span(one)[1] for one in body)]
        for statement, end in zip(body, ends, strict=False):
            more = [part for line in lines for part in line.split("\n")] if statement is self.first else []
            text = indented_as(self.file, "".join(f"{lead}{part}" for part in [*more, ""]), self.opened or "")
            self.edits.append(Edit(end, self.file.character_span(statement)[0], text))

    def _statement_indent(self, statement: ast.stmt) -> str | None:
        """Return the indentation of a statement; None if it shares its line."""
        if self.opened is not None and statement in self.function.body:
            return self.opened
        source = self.file.source
        text = source.text[source.line_starts[statement.lineno - 1] : self.file.character_span(statement)[0]]
        return None if text.strip() else text

    def _indent_unit(self) -> str:
        """Return the indentation of a block relative to the statement around it."""
        outer, inner = self._statement_indent(self.function), self._statement_indent(self.first)
        if inner is None or outer is None or inner == outer:
            return indent_unit(self.file, outer or "")
        return inner[len(outer) :]

    # where new lines go

    def _first_statement_offset(self) -> int:
        """Offset of the first statement, its decorators included."""
        decorators = getattr(self.first, "decorator_list", [])
        first = decorators[0] if decorators else self.first
        start = self.file.character_span(first)[0]
        return self.file.source.text.rindex("@", 0, start) if decorators else start

    def _line_start(self) -> int:
        return self.file.source.line_starts[self.file.source.position_of(self._first_statement_offset())[0] - 1]

    def _body_indent(self) -> int:
        return self._first_statement_offset() - self._line_start()

    def _insert_statements(self, lines: list[str]) -> None:
        """Put statements before the first one and the comments above it, which speak of it."""
        source = self.file.source
        start = self._first_statement_offset()
        line = source.position_of(start)[0]
        indent = source.text[source.line_starts[line - 1] : start]
        if indent.strip():
            self._open_one_line_body(lines)
            return
        while line > 1 and source.line_text(line - 1).lstrip().startswith("#"):
            line -= 1
        if line > 1 and source.line_text(line - 1).endswith("\\"):
            raise NotRewritten(f"line {line - 1} is continued into the body of `{self.function.name}`")
        at = source.line_starts[line - 1]
        text = "".join(f"{indent}{part}{source.common_newline}" for text in lines for part in text.split("\n"))
        text = indented_as(self.file, text, indent)
        if isinstance(self.first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text += source.common_newline
        self.edits.append(Edit(at, at, text))
