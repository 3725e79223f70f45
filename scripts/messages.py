"""Reads every message that a user can see from the source, with placeholders such as `{name}`.

`scripts/docs.py` writes them to docs/messages.md, and tests/test_plain_language.py checks their language.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

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
_CODE = ("run/init/write.py", "run/startup/factories.py", "run/startup/written.py", "verify/boot.py", "engine/cache")
_FINDINGS = {"Found": (3, 5), "Explanation": (0, 2)}
"""Classes of findings of `shardlint run`: the positions of their message and their advice."""
_MOST_TEXTS = 12


@dataclass(frozen=True, order=True)
class Message:
    """A message, where it comes from (a rule's code, a kind of finding or a command), and what to write instead."""

    source: str
    text: str
    advice: tuple[str, ...] = field(default=(), compare=False)
    place: str = field(default="", compare=False)
    """`file:line`, relative to the repository."""


def rule_messages() -> list[Message]:
    """The messages of the rules of the built-in pack, in the order of their codes."""
    found = []
    for path in sorted(RULES.rglob("*.py")):
        module = _module(path)
        for call in module.calls("finding"):
            message = _argument(call, 1, "message")
            texts = module.texts(message, call)
            advice = module.texts(_argument(call, None, "help"), call)
            for code in _codes(path, call):
                found += [Message(code, text, advice, module.place(call)) for text in texts]
    return _once(found)


def run_messages() -> list[Message]:
    """The findings of `shardlint run` and its explanations of exceptions, by file."""
    found = []
    for path in sorted((PACKAGE / "run").rglob("*.py")):
        module = _module(path)
        for name, (message_at, advice_at) in _FINDINGS.items():
            for call in module.calls(name):
                kinds = module.texts(_argument(call, 0, "kind"), call) if name == "Found" else ("exception",)
                source = f"run: {'/'.join(kinds) or path.stem}"
                advice = module.texts(_argument(call, advice_at, "advice" if name == "Found" else "help"), call)
                for text in module.texts(_argument(call, message_at, "message"), call):
                    found.append(Message(source, text, advice, module.place(call)))
    return _once(found)


def other_messages() -> list[Message]:
    """Every other prose string of the folders in `COMMANDS`: errors, notes, reasons, help texts."""
    known = {message.text for message in run_messages()} | {
        text for message in run_messages() for text in message.advice
    }
    found = []
    for folder, command in COMMANDS.items():
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if not any(part in path.as_posix() for part in _CODE):
                module = _module(path)
                found += [
                    Message(command, text, (), module.place(node))
                    for node, text in module.prose()
                    if text not in known
                ]
    return _once(found)


def page() -> str:
    """docs/messages.md."""
    rules, run, others = rule_messages(), run_messages(), other_messages()
    lines = [
        "# Messages",
        "",
        "Every message of shardlint, read from its source. `{name}` is filled in when the message is printed. Words",
        "with a slash between them are alternatives.",
        "",
        f"- [Rules](#rules): {len(rules)} messages of `shardlint check`",
        f"- [Findings of a run](#findings-of-a-run): {len(run)} messages of `shardlint run`",
        f"- [Other messages](#other-messages): {len(others)} errors, notes, reasons and help texts",
        "",
        "## Rules",
        "",
        *_table(rules, linked=True),
        "",
        "## Findings of a run",
        "",
        *_table(run),
        "",
        "## Other messages",
    ]
    for command in COMMANDS.values():
        own = [message for message in others if message.source == command]
        lines += ["", f"### {command[0].upper()}{command[1:]}", "", *(f"- {_escaped(one.text)}" for one in own)]
    return "\n".join(lines) + "\n"


def _table(messages: Iterable[Message], linked: bool = False) -> Iterator[str]:
    yield "| from | message | what to write |"
    yield "|---|---|---|"
    for one in messages:
        source = f"[{one.source}](rules/{one.source}.md)" if linked and one.source.startswith("SL") else one.source
        yield f"| {source} | {_escaped(one.text)} | {_escaped('; or '.join(one.advice))} |"


def _escaped(text: str) -> str:
    """A text as one line of Markdown; code in backquotes stays as it is."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(
        part if number % 2 else re.sub(r"([<*\[\]])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _once(messages: Iterable[Message]) -> list[Message]:
    """The messages in order of their source, each once."""
    return sorted(dict.fromkeys(messages), key=lambda one: one.source)


@dataclass
class _Module:
    """A module of the source: what its names and functions can be as texts."""

    path: Path
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]

    def place(self, node: ast.expr) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{node.lineno}"

    def calls(self, name: str) -> Iterator[ast.Call]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and name == getattr(node.func, "attr", getattr(node.func, "id", "")):
                yield node

    def prose(self) -> Iterator[tuple[ast.expr, str]]:
        """String literals that are sentences or parts of one, in order."""
        done: set[int] = set()
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in done:
                done.update(id(part) for part in ast.walk(node))
                if not isinstance(self.parents.get(node), ast.Expr) or self._is_help(node):
                    text = _text(node)
                    if text and _is_prose(text):
                        found.append((node, text))
        yield from sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset))

    def _is_help(self, node: ast.AST) -> bool:
        """Whether a docstring is the help of a command."""
        function = self.parents.get(self.parents.get(node, node))
        return isinstance(function, ast.FunctionDef) and any(
            ".command(" in f"{ast.unparse(one)}(" for one in function.decorator_list
        )

    def texts(self, node: ast.expr | None, at: ast.AST, depth: int = 0) -> tuple[str, ...]:
        """The texts that an expression can be, with placeholders; none if they are not written in sight of it."""
        return tuple(dict.fromkeys(itertools.islice(self._texts(node, at, depth), _MOST_TEXTS)))

    def _texts(self, node: ast.expr | None, at: ast.AST, depth: int) -> Iterator[str]:
        if node is None or depth > 6:
            return
        match node:
            case ast.Constant() | ast.JoinedStr():
                if text := _text(node):
                    yield text
            case ast.IfExp():
                yield from self._texts(node.body, at, depth + 1)
                yield from self._texts(node.orelse, at, depth + 1)
            case ast.BoolOp():
                for one in node.values:
                    yield from self._texts(one, at, depth + 1)
            case ast.BinOp(op=ast.Add()):
                sides = [self.texts(side, at, depth + 1) or (f"{{{_name(side)}}}",) for side in (node.left, node.right)]
                yield from ("".join(pair) for pair in itertools.product(*sides))
            case ast.Subscript(value=ast.Name()):
                yield from self._texts(node.value, at, depth + 1)
            case ast.Tuple() | ast.List():
                yield from self._texts(node.elts[0] if node.elts else None, at, depth + 1)
            case ast.Dict():
                for one in node.values:
                    yield from self._texts(one, at, depth + 1)
            case ast.Name():
                for value in self._values(node.id, at):
                    yield from self._texts(value, at, depth + 1)
            case ast.Call():
                yield from self._texts_of_call(node, at, depth)
            case ast.Attribute():
                yield from self._texts_of_field(node.attr, depth)

    def _texts_of_call(self, call: ast.Call, at: ast.AST, depth: int) -> Iterator[str]:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("format", "rstrip", "strip") and isinstance(call.func, ast.Attribute):
            yield from self._texts(call.func.value, at, depth + 1)
        elif name in ("sentence", "str", "next", "filter") and call.args:
            yield from self._texts(call.args[-1], at, depth + 1)
        for module in self._imported(name):
            for function in ast.walk(module.tree):
                if isinstance(function, ast.FunctionDef) and function.name == name:
                    for one in ast.walk(function):
                        if isinstance(one, ast.Return):
                            yield from module._texts(one.value, one, depth + 1)

    def _texts_of_field(self, name: str, depth: int) -> Iterator[str]:
        """The texts that objects with a field of this name are made with, here and in modules that this one imports."""
        modules = {id(one): one for one in (self, *_imports(self.path))}.values()
        makers = {
            node.name: [part.target.id for part in node.body if isinstance(part, ast.AnnAssign)
                        and isinstance(part.target, ast.Name)]
            for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
        }  # fmt: skip
        for module in modules:
            for maker, fields in makers.items():
                for call in module.calls(maker) if name in fields else ():
                    yield from module._texts(_argument(call, fields.index(name), name), call, depth + 1)

    def _imported(self, name: str) -> Iterator[_Module]:
        """The module that defines a function of this name: this one, or one that it is imported from."""
        yield self
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
                if path := _file_of(node.module or ""):
                    yield _module(path)

    def _values(self, name: str, at: ast.AST) -> Iterator[ast.expr]:
        """What is assigned to a name in the functions around a place, or else in the module."""
        scope: ast.AST | None = at
        while scope is not None:
            scope = self.parents.get(scope)
            if isinstance(scope, ast.FunctionDef | ast.Lambda | ast.Module):
                found = list(_assigned(scope, name))
                if found:
                    yield from found
                    return
        for module in list(self._imported(name))[1:]:
            yield from _assigned(module.tree, name)


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _matched(target, node.value, name)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield from _matched(node.target, node.value, name)


def _matched(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    elif isinstance(target, ast.Tuple):
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            for one, each in zip(target.elts, value.elts, strict=True):
                yield from _matched(one, each, name)
        elif isinstance(value, ast.IfExp):
            yield from _matched(target, value.body, name)
            yield from _matched(target, value.orelse, name)


@cache
def _module(path: Path) -> _Module:
    tree = ast.parse(path.read_text("utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return _Module(path, tree, parents)


@cache
def _imports(path: Path) -> tuple[_Module, ...]:
    """The modules of the built-in pack, or of `shardlint run`, that a module imports."""
    found = []
    for node in ast.walk(_module(path).tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("shardlint_rules", "shardlint.run")):
            for name in (node.module or "", *(f"{node.module}.{one.name}" for one in node.names)):
                if file := _file_of(name):
                    found.append(_module(file))
    return tuple(found)


def _file_of(module: str) -> Path | None:
    parts = module.split(".")
    base = ROOT / "rules" if parts[0] == "shardlint_rules" else ROOT
    for path in (base.joinpath(*parts).with_suffix(".py"), base.joinpath(*parts, "__init__.py")):
        if path.is_file():
            return path
    return None


def _codes(path: Path, call: ast.Call) -> list[str]:
    """The codes of the rules that make a finding: of the class around it, of its module, or of modules that use it."""
    parents, node = _module(path).parents, call
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, ast.ClassDef) and (code := _code_of(around)):
            return [code]
        around = parents.get(around)
    found = [code for one in ast.walk(_module(path).tree) if isinstance(one, ast.ClassDef) if (code := _code_of(one))]
    if found:
        return found[:1]
    users = [
        other
        for other in sorted(RULES.rglob("*.py"))
        if other != path and any(one.path == path for one in _imports(other))
    ]
    return sorted({code for other in users for code in _codes(other, call)})


def _code_of(node: ast.ClassDef) -> str:
    for one in node.body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id == "code":
            return str(getattr(one.value, "value", ""))
    return ""


def _argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and len(call.args) > position else None


def _text(node: ast.expr) -> str:
    """A string literal with its placeholders; empty for other constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    assert isinstance(node, ast.JoinedStr)
    return "".join(
        _text(part) if isinstance(part, ast.Constant) else f"{{{_name(part.value)}}}"  # type: ignore[attr-defined]
        for part in node.values
    )


def _name(node: ast.expr) -> str:
    """A short name for what a placeholder is filled with."""
    match node:
        case ast.Name():
            return node.id.strip("_")
        case ast.Attribute():
            return node.attr.strip("_")
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return _text(node).replace("{", "").replace("}", "")
        case ast.IfExp():
            return "/".join(dict.fromkeys((_name(node.body).strip(), _name(node.orelse).strip()))).strip("/")
        case ast.Subscript():
            inner = _name(node.slice)
            return _name(node.value) if inner.isdigit() or isinstance(node.slice, ast.Slice) else inner
        case ast.Call() if node.args and not isinstance(node.args[-1], ast.Starred | ast.GeneratorExp | ast.ListComp):
            return _name(node.args[0] if getattr(node.func, "attr", "") != "map" else node.args[-1])
        case ast.Call():
            return _name(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
        case ast.BoolOp():
            return "/".join(_name(one) for one in node.values)
        case _:
            names = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
            return _name(names[0]) if names else "value"


def _is_prose(text: str) -> bool:
    """Whether a literal is a sentence or a part of one: three words that are no code, pattern or list of names."""
    bare = re.sub(r"`[^`]*`|\{[^}]*\}", " ", text)
    if re.search(r"\(\?|\\[bwsdA]|\[\^|\]\*|[\w)]\{\d", text) or text.lstrip().startswith(("def ", "from ", "import ")):
        return False
    words = re.findall(r"(?<![\w./-])[A-Za-z][a-z'’-]*(?![\w/(=])", bare)
    return len(words) >= 3 and sum(word in _COMMON for word in words) > 0


_COMMON = frozenset(
    "a an and are as at by cannot did does for from has have here in is it its more must no not of on one only or "
    "over than that the this to was were which with without write".split()
)
