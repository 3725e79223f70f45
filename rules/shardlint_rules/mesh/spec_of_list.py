"""SL318."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.certainty import Certainty
from shardlint.facts.name_lists import find_name_lists
from shardlint.model.values import Assumed, Constant, Items, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint_rules.mesh._by_dimension import filled_by_dimension
from shardlint_rules.mesh._constrained_arrays import shapes_under_spec
from shardlint_rules.mesh.optional_spec import is_object_tested

# What is called so is a whole spec, an entry for each dimension; "axes" of a batch are one entry.
_WHOLE = compile_lazily(r"(^|_)(p?specs?|shardings?|partitions?|partitioning|pspec|split_dims_mapping|layout|dims)$")
_OF_ARRAY = compile_lazily(
    r"(^|_)(activations?|hidden|kernel|weights?|params?|embed(ding)?|logits|qkv|query|key|value|kv|cache|acts?|heads?|"
    r"attn|attention|mlp|ffn|inputs?|outputs?|features?|residual|full)(_|$)"
)
_ONE = compile_lazily(r"(^|_)(batch|data|dp|fsdp|mesh|all|replica|reduce|dim0|vocab|expert|ep|global)(_|$)")
# Axes over which people split the batch, and those over which they split the parts of a layer.
_OF_BATCH = frozenset("data dp ddp batch replica replica_dcn dcn fsdp zero host node".split())
_OF_MODEL = frozenset("model mp tensor tp seq sequence sp context cp mdl heads expert ep".split())


@dataclass(frozen=True)
class _ListEvidence:
    """Items of the argument, and the evidence for them."""

    items: tuple[str | None, ...]
    why: str = ""
    kind: str = "tuple"


class SpecOfList(Rule):
    """`PartitionSpec(names)` with a list of names shards only the first dimension.

    A list or tuple is one entry: all of its axes shard the first dimension, and the other dimensions are replicated.
    Nothing is raised if the axes divide the first dimension. A list that contains `None` raises ValueError: jax looks
    for a mesh axis `None`.

    ## Reports
    - `by-dimension` (likely): `P(entries)` of a list with an entry for each dimension, such as one that starts as
      `[None] * x.ndim`. It raises if the list contains `None`.
    - `by-name` (likely): `P(names)` of several axes, if the list has the name of a spec or sharding. Also if it has the
      name of an activation or weight, and lists a batch axis and a model axis.
    - `list` (likely): `P(names)` of any other list with several axes.

    ## Fix
    Writes `PartitionSpec(*names)`. Unsafe: the array is then sharded differently.

    ## Limits
    shardlint reads the axes from constants, fields, and the Python and YAML files of the project. Not reported: axes of
    a batch or of the mesh (`P(batch_axes)`, `P(mesh.axis_names)`), more names than the array has dimensions, and a
    tuple if the rank of the array is unclear.
    """

    code = "SL318"
    name = "spec-of-a-list"
    harm = Harm.SILENT
    certainty = Certainty.POSSIBLE
    likely = ("by-dimension", "by-name", "list")
    assumptions: ClassVar[Mapping[str, str]] = dict.fromkeys(
        likely, "The list has one axis for each dimension."
    )
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    fixes = "unsafe"

    @detector("call", finds="by-dimension")
    def report_filled(self, site: Site) -> Finding | None:
        """A list that is filled by the number of a dimension."""
        node = _find_entry(site)
        why = filled_by_dimension(site.file, site.call) if node is not None else ""
        return (
            self._make_finding(site, node, _ListEvidence(()), "by-dimension", why)
            if node is not None and why
            else None
        )

    @detector("call", finds=("by-name", "list"))
    def report_list(self, site: Site) -> Finding | None:
        """A list that has an axis for each of several dimensions."""
        node = _find_entry(site)
        name = _axis_list_name(node) if node is not None else ""
        if node is None or not name or is_object_tested(site.file, node, owner=False):
            return None
        for held in _values_of_argument(site, node, name):
            found = self._find_form(site, node, name, held)
            if found is not None:
                return self._make_finding(site, node, held, *found)
        return None

    def _find_form(self, site: Site, node: ast.expr, name: str, list_evidence: _ListEvidence) -> tuple[str, str] | None:
        """Why a list is one for several dimensions: the form, and in words."""
        axes = {one for one in list_evidence.items if one is not None}
        if len(list_evidence.items) < 2:
            return None
        if None in list_evidence.items:
            return None  # SL306 reports it
        ranks = [len(shape) for shape in shapes_under_spec(site)]
        if _ONE.search(name) or isinstance(site.scope.node, ast.Lambda):
            return None
        if any(rank < len(list_evidence.items) for rank in ranks):
            return None  # there is no dimension for each of them
        # A tuple that is called `spec` may be one entry as well, where no array and no name of one tells.
        is_for_dimensions = list_evidence.kind == "list" or _OF_ARRAY.search(name) or ranks
        if _WHOLE.search(name) and is_for_dimensions:
            return "by-name", f"`{name}` is the name of a spec"
        if axes & _OF_BATCH and axes & _OF_MODEL and _OF_ARRAY.search(name):
            return (
                "by-name",
                f"`{name}` is the name of one array, and the list has a batch axis and a model axis",
            )
        return (
            ("list", "several axes of one dimension are usually written as a tuple")
            if list_evidence.kind == "list"
            else None
        )

    def _make_finding(self, site: Site, node: ast.expr, list_evidence: _ListEvidence, form: str, why: str) -> Finding:
        inner = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
        callee, text = site.text(site.call.func), site.text(inner)
        whole = f"{callee}(*{text})"
        reason = "the array is sharded differently"
        fix = site.fix(Safety.UNSAFE, f"write {whole}", [site.replace(node, f"*{text}")], reason)
        axes = ", ".join("None" if one is None else f'"{one}"' for one in list_evidence.items)
        shown = "its axes" if len(axes.split()) > 4 else axes
        call = f"{callee}({text if len(text.split()) < 4 else '...'})"
        return site.finding(
            node,
            f"A sharding with `{call}` raises ValueError if the list contains None: a list or tuple is one entry."
            if form == "by-dimension"
            else f"`{call}` shards only the first dimension, over {shown}: a list or tuple is one entry.",
            label="one entry",
            help=f"write {whole} for one axis per dimension",
            form=form,
            harm=Harm.CRASH if form == "by-dimension" else None,
            why="; ".join(filter(None, [list_evidence.why, why])),
            fix=fix,
        )


def _find_entry(site: Site) -> ast.expr | None:
    """The only argument of the call."""
    return site.call.args[0] if len(site.call.args) == 1 and not site.call.keywords else None


def _axis_list_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lower()
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name.lower()
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[inner]):
            return _axis_list_name(inner)
    return ""


def _values_of_argument(site: Site, node: ast.expr, name: str) -> Iterator[_ListEvidence]:
    """Yield the possible values of the argument, from the text or else from the project's lists of its name."""
    inner = node.args[0] if isinstance(node, ast.Call) else node
    why = ""
    value: Value = site.value(inner)
    for program, view in (
        site.program.views_on_paths(site.file, inner) if not isinstance(value, Items | Constant) else ()
    ):
        value = program.value(site.file, inner)
        why = "; ".join(view.why)
        if isinstance(value, Items | Constant):
            break
    found = [one.value if isinstance(one, Assumed) else one for one in options(value)]
    items = [one for one in found if isinstance(one, Items)]
    for one in items:
        texts = [part.value for part in one.items if isinstance(part, Constant)]
        axes = tuple(text for text in texts if text is None or isinstance(text, str))
        if not one.open and one.kind in ("list", "tuple") and len(axes) == len(one.items):
            yield _ListEvidence(axes, why, one.kind)
    if items or any(isinstance(one, Constant) for one in found) or name != _axis_list_name(inner):
        return
    key = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", name)
    if isinstance(inner, ast.Name) and not ("_" in key and _is_parameter(site, inner)):
        return  # `sharding` is a common name
    for entry in find_name_lists(site.program, site.file, key):
        yield _ListEvidence(entry.items, f"{entry.file}:{entry.line} lists these under `{key}`")


def _is_parameter(site: Site, node: ast.Name) -> bool:
    function = site.scope.enclosing_function()
    bindings = site.file.bindings(function, node.id) if function is not None else []
    return bool(bindings) and all(one.kind == "param" for one in bindings)
