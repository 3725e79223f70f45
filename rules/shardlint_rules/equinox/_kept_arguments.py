"""Donation of some arguments: `filter_jit` knows "all" and "all-except-first", so what is kept goes first, in a tuple.

    @eqx.filter_jit(donate_argnums=(0,))
    def step(state, x, y):
        ...

becomes

    @eqx.filter_jit(donate="all-except-first")
    def _step(kept, state):
        x, y = kept
        ...


    def step(state, x, y):
        return _step((x, y), state)

A function that has no body to be seen is called by a new one.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Collection, Sequence

from shardlint.model.signatures import Parameters, parameters_of
from shardlint.model.values import Function, options
from shardlint.rewrite.indent import UNIT, indented_as
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import names_in, walk_nodes
from shardlint_rules.equinox.beside_statement import blank_lines_above, indentation_of, replace_statement
from shardlint_rules.equinox.same_in_body import is_constant_function
from shardlint_rules.equinox.wrapped_functions import NotRewritten, positional_parameters

_MODE = "all-except-first"
_REPEATED = (ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)


@dataclass(frozen=True)
class _ParameterList:
    """Parameters of a function: how each is written in its `def`, how it is passed on, and which are donated.

    `names` may end in `*rest` and `**named`, of a function that is not known.
    """

    names: tuple[str, ...]
    named: tuple[str, ...]
    donated: frozenset[str]
    signature: str

    @property
    def kept_parameters(self) -> tuple[str, ...]:
        """Return the parameters that are not donated, in order."""
        return tuple(one for one in (*self.names, *self.named) if one not in self.donated)

    @property
    def kept_without_stars(self) -> tuple[str, ...]:
        """Return the parameters that are not donated, without stars."""
        return tuple(one.lstrip("*") for one in self.kept_parameters)

    @property
    def forwarded_arguments(self) -> str:
        """How all are handed on."""
        last = [one for one in self.names if one.startswith("**")]
        names = [one for one in self.names if one not in last]
        return ", ".join([*names, *(f"{name}={name}" for name in self.named), *last])

    @property
    def packed_name(self) -> str:
        """The name of what holds those that are kept."""
        return next(one for one in ("kept", "kept_", "kept__") if one not in (*self.names, *self.named))

    def refuse_parameters(self, *names: str) -> None:
        """Raise `NotRewritten` where one of these names is a parameter."""
        if {*names, self.packed_name} & {*self.names, *self.named}:
            raise NotRewritten("a parameter has a name that the new function assigns")

    @property
    def donated_parameters(self) -> tuple[str, ...]:
        """Return the donated parameters, in order."""
        return tuple(one for one in (*self.names, *self.named) if one in self.donated)


def wrap_definition(
    site: Site, node: ast.FunctionDef, donated: Collection[str], cut: Edit
) -> tuple[list[Edit], str]:
    """The edits around a decorated function, the `cut` of its decorator among them, and what they do."""
    mine = next(one for one in node.decorator_list if any(part is site.call for part in walk_nodes(one)))
    if mine is not node.decorator_list[-1]:
        raise NotRewritten(f"another decorator is between filter_jit and `{node.name}`")
    source, names = site.file.source, [arg.arg for arg in (*positional_parameters(node), *node.args.kwonlyargs)]
    kept = [name for name in names if name not in donated]
    hidden, called, kind = _hide_jitted_function(site, node)
    indent = indentation_of(site, node)
    _check_body(site, node)
    if _is_in_loop(site, node):
        raise NotRewritten(f"`{node.name}` is created in a loop: each wrapper would call the last function")
    opened, closed = _parameter_brackets(site, node)
    annotated = {arg.arg: site.text(arg) for arg in (*positional_parameters(node), *node.args.kwonlyargs)}
    first, pack = _free_parameter_name(site, node, "kept"), _format_tuple(kept)
    inner = ", ".join([first, *(annotated[name] for name in names if name in donated)])
    at = source.text.index(node.name, site.file.character_span(node)[0] + len("def"))
    edits = [cut, Edit(at, at + len(node.name), hidden), Edit(opened + 1, closed, inner)]
    above = [one for one in node.decorator_list if one.lineno < mine.lineno]
    doc = ""
    unpack = f"{_format_targets(kept)} = {first}"
    begins = node.body[0]
    body_indent = source.line_text(begins.lineno)[: begins.col_offset]
    if ast.get_docstring(node, clean=False) is not None:
        start, end = site.file.character_span(begins)
        doc = f"{body_indent}{source.text[start:end]}\n"
        edits.append(Edit(start, end, unpack))
    else:
        line = source.line_starts[_line_number_at(site, closed)]
        edits.append(Edit(line, line, f"{body_indent}{unpack}{source.common_newline}"))
    begin = source.line_starts[(above[0] if above else mine).lineno - 1]
    own = source.line_starts[mine.lineno - 1]
    moved = source.text[begin:own]
    if "#" in moved:
        raise NotRewritten("a comment between the decorators would be lost")
    if moved or kind:
        edits.append(Edit(begin, own, f"{indent}{kind}{source.common_newline}" if kind else ""))
    head = source.text[opened : _header_end(site, node, closed)].replace("\r\n", "\n")
    called_with = ", ".join([pack, *(name for name in names if name in donated)])
    text = f"{moved}{indent}def {node.name}{head}:\n{doc}"
    text += f"{body_indent}return {called}({called_with})\n"
    last = node.end_lineno or node.lineno
    below = source.line_starts[last] if last < len(source.line_starts) else len(source.text)
    lines_end = "" if source.text[below - 1 : below] in ("\n", "\r") else "\n"
    gap = "\n" if indent else "\n\n"
    if lines_end:  # the file ends without one, and goes on to
        text = text.removesuffix("\n")
    whole = f"{lines_end}{gap}{text}".replace("\r\n", "\n").replace("\n", source.common_newline)
    return [*edits, Edit(below, below, whole)], _describe_donation(kept)


def _hide_jitted_function(site: Site, node: ast.FunctionDef) -> tuple[str, str, str]:
    """The name that the jitted function takes, how it is called from the outer one, and its own decorator."""
    hidden = f"_{node.name.strip('_')}"
    if node.name.startswith("_") or site.file.find_mentions(hidden):
        hidden = f"_donating_{node.name.strip('_')}"
    if site.file.find_mentions(hidden):
        raise NotRewritten(f"the file uses the name `{hidden}` already")
    home = site.file.evaluation_scope(node)
    above = [site.text(one) for one in node.decorator_list[:-1]]
    if home.kind != "class":
        return hidden, hidden, ""
    if home.parent is None or home.parent.kind != "module":
        raise NotRewritten(f"the class of `{node.name}` is not in the module")
    called = f"{home.name}.{hidden}"  # a subclass may have another of that name
    if above not in ([], ["staticmethod"]):
        raise NotRewritten(f"`@{above[0]}` decorates the method too")
    return hidden, called, "@staticmethod"


def _check_body(site: Site, node: ast.FunctionDef) -> None:
    if getattr(node, "type_params", None):
        raise NotRewritten(f"`{node.name}` has type parameters")
    for part in walk_nodes(node):
        if isinstance(part, ast.Yield | ast.YieldFrom):
            raise NotRewritten(f"`{node.name}` is a generator")
        if isinstance(part, ast.Name) and part.id in ("super", "locals", "__class__"):
            raise NotRewritten(f"`{node.name}` calls `{part.id}`")
    refuse_lowered(site, node.name)


def refuse_lowered(site: Site, name: str) -> None:
    """Raise `NotRewritten` if a method of the jit is called, which a wrapper function lacks."""
    files = [site.file, *site.program.project.files_importing(site.file.path, name)]
    for file in files:
        if file is not None and any(file.contains_text(f"{name}.{word}") for word in ("lower(", "__wrapped__")):
            raise NotRewritten(f"the code uses `{name}.lower`, and a wrapper of the jit has no `lower`")


def _parameter_brackets(site: Site, node: ast.FunctionDef) -> tuple[int, int]:
    """Where the parameters' brackets are. Raises `NotRewritten` where a comment is in them."""
    source = site.file.source
    at = source.text.index("(", site.file.character_span(node)[0])
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source.text[at:], newline="").readline):
        if token.type == tokenize.COMMENT:
            raise NotRewritten("a comment among the parameters would be lost")
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0)
        if depth == 0:
            row, column = token.start
            line = _line_number_at(site, at)
            start = at if row == 1 else source.line_starts[line + row - 2]
            return at, start + column
    raise NotRewritten(f"the parameters of `{site.text()}` are not known")


def _line_number_at(site: Site, at: int) -> int:
    return site.file.source.position_of(at)[0]


def _header_end(site: Site, node: ast.FunctionDef, closed: int) -> int:
    """Where the header ends. The body begins on a line of its own, or this raises."""
    source = site.file.source
    after = site.file.character_span(node.returns)[1] if node.returns is not None else closed + 1
    line = source.line_text(_line_number_at(site, after))
    rest = line[after - source.line_starts[_line_number_at(site, after) - 1] :]
    if rest.strip() != ":" or node.body[0].lineno <= _line_number_at(site, after):
        raise NotRewritten(f"the body of `{node.name}` begins on its first line")
    return after


def wrap_expression(site: Site, donated: Collection[int | str], settings: str) -> tuple[list[Edit], str]:
    """The edits around `filter_jit(function, ...)`, `settings` being what is left of it, and what they do."""
    function = site.argument("fun")
    statement = site.file.statement(site.call)
    if function is None or site.form != "call" or not isinstance(statement, SIMPLE):
        raise NotRewritten(f"no function can be written above line {statement.lineno}")
    if site.file.evaluation_scope(statement).kind == "class":
        raise NotRewritten(f"no function can be written above line {statement.lineno}")
    indent = indentation_of(site, statement)
    taken = _read_parameters(site, function, donated)
    refuse_lowered_target(site, statement)
    handed = not is_constant_function(site, function, statement)
    if _is_recreated_per_run(site, function, statement) or (handed and not _is_there_later(site, function)):
        name = _unused_name(site, choose_unique_name(site, function))
        lines = _write_pair_factory(site, taken, name, settings)
        return [
            edit_above_statement(site, statement, indent, lines),
            site.replace(site.call, f"{name}({site.text(function)})"),
        ], (_describe_donation(taken.kept_without_stars))
    target = (
        statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is site.call else None
    )
    own = target.id if isinstance(target, ast.Name) else ""
    if own and len(site.file.bindings(site.file.evaluation_scope(statement), own)) > 1:
        raise NotRewritten(f"`{own}` is bound more than once")
    outer = own or _unused_name(site, choose_unique_name(site, function))
    lines = _write_function_pair(
        site, function, taken, handed, (_unused_name(site, f"_{outer.strip('_')}"), outer), settings
    )
    if own:
        gap = [] if indent else [""]
        whole = [line for part in lines for line in ([*gap, part] if not part else [part])]
        text = "\n".join(indent + line if line and number else line for number, line in enumerate(whole))
        return replace_statement(site, statement, text, indent), _describe_donation(taken.kept_without_stars)
    return [
        edit_above_statement(site, statement, indent, lines),
        site.replace(site.call, outer),
    ], _describe_donation(taken.kept_without_stars)


def _write_function_pair(
    site: Site, function: ast.expr, parameter_list: _ParameterList, handed: bool, names: tuple[str, str], settings: str
) -> list[str]:
    """The jitted function that takes what is kept first, and the one around it. Between them is an empty line."""
    written = site.text(function)
    held = ["function" if "." in written else written] if handed else []
    parameter_list.refuse_parameters(*held)
    call = f"{held[0] if held else written}({parameter_list.forwarded_arguments})"
    if isinstance(function, ast.Lambda):
        call = site.text(function.body)
    if "\n" in call or "\n" in settings:
        raise NotRewritten(f"the call at line {site.call.lineno} is written over several lines")
    kept = _format_tuple([*([written] if held else []), *parameter_list.kept_without_stars])
    return [
        f"@{site.text(site.call.func)}({settings})",
        f"def {names[0]}({', '.join([parameter_list.packed_name, *parameter_list.donated_parameters])}):",
        f"{UNIT}{_format_targets([*held, *parameter_list.kept_without_stars])} = {parameter_list.packed_name}",
        f"{UNIT}return {call}",
        "",
        f"def {names[1]}({parameter_list.signature}):",
        f"{UNIT}return {names[0]}({', '.join([kept, *parameter_list.donated_parameters])})",
    ]


def _write_pair_factory(site: Site, parameter_list: _ParameterList, name: str, settings: str) -> list[str]:
    """A function that makes the pair of the function it is given: of one whose name means another later."""
    parameter_list.refuse_parameters("function", "jitted", "call")
    if "\n" in settings:
        raise NotRewritten(f"the call at line {site.call.lineno} is written over several lines")
    kept = _format_tuple(["function", *parameter_list.kept_without_stars])
    body = [
        f"@{site.text(site.call.func)}({settings})",
        f"def jitted({', '.join([parameter_list.packed_name, *parameter_list.donated_parameters])}):",
        f"{UNIT}{_format_targets(['function', *parameter_list.kept_without_stars])} = {parameter_list.packed_name}",
        f"{UNIT}return function({parameter_list.forwarded_arguments})",
        "",
        f"def call({parameter_list.signature}):",
        f"{UNIT}return jitted({', '.join([kept, *parameter_list.donated_parameters])})",
        "",
        "return call",
    ]
    return [f"def {name}(function):", *(f"{UNIT}{line}" if line else "" for line in body)]


def edit_above_statement(site: Site, statement: ast.stmt, indent: str, lines: Sequence[str]) -> Edit:
    """The edit that writes a function above a statement."""
    start = site.file.source.line_starts[statement.lineno - 1]
    gap = "\n" if indent else "\n\n"
    nested = lines[0].startswith("def ")
    text = "".join(f"{indent}{line}\n" if line else "\n" if nested else gap for line in lines)
    text = blank_lines_above(site, statement, indent) + indented_as(site.file, text, indent) + gap
    return Edit(start, start, text.replace("\r\n", "\n").replace("\n", site.file.source.common_newline))


def choose_unique_name(site: Site, function: ast.expr) -> str:
    """A name for what calls a function, another one for each call of the file: several fixes are made at once."""
    said = _function_name(site, function)
    calls = [site.file.parent(mention) for mention in site.file.find_mentions("filter_jit")]
    earlier = [
        one for one in calls
        if isinstance(one, ast.Call) and one.args and (one.lineno, one.col_offset) < _position_of(site.call)
        and _function_name(site, one.args[0]) == said
    ]  # fmt: skip
    return f"donating_{said}_{len(earlier) + 1}" if earlier else f"donating_{said}"


def _position_of(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _function_name(site: Site, function: ast.expr) -> str:
    """Return the name of a function, for the names of those around it."""
    base = function
    while isinstance(base, ast.Call) and (base.args or isinstance(base.func, ast.Call)):
        base = base.args[0] if base.args else base.func
    named = isinstance(base, ast.Name | ast.Attribute)
    return site.text(base).rpartition(".")[2].strip("_").removeprefix("sharded_") if named else "step"


def refuse_lowered_target(site: Site, statement: ast.stmt) -> None:
    """The same of what a statement binds."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name | ast.Attribute):
            refuse_lowered(site, target.id if isinstance(target, ast.Name) else target.attr)


def _is_recreated_per_run(site: Site, function: ast.expr, statement: ast.stmt) -> bool:
    """Return whether the call runs several times with functions of one name, or its result takes the name."""
    if isinstance(statement, ast.Assign) and site.text(function) in map(site.text, statement.targets):
        return True
    for outer in site.file.ancestors(site.call):
        if outer is statement:
            break
        if isinstance(outer, _REPEATED):
            return True
    return _is_in_loop(site, statement)


def _is_in_loop(site: Site, statement: ast.stmt) -> bool:
    scope = site.file.evaluation_scope(statement)
    for outer in site.file.ancestors(statement):
        if outer is scope.node:
            return False
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
            return True
    return False


def _is_there_later(site: Site, function: ast.expr) -> bool:
    """Return whether an expression keeps its value until the function is called: a name bound once, a bound method."""
    if isinstance(function, ast.Name):
        bindings, scope = lookup_bindings(site.file, function, function.id)
        return len(bindings) == 1 and scope is not None and scope.kind in ("function", "module")
    found = options(site.value(function))
    return isinstance(function, ast.Attribute) and all(isinstance(one, Function) and one.bound for one in found)


def _read_parameters(site: Site, function: ast.expr, donated: Collection[int | str]) -> _ParameterList:
    found = options(site.value(function))
    known = parameters_of(found[0], site.program.evaluator) if len(found) == 1 else None
    if known is None or (known.star and not _donates_named_parameters(known, donated)):
        return _first_of_more(site, function, donated)
    names = set()
    for one in donated:
        index = known.nonnegative_position(one) if isinstance(one, int) else None
        name = one if isinstance(one, str) else known.positional[index] if index is not None else ""
        if name not in (*known.positional, *known.keyword_only):
            raise NotRewritten(f"the function has no argument {one!r}")
        names.add(name)
    more = [
        f"{mark}{name}"
        for mark, name in zip(("*", "**"), _names_for_extra_arguments(known), strict=True)
        if name
    ]
    every = (*known.positional, *more)
    return _ParameterList(every, known.keyword_only, frozenset(names), _signature_text(site, function, known))


def _donates_named_parameters(parameters: Parameters, donated: Collection[int | str]) -> bool:
    """Return whether each donated argument has a parameter of its own, outside `*args`."""
    return all(isinstance(one, str) or 0 <= one < len(parameters.positional) for one in donated)


def _names_for_extra_arguments(parameters: Parameters) -> tuple[str, str]:
    """Names for what else a function takes by position and by keyword; empty where it takes nothing else."""
    own = {*parameters.positional, *parameters.keyword_only}
    rest = next(name for name in ("rest", "rest_", "rest__") if name not in own) if parameters.star else ""
    named = next(name for name in ("named", "named_", "named__") if name not in own) if parameters.double_star else ""
    return rest, named


def _signature_text(site: Site, function: ast.expr, parameters: Parameters) -> str:
    """The parameters as they are written, with their defaults. Raises `NotRewritten` where these may change."""
    args = parameters.node.args if parameters.node is not None else None
    spare = len(parameters.positional) - parameters.required
    defaults: list[ast.expr | None] = [None] * parameters.required
    if args is not None:
        defaults += args.defaults[len(args.defaults) - spare :] if spare else []
    defaults += args.kw_defaults if args is not None else []
    names = [*parameters.positional, *parameters.keyword_only]
    if len(defaults) != len(names) or not all(isinstance(one, ast.Constant | None) for one in defaults):
        raise NotRewritten(f"`{site.text(function)}` has defaults that are not literals")
    written = [
        name if default is None else f"{name}={ast.unparse(default)}"
        for name, default in zip(names, defaults, strict=True)
    ]
    rest, more = _names_for_extra_arguments(parameters)
    if parameters.keyword_only or rest:
        written.insert(len(parameters.positional), f"*{rest}")
    return ", ".join([*written, f"**{more}"] if more else written)


def _first_of_more(site: Site, function: ast.expr, donated: Collection[int | str]) -> _ParameterList:
    """A function of which not all parameters are known donates what comes first, given by position."""
    count = len(donated)
    if set(donated) != set(range(count)):
        raise NotRewritten(f"the parameters of `{site.text(function)}` are not known")
    letters = ("first", "second", "third")[:count] if count < 4 else tuple(f"x{index}" for index in range(count))
    names = (*letters, "*rest", "**named")
    return _ParameterList(names, (), frozenset(letters), ", ".join(names))


def _free_parameter_name(site: Site, node: ast.FunctionDef, name: str) -> str:
    used = names_in(node) | {
        part.arg for part in walk_nodes(node) if isinstance(part, ast.arg)
    }
    while name in used:
        name += "_"
    return name


def _unused_name(site: Site, name: str) -> str:
    found, number = name, 2
    while site.file.find_mentions(found):
        found, number = f"{name}_{number}", number + 1
    return found


def _format_tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _format_targets(names: Sequence[str]) -> str:
    return _format_tuple(names) if len(names) == 1 else ", ".join(names)


def _describe_donation(kept: Sequence[str]) -> str:
    return f'donate="{_MODE}", and pass {_format_targets(kept)} in the first argument, which is not donated'
