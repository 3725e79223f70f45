"""The fix of SL102: numbered and named arguments become `donate=`, and static ones need no saying."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from shardlint.model import api
from shardlint.model.signatures import DONATE_SETTINGS, SHARDING_SETTINGS, STATIC_SETTINGS
from shardlint.model.values import Api, CallResult, ClassValue, Constant, Function, Items, options
from shardlint.rules_api.rule import Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.equinox._keeping import of_definition, of_expression
from shardlint_rules.equinox.call_text import comments
from shardlint_rules.equinox.wrapped import (
    KEEPING,
    Definition,
    NotRewritten,
    Wrapping,
    positional,
    without,
    wrappings,
)

_MODES = "filter_jit donates all arguments or all but the first"
_FIRST = "its shardings, which count the same arguments, move into the function first"
_NOT_ARRAYS = ("int", "float", "bool", "str", "bytes", "None", "NoneType", "type", "Literal")


@dataclass(frozen=True)
class Parameters:
    """The parameters of a wrapped function: those that take positions, and those that are only named."""

    positions: tuple[str, ...]
    named: tuple[str, ...]
    node: Definition | ast.Lambda

    def index(self, place: object) -> str | None:
        """The parameter that a number or name stands for."""
        if isinstance(place, int) and -len(self.positions) <= place < len(self.positions):
            return self.positions[place]
        return place if isinstance(place, str) and place in (*self.positions, *self.named) else None


def rewrite(site: Site) -> Fix:
    """The fix. Raises `NotRewritten` where `donate=` cannot say the same, or the text does not tell."""
    if any(
        site.keyword(name) is None
        for name in (*DONATE_SETTINGS, *STATIC_SETTINGS)
        if name in site.arguments.keywords
    ):
        raise NotRewritten("the keywords are hidden in `**`")
    if site.arguments.open_keywords:
        raise NotRewritten("`**` may hold more keywords")
    donated = [name for name in DONATE_SETTINGS if site.keyword(name) is not None]
    asked = any(_places(site, name) for name in donated)
    if asked and site.keyword("donate") is not None:
        raise NotRewritten("`donate` is given too")
    found: list[Parameters] | NotRewritten
    try:
        found = [_parameters(site, wrapping) for wrapping in wrappings(site)]
    except NotRewritten as reason:
        found = reason
    put = {}
    if asked:
        try:
            put = {donated[0]: ("donate", f'"{_one_mode(site, found)}"')}
        except NotRewritten as reason:
            return _packed(site, donated[0], reason)
    edit, drops = without(site, {*DONATE_SETTINGS, *STATIC_SETTINGS}, put)
    if set(comments(site.text())) - set(comments(edit.text)):
        raise NotRewritten("a comment beside the keywords would be lost")
    static = [name for name in STATIC_SETTINGS if site.keyword(name) is not None]
    if static and "in_shardings" in site.arguments.keywords:
        raise NotRewritten(_FIRST)
    steps = [f"write {name}={value}" for name, value in put.values()]
    dropped = [*static, *(name for name in donated if not asked)]
    steps += [f"drop {name}" for name in dropped]
    message = ", ".join(steps)
    if all(_surely_static(site, name, found) for name in static):
        return site.fix(Safety.SAFE, message, [edit], drops=drops)
    return site.fix(
        Safety.UNSAFE, message, [edit], "an argument that was static and is an array would be traced", drops
    )


def _one_mode(site: Site, found: list[Parameters] | NotRewritten) -> str:
    if isinstance(found, NotRewritten):
        raise found
    modes = {_mode(site, parameters) for parameters in found}
    if len(modes) != 1:
        raise NotRewritten("the functions wrapped with it would need different modes")
    return modes.pop()


def _packed(site: Site, keyword: str, reason: NotRewritten) -> Fix:
    """The fix by which what is kept goes in as a first argument. Raises the `reason` where it cannot be either."""
    if any(name in site.arguments.keywords for name in SHARDING_SETTINGS):
        raise NotRewritten(_FIRST)
    names = {*DONATE_SETTINGS, *STATIC_SETTINGS}
    cut, drops = without(site, names, {keyword: ("donate", '"all-except-first"')})
    if set(comments(site.text())) - set(comments(cut.text)):
        raise NotRewritten("a comment beside the keywords would be lost")
    places = {place for name in DONATE_SETTINGS if site.keyword(name) is not None for place in _places(site, name)}
    try:
        node = site.decorated
        if isinstance(node, ast.FunctionDef):
            parameters = _of(node)
            given = {parameters.index(place) for place in places}
            if None in given:
                raise reason
            edits, told = of_definition(site, node, {name for name in given if name}, cut)
        else:
            edits, told = of_expression(site, places, _settings(site, cut.text))
    except NotRewritten as why:
        modes = str(reason).startswith(_MODES)
        raise (NotRewritten(f"{_MODES}, and no function can stand around it: {why}") if modes else why) from why
    message = f"write {told}"
    return site.fix(Safety.UNSAFE, message, edits, "what is called is a function around the jit", drops)


def _settings(site: Site, text: str) -> str:
    """The settings of a call without its function."""
    import libcst as cst

    from shardlint.rules_api.cst import code, parse_expression

    call = parse_expression(text)
    assert isinstance(call, cst.Call)
    left = [one for one in call.args if one.keyword is not None and one.keyword.value != "fun"]
    return ", ".join(code(one.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip() for one in left)


def _places(site: Site, name: str) -> list[int | str]:
    """The numbers or names given to a keyword."""
    keyword = site.keyword(name)
    assert keyword is not None
    value = site.value(keyword.value)
    if value == Constant(None):
        return []
    items = value.items if isinstance(value, Items) and not value.open else (value,)
    found = [item.value for item in items if isinstance(item, Constant)]
    places = [one for one in found if isinstance(one, int | str) and not isinstance(one, bool)]
    if len(places) != len(items):
        raise NotRewritten(f"`{site.text(keyword.value)}` does not tell which arguments are meant")
    return places


def _parameters(site: Site, wrapping: Wrapping) -> Parameters:
    node = wrapping.function
    if isinstance(node, Definition):
        below = node.decorator_list[node.decorator_list.index(_expression(wrapping.by)) + 1 :]
        if any(site.text(decorator) == "classmethod" for decorator in node.decorator_list):
            raise NotRewritten(f"`{node.name}` is a classmethod")
        for decorator in below:
            if not _keeps_parameters(site, decorator):
                raise NotRewritten(f"`@{site.text(decorator)}` stands between filter_jit and `{node.name}`")
        return _of(node)
    found = options(site.value(node))
    for value in found:
        if isinstance(value, Function) and value.bound:
            raise NotRewritten(
                f'`{site.text(node)}` is a bound method: donate="all" would donate what it is bound to'
            )
        if isinstance(value, ClassValue) or (isinstance(value, CallResult) and isinstance(value.by, ClassValue)):
            raise NotRewritten(f'`{site.text(node)}` may hold arrays, which donate="all" would donate too')
    if len(found) != 1 or not isinstance(found[0], Function):
        raise NotRewritten(f"the parameters of `{site.text(node)}` are not known here")
    return _of(found[0].node)


def _expression(node: ast.AST) -> ast.expr:
    assert isinstance(node, ast.expr)
    return node


def _keeps_parameters(site: Site, decorator: ast.expr) -> bool:
    value = site.value(decorator)
    found = value.by if isinstance(value, CallResult) else value
    if not isinstance(found, Api):
        return False
    return found.name in KEEPING or (
        found.name in api.TRANSFORMS and found.name.startswith(("jax.", "equinox."))
    )


def _of(node: Definition | ast.Lambda) -> Parameters:
    for star in (node.args.vararg, node.args.kwarg):
        if star is not None:
            raise NotRewritten(f"`{star.arg}` takes more arguments than can be counted")
    return Parameters(
        tuple(arg.arg for arg in positional(node)), tuple(arg.arg for arg in node.args.kwonlyargs), node
    )


def _chosen(site: Site, names: tuple[str, ...], parameters: Parameters) -> set[str]:
    chosen = set()
    for name in names:
        for place in _places(site, name) if site.keyword(name) is not None else ():
            parameter = parameters.index(place)
            if parameter is None:
                raise NotRewritten(f"the function has no argument {place!r}")
            chosen.add(parameter)
    return chosen


def _mode(site: Site, parameters: Parameters) -> str:
    """The donate mode that donates exactly what was asked for."""
    donated = _chosen(site, DONATE_SETTINGS, parameters)
    arrays = {*parameters.positions, *parameters.named} - _chosen(site, STATIC_SETTINGS, parameters)
    if donated == arrays:
        return "all"
    if donated == arrays - set(parameters.positions[:1]):
        return "all-except-first"
    raise NotRewritten(f"{_MODES}: pass what is kept as the first, in a tuple")


def _surely_static(site: Site, name: str, found: list[Parameters] | NotRewritten) -> bool:
    """Whether the arguments a keyword calls static are no arrays, so that dropping it changes nothing."""
    try:
        places = _places(site, name)
    except NotRewritten:
        return False
    if isinstance(found, NotRewritten):
        return not places
    return all(_no_array(parameters, place) for parameters in found for place in places)


def _no_array(parameters: Parameters, place: int | str) -> bool:
    name = parameters.index(place)
    args = parameters.node.args
    for arg in (*positional(parameters.node), *args.kwonlyargs):
        if arg.arg == name and arg.annotation is not None:
            return _type_is_no_array(arg.annotation)
    return False


def _type_is_no_array(annotation: ast.expr) -> bool:
    """`int`, `str | None`, `Literal["sum"]`."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _type_is_no_array(annotation.left) and _type_is_no_array(annotation.right)
    if isinstance(annotation, ast.Constant):
        return annotation.value is None or annotation.value in _NOT_ARRAYS
    if isinstance(annotation, ast.Subscript):
        inner = annotation.value
        last = last_name(inner)
        return _type_is_no_array(annotation.slice) if last == "Optional" else last in ("Literal", "type")
    last = last_name(annotation)
    return last in _NOT_ARRAYS
