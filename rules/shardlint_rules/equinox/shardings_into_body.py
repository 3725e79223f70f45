"""The codemod of SL101: shardings given to `filter_jit` become `filter_shard` in the function's body.

    @eqx.filter_jit(in_shardings=(a, b), out_shardings=b)
    def f(x, y):
        return x + y

becomes

    @eqx.filter_jit
    def f(x, y):
        x, y = eqx.filter_shard(x, a), eqx.filter_shard(y, b)
        return eqx.filter_shard(x + y, b)
"""

from __future__ import annotations

import ast

from shardlint.imports import spell
from shardlint.program.signatures import SHARDING_SETTINGS
from shardlint.program.values import Api, Function, Made, Place, Wrapped
from shardlint.rule import Edit, Fix, Safety
from shardlint.site import Site
from shardlint_rules.equinox.given_shardings import Each, Given, One, given, sources
from shardlint_rules.equinox.same_in_body import obstacle
from shardlint_rules.equinox.wrapped import (
    KEEPING,
    Definition,
    NotRewritten,
    Wrapping,
    comments,
    positional,
    without,
    wrappings,
)

_WIDTH = 100


def rewrite(site: Site) -> Fix:
    """The fix. Raises `NotRewritten` where the text does not tell how the body would have to look."""
    if any(site.keyword(name) is None for name in SHARDING_SETTINGS if name in site.arguments.keywords):
        raise NotRewritten("the keywords are hidden in `**`")
    if site.arguments.open_keywords:
        raise NotRewritten("`**` may hold more keywords")
    inputs, outputs = (given(site, site.keyword(name)) for name in SHARDING_SETTINGS)
    edit, drops = without(site, set(SHARDING_SETTINGS))
    if inputs is None and outputs is None:
        return site.fix(Safety.SAFE, "drop the keyword: None asks for nothing", [edit], drops=drops)
    found = wrappings(site)
    if not found:
        raise NotRewritten("nothing is wrapped with it in this file")
    edits = [edit]
    shown: list[str] = []
    kept = [edit.text, *(site.text(source) for source in sources(inputs) + sources(outputs))]
    lost = [comment for comment in comments(site.text()) if not any(comment in text for text in kept)]
    for wrapping in found:
        function = _definition(site, wrapping)
        for source in sources(inputs) + sources(outputs):
            problem = obstacle(site, source, function)
            if problem is not None:
                raise NotRewritten(problem)
        body = _Body(site, function, lost)
        body.constrain_inputs(inputs)
        body.constrain_results(outputs)
        if body.comments:
            raise NotRewritten("a comment beside the keywords would be lost")
        edits += body.edits
        shown += body.shown
    if not shown:
        raise NotRewritten("there is nothing to constrain: no positional parameters and no returned value")
    message = f"write in the body: {' '.join('; '.join(dict.fromkeys(shown)).split())}"
    return site.fix(
        Safety.UNSAFE,
        message,
        edits,
        "the constraints take effect, which changes the compiled program",
        drops,
    )


# the function


def _definition(site: Site, wrapping: Wrapping) -> Definition:
    """The definition whose body gets the constraints, when it is sure that only this wrapper runs it so."""
    node = wrapping.function
    if not isinstance(node, Definition):
        node = _passed(site, wrapping)
    else:
        _check_decorators(site, node, wrapping.by)
    if isinstance(node, ast.AsyncFunctionDef):
        raise NotRewritten(f"`{node.name}` is async")
    if any(not isinstance(found, ast.Return) for found in site.file.walked(site.file.scope(node)).returns):
        raise NotRewritten(f"`{node.name}` is a generator")
    return node


def _check_decorators(site: Site, node: Definition, by: ast.AST) -> None:
    place = next(index for index, decorator in enumerate(node.decorator_list) if decorator is by)
    for decorator in node.decorator_list[place + 1 :]:
        value = site.value(decorator)
        api = value.by if isinstance(value, Made) else value
        if not isinstance(api, Api) or api.name not in KEEPING:
            raise NotRewritten(f"`@{site.text(decorator)}` stands between filter_jit and `{node.name}`")
    for decorator in node.decorator_list[:place]:
        if site.text(decorator) == "classmethod":
            raise NotRewritten(f"`{node.name}` is a classmethod")


def _passed(site: Site, wrapping: Wrapping) -> Definition:
    node = wrapping.function
    text = site.text(node)
    value = site.value(node)
    if isinstance(node, ast.Lambda):
        raise NotRewritten("a lambda has no body to write into: make it a def")
    if isinstance(value, Wrapped):
        raise NotRewritten(f"`{text}` went through another transform or decorator first")
    if (
        not isinstance(node, ast.Name)
        or not isinstance(value, Function)
        or value.bound
        or value.owner is not None
    ):
        raise NotRewritten(f"`{text}` is no plain function of this file")
    definition = value.node
    if value.place.file is not site.file:
        raise NotRewritten(f"`{text}` is defined in {value.place.file.path.name}")
    if isinstance(definition, ast.Lambda):
        raise NotRewritten("a lambda has no body to write into: make it a def")
    if site.file.home(definition).kind == "class":
        raise NotRewritten(f"`{text}` is also a method")
    for end in site.program.flow.ends(site.file, definition).found:
        if not any(wrapper.place.node is wrapping.by for wrapper in end.wrappers):
            raise NotRewritten(
                f"`{text}` is also used without this wrapper, at line {_line(site, end.place)}"
            )
    return definition


def _line(site: Site, place: Place) -> str:
    return str(place.line) if place.file is site.file else f"{place.line} of {place.file.path.name}"


# the body


class _Body:
    """The edits of one function's body."""

    def __init__(self, site: Site, function: Definition, comments: list[str]) -> None:
        self.site = site
        self.file = site.file
        self.function = function
        self.comments = comments
        """Comments that stood beside the keywords: they go above the lines that take their place."""
        self.edits: list[Edit] = []
        self.shown: list[str] = []
        first = function.body[0]
        docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if docstring and len(function.body) == 1:
            raise NotRewritten(f"`{function.name}` has no body")
        self.first = function.body[1] if docstring else first
        self.shard, imported = spell(site.program, self.file, self.first, "equinox.filter_shard")
        self.edits += imported

    def constrain_inputs(self, asked: Given) -> None:
        """Rebind the parameters to their constrained selves, above everything else in the body."""
        if asked is None:
            return
        names = [arg.arg for arg in positional(self.function)]
        if self.function.args.vararg is not None:
            raise NotRewritten(f"`*{self.function.args.vararg.arg}` hides which entry is for which argument")
        if isinstance(asked, One):
            if len(names) == 1 and not asked.surely:
                raise NotRewritten(f"`{asked.text}` may be one sharding or a tuple that holds one")
            joined = ", ".join(names)
            many = f"({joined})" if len(names) > 1 else joined
            lines = [f"{joined} = {self.shard}({many}, {asked.text})"] if names else []
        else:
            if len(asked.texts) != len(names):
                raise NotRewritten(
                    f"in_shardings has {len(asked.texts)} entries and `{self.function.name}` "
                    f"{len(names)} positional parameters"
                )
            pairs = [
                (n, f"{self.shard}({n}, {text})")
                for n, text in zip(names, asked.texts, strict=True)
                if text is not None
            ]
            together = f"{', '.join(name for name, _ in pairs)} = {', '.join(call for _, call in pairs)}"
            short = len(together) + self._indent() <= _WIDTH and "\n" not in together
            lines = [together] if short and pairs else [f"{name} = {call}" for name, call in pairs]
        self.shown += lines
        if lines:
            self._insert(lines)

    def constrain_results(self, asked: Given) -> None:
        """Constrain every returned value."""
        if asked is None:
            return
        for statement in self.file.walked(self.file.scope(self.function)).returns:
            value = statement.value
            if value is None or (isinstance(value, ast.Constant) and value.value is None):
                continue
            if (
                isinstance(asked, Each)
                and isinstance(value, ast.Tuple)
                and not any(isinstance(e, ast.Starred) for e in value.elts)
            ):
                self._each_result(asked, value)
            else:
                self._whole_result(asked, value)

    def _each_result(self, asked: Each, value: ast.Tuple) -> None:
        if len(value.elts) != len(asked.texts):
            entries, values = len(asked.texts), len(value.elts)
            raise NotRewritten(
                f"out_shardings has {entries} entries and `{self.function.name}` returns {values} values"
            )
        for element, text in zip(value.elts, asked.texts, strict=True):
            if text is not None:
                self._wrap(element, text)
        parts = ("..." if text is None else f"{self.shard}(..., {text})" for text in asked.texts)
        self.shown.append(f"return {', '.join(parts)}")

    def _whole_result(self, asked: One | Each, value: ast.expr) -> None:
        if isinstance(asked, One):
            text = asked.text
        else:
            if None in asked.texts:
                raise NotRewritten(
                    f"`return {self.site.text(value)}` does not show its parts, and one of them has None"
                )
            if len(asked.texts) == 1 or isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Constant):
                raise NotRewritten(
                    f"out_shardings is a tuple and `return {self.site.text(value)}` is no tuple of its length"
                )
            text = f"({', '.join(text for text in asked.texts if text is not None)})"
        self._wrap(value, text)
        self.shown.append(f"return {self.shard}(..., {text})")

    def _wrap(self, value: ast.expr, text: str) -> None:
        start, end = self.file.span(value)
        bare = isinstance(value, ast.Tuple) and not self._in_brackets(value)
        opening, closing = ("(", ")") if bare else ("", "")
        self.edits.append(Edit(start, start, f"{self.shard}({opening}"))
        self.edits.append(Edit(end, end, f"{closing}, {text})"))

    def _in_brackets(self, value: ast.Tuple) -> bool:
        import libcst as cst

        node = self.site.island(value)
        return isinstance(node, cst.Tuple) and bool(node.lpar) and self.site.text(value).startswith("(")

    # where new lines go

    def _start(self) -> int:
        """Offset of the first statement, its decorators included."""
        decorators = getattr(self.first, "decorator_list", [])
        first = decorators[0] if decorators else self.first
        start = self.file.span(first)[0]
        return self.file.source.text.rindex("@", 0, start) if decorators else start

    def _line_start(self) -> int:
        return self.file.source.line_starts[self.file.source.position(self._start())[0] - 1]

    def _indent(self) -> int:
        return self._start() - self._line_start()

    def _insert(self, lines: list[str]) -> None:
        """Put statements before the first one and the comments above it, which speak of it."""
        source = self.file.source
        start = self._start()
        line = source.position(start)[0]
        indent = source.text[source.line_starts[line - 1] : start]
        if indent.strip():
            self.edits.append(Edit(start, start, "".join(f"{text}; " for text in lines)))
            return
        while line > 1 and source.line(line - 1).lstrip().startswith("#"):
            line -= 1
        if line > 1 and source.line(line - 1).endswith("\\"):
            raise NotRewritten(f"the body of `{self.function.name}` starts on a continued line")
        at = source.line_starts[line - 1]
        self.edits.append(
            Edit(at, at, "".join(f"{indent}{text}{source.newline}" for text in (*self.comments, *lines)))
        )
        self.comments = []
