"""SL338."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Api, CallResult, ClassValue, Parameter, Value, options
from shardlint.rules_api.rule import Certainty, Finding, Harm, Lines, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import last_name
from shardlint.syntax.nodes import walk

_SPECS = regex(
    r"(?i)(^|_)(p?specs?|shardings?|(logical|mesh|partition|param)\w*_(axes|names)|axes|axis_names)(_|$)"
)
_ARRAY = regex(r"\b(jnp\.ndarray|jax\.Array|Array|ArrayLike|chex\.Array|PRNGKey|PRNGKeyArray|ndarray)\b")
# Fields of flax's TrainState that are leaves, of which the first holds a number or an array.
_TRAIN_STATE = "flax.training.train_state.TrainState"
_COPIES = ("replace", "_replace")


class ArrayAmongSpecs(Rule):
    """A tree of specs or axis names keeps an array of the state that it was made from.

    ## What it does
    Reports, in a function or for a name that says specs, shardings or axes, a state that is made of specs and keeps one
    field as it is: `State(step=self.step, params=self.param_specs())`, or `state.replace(params=specs)` of a class with
    further arrays.

    ## Why it hurts
    jit's shardings, `device_put`, `with_sharding_constraint` and `NamedSharding` over such a tree raise TypeError at
    the array: they take specs and shardings only.

    ## Evidence
    Run on jax 0.5.3 to 0.12. Left alone: fields that are no arrays by their annotation, and objects that are called
    specs themselves.
    """

    code = "SL338"
    name = "array-among-specs"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("kept",)
    releases: ClassVar[Mapping[str, str]] = {"jax": ">=0.5.3"}
    triggers = (
        Lines(
            r"return [\w.]+\(",
            file_says=r"def \w*(?:[sS]pec|[sS]harding|axes|axis_names)",
            saying=("return ",),
        ),
        Lines(
            r"(?:self\.)?\w*(?:spec|sharding|axes)\w* *(?::[^=\n]+)?= *[\w.]+\(",
            file_names=r"shard|mesh|pspec|partitionspec|\bps?\b",
            saying=("spec", "sharding", "axes"),
        ),
    )
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for each field that stays an array."""
        call = _made(site)
        if call is None:
            return
        kept = list(_copied(site, call) if _is_copy(call) else _written(site, call))
        for node, name in kept:
            yield site.finding(
                node,
                f"On {site.release('jax')} a jit's shardings, device_put and NamedSharding raise TypeError for it.",
                label=f"`{name}` stays the array in a tree of specs",
                help=f"give {name} a spec too: PartitionSpec(), or None where what reads the tree leaves that out",
                form="kept",
                why=f"the other fields are specs, and `{name}` is declared to be an array",
            )


def _made(site: Site) -> ast.Call | None:
    """The call that makes the tree, where a name says that it is one of specs."""
    match site.syntax:
        case ast.Return(value=ast.Call() as call):
            scope = site.scope.function()
            named = scope is not None and not scope.name.startswith("test") and _says(scope.name)
            return call if named else None
        case ast.Assign(targets=[target], value=ast.Call() as call):
            return call if _says(last_name(target)) else None
        case ast.AnnAssign(target=target, value=ast.Call() as call):
            return call if _says(last_name(target)) else None
    return None


def _says(name: str) -> bool:
    return _SPECS.search(name) is not None


def _is_copy(call: ast.Call) -> bool:
    return last_name(call.func) in _COPIES


def _of_specs(site: Site, node: ast.expr) -> bool:
    """Whether an expression is a spec or tree of specs, by what it calls or names."""
    if isinstance(node, ast.Constant):
        return False
    said = [last_name(one) for one in walk(node) if isinstance(one, ast.Name | ast.Attribute)]
    return any(_says(one) or one in ("P", "PS", "PartitionSpec", "NamedSharding") for one in said)


def _written(site: Site, call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """`State(step=self.step, params=specs)`: the fields taken over from an object that is no tree of specs."""
    found = options(site.value(call.func))
    if len(found) != 1 or not isinstance(found[0], ClassValue | Api):
        return
    if isinstance(found[0], Api) and found[0].name != _TRAIN_STATE:
        return
    given = [(one.arg, one.value) for one in call.keywords if one.arg is not None]
    if not any(_of_specs(site, value) for _, value in given):
        return
    for name, value in given:
        if isinstance(value, ast.Attribute) and value.attr == name and not _says(last_name(value.value)):
            if _is_array(site, found[0], name):
                yield value, name


def _copied(site: Site, call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """`state.replace(params=specs)`: the first array of the state that is not replaced."""
    owner: ast.expr | None = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id == "dataclasses" and call.args:
        owner = call.args[0]
    given = {one.arg: one.value for one in call.keywords}
    if owner is None or None in given or not given or any(_says(one) for one in _names(owner)):
        return
    if not all(_of_specs(site, value) for value in given.values()):
        return
    for one in options(site.value(owner)):
        cls = one.by if isinstance(one, CallResult) else _annotated(site, one)
        if not isinstance(cls, ClassValue):
            continue
        for name in site.program.evaluator.classes.objects.fields(cls):
            if name not in given and _is_array(site, cls, name, surely=True):
                yield call.func, name
                return


def _annotated(site: Site, value: Value) -> Value | None:
    annotation = getattr(value.place.node, "annotation", None) if isinstance(value, Parameter) else None
    if annotation is None or not isinstance(value, Parameter):
        return None
    found = options(site.program.value(value.place.file, annotation))
    return found[0] if len(found) == 1 else None


def _names(node: ast.expr) -> list[str]:
    return [last_name(one) for one in walk(node) if isinstance(one, ast.Name | ast.Attribute)]


def _is_array(site: Site, cls: Value, name: str, surely: bool = False) -> bool:
    """Whether a field is declared to be an array, and is a leaf; `surely`: and no None."""
    if isinstance(cls, Api):
        return name == "step"
    assert isinstance(cls, ClassValue)
    held = site.program.evaluator.classes.objects.fields(cls).get(name)
    if held is None or held[0].annotation is None:
        return False
    binding, owner = held
    text = owner.place.file.text(held[0].annotation)
    apart = binding.value is not None and "False" in owner.place.file.text(binding.value)
    if surely and ("Optional" in text or "None" in text):
        return False
    return _ARRAY.search(text) is not None and not apart and "[" not in text.replace("Optional[", "")
