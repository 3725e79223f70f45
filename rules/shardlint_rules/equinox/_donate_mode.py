"""The fix of SL102: numbered and named arguments become `donate=`, and static ones are dropped."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from shardlint.facts.jit_settings import DONATE_SETTINGS, STATIC_SETTINGS
from shardlint.model import api
from shardlint.model.function_uses import FunctionUses
from shardlint.model.signatures import SHARDING_SETTINGS
from shardlint.model.values import Api, CallResult, ClassValue, Constant, Function, Place, options
from shardlint.rules_api.rule import Edit, Fix, Safety
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax import last_name
from shardlint_rules.equinox._donate_split import SHARDINGS_FIRST, make_split_fix, out_of_dict
from shardlint_rules.equinox._kept_arguments import wrap_definition, wrap_expression
from shardlint_rules.equinox.call_text import comments_in, cut_keywords
from shardlint_rules.equinox.hidden_keywords import DictArgument, find_hidden_keywords
from shardlint_rules.equinox.keyword_dicts import read_dict_entries
from shardlint_rules.equinox.wrapped_functions import (
    KEEPING,
    Definition,
    NotRewritten,
    Wrapping,
    call_without_keywords,
    describe_other_function,
    find_wrappings,
    positional_parameters,
)

_MODES = "filter_jit donates all arguments, or all except the first"
_NOT_ARRAYS = ("int", "float", "bool", "str", "bytes", "None", "NoneType", "type", "Literal")


@dataclass(frozen=True)
class Parameters:
    """The parameters of a wrapped function: those that take positions, and those that are only named."""

    positions: tuple[str, ...]
    named: tuple[str, ...]
    node: Definition | ast.Lambda

    def parameter_at(self, place: object) -> str | None:
        """The parameter that a number or name stands for."""
        if isinstance(place, int) and -len(self.positions) <= place < len(self.positions):
            return self.positions[place]
        return place if isinstance(place, str) and place in (*self.positions, *self.named) else None


def make_donate_fix(site: Site) -> Fix:
    """The fix. Raises `NotRewritten` where `donate=` cannot say the same, or the text does not tell."""
    if other := describe_other_function(site):
        raise NotRewritten(f"{other}, which take other keywords")
    try:
        inside = find_hidden_keywords(site)
    except NotRewritten:
        if any(keyword.arg in (*DONATE_SETTINGS, *STATIC_SETTINGS) for keyword in site.call.keywords):
            raise
        if any(
            read_dict_entries(site, one.value, SHARDING_SETTINGS)
            for one in site.call.keywords
            if one.arg is None
        ):
            raise NotRewritten(SHARDINGS_FIRST) from None
        try:
            return out_of_dict(site)
        except NotRewritten as why:
            raise NotRewritten(f"{why}: put donate= into the dict instead") from None
    donated = [name for name in DONATE_SETTINGS if _keyword_argument(site, name) is not None]
    try:
        asked = any(_donated_places(site, name) for name in donated)
    except NotRewritten as reason:
        return _split_arguments_at_call(site, inside, None, reason)
    if asked and _keyword_argument(site, "donate") is not None:
        raise NotRewritten("the call has `donate` too")
    found: list[Parameters] | NotRewritten
    try:
        found = [_wrapped_parameters(site, wrapping) for wrapping in find_wrappings(site)]
    except NotRewritten as reason:
        found = reason
    put = {}
    if asked:
        try:
            put = {donated[0]: ("donate", f'"{_single_donate_mode(site, found)}"')}
        except NotRewritten as reason:
            return _pack_kept_arguments(site, inside, donated[0], reason)
    edit, drops = _call_without_keywords(site, inside, put)
    if set(comments_in(site.text())) - set(comments_in(edit.text)):
        raise NotRewritten("a comment in the call would be lost")
    static = [name for name in STATIC_SETTINGS if _keyword_argument(site, name) is not None]
    if static and _keyword_argument(site, "in_shardings") is not None:
        raise NotRewritten(SHARDINGS_FIRST)
    steps = [f"write {name}={value}" for name, value in put.values()]
    dropped = [*static, *(name for name in donated if not asked)]
    steps += [f"drop {name}" for name in dropped]
    message = ", ".join(steps)
    edits = [edit, *_remove_unused_dict_variables(site, inside)]
    if all(_is_surely_static(site, name, found) for name in static):
        return site.fix(Safety.SAFE, message, edits, drops=drops)
    return site.fix(
        Safety.UNSAFE, message, edits, "a static argument that is an array would be traced", drops
    )


def _single_donate_mode(site: Site, found: list[Parameters] | NotRewritten) -> str:
    if isinstance(found, NotRewritten):
        raise found
    modes = {_donate_mode(site, parameters) for parameters in found}
    if len(modes) != 1:
        raise NotRewritten("the wrapped functions need different values of donate")
    return modes.pop()


def _keyword_argument(site: Site, name: str) -> ast.expr | None:
    """Return the argument of a keyword, also in a dict that is passed as `**`."""
    keyword = site.keyword(name)
    if keyword is not None:
        return keyword.value
    return next((one.entries[name] for one in find_hidden_keywords(site) if name in one.entries), None)


def _has_removed_keywords(argument: DictArgument) -> bool:
    """Return whether a dict has keywords that are removed."""
    return bool({*DONATE_SETTINGS, *STATIC_SETTINGS} & set(argument.entries))


def _remove_unused_dict_variables(site: Site, arguments: list[DictArgument]) -> list[Edit]:
    """Edits that take away the variables of dicts that are written out in the call."""
    return [edit for one in arguments if _has_removed_keywords(one) for edit in one.remove_variable(site)]


def _call_without_keywords(
    site: Site, arguments: list[DictArgument], put: Mapping[str, tuple[str, str]]
) -> tuple[Edit, tuple[str, ...]]:
    """The call without the keywords, with what is `put` in the place of one, and the names it stops using."""
    names = (*DONATE_SETTINGS, *STATIC_SETTINGS)
    if not any(map(_has_removed_keywords, arguments)):
        return call_without_keywords(site, set(names), put)
    gone = {keyword for keyword in site.call.keywords if keyword.arg in names}
    instead = {one: "=".join(put[one.arg]) for one in gone if one.arg is not None and one.arg in put}
    for one in filter(_has_removed_keywords, arguments):
        said = ["=".join(put[name]) for name in put if name in one.entries]
        left = ", ".join(filter(None, [*said, one.remaining_keywords(site, names)]))
        if left:
            instead[one.keyword] = left
        else:
            gone.add(one.keyword)
    made = cut_keywords(site, gone - set(instead), instead)
    return site.replace(site.call, made.text), made.drops


def _pack_kept_arguments(site: Site, arguments: list[DictArgument], keyword: str, reason: NotRewritten) -> Fix:
    """The fix by which what is kept goes in as a first argument. Raises the `reason` where it cannot be either."""
    if any(_keyword_argument(site, name) is not None for name in SHARDING_SETTINGS):
        raise NotRewritten(SHARDINGS_FIRST)
    edit, drops = _call_without_keywords(site, arguments, {keyword: ("donate", '"all-except-first"')})
    if set(comments_in(site.text())) - set(comments_in(edit.text)):
        raise NotRewritten("a comment in the call would be lost")
    places = {
        place
        for name in DONATE_SETTINGS
        if _keyword_argument(site, name) is not None
        for place in _donated_places(site, name)
    }
    try:
        node = site.decorated
        if isinstance(node, ast.FunctionDef):
            parameters = _parameters_of_function(node)
            given = {parameters.parameter_at(place) for place in places}
            if None in given:
                raise reason
            edits, told = wrap_definition(site, node, {name for name in given if name}, edit)
        else:
            edits, told = wrap_expression(site, places, _call_settings(site, edit.text))
    except NotRewritten as why:
        try:
            return _split_arguments_at_call(site, arguments, places, why)
        except NotRewritten as other:
            why = other
        modes = str(reason).startswith(_MODES)
        raise (NotRewritten(f"{_MODES}, and the fix cannot write a wrapper: {why}") if modes else why) from why
    message = f"write {told}"
    edits += _remove_unused_dict_variables(site, arguments)
    return site.fix(Safety.UNSAFE, message, edits, "the name is then a function that calls the jit", drops)


def _split_arguments_at_call(
    site: Site, arguments: list[DictArgument], places: Collection[int | str] | None, reason: NotRewritten
) -> Fix:
    """The fix by which a function parts the arguments when it is called. Raises the `reason` where it cannot."""
    number, name = DONATE_SETTINGS
    node = _keyword_argument(site, number)
    if (
        node is None
        or _keyword_argument(site, name) is not None
        or _keyword_argument(site, "donate") is not None
        or site.decorated is not None
    ):
        raise reason
    if any(_keyword_argument(site, one) is not None for one in SHARDING_SETTINGS):
        raise NotRewritten(SHARDINGS_FIRST)
    try:
        return make_split_fix(site, places, arguments, site.text(node))
    except NotRewritten as why:
        named = site.argument("fun") is None and isinstance(site.file.parent(site.call), ast.Assign)
        raise (why if places is None or named else reason) from None


def _call_settings(site: Site, text: str) -> str:
    """The settings of a call without its function."""
    import libcst as cst

    from shardlint.rules_api.cst import code_of_node, parse_expression

    call = parse_expression(text)
    assert isinstance(call, cst.Call)
    left = [one for one in call.args if one.keyword is not None and one.keyword.value != "fun"]
    return ", ".join(code_of_node(one.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip() for one in left)


def _donated_places(site: Site, name: str) -> list[int | str]:
    """The numbers or names given to a keyword."""
    node = _keyword_argument(site, name)
    assert node is not None
    value = site.value(node)
    if value == Constant(None):
        return []
    listed = site.program.evaluator.trees.list_elements(value)
    items = listed.items if listed is not None and not listed.open else (value,)
    found = [item.value for item in items if isinstance(item, Constant)]
    places = [one for one in found if isinstance(one, int | str) and not isinstance(one, bool)]
    if len(places) != len(items):
        raise NotRewritten(f"`{site.text(node)}` does not show which arguments are donated")
    return places


def _wrapped_parameters(site: Site, wrapping: Wrapping) -> Parameters:
    node = wrapping.function
    if isinstance(node, Definition):
        below = node.decorator_list[node.decorator_list.index(_parse_as_expression(wrapping.by)) + 1 :]
        if any(site.text(decorator) == "classmethod" for decorator in node.decorator_list):
            raise NotRewritten(f"`{node.name}` is a classmethod")
        for decorator in below:
            if not _keeps_parameters(site, decorator):
                raise NotRewritten(f"`@{site.text(decorator)}` is between filter_jit and `{node.name}`")
        of_class = site.file.evaluation_scope(node).kind == "class"  # whose first argument no call shows
        given = (
            None
            if of_class
            else _count_positional_arguments(site.program.flow.ends(site.file, node), node.decorator_list)
        )
        return _parameters_of_function(node, given)
    found = options(site.value(node))
    for value in found:
        if isinstance(value, Function) and value.bound:
            raise NotRewritten(
                f'`{site.text(node)}` is a bound method: donate="all" would donate its `self`'
            )
        if isinstance(value, ClassValue) or (isinstance(value, CallResult) and isinstance(value.by, ClassValue)):
            raise NotRewritten(f'`{site.text(node)}` may contain arrays, and donate="all" would donate them too')
    if len(found) != 1 or not isinstance(found[0], Function):
        raise NotRewritten(f"the parameters of `{site.text(node)}` are not known")
    return _parameters_of_function(
        found[0].node, _count_positional_arguments(site.program.flow.calls(Place(site.file, site.call)))
    )


def _parse_as_expression(node: ast.AST) -> ast.expr:
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


def _parameters_of_function(node: Definition | ast.Lambda, given: int | None = None) -> Parameters:
    """The parameters of a function, of `*args` as many as each call has that are `given` by position."""
    positions = tuple(arg.arg for arg in positional_parameters(node))
    star, double_star = node.args.vararg, node.args.kwarg
    if star is not None and given is not None and given >= len(positions):
        positions += tuple(f"{star.arg}[{index}]" for index in range(given - len(positions)))
    elif star is not None:
        raise NotRewritten(f"`{star.arg}` takes any number of arguments")
    if double_star is not None:
        raise NotRewritten(f"`{double_star.arg}` takes any number of arguments")
    return Parameters(positions, tuple(arg.arg for arg in node.args.kwonlyargs), node)


def _count_positional_arguments(uses: FunctionUses, decorators: Sequence[ast.expr] = ()) -> int | None:
    """How many positional arguments all calls give; None where that is not known, or not the same."""
    counts: set[int] = set()
    for end in uses.found:
        call = end.place.node
        if end.kind == "called" and isinstance(call, ast.Call):
            more = any(wrapper.place.node not in decorators for wrapper in end.wrappers)  # a partial
            if more or any(isinstance(one, ast.Starred) for one in call.args):
                return None
            counts.add(len(call.args))
    return counts.pop() if uses.complete and len(counts) == 1 else None


def _donated_names(site: Site, names: tuple[str, ...], parameters: Parameters) -> set[str]:
    chosen = set()
    for name in names:
        for place in _donated_places(site, name) if _keyword_argument(site, name) is not None else ():
            parameter = parameters.parameter_at(place)
            if parameter is None:
                raise NotRewritten(f"the function has no argument {place!r}")
            chosen.add(parameter)
    return chosen


def _donate_mode(site: Site, parameters: Parameters) -> str:
    """The donate mode that donates exactly what was asked for."""
    donated = _donated_names(site, DONATE_SETTINGS, parameters)
    static = _donated_names(site, STATIC_SETTINGS, parameters)
    arrays = {*parameters.positions, *parameters.named}
    arrays -= {name for name in static if not _may_hold_arrays(site, parameters, name)}
    if donated == arrays:
        return "all"
    if donated == arrays - set(parameters.positions[:1]):
        return "all-except-first"
    raise NotRewritten(f"{_MODES}: pass the arguments to keep as the first argument, in a tuple")


def _is_surely_static(site: Site, name: str, found: list[Parameters] | NotRewritten) -> bool:
    """Return whether the static arguments of a keyword are no arrays, so that removing it changes nothing."""
    try:
        places = _donated_places(site, name)
    except NotRewritten:
        return False
    if isinstance(found, NotRewritten):
        return not places
    return all(_is_not_array(parameters, place) for parameters in found for place in places)


def _is_not_array(parameters: Parameters, place: int | str) -> bool:
    annotation = _parameter_annotation(parameters, parameters.parameter_at(place))
    return annotation is not None and _type_is_no_array(annotation)


def _parameter_annotation(parameters: Parameters, name: str | None) -> ast.expr | None:
    node = parameters.node
    every = (*positional_parameters(node), *node.args.kwonlyargs)
    return next((arg.annotation for arg in every if arg.arg == name), None)


def _may_hold_arrays(site: Site, parameters: Parameters, name: str) -> bool:
    """Return whether a static argument may be a tree with arrays, which "all" would donate: `self` of a Module."""
    node = parameters.node
    home = site.file.evaluation_scope(node).node
    decorated = [] if isinstance(node, ast.Lambda) else [site.text(one) for one in node.decorator_list]
    if isinstance(home, ast.ClassDef) and name in parameters.positions[:1] and "staticmethod" not in decorated:
        return bool(home.bases or home.decorator_list)
    annotation = _parameter_annotation(parameters, name)
    if annotation is None or _type_is_no_array(annotation):
        return False
    found = options(site.value(annotation))
    return not all(isinstance(one, ClassValue) and not one.node.bases for one in found)


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
