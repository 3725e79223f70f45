"""SL909."""

from __future__ import annotations

import ast

from shardlint.facts.shardings import is_sharding
from shardlint.model.values import Api, CallResult, Parameter, Value, options
from shardlint.rules_api.rule import Calls, Finding, Harm, Methods, Rule, Safety, detector
from shardlint.rules_api.site import Site
from shardlint.syntax import last_name
from shardlint_rules.upgrade.array_evidence import ArrayEvidence, shown_as_array

_OF_BOTH = ("is_fully_addressable", "is_fully_replicated")
_OF_ARRAYS = (*_OF_BOTH, "addressable_shards", "global_shards", "sharding")
_OF_SHARDINGS = (*_OF_BOTH, "addressable_devices", "device_set", "memory_kind", "spec", "mesh", "num_devices")
_OF_MESHES = (
    "empty", "size", "shape", "axis_names", "axis_sizes", "axis_types", "devices", "local_mesh", "local_devices",
    "device_ids", "is_multi_process", "abstract_mesh",
)  # fmt: skip
_MESHES = (
    "jax.sharding.Mesh", "jax.make_mesh", "jax.sharding.get_mesh", "jax.sharding.get_abstract_mesh",
    "jax.sharding.AbstractMesh",
)  # fmt: skip
_IN_CONTEXT = (
    "jax.interpreters.pxla.thread_resources.env.physical_mesh",
    "jax._src.mesh.thread_resources.env.physical_mesh",
)
_CALLED = tuple(f".{name}()" for name in _OF_MESHES)
_NAMES = tuple(dict.fromkeys((*_OF_ARRAYS, *_OF_SHARDINGS, *_OF_MESHES)))


class PropertyCalled(Rule):
    """A property of a mesh, a sharding or an array is called.

    The call raises TypeError (`'bool' object is not callable`), often in a branch that only runs on several devices or
    without a mesh.

    ## Reports
    - proven: a call of a property of a jax mesh, sharding or array: `mesh.empty()`, `mesh.size()`, `sharding.spec()`,
      `x.is_fully_addressable()`, `x.addressable_shards()`, and other properties about placement.
    - `annotated` (possible): a call of such a property of a parameter with the type hint of a mesh or an array.
    - `sharding-of-value` (possible): a call of such a property of `x.sharding`, in a project without a method of that
      name.

    ## Fix
    Removes the parentheses. Safe, because the code raised before.
    """

    code = "SL909"
    name = "property-called"
    harm = Harm.CRASH
    triggers = (
        *(Methods(name, function_says=(f".{name}()",)) for name in _NAMES),
        Calls(*(f"{mesh}.{name}" for mesh in _IN_CONTEXT for name in _OF_MESHES), file_says=_CALLED),
    )
    fixes = "safe"

    @detector("method", "call")
    def report_call(self, site: Site) -> Finding | None:
        """A call of a property."""
        call = site.call
        if (
            not isinstance(call.func, ast.Attribute)
            or call.args
            or call.keywords
            or _asks_first(site, call.func)
        ):
            return None
        shown = _property_evidence(site, call.func)
        if shown is None:
            return None
        text = site.text(call.func)
        return site.finding(
            call,
            f"`{text}()` raises TypeError: `{call.func.attr}` is a property.",
            help=f"write `{text}`",
            fix=site.fix(Safety.SAFE, f"write {text}", [site.replace(call, text)]),
            form=shown.form,
            why=shown.why,
        )


def _property_evidence(site: Site, node: ast.Attribute) -> ArrayEvidence | None:
    """Return the evidence that the attribute is a property of jax's; None if there is none."""
    owner = node.value
    value = site.value(owner)
    if node.attr in _OF_MESHES:
        if all(_is_mesh(one) for one in options(value)):
            return ArrayEvidence()
        if _is_annotated_array(site, owner):
            return ArrayEvidence("annotated", f"`{last_name(owner)}` is annotated as a mesh")
    if node.attr in _OF_SHARDINGS:
        if is_sharding(value):
            return ArrayEvidence()
        of_array = isinstance(owner, ast.Attribute) and owner.attr == "sharding" and node.attr != "mesh"
        if of_array and not _has_function(site, node.attr):
            return ArrayEvidence("sharding-of-value", "it is the `.sharding` of a value")
    return shown_as_array(site, owner) if node.attr in _OF_ARRAYS and not _has_function(site, node.attr) else None


def _is_mesh(value: Value) -> bool:
    if isinstance(value, CallResult):
        return value.api in _MESHES
    return isinstance(value, Api) and _IN_CONTEXT[0] in (value.name, value.written)


def _asks_first(site: Site, node: ast.Attribute) -> bool:
    """`mesh.empty() if callable(mesh.empty) else mesh.empty`: it may be either, and the program asks."""
    text = f"callable({site.text(node)})"
    around = (one for one in site.file.ancestors(node) if isinstance(one, ast.If | ast.IfExp))
    return any(text in site.text(one.test) for one in around)


def _is_annotated_array(site: Site, node: ast.expr) -> bool:
    value = site.value(node)
    annotation = getattr(value.place.node, "annotation", None) if isinstance(value, Parameter) else None
    if annotation is None or not isinstance(value, Parameter) or value.place.file is not site.file:
        return False
    found = options(site.value(annotation))
    return all(isinstance(one, Api) and one.name in _MESHES for one in found)


def _has_function(site: Site, name: str) -> bool:
    """Return whether the project has a function of that name."""
    return any(True for _ in site.program.project.files_holding(site.file.path, (f"def {name}(",)))
