"""Donation by numbers that only the run tells, or of functions whose parameters are not known: a function that makes
the jitted one parts the arguments when it is called.

    step = eqx.filter_jit(fn, donate_argnums=numbers)

becomes

    def donating_fn(function, numbers):
        numbers = {numbers} if isinstance(numbers, int) else set(numbers or ())

        @eqx.filter_jit(donate="all-except-first")
        def jitted(kept, given):
            function, others, named = kept
            both = {**others, **given}
            return function(*(both[i] for i in sorted(both)), **named)

        def call(*args, **named):
            given = {i: arg for i, arg in enumerate(args) if i in numbers}
            others = {i: arg for i, arg in enumerate(args) if i not in given}
            return jitted((function, others, named), given)

        return call

    step = donating_fn(fn, numbers)

Of the first arguments, slices do. A name for `partial(filter_jit, donate_argnums=0)` becomes such a function itself.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from shardlint.facts.jit_settings import DONATE_SETTINGS, STATIC_SETTINGS
from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Items
from shardlint.rewrite.indent import UNIT
from shardlint.rules_api.rule import Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings
from shardlint.syntax.nodes import names_in, walk_nodes
from shardlint_rules.equinox._kept_arguments import (
    SIMPLE,
    choose_unique_name,
    edit_above_statement,
    refuse_lowered,
    refuse_lowered_target,
)
from shardlint_rules.equinox.before_call import (
    check_place,
    choose_free_names,
    copy_dict_text,
    is_local_dict,
    uses_single_quotes,
)
from shardlint_rules.equinox.beside_statement import indentation_of, replace_statement
from shardlint_rules.equinox.call_text import comments_in
from shardlint_rules.equinox.hidden_keywords import DictArgument
from shardlint_rules.equinox.keyword_dicts import read_dict_entries
from shardlint_rules.equinox.wrapped_functions import Definition, NotRewritten

_GONE = (*DONATE_SETTINGS, *STATIC_SETTINGS)
SHARDINGS_FIRST = "the call also has shardings: first move them into the function (SL101)"
_TOLD = "pass the arguments to keep as the first argument of the jitted function"
_WHY = "the name is then a wrapper of the jit. The wrapper donates only positional arguments."


@dataclass(frozen=True)
class _NumberSet:
    """How the numbers are written, and how they become a set; of a dict that holds them, the keyword by which the call
    opens it, what it opens instead, and the statements that take them out."""

    numbers: str
    as_set: str
    opened: ast.keyword | None = None
    variable: str = ""
    lines: tuple[str, ...] = ()


_PERHAPS_ONE = "numbers = {numbers} if isinstance(numbers, int) else set(numbers or ())"
_SEVERAL = "numbers = set(numbers)"


def make_split_fix(
    site: Site, places: Collection[int | str] | None, arguments: Sequence[DictArgument], numbers: str
) -> Fix:
    """The fix. `places` are the numbers, None where the text does not tell; `numbers` is how they are written.

    Raises `NotRewritten`.
    """
    known = None if places is None else [one for one in places if isinstance(one, int)]
    if known is not None and len(known) < len(places or ()):
        raise NotRewritten("the positions of the named arguments are not known")
    if known is not None and min(known, default=0) < 0:
        raise NotRewritten("negative numbers count from the last parameter, and the last parameter is not known")
    if comments_in(site.text()):
        raise NotRewritten("a comment in the call would be lost")
    first = len(known) if known is not None and set(known) == set(range(len(known))) else None
    function = site.argument("fun") if site.form == "call" else None
    if function is not None:
        return _split_call(site, function, first, arguments, _NumberSet(numbers, _numbers_as_set(site, numbers)))
    return _split_partial(site, known, first, arguments, numbers)


def out_of_dict(site: Site) -> Fix:
    """The fix where a dict has the numbers whose entries the text of the call does not spell out.

    Raises `NotRewritten`.
    """
    every = {one: read_dict_entries(site, one.value, _GONE) for one in site.call.keywords if one.arg is None}
    held = [one for one, entries in every.items() if entries]
    function = site.argument("fun") if site.form == "call" else None
    text = site.text(held[0].value) if held else ""
    entries = every[held[0]] if len(held) == 1 else {}
    number, name = DONATE_SETTINGS
    if function is None or number not in entries or name in entries or comments_in(site.text()):
        raise NotRewritten(f"`**{text}` may contain more keywords")
    if any(map(site.keyword, SHARDING_SETTINGS)):
        raise NotRewritten(SHARDINGS_FIRST)
    check_place(site)
    own = is_local_dict(site, held[0].value)
    numbers, options = choose_free_names(site, [number, "options"])
    variable = text if own else options
    quote = "'" if uses_single_quotes(site) else '"'
    lines = [] if own else [f"{variable} = {copy_dict_text(site, held[0].value)}"]
    for key, entry in entries.items():
        default = "" if entry.surely else f", {'()' if key == number else 'None'}"
        taken = f"{variable}.pop({quote}{key}{quote}{default})"
        lines.append(f"{numbers} = {taken}" if key == number else taken)
    held_in = _NumberSet(numbers, _PERHAPS_ONE, held[0], variable, tuple(lines))
    return _split_call(site, function, None, [], held_in)


def _split_call(
    site: Site, function: ast.expr, first: int | None, arguments: Sequence[DictArgument], number_set: _NumberSet
) -> Fix:
    statement = site.file.statement(site.call)
    if not isinstance(statement, SIMPLE) or site.file.evaluation_scope(statement).kind == "class":
        raise NotRewritten(f"no function can be written above line {statement.lineno}")
    indent = indentation_of(site, statement)
    refuse_lowered_target(site, statement)
    name = choose_unique_name(site, function)
    taken = "function" if first is not None else "function, numbers"
    body = _write_split_function(site, _find_settings(site, arguments, number_set), first, number_set.as_set)
    lines = [f"def {name}({taken}):", *(f"{UNIT}{line}" if line else "" for line in body)]
    lines = [*number_set.lines, *([""] if number_set.lines else []), *lines]
    given = site.text(function) if first is not None else f"{site.text(function)}, {number_set.numbers}"
    edits = [
        edit_above_statement(site, statement, indent, lines),
        site.replace(site.call, f"{name}({given})"),
    ]
    edits += [edit for one in arguments if set(_GONE) & set(one.entries) for edit in one.remove_variable(site)]
    return site.fix(Safety.UNSAFE, _TOLD, edits, _WHY)


def _split_partial(
    site: Site, places: list[int] | None, first: int | None, arguments: Sequence[DictArgument], numbers: str
) -> Fix:
    """`jit = partial(filter_jit, donate_argnums=0)` as `def jit(function)`."""
    statement = site.file.parent(site.call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
        raise NotRewritten(f"no function can be written above line {site.call.lineno}")
    scope = site.file.evaluation_scope(statement)
    if scope.kind == "class" or len(site.file.bindings(scope, target.id)) > 1:
        raise NotRewritten(f"`{target.id}` is bound more than once or in a class")
    if site.arguments.open_positional or len(site.call.args) != (1 if site.form == "partial" else 0):
        raise NotRewritten(f"a star argument at line {site.call.lineno} hides the function")
    for file, use in _find_uses(site, target):
        if not _is_single_wrapping(file, use):
            line = f"line {use.lineno}" if file is site.file else f"{file.path.name}:{use.lineno}"
            raise NotRewritten(f"`{target.id}` has another use than wrapping a function at {line}")
        for one in _names_of_wrapped(file, use):
            refuse_lowered(site, one)
    indent = indentation_of(site, statement)
    if places is None:
        raise NotRewritten(f"`{numbers}` does not show which arguments are donated")
    test = " or ".join(f"i == {one}" for one in sorted(places))
    wraps, imports = site.spell("functools.wraps")
    body = _write_split_function(
        site, _find_settings(site, arguments, None), first, "", f"@{wraps}(function)", test
    )
    lines = [f"def {target.id}(function):", *(f"{UNIT}{line}" if line else "" for line in body)]
    text = "\n".join(f"{indent}{line}" if line and number else line for number, line in enumerate(lines))
    text = text.replace("\n", site.file.source.common_newline)
    drops = names_in(site.call.func) if site.form == "partial" else set()
    drops -= {wraps.partition(".")[0]}
    return site.fix(
        Safety.UNSAFE,
        _TOLD,
        [*replace_statement(site, statement, text, indent), *imports],
        _WHY,
        sorted(drops),
    )


def _numbers_as_set(site: Site, numbers: str) -> str:
    """How the numbers become a set: of what may be one number, or None, too."""
    keyword = site.keyword(DONATE_SETTINGS[0])
    value = site.value(keyword.value) if keyword is not None else None
    node = ast.parse(numbers, mode="eval").body
    called = last_name(node.func) if isinstance(node, ast.Call) else ""
    several = isinstance(value, Items) or isinstance(node, ast.Tuple | ast.List) or called in ("tuple", "list", "range")
    return _SEVERAL if several else _PERHAPS_ONE


def _write_split_function(
    site: Site,
    settings: Sequence[str],
    first: int | None,
    before: str = "",
    decorator: str = "",
    test: str = "i in numbers",
) -> list[str]:
    """The jitted function and the one that calls it."""
    func = site.text(site.callee_expression)
    jit = f"@{func}({', '.join(settings)})"
    if first is not None:
        return [
            jit,
            "def jitted(kept, given):",
            f"{UNIT}function, others, named = kept",
            f"{UNIT}return function(*given, *others, **named)",
            "",
            *([decorator] if decorator else []),
            "def call(*args, **named):",
            f"{UNIT}return jitted((function, args[{first}:], named), args[:{first}])",
            "",
            "return call",
        ]
    return [
        *([before, ""] if before else []),
        jit,
        "def jitted(kept, given):",
        f"{UNIT}function, others, named = kept",
        f"{UNIT}both = {{**others, **given}}",
        f"{UNIT}return function(*(both[i] for i in sorted(both)), **named)",
        "",
        *([decorator] if decorator else []),
        "def call(*args, **named):",
        f"{UNIT}given = {{i: arg for i, arg in enumerate(args) if {test}}}",
        f"{UNIT}others = {{i: arg for i, arg in enumerate(args) if i not in given}}",
        f"{UNIT}return jitted((function, others, named), given)",
        "",
        "return call",
    ]


def _find_settings(site: Site, arguments: Sequence[DictArgument], number_set: _NumberSet | None) -> list[str]:
    """The other settings of the call, with the mode."""
    found = ['donate="all-except-first"']
    for keyword in site.call.keywords:
        known = next((one for one in arguments if one.keyword is keyword), None)
        if keyword.arg in ("fun", *_GONE):
            continue
        if number_set is not None and keyword is number_set.opened:
            found.append(f"**{number_set.variable}")
        elif keyword.arg is not None:
            found.append(f"{keyword.arg}={site.text(keyword.value)}")
        elif known is not None and set(_GONE) & set(known.entries):
            found.append(known.remaining_keywords(site, _GONE))
        else:
            found.append(f"**{site.text(keyword.value)}")
    found = [one for one in found if one]
    _refuse_inner_names(site)
    if any("\n" in one for one in found):
        raise NotRewritten(f"the call at line {site.call.lineno} is written over several lines")
    taken = {"function", "numbers", "jitted", "call"}
    if any(taken & names_in(keyword.value) for keyword in site.call.keywords if keyword.arg not in _GONE):
        raise NotRewritten(f"the settings at line {site.call.lineno} use a name that the new function assigns")
    return found


def _refuse_inner_names(site: Site) -> None:
    """Raise `NotRewritten` where a setting reads what a comprehension or a lambda around the call binds."""
    for keyword in site.call.keywords:
        for part in walk_nodes(keyword.value) if keyword.arg not in _GONE else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                scope = lookup_bindings(site.file, part, part.id)[1]
                if scope is not None and scope.kind in ("class", "comprehension", "lambda"):
                    raise NotRewritten(f"`{part.id}` is a different variable in a function above the statement")


def _find_uses(site: Site, target: ast.Name) -> Iterator[tuple[FileFacts, ast.expr]]:
    """The uses of a name that are seen, in other files too. Raises `NotRewritten` where not all can be."""
    for use in site.file.find_mentions(target.id):
        if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load):
            yield site.file, use
    if site.file.evaluation_scope(target).kind != "module":
        return
    for file in site.program.project.files_importing(site.file.path, target.id):
        if file is None:
            raise NotRewritten(f"shardlint did not read all files that may import `{target.id}`")
        for node in file.find_mentions(target.id):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield file, node


def _is_single_wrapping(file: FileFacts, use: ast.expr) -> bool:
    """Return whether a use decorates a function, or is called with one function alone."""
    outer = file.parent(use)
    if isinstance(outer, Definition):
        return use in outer.decorator_list
    one = isinstance(outer, ast.Call) and outer.func is use and len(outer.args) == 1 and not outer.keywords
    return one and isinstance(outer, ast.Call) and not isinstance(outer.args[0], ast.Starred)


def _names_of_wrapped(file: FileFacts, use: ast.expr) -> Iterator[str]:
    """Yield the names of the jitted functions that it makes."""
    outer = file.parent(use)
    if isinstance(outer, Definition):
        yield outer.name
        return
    statement = file.parent(outer) if outer is not None else None
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name | ast.Attribute):
            yield target.id if isinstance(target, ast.Name) else target.attr
