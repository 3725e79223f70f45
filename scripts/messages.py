"""Reads every message that a user can see from the source, with placeholders such as `{name}`.

`scripts/docs.py` writes them to docs/messages.md, and tests/test_plain_language.py checks their language.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from shardlint.syntax.nodes import child_nodes

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "rules" / "shardlint_rules"
PACKAGE = ROOT / "shardlint"

COMMANDS = {
    "run": "shardlint run",
    "verify": "shardlint verify",
    "rewrite": "shardlint fix",
    "cli": "the command line",
    "config": "settings and releases",
    "source": "reading files",
    "engine": "shardlint check",
}
"""The folders of `shardlint/` with messages, and what they belong to."""
# Modules that write programs or SVG: their strings are code.
_CODE = (
    "run/init/write.py",
    "run/startup/factories.py",
    "run/startup/value_code.py",
    "verify/boot.py",
    "engine/cache",
)
_FINDINGS = {"RunFinding": (3, 5), "Explanation": (0, 2)}
"""Classes of findings of `shardlint run`: the positions of their message and their advice."""
# Functions whose name tells more than their first argument, and what it tells.
_NAMED = {
    "_describe_effect": "effect",
    "_describe_history": "reason",
    "_effect": "effect",
    "_explain_indivisible": "dimension and size",
    "_owner": "owner",
}
_MOST_TEXTS = 12
Row = dict[str, ast.expr]
"""What names are in one row of a table of messages, or in one return of a function."""


@dataclass(frozen=True, order=True)
class Message:
    """A message, where it comes from (a rule's code, a kind of finding or a command), and what to write instead."""

    source: str
    text: str
    advice: tuple[str, ...] = field(default=(), compare=False)
    place: str = field(default="", compare=False)
    """`file:line`, relative to the repository."""


@cache
def rule_messages() -> list[Message]:
    """The messages of the rules of the built-in pack, in the order of their codes."""
    found = []
    for path in sorted(RULES.rglob("*.py")):
        module = _load_module(path)
        makers = (("finding", 1), ("report_violation", 0))  # each with the place of its message
        for call, place in ((call, place) for name, place in makers for call in module.calls_of(name)):
            for row in module.value_rows(call, message := _call_argument(call, place, "message")):
                texts = module.possible_texts(_argument_in_row(row, message), call)
                advice = module.advice_texts(_argument_in_row(row, _call_argument(call, None, "help")), call)
                for code in _rule_codes(path, call):
                    found += [Message(code, text, advice, module.place_of(call)) for text in texts]
    return _remove_duplicates(found)


@cache
def run_messages() -> list[Message]:
    """The findings of `shardlint run` and its explanations of exceptions, by kind."""
    found = []
    for path in sorted((PACKAGE / "run").rglob("*.py")):
        module = _load_module(path)
        for name, (message_at, advice_at) in _FINDINGS.items():
            for call in module.calls_of(name):
                for row in module.value_rows(call, message := _call_argument(call, message_at, "message")):
                    kind = _argument_in_row(row, _call_argument(call, 0, "kind"))
                    advice = _argument_in_row(
                        row, _call_argument(call, advice_at, "advice" if name == "RunFinding" else "help")
                    )
                    kinds = module.possible_texts(kind, call) if name == "RunFinding" else ("exception",)
                    found += [
                        Message("/".join(kinds), text, module.advice_texts(advice, call), module.place_of(call))
                        for text in module.possible_texts(_argument_in_row(row, message), call)
                    ]
    return _remove_duplicates(found)


def _argument_in_row(row: Row, argument: ast.expr | None) -> ast.expr | None:
    """An argument, or what its name or field is in a row."""
    match argument:
        case ast.Name():
            return row.get(argument.id, argument)
        case ast.Attribute():
            return row.get(f".{argument.attr}", argument)
        case ast.BoolOp(values=[ast.Attribute() as first, last]) if row:
            return row.get(f".{first.attr}", last)
        case _:
            return argument


@cache
def other_messages() -> list[Message]:
    """Every other prose string of the folders in `COMMANDS`: errors, notes, reasons, help texts."""
    known = {message.text for message in run_messages()} | {
        text for message in run_messages() for text in message.advice
    }
    found = []
    for folder, command in COMMANDS.items():
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if not any(part in path.as_posix() for part in _CODE):
                module = _load_module(path)
                found += [
                    Message(command, text, (), module.place_of(node))
                    for node, text in module.prose_strings()
                    if text not in known
                ]
    return _remove_duplicates(found)


def render_page() -> str:
    """docs/messages.md."""
    rules, run, others = rule_messages(), run_messages(), other_messages()
    lines = [
        "# Messages",
        "",
        "Every message of shardlint, read from its source. `{name}` is filled in when the message is printed. Words",
        "with a slash between them are alternatives. *; or* separates alternatives: a finding shows only",
        "one of them.",
        "",
        f"- [Rules](#rules): {len(rules)} messages of `shardlint check`",
        f"- [Findings of a run](#findings-of-a-run): {len(run)} messages of `shardlint run`",
        f"- [Other messages](#other-messages): {len(others)} errors, notes, reasons and help texts",
        "",
        "## Rules",
        "",
        *_message_table(rules, linked=True),
        "",
        "## Findings of a run",
        "",
        *_message_table(run),
        "",
        "## Other messages",
    ]
    for command in COMMANDS.values():
        own = [message for message in others if message.source == command]
        lines += [
            "",
            f"### {command[0].upper()}{command[1:]}",
            "",
            *(f"- {_escape_markdown(one.text)}" for one in own),
        ]
    return "\n".join(lines) + "\n"


def _message_table(messages: Iterable[Message], linked: bool = False) -> Iterator[str]:
    yield "| from | message | what to write |"
    yield "|---|---|---|"
    for one in messages:
        source = (
            f"[{one.source}](rules/{one.source}.md)" if linked and one.source.startswith("SL") else one.source
        )
        yield f"| {source} | {_escape_markdown(one.text)} | {_escape_markdown('; or '.join(one.advice))} |"


def _escape_markdown(text: str) -> str:
    """A text as one line of Markdown; code in backquotes stays as it is."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([<*\[\]])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _remove_duplicates(messages: Iterable[Message]) -> list[Message]:
    """The messages in order of their source, each once."""
    return sorted(dict.fromkeys(messages), key=lambda one: one.source)


class _Module:
    """A module of the source: what its names and functions can be as texts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text("utf-8"))
        self.nodes: list[ast.AST] = [self.tree]
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:  # it grows by the children of each, so that a module is walked once
            below = child_nodes(node)
            self.parents.update(dict.fromkeys(below, node))
            self.nodes += below
        self.functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        self._calls: dict[str, list[ast.Call]] = defaultdict(list)
        self._assigned: dict[str, list[tuple[ast.AST, ast.expr]]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name].append(node)
            elif isinstance(node, ast.Call):
                self._calls[getattr(node.func, "attr", getattr(node.func, "id", ""))].append(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._record_assignment(node, target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._record_assignment(node, node.target, node.value)

    def _record_assignment(self, node: ast.AST, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._assigned[target.id].append((node, value))
        elif (
            isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(value.elts) == len(target.elts)
        ):
            for one, each in zip(target.elts, value.elts, strict=True):
                self._record_assignment(node, one, each)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.IfExp):
            self._record_assignment(node, target, value.body)
            self._record_assignment(node, target, value.orelse)

    def place_of(self, node: ast.expr) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{node.lineno}"

    def calls_of(self, name: str) -> Iterator[ast.Call]:
        yield from self._calls[name]

    def prose_strings(self) -> Iterator[tuple[ast.expr, str]]:
        """String literals that are sentences or parts of one, in order."""
        done: set[int] = set()
        found = []
        for node in self.nodes:
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in done:
                done.update(id(part) for part in ast.walk(node))
                if not isinstance(self.parents.get(node), ast.Expr) or self._is_help(node):
                    text = self._literal_text(node)
                    if text and _is_prose(text):
                        found.append((node, text))
        yield from sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset))

    def _is_help(self, node: ast.AST) -> bool:
        """Return whether a docstring is the help of a command."""
        function = self.parents.get(self.parents.get(node, node))
        return isinstance(function, ast.FunctionDef) and any(
            ".command(" in f"{ast.unparse(one)}(" for one in function.decorator_list
        )

    def possible_texts(self, node: ast.expr | None, at: ast.AST, depth: int = 0) -> tuple[str, ...]:
        """The texts that an expression can be, with placeholders; none if they are not written in sight of it."""
        return tuple(dict.fromkeys(itertools.islice(self._texts_of_node(node, at, depth), _MOST_TEXTS)))

    def _texts_of_node(self, node: ast.expr | None, at: ast.AST, depth: int) -> Iterator[str]:
        if node is None or depth > 6:
            return
        match node:
            case ast.Constant() | ast.JoinedStr():
                if text := self._literal_text(node):
                    yield text
            case ast.IfExp():
                yield from self._texts_of_node(node.body, at, depth + 1)
                yield from self._texts_of_node(node.orelse, at, depth + 1)
            case ast.BoolOp():
                for one in node.values:
                    yield from self._texts_of_node(one, at, depth + 1)
            case ast.BinOp(op=ast.Add()):
                sides = [
                    self.possible_texts(side, at, depth + 1) or (f"{{{_placeholder_name(side)}}}",)
                    for side in (node.left, node.right)
                ]
                yield from ("".join(pair) for pair in itertools.product(*sides))
            case ast.Subscript(value=ast.Name()):
                yield from self._texts_of_node(node.value, at, depth + 1)
            case ast.Tuple() | ast.List():
                yield from self._texts_of_node(node.elts[0] if node.elts else None, at, depth + 1)
            case ast.Dict():
                for one in node.values:
                    yield from self._texts_of_node(one, at, depth + 1)
            case ast.Name():
                for value in self._assigned_values(node.id, at):
                    yield from self._texts_of_node(value, at, depth + 1)
            case ast.Call():
                yield from self._texts_of_call(node, at, depth)
            case ast.Attribute():
                yield from self._texts_of_field(node.attr, depth)

    def advice_texts(self, node: ast.expr | None, call: ast.Call) -> tuple[str, ...]:
        """The texts of advice, or a placeholder for what is computed elsewhere."""
        found = list(self.possible_texts(node, call))
        if isinstance(node, ast.Name) and not found:
            found = [
                text
                for row in self.value_rows(call, node)
                for text in self.possible_texts(row.get(node.id), call)
            ]
        is_empty = node is None or (isinstance(node, ast.Constant) and not node.value)
        return tuple(dict.fromkeys(found)) or (() if is_empty else ("{advice}",))

    def _literal_text(self, node: ast.expr) -> str:
        """The text of a string literal. Placeholders for string constants of a module are filled in."""
        if not isinstance(node, ast.JoinedStr):
            return _literal_with_placeholders(node)
        parts = []
        for part in node.values:
            value = part.value if isinstance(part, ast.FormattedValue) else None
            constants = self.possible_texts(value, node) if isinstance(value, ast.Name) and value.id.isupper() else ()
            filled = constants[0] if len(constants) == 1 and "{" not in constants[0] else ""
            parts.append(filled or _literal_with_placeholders(ast.JoinedStr([part])))
        return _merge_equal_placeholders("".join(parts))

    def value_rows(self, call: ast.Call, message: ast.expr | None) -> list[Row]:
        """Return the values that the names in a call of a finding have together, if its message is a name or field:
        one row for each combination.

        Names may be assigned by `kind, message, advice = table[key]` or `= function(...)`, or be parameters of the
        function around the call. Otherwise there is one empty row.
        """
        if isinstance(message, ast.Attribute):
            made = [
                {
                    f".{name}": value
                    for name in fields
                    if (value := _call_argument(maker, fields.index(name), name))
                }
                for _, fields, maker in self._makers_of_field(message.attr)
            ]
            texts = (ast.Constant, ast.JoinedStr, ast.IfExp)
            return (
                made
                if made and all(isinstance(_argument_in_row(row, message), texts) for row in made)
                else [{}]
            )
        function = next((one for one in self._enclosing_nodes(call) if isinstance(one, ast.FunctionDef)), None)
        if function is None or not isinstance(message, ast.Name):
            return [{}]
        parameters = [one.arg for one in function.args.args]
        if message.id in parameters:
            own = parameters[parameters[0] == "self" :]
            return [
                dict(zip(own, one.args, strict=False))
                | {each.arg: each.value for each in one.keywords if each.arg}
                for one in self._calls[function.name]
            ]
        found: list[Row] = []
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Tuple):
                targets = [getattr(one, "id", "") for one in target.elts]
                if message.id in targets:
                    rows = (row.elts for row in self._tuples_in_table(node.value, node))
                    found += [
                        dict(zip(targets, row, strict=True)) for row in rows if len(row) == len(targets)
                    ]
        return found or [{}]

    def _tuples_in_table(self, value: ast.expr, at: ast.AST) -> Iterator[ast.Tuple]:
        """The tuples in a table, or that a function of the module returns."""
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
            for table in self._assigned_values(value.value.id, at):
                if isinstance(table, ast.Dict):
                    yield from (one for one in table.values if isinstance(one, ast.Tuple))
        elif isinstance(value, ast.Name):
            for one in self._assigned_values(value.id, at):
                yield from self._tuples_in_table(one, at)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            for module in self._module_defining(value.func.id):
                for function in module.functions[value.func.id]:
                    for one in ast.walk(function):
                        if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple):
                            yield one.value

    def _enclosing_nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def _texts_of_call(self, call: ast.Call, at: ast.AST, depth: int) -> Iterator[str]:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("format", "rstrip", "strip") and isinstance(call.func, ast.Attribute):
            yield from self._texts_of_node(call.func.value, at, depth + 1)
        elif name in ("sentence", "str", "next", "filter") and call.args:
            yield from self._texts_of_node(call.args[-1], at, depth + 1)
        for module in self._module_defining(name):
            for function in module.functions[name]:
                for one in ast.walk(function):
                    if isinstance(one, ast.Return):
                        yield from module._texts_of_node(one.value, one, depth + 1)

    def _texts_of_field(self, name: str, depth: int) -> Iterator[str]:
        """The texts that objects with a field of this name are made with."""
        for module, fields, call in self._makers_of_field(name):
            yield from module._texts_of_node(_call_argument(call, fields.index(name), name), call, depth + 1)

    def _makers_of_field(self, name: str) -> Iterator[tuple[_Module, list[str], ast.Call]]:
        """The calls that make objects with a field of this name, here and in modules that this one imports."""
        modules = {id(one): one for one in (self, *_imported_modules(self.path))}.values()
        makers = {
            node.name: [part.target.id for part in node.body if isinstance(part, ast.AnnAssign)
                        and isinstance(part.target, ast.Name)]
            for module in modules for node in module.nodes if isinstance(node, ast.ClassDef)
        }  # fmt: skip
        for module in modules:
            for maker, fields in makers.items():
                for call in module.calls_of(maker) if name in fields else ():
                    yield module, fields, call

    def _module_defining(self, name: str) -> Iterator[_Module]:
        """The module that defines a function of this name: this one, or one that it is imported from."""
        yield self
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and any(
                (one.asname or one.name) == name for one in node.names
            ):
                if path := _file_of(node.module or ""):
                    yield _load_module(path)

    def _assigned_values(self, name: str, at: ast.AST) -> Iterator[ast.expr]:
        """Yield the values assigned to a name in the functions around a place, or else in the module."""
        for scope in self._enclosing_nodes(at):
            if isinstance(scope, ast.FunctionDef | ast.Lambda | ast.Module):
                if found := [value for node, value in self._assigned[name] if scope in self._enclosing_nodes(node)]:
                    yield from found
                    return
        for module in list(self._module_defining(name))[1:]:
            yield from (value for _, value in module._assigned[name])


@cache
def _load_module(path: Path) -> _Module:
    return _Module(path)


@cache
def _imported_modules(path: Path) -> tuple[_Module, ...]:
    """The modules of the built-in pack, or of `shardlint run`, that a module imports."""
    found = []
    for node in _load_module(path).nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("shardlint_rules", "shardlint.run")
        ):
            for name in (node.module or "", *(f"{node.module}.{one.name}" for one in node.names)):
                if file := _file_of(name):
                    found.append(_load_module(file))
    return tuple(found)


def _file_of(module: str) -> Path | None:
    parts = module.split(".")
    base = ROOT / "rules" if parts[0] == "shardlint_rules" else ROOT
    for path in (base.joinpath(*parts).with_suffix(".py"), base.joinpath(*parts, "__init__.py")):
        if path.is_file():
            return path
    return None


def _rule_codes(path: Path, call: ast.Call) -> list[str]:
    """The codes of the rules that make a finding: of the class around it, of its module, or of modules that use it."""
    for around in _load_module(path)._enclosing_nodes(call):
        if isinstance(around, ast.ClassDef) and (code := _code_of(around)):
            return [code]
    found = [
        code for one in _load_module(path).nodes if isinstance(one, ast.ClassDef) if (code := _code_of(one))
    ]
    if found:
        return found[:1]
    return sorted({code for other in _modules_by_import()[path] for code in _rule_codes(other, call)})


@cache
def _modules_by_import() -> dict[Path, list[Path]]:
    """The modules of the pack that import a module of it."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(RULES.rglob("*.py")):
        for one in {one.path for one in _imported_modules(path)} - {path}:
            found[one].append(path)
    return found


def _code_of(node: ast.ClassDef) -> str:
    for one in node.body:
        if (
            isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and one.targets[0].id == "code"
        ):
            return str(getattr(one.value, "value", ""))
    return ""


def _call_argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and len(call.args) > position else None


def _literal_with_placeholders(node: ast.expr) -> str:
    """A string literal with its placeholders; empty for other constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    assert isinstance(node, ast.JoinedStr)
    text = "".join(
        _literal_with_placeholders(part)
        if isinstance(part, ast.Constant)
        else f"{{{_placeholder_name(part.value)}}}"  # type: ignore[attr-defined]
        for part in node.values
    )
    return _merge_equal_placeholders(text)


def _merge_equal_placeholders(text: str) -> str:
    """A text with one placeholder for two equal ones, as of `{what[0].upper()}{what[1:]}`."""
    return re.sub(r"(\{[^{}]+\})\1", r"\1", text)


def _placeholder_name(node: ast.expr) -> str:
    """A short name for what a placeholder is filled with."""
    match node:
        case ast.Name():
            return node.id.strip("_")
        case ast.Attribute():
            return node.attr.strip("_")
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return _literal_with_placeholders(node).replace("{", "").replace("}", "")
        case ast.IfExp():
            return "/".join(
                dict.fromkeys((_placeholder_name(node.body).strip(), _placeholder_name(node.orelse).strip()))
            ).strip("/")
        case ast.Subscript():
            inner = _placeholder_name(node.slice)
            return (
                _placeholder_name(node.value)
                if inner.isdigit() or isinstance(node.slice, ast.Slice)
                else inner
            )
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _NAMED:
            return _NAMED[name]
        case ast.Call() if node.args and not isinstance(
            node.args[-1], ast.Starred | ast.GeneratorExp | ast.ListComp
        ):
            return _placeholder_name(
                node.args[0] if getattr(node.func, "attr", "") != "map" else node.args[-1]
            )
        case ast.Call():
            return _placeholder_name(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
        case ast.BoolOp():
            return "/".join(_placeholder_name(one) for one in node.values)
        case _:
            names = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
            return _placeholder_name(names[0]) if names else "value"


def _is_prose(text: str) -> bool:
    """Return whether a literal is a sentence or a part of one: three words that are no code, pattern or list of names.
    """
    bare = re.sub(r"`[^`]*`|\{[^}]*\}", " ", text)
    if re.search(r"\(\?|\\[bwsdA]|\[\^|\]\*|[\w)]\{\d", text) or text.lstrip().startswith(
        ("def ", "from ", "import ")
    ):
        return False
    words = re.findall(r"(?<![\w./-])[A-Za-z][a-z'’-]*(?![\w/(=])", bare)
    return len(words) >= 3 and sum(word in _COMMON for word in words) > 0


_COMMON = frozenset(
    "a an and are as at by cannot did does for from has have here in is it its more must no not of on one only or "
    "over than that the this to was were which with without write".split()
)
