"""Arguments `in_shardings` and `out_shardings`: one sharding, or one for each."""

from __future__ import annotations

import ast

from shardlint.facts.explicit_axes import speaks_of_explicit
from shardlint.facts.shardings import is_sharding, is_spec, literal_leaves
from shardlint.model.values import (
    Assumed,
    CallResult,
    ClassValue,
    Constant,
    Items,
    Leaves,
    Parameter,
    Table,
    Unknown,
    Value,
    options,
)
from shardlint.rules_api.imports import spell_name
from shardlint.rules_api.rule import Edit
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.syntax import last_name
from shardlint.syntax.bindings import sole_assigned_value
from shardlint.syntax.nodes import walk_nodes
from shardlint_rules.equinox.in_class import text_in_class_body
from shardlint_rules.equinox.wrapped_functions import NotRewritten, OutOfReach

_OR_NONE = compile_lazily(r"\b(?:None|Optional)\b")


@dataclass(frozen=True)
class Parted:
    """How a tree of shardings that holds None is used, which filter_shard refuses for an array: part by part."""

    tree_map: str
    imports: tuple[Edit, ...]

    @staticmethod
    def spelled_at(site: Site) -> Parted:
        """How `jax.tree.map` is written at the call."""
        name = "jax.tree.map" if site.allows("jax", ">=0.4.26") else "jax.tree_util.tree_map"
        return Parted(*spell_name(site.program, site.file, site.call, name))

    def constrain_parts(self, shard: str, value: str, text: str) -> str:
        """An expression that constrains the parts of a value that have a sharding in the tree `text`."""
        each = f"lambda s, x: x if s is None else {shard}(x, s)"
        return f"{self.tree_map}({each}, {text}, {value}, is_leaf=lambda s: s is None)"


@dataclass(frozen=True)
class SingleSharding:
    """A single sharding, or a tree of them, for everything."""

    text: str
    surely: bool
    """Whether it is known to be one sharding, and not a tuple with one for each."""
    source: ast.expr | None
    """The expression whose text it is; None for a name that the fix binds."""
    when: str = ""
    """The condition under which it is not None, where it may be."""
    otherwise: str = ""
    """The condition's opposite."""
    count: int | None = None
    """How many entries it has, where it is known to be a tuple."""
    parted: Parted | None = None
    """How a value is constrained where the sharding is a tree that holds None."""

    def constrain_value(self, shard: str, value: str) -> str:
        """An expression that constrains a value to it."""
        if self.parted is not None:
            return self.parted.constrain_parts(shard, value, self.text)
        return f"{shard}({value}, {self.text})"

    def constrain_if_given(self, shard: str, value: str) -> str:
        """An expression that constrains a value where there is something to constrain it to."""
        call = self.constrain_value(shard, value)
        return f"{value} if {self.otherwise} else {call}" if self.when else call

    @staticmethod
    def make_optional(
        text: str,
        surely: bool,
        source: ast.expr | None,
        count: int | None = None,
        parted: Parted | None = None,
    ) -> SingleSharding:
        """Return the sharding that the expression `text` names if it is not None."""
        return SingleSharding(text, surely, source, f"{text} is not None", f"{text} is None", count, parted)

    def parameters_with_entries(self, names: list[str], spare: int, what: str) -> list[str]:
        """The parameters that it has entries for. Raises `NotRewritten` where these do not fit."""
        if self.count is None:
            return names
        if not len(names) - spare <= self.count <= len(names):
            raise NotRewritten(
                f"in_shardings has {self.count} entries and {what} {len(names)} positional parameters"
            )
        return names[: self.count]


@dataclass(frozen=True)
class ShardingPerArgument:
    """One text for each argument or result; None leaves that one alone, and so does an `optional` that is None."""

    texts: tuple[str | None, ...]
    sources: tuple[ast.expr, ...]
    optional: tuple[str, ...] = ()
    parted: Parted | None = None
    trees: tuple[str, ...] = ()
    """The texts whose trees hold None."""

    def constrain_one(self, shard: str, value: str, text: str) -> str:
        """An expression that constrains a value to one of the texts."""
        if self.parted is not None and text in self.trees:
            return self.parted.constrain_parts(shard, value, text)
        return f"{shard}({value}, {text})"

    def constrain_variable(self, shard: str, name: str, text: str | None) -> str:
        """Return the code of a variable: its name, constrained to its entry if there is one."""
        if text is None:
            return name
        call = self.constrain_one(shard, name, text)
        return f"{name} if {text} is None else {call}" if text in self.optional else call

    def refuse_optional(self) -> None:
        """Raise `NotRewritten` where an entry may be None."""
        for text in self.optional:
            raise OutOfReach(f"`{text}` may be None, and filter_shard does not accept None")


Given = SingleSharding | ShardingPerArgument | None


def expressions_in_shardings(given: Given) -> tuple[ast.expr, ...]:
    """The expressions whose text is written elsewhere."""
    if given is None:
        return ()
    if isinstance(given, SingleSharding):
        return (given.source,) if given.source is not None else ()
    return given.sources


def bind_to_name(
    site: Site, given: SingleSharding | ShardingPerArgument, name: str
) -> tuple[str, SingleSharding | ShardingPerArgument]:
    """The text of what was given, and the same under a name for it. Raises `NotRewritten`."""
    texts = (given.text,) if isinstance(given, SingleSharding) else given.texts
    if any("\n" in (text or "") for text in texts):
        raise NotRewritten(
            f"the shardings at line {site.call.lineno} are written over several lines: assign them to "
            "a variable first"
        )
    if isinstance(given, SingleSharding):
        if not given.when:
            return given.text, SingleSharding(name, given.surely, None, count=given.count, parted=given.parted)
        whole = text_in_class_body(site, given.source) if given.source is not None else given.text
        return whole, SingleSharding.make_optional(name, given.surely, None, given.count, given.parted)
    given.refuse_optional()
    written = ", ".join(text or "None" for text in texts)
    every = tuple(None if text is None else f"{name}[{index}]" for index, text in enumerate(texts))
    trees = tuple(part for part, text in zip(every, texts, strict=True) if part and text in given.trees)
    return f"({written}{',' if len(texts) == 1 else ''})", ShardingPerArgument(every, (), (), given.parted, trees)


def import_edits(*asked: Given) -> list[Edit]:
    """The edits that make `jax.tree.map` known, where it is needed."""
    parted = [one.parted for one in asked if one is not None and one.parted is not None]
    return [edit for one in parted for edit in one.imports]


def read_given_shardings(site: Site, node: ast.expr | None, *, inputs: bool = False) -> Given:
    """Read the value of a keyword: in_shardings where it is of `inputs`. Raises `NotRewritten` where it does not tell.

    An attribute that is None in sight may have another value in a subclass, or by somebody else's hand.
    """
    if node is None:
        return None
    value = site.value(node)
    if value == Constant(None):
        return _parse_optional_sharding(site, node) if isinstance(node, ast.Attribute) else None
    refuse_explicit(site, value)
    elements = _sequence_elements(site, node)
    if elements is not None and not any(isinstance(one, ast.Starred) for one in elements):
        return _read_each_sharding(site, node, elements)
    if isinstance(value, Items):
        text = _list_as_tuple(site, node) if inputs and value.kind == "list" else text_in_class_body(site, node)
        return SingleSharding(
            text,
            False,
            node,
            count=_count_entries(site, node, value, inputs),
            parted=_read_partition(site, node),
        )
    if _may_be_none(site, node):
        return _parse_optional_sharding(site, node)
    inner = _without_if_array(node)
    _refuse_parts(site, inner)
    surely = inner is not node or is_sharding(value) or is_spec(value)
    return SingleSharding(text_in_class_body(site, inner), surely, inner, parted=_read_partition(site, inner))


def _parse_optional_sharding(site: Site, node: ast.expr) -> SingleSharding:
    """Return a sharding that may be None, and then has no effect."""
    found = [option for option in options(site.value(node)) if option != Constant(None)]
    counts = {_count_entries(site, node, option) if isinstance(option, Items) else None for option in found}
    if len(counts) > 1:
        raise NotRewritten(f"the number of entries of `{site.text(node)}` at line {node.lineno} is not known")
    count = next(iter(counts), None)
    surely = all(
        is_sharding(option) or is_spec(option) or option == Constant(None)
        for option in options(site.value(node))
    )
    if isinstance(node, ast.IfExp):
        test = node.test

        def make_optional_part(part: ast.expr) -> str:
            return text_in_class_body(site, part)

        simple = isinstance(test, ast.Name | ast.Attribute | ast.Compare)
        if simple and site.value(node.orelse) == Constant(None) and not _may_be_none(site, node.body):
            _refuse_parts(site, node.body)
            parted = _read_partition(site, node.body)
            return SingleSharding(
                make_optional_part(node.body),
                surely,
                node,
                make_optional_part(test),
                _negate_test(make_optional_part(test), test),
                count,
                parted,
            )
        if simple and site.value(node.body) == Constant(None) and not _may_be_none(site, node.orelse):
            _refuse_parts(site, node.orelse)
            parted = _read_partition(site, node.orelse)
            return SingleSharding(
                make_optional_part(node.orelse),
                surely,
                node,
                _negate_test(make_optional_part(test), test),
                make_optional_part(test),
                count,
                parted,
            )
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return SingleSharding.make_optional(
            text_in_class_body(site, node), surely, node, count, _read_partition(site, node)
        )
    raise NotRewritten(f"`{site.text(node)}` at line {node.lineno} may be None, and filter_shard does not accept None")


def _count_entries(site: Site, node: ast.expr, value: Items, inputs: bool = False) -> int | None:
    """How many entries a tuple of shardings has, which filter_shard takes as it is."""
    taken = value.kind == "tuple" or (inputs and value.kind == "list")
    if value.open and (not taken or Constant(None) in literal_leaves(value)):
        raise NotRewritten(f"the number of entries of `{site.text(node)}` at line {node.lineno} is not known")
    return len(value.items) if taken and not value.open else None


def _list_as_tuple(site: Site, node: ast.expr) -> str:
    """A list of shardings as the tuple that jit makes of it: arguments are a tuple."""
    text = text_in_class_body(site, node)
    return f"tuple({text[1:-1].strip() if isinstance(node, ast.ListComp) else text})"


_OPPOSITE = {ast.Is: "is not", ast.IsNot: "is", ast.Eq: "!=", ast.NotEq: "=="}


def _negate_test(text: str, test: ast.expr) -> str:
    """The opposite of a test."""
    if isinstance(test, ast.Compare):
        opposite = _OPPOSITE.get(type(test.ops[0])) if len(test.ops) == 1 else None
        if opposite is None:
            return f"not ({text})"
        return f"{ast.unparse(test.left)} {opposite} {ast.unparse(test.comparators[0])}"
    return f"not {text}"


def _sequence_elements(site: Site, node: ast.expr) -> list[ast.expr] | None:
    """The elements of a tuple or list display, also behind a name."""
    if isinstance(node, ast.Tuple | ast.List):
        return node.elts
    if isinstance(node, ast.Name):
        value = sole_assigned_value(site.file, node)
        if isinstance(value, ast.Tuple | ast.List):
            return value.elts
    return None


def _read_each_sharding(site: Site, node: ast.expr, elements: list[ast.expr]) -> ShardingPerArgument:
    texts: list[str | None] = []
    sources: list[ast.expr] = []
    optional: list[str] = []
    trees: list[str] = []
    for index, element in enumerate(elements):
        if site.value(element) == Constant(None) and not isinstance(element, ast.Attribute):
            texts.append(None)
            continue
        if _may_be_none(site, element):
            if not isinstance(element, ast.Name | ast.Attribute) or isinstance(node, ast.Name):
                raise NotRewritten(
                    f"`{site.text(element)}` at line {element.lineno} may be None, "
                    "and filter_shard does not accept None"
                )
            optional.append(text_in_class_body(site, element))
        inner = _without_if_array(element)
        _refuse_parts(site, inner)
        by_name = isinstance(node, ast.Name) and inner is element
        text = f"{text_in_class_body(site, node)}[{index}]" if by_name else text_in_class_body(site, inner)
        texts.append(text)
        sources.append(node if by_name else inner)
        if _holds_none(site, inner):
            trees.append(text)
    parted = Parted.spelled_at(site) if trees else None
    return ShardingPerArgument(tuple(texts), tuple(sources), tuple(optional), parted, tuple(trees))


def _without_if_array(node: ast.expr) -> ast.expr:
    """`if_array(sharding)`: filter_shard leaves what is not an array alone by itself."""
    if (
        isinstance(node, ast.Call)
        and last_name(node.func) == "if_array"
        and len(node.args) == 1
        and not node.keywords
    ):
        return node.args[0]
    return node


def _refuse_parts(site: Site, node: ast.expr) -> None:
    """Inside a tree of shardings `if_array` means nothing to filter_shard."""
    inside = [part for part in walk_nodes(node) if isinstance(part, ast.Name | ast.Attribute)]
    if any(last_name(part) == "if_array" for part in inside):
        raise NotRewritten(
            f"`{site.text(node)}` at line {node.lineno} contains if_array, and filter_shard does not accept if_array"
        )


def _read_partition(site: Site, node: ast.expr) -> Parted | None:
    return Parted.spelled_at(site) if _holds_none(site, node) else None


def _may_be_none(site: Site, node: ast.expr) -> bool:
    """Return whether a path to this value, the default of a parameter or field, or its annotation is None."""
    for option in options(site.value(node)):
        if option == Constant(None) or (isinstance(option, Assumed) and option.value == Constant(None)):
            return True
        if isinstance(option, Parameter):
            file = option.place.file
            bound = file.bindings(file.evaluation_scope(option.place.node), option.name)
            if any(isinstance(one.value, ast.Constant) and one.value.value is None for one in bound):
                return True
            said = [file.source_text(one.annotation) for one in bound if one.annotation is not None]
            if any(_OR_NONE.search(text) for text in said):
                return True
        elif isinstance(node, ast.Attribute) and isinstance(option, Unknown) and _none_by_default(site, node.attr):
            return True
    return False


def _none_by_default(site: Site, name: str) -> bool:
    """Return whether code that runs with the site has a field of this name that may be None."""
    field = rf"(?m)^[ \t]+{name}[ \t]*:"
    texts = (
        rf"{field}[^=\n]*=[ \t]*None\b",
        rf"{field}[^=\n]*\b(?:None|Optional)\b",
        rf"{field}.*\bdefault=None\b",
        rf"(?:)\bself\.{name}[ \t]*=[ \t]*None\b",
    )
    return bool(site.program.project.paths_holding(site.file.path, texts))


def _holds_none(site: Site, node: ast.expr) -> bool:
    """Return whether a tree of shardings may have None in it, on one of the paths to it."""
    found = options(site.program.evaluator.trees.expand_tree_map(site.value(node)))
    trees = [option for option in found if isinstance(option, Items | Table | Leaves)]
    return (
        any(Constant(None) in literal_leaves(tree) for tree in trees)
        or any(_is_made_with_none(site, option) for option in found)
        or any(_may_be_none(site, part) or _holds_none(site, part) for part in _tree_entries(node))
    )


def _is_made_with_none(site: Site, value: Value) -> bool:
    """Return whether an object of a class of the project, used as a tree of shardings, gets None or has it by
    default.
    """
    if not isinstance(value, CallResult) or not isinstance(value.by, ClassValue) or value.call is None:
        return False
    evaluator, call = site.program.evaluator, value.call
    held = [evaluator.value(place, call.environment) for place in (*call.positional, *call.keywords.values())]
    body = [part for one in evaluator.project_ancestors(value.by) for part in one.node.body]
    defaults = [part.value for part in body if isinstance(part, ast.AnnAssign)]
    if any(isinstance(one, ast.Constant) and one.value is None for one in defaults):
        return True
    return any(Constant(None) in literal_leaves(one) or _is_made_with_none(site, one) for one in held)


def _tree_entries(node: ast.expr) -> list[ast.expr]:
    """The entries of a tree that is written out."""
    if isinstance(node, ast.Dict):
        return node.values
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def refuse_explicit(site: Site, value: Value) -> None:
    """Raise `NotRewritten` for shardings over a mesh with Explicit axes; where nothing speaks of them, SL307 makes a
    mesh Auto whose axes became Explicit because none were said."""
    for leaf in literal_leaves(value):
        parts = site.sharding_parts(leaf)
        mesh = site.mesh_of(parts[0]) if parts is not None else None
        if mesh is None:
            continue
        if mesh.axis_types == "default" and not speaks_of_explicit(site):
            continue
        if site.shardings.axis_types(mesh) == "explicit" or mesh.axis_types == "mixed":
            raise NotRewritten(
                f"the mesh made at {site.where(mesh.place)} has Explicit axes, and filter_shard "
                "raises there: write jax.jit if all arguments and results are arrays, "
                "or create the mesh with axis_types=(AxisType.Auto, ...)"
            )


@dataclass(frozen=True)
class RequestedShardings:
    """Shardings requested by a call, and the comments next to them."""

    inputs: Given
    outputs: Given
    above_inputs: list[str]
    above_outputs: list[str]
