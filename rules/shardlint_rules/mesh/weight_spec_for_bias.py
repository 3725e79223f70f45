"""SL322."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.config.certainty import Certainty
from shardlint.model.mesh.meshes import Spec
from shardlint.model.values import CallResult
from shardlint.rules_api.rule import Calls, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint.source.patterns import regex
from shardlint.syntax import Scope, last_name

_BIAS = regex(r"(^|[^a-z])(bias|biases|beta)$")
# These have more than one dimension.
_NO_BIAS = regex(
    r"attn_|attention_|position|pos_|rel_|relative|alibi|mask|score|expert|moe|router|quant|kv_cache"
)
_WEIGHT = regex(r"(^|[^a-z])(weights?|kernel|w)$")
_LEAF = regex(
    r"(kernel|bias|scale|embedding|embed|weights?|(^|[^a-z])[wb]\d?|norm\w*|table|vector|gamma|beta|count|alpha)"
    r"[\])'\"]*(\$|\.\*|\.\+)?$"
)
_RULE_NAMES = regex(r"[A-Za-z_]\w*")
_CATCHES_BIAS = regex(r"bias")


class WeightSpecForBias(Rule):
    """A bias gets the spec of its weight, which has one dimension more.

    As soon as a model with this bias is loaded, `ValueError: ... is only valid for values of rank at least 2, but was
    applied to a value of rank 1` is raised. The same code with `use_bias=False` runs.

    ## Reports
    - `bias` (likely): a `PartitionSpec` of two entries for a bias, where the weight or kernel of the same layer gets
      the same one.
    - `bias` (likely): a partition rule with such a spec that matches the bias of a layer as well as its kernel, such
      as `("mlp/(up|down)", P(None, "model"))`, where a file of the project gives that layer a bias.

    ## Limits
    Biases of attention and of experts, which have more dimensions, and rules after one for biases are not reported.
    """

    code = "SL322"
    name = "weight-spec-for-bias"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("bias",)
    assumptions: ClassVar[Mapping[str, str]] = {"bias": "The bias of this layer has one dimension."}
    triggers = (Calls("jax.sharding.PartitionSpec"),)
    forms = ("call",)
    fixes = "none"

    def check(self, site: Site) -> Iterator[Finding]:
        """At most one finding for a spec."""
        if len(site.call.args) < 2:
            return
        spec = site.spec_of(site.value(site.call))
        if spec is None or spec.open or len(spec.entries) < 2:
            return
        pair = site.file.parent(site.call)
        if isinstance(pair, ast.Tuple | ast.List) and len(pair.elts) == 2 and pair.elts[1] is site.call:
            yield from self._in_rules(site, pair, spec)
        else:
            yield from self._beside_weight(site, spec)

    def _beside_weight(self, site: Site, spec: Spec) -> Iterator[Finding]:
        if len(spec.entries) != 2:
            return  # weights of experts have three dimensions, and their biases two or three
        name, layer = _subject(site, site.call)
        if not name or not _BIAS.search(name) or _NO_BIAS.search(name):
            return
        stem = _BIAS.sub("", name)
        weights = [
            (abs(other.lineno - site.call.lineno), beside, other)
            for other in _specs_around(site)
            for beside, owner in (_subject(site, other),)
            if owner is layer and _WEIGHT.search(beside) and _WEIGHT.sub("", beside) == stem
        ]
        for _, beside, other in sorted(weights, key=lambda one: one[0])[:1]:
            theirs = site.spec_of(site.value(other))
            if theirs is not None and _same(theirs, spec):
                why = f"`{beside}` at line {other.lineno} gets the same spec"
                yield self._finding(site, f"`{name}`", why, "write the spec of the one dimension of the bias")
                return

    def _in_rules(self, site: Site, pair: ast.Tuple | ast.List, spec: Spec) -> Iterator[Finding]:
        table = site.file.parent(pair)
        pattern = _text(site, pair.elts[0])
        if (
            pattern is None
            or not isinstance(table, ast.Tuple | ast.List)
            or _LEAF.search(pattern.rstrip(")$/"))
        ):
            return
        if "kernel" in pattern or not any(entry.axes for entry in spec.entries):
            return
        if _NO_BIAS.search(pattern.lower()):
            return
        for before in table.elts[: table.elts.index(pair)]:
            earlier = (
                _text(site, before.elts[0])
                if isinstance(before, ast.Tuple | ast.List) and before.elts
                else None
            )
            if earlier is None or _CATCHES_BIAS.search(earlier):
                return
        names = frozenset(_RULE_NAMES.findall(pattern.rpartition("/")[2])) or frozenset(
            _RULE_NAMES.findall(pattern)
        )
        where = site.program.once(site.file, ("biased", names), lambda: _biased(site, names))
        if where is not None:
            why = f"{where[0]} gives `{where[1]}` a bias, and the pattern matches it too"
            yield self._finding(
                site, f"the bias of `{where[1]}`", why, "end the pattern with the name of the kernel"
            )

    def _finding(self, site: Site, bias: str, why: str, help: str) -> Finding:
        return site.finding(
            site.call,
            f"On {site.release('jax')} placing {bias} raises ValueError: it has one dimension, its spec two entries.",
            label="a spec for the weight",
            help=help,
            certainty=Certainty.POSSIBLE,
            form="bias",
            why=why,
        )


def _same(one: Spec, other: Spec) -> bool:
    return [(entry.known, entry.axes) for entry in one.entries] == [(e.known, e.axes) for e in other.entries]


def _specs_around(site: Site) -> Iterator[ast.Call]:
    """The specs written in the same function or class."""
    scope: Scope = site.scope
    while scope.kind in ("lambda", "comprehension") and scope.parent is not None:
        scope = scope.parent
    for call in site.file.walked(scope).calls:
        if last_name(call.func) == last_name(site.call.func):
            value = site.value(call)
            if isinstance(value, CallResult) and value.api == site.api:
                yield call


def _subject(site: Site, spec: ast.Call) -> tuple[str, ast.AST | None]:
    """What a spec is given to, in lower case, and the dict or call of its layer, if it is a key or a keyword of one.

    A name, or the array placed by the call, says itself which layer it is of.
    """
    inner: ast.AST = spec
    for outer in site.file.ancestors(spec):
        match outer:
            case ast.Dict(keys=keys, values=values):
                key = next((k for k, v in zip(keys, values, strict=True) if v is inner), None)
                return str(key.value).lower() if isinstance(key, ast.Constant) else "", outer
            case ast.keyword(arg=str() as name) if _BIAS.search(_stripped(name)) or _WEIGHT.search(
                _stripped(name)
            ):
                return _stripped(name), site.file.parent(outer)
            case ast.Call():
                for part in (
                    outer.func.value if isinstance(outer.func, ast.Attribute) else None,
                    *outer.args,
                ):
                    name = _dotted(part) if part is not None and part is not inner else ""
                    if _BIAS.search(name) or _WEIGHT.search(name):
                        return name, None
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return _stripped(_dotted(target)), None
            case ast.stmt():
                return "", None
        inner = outer
    return "", None


def _stripped(name: str) -> str:
    """`bias_spec`, `bias_init`, `kernel_sharding` without what they say of it."""
    return re.sub(r"_(p?spec|init|sharding|partition|axes|placement)s?$", "", name.lower())


def _dotted(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return name.lower()
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name.lower()
        case ast.Attribute(value=inner, attr=("value" | "data" | "weight_" | "T")):
            return _dotted(inner)
        case ast.Attribute(value=inner, attr=name):
            return f"{_dotted(inner)}.{name.lower()}"
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() as name)):
            return f"{_dotted(inner)}.{name.lower()}"
    return ""


def _text(site: Site, node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _biased(site: Site, names: frozenset[str]) -> tuple[str, str] | None:
    """A file of the project, and a line of it, where a layer of one of these names is given a bias."""
    one = "|".join(re.escape(name) for name in sorted(names))
    # `"up": dense(..., bias=True)`, `self.up = nn.Linear(..., use_bias=True)`, `params["up"]["bias"]`, `up.bias`
    patterns = (
        rf"[\"']?\b({one})[\"']?\]?\s*[:=]\s*[\w.]+\([^\n]*\b(use_)?bias=True",
        rf"\b({one})[\"']\]\[[\"']bias[\"']\]",
        rf"\b({one})\.bias\b",
        rf"[\"'/]({one})/bias[\"']",
        rf"[\"']({one})[\"']:\s*\{{[^{{}}]*[\"']bias[\"']",
    )
    for file in site.program.project.holding(site.file.path, tuple(f"(?m){pattern}" for pattern in patterns)):
        if file is None:
            return None
        for pattern in patterns:
            match = re.search(pattern, file.source.text)
            if match is not None:
                return f"{file.path.name}:{file.source.position(match.start())[0]}", match[1]
    return None
