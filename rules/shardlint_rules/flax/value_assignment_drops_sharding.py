"""SL508."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.api import JIT_WRAPPERS
from shardlint.model.values import Api, CallResult, ClassValue, Function, Place, Transformed, Value, options
from shardlint.rules_api.rule import Calls, Edit, Finding, Fix, Harm, Methods, Rule, Safety
from shardlint.rules_api.site import Site
from shardlint.syntax.nodes import walk
from shardlint_rules.flax import sharded_init as init
from shardlint_rules.flax.annotations import eager
from shardlint_rules.flax.built import Annotated

_JNP = tuple(f"jax.numpy.{name}" for name in ("zeros", "ones", "full", "empty", "eye", "arange", "linspace"))
_RANDOM = tuple(
    f"jax.random.{name}" for name in ("normal", "uniform", "truncated_normal", "bernoulli", "randint")
)
_INITIALIZERS = tuple(
    f"{module}.initializers.{name}"
    for module in ("jax.nn", "flax.nnx")
    for name in (
        "zeros",
        "ones",
        "normal",
        "lecun_normal",
        "xavier_uniform",
        "he_normal",
        "truncated_normal",
        "constant",
    )
)
_NUMPY = tuple(f"numpy.{name}" for name in ("zeros", "ones", "full", "asarray", "array", "load", "empty"))
_COPIES = ("jax.numpy.asarray", "jax.numpy.array")
_JITS = ("flax.nnx.jit", "jax.jit")
_NEAR = (".value =", "[...] =")
_DEPTH = 6


class ValueAssignmentDropsSharding(Rule):
    """A fresh array is assigned to a sharded NNX variable, which loses its sharding.

    The variable takes the array as it is: on one device, under `jax.set_mesh` replicated, and a numpy array stays on
    the host and is transferred at each call. The annotation stays. Nothing is raised.

    ## Reports
    - proven: `variable.value = x` and `variable.set_value(x)` (before flax 0.12.1 also `variable[...] = x`), if x is
      made there (`jnp.zeros`, `jax.random.normal`, an initializer, a numpy array) and the variable has a sharding
      annotation in a sharded model; and `nnx.update(model, ...)` of such a model with numpy arrays.

    ## Write instead
    From flax 0.12.4 `variable[...] = x` writes into the existing array, with its dtype and sharding. On older releases
    place the new array: `kernel.value = jax.device_put(x, kernel.value.sharding)`.

    ## Fix
    Places the new array (safe), or writes `[...]` (unsafe: it keeps the old dtype).

    ## Limits
    Not reported: traced code, variables without annotation, models that are not surely sharded, and arrays that are
    placed or computed from the old value.
    """

    code = "SL508"
    name = "value-assignment-drops-sharding"
    harm = Harm.SILENT
    releases: ClassVar[Mapping[str, str]] = {"flax": ">=0.10.4"}
    triggers = (
        Calls(*_JNP, *_RANDOM, *_INITIALIZERS, *_NUMPY, *_COPIES, function_says=_NEAR),
        Methods("set_value"),
        Calls(init.UPDATE, file_says=("numpy",)),
    )
    forms = ("call", "method")
    in_version_checks = False
    where = "host"
    fixes = "both"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for an assignment, or for an update."""
        if site.api == init.UPDATE:
            finding = self._update(site)
        elif site.form == "method":
            finding = self._set_value(site)
        else:
            finding = self._assignment(site)
        if finding is not None:
            yield finding

    def _assignment(self, site: Site) -> Finding | None:
        statement = site.file.statement(site.syntax)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if (
            not isinstance(target, ast.Attribute | ast.Subscript)
            or _first_maker(site, statement.value) is not site.call
        ):
            return None
        if isinstance(target, ast.Attribute):
            if target.attr != "value":
                return None
        elif not (_is_ellipsis(target.slice) and site.allows("flax", ">=0.11,<0.12.1")):
            return None
        variable = target.value
        if not isinstance(variable, ast.Attribute) or not _fresh(site, statement.value):
            return None
        return self._dropped(site, variable, statement.value, target)

    def _set_value(self, site: Site) -> Finding | None:
        func = site.call.func
        given = site.call.args
        if not isinstance(func, ast.Attribute) or len(given) != 1 or site.call.keywords:
            return None
        if not isinstance(func.value, ast.Attribute) or not _fresh(site, given[0]):
            return None
        if not isinstance(site.file.parent(site.call), ast.Expr):
            return None
        return self._dropped(site, func.value, given[0], site.call)

    def _dropped(
        self, site: Site, variable: ast.Attribute, array: ast.expr, written: ast.expr
    ) -> Finding | None:
        owner = _object(site, variable.value)
        if owner is None or not Annotated(site.program).variable(owner[1], variable.attr):
            return None
        if not _sharded(site, owner[0]):
            return None
        name = site.text(variable)
        placed = f"place the array: jax.device_put(..., {name}.value.sharding)"
        return site.finding(
            written,
            f"`{name}` loses its sharding: the new array is {_where(site, array)}.",
            help=f"write {name}[...] = ..., or {placed}" if site.allows("flax", ">=0.12.4") else placed,
            fix=self._fix(site, variable, array, written),
        )

    def _fix(self, site: Site, variable: ast.Attribute, array: ast.expr, written: ast.expr) -> Fix:
        name = site.text(variable)
        if site.allows("flax", ">=0.12.4"):
            edits = [site.replace(written, f"{name}[...]")]
            if isinstance(written, ast.Call):
                edits = [site.replace(written, f"{name}[...] = {site.text(array)}")]
            return site.fix(
                Safety.UNSAFE, f"write {name}[...] = ...", edits, "it keeps the old array's dtype"
            )
        put, imports = site.spell("jax.device_put")
        start, end = site.file.span(array)
        placed = [Edit(start, start, f"{put}("), Edit(end, end, f", {name}.value.sharding)")]
        return site.fix(Safety.SAFE, f"write {put}(..., {name}.value.sharding)", [*placed, *imports])

    def _update(self, site: Site) -> Finding | None:
        if len(site.call.args) != 2 or site.call.keywords:
            return None
        model, state = site.call.args
        if not _of_numpy(site, state):
            return None
        found = _object(site, model)
        if found is None or Annotated(site.program).annotation(found[1]) is None or found[0] is not found[1]:
            return None
        if not _sharded(site, found[0]):
            return None
        return site.finding(
            site.call.func,
            f"`{site.text(model)}` loses its sharding: it now holds numpy arrays, which each call transfers.",
            help=f"place them first: jax.device_put(..., nnx.get_named_sharding(nnx.state({site.text(model)}), mesh))",
        )


def _object(site: Site, node: ast.expr) -> tuple[CallResult, CallResult] | None:
    """The model an expression belongs to, and the object it is: `model.block` is the block, of that model."""
    if isinstance(node, ast.Attribute):
        outer = _object(site, node.value)
        if outer is not None:
            found = options(site.program.evaluator.attribute(outer[1], node.attr))
            inner = found[0] if len(found) == 1 else None
            if isinstance(inner, CallResult) and isinstance(inner.by, ClassValue | Api):
                return outer[0], inner
    # What begins the path may itself be an attribute: `self.model`.
    model = _model(site, site.program.followed(site.value(node)))
    return (model, model) if model is not None else None


def _model(site: Site, value: Value, depth: int = 0) -> CallResult | None:
    """The one object a value is, through the functions that make it."""
    found = options(value)
    if len(found) != 1 or depth > _DEPTH or not isinstance(found[0], CallResult):
        return None
    made = found[0]
    if isinstance(made.by, ClassValue):
        return made
    function = made.by
    while isinstance(function, Transformed) and function.api.name in JIT_WRAPPERS:
        function = function.inner
    if isinstance(function, ClassValue):
        return CallResult(function, made.call)
    if not isinstance(function, Function):
        return None
    built = list(Annotated(site.program).built(function))
    return _model(site, built[0], depth + 1) if len(built) == 1 else None


def _sharded(site: Site, model: CallResult) -> bool:
    """Whether a model was surely sharded where it was made."""
    if model.call is None or Annotated(site.program).annotation(model) is None:
        return False
    now = eager(site)
    if now is not False:
        return now is True
    place = model.call.place
    scope = place.scope.function()
    if scope is None:
        return False
    done = set()
    for call in place.file.walked(scope).calls:
        for one in options(site.program.value(place.file, call.func)):
            if isinstance(one, Api):
                done.add(one.name)
    return (
        init.UPDATE in done
        and bool(done & {init.CONSTRAINT, "jax.device_put"})
        and bool(done & {init.SPECS, init.SHARDINGS})
    )


def _fresh(site: Site, node: ast.expr) -> bool:
    """Whether an expression surely makes an array that has no sharding of its own."""
    match node:
        case ast.BinOp():
            sides = (node.left, node.right)
            return any(_fresh(site, one) for one in sides) and all(
                _fresh(site, one) or isinstance(one, ast.Constant) for one in sides
            )
        case ast.UnaryOp():
            return _fresh(site, node.operand)
        case ast.Call(func=ast.Attribute(attr="astype" | "reshape" | "transpose")):
            assert isinstance(node.func, ast.Attribute)
            return _fresh(site, node.func.value)
        case ast.Call():
            return _makes(site, node)
    return False


def _makes(site: Site, call: ast.Call) -> bool:
    if any(one.arg in (None, "device", "out_sharding", "sharding") for one in call.keywords):
        return False
    found = options(site.value(call.func))
    if all(isinstance(one, Api) and one.name in (*_JNP, *_RANDOM, *_NUMPY) for one in found):
        return True
    if all(isinstance(one, Api) and one.name in _COPIES for one in found):
        return bool(call.args) and _of_numpy_array(site, call.args[0])
    # An initializer makes an array of a key and a shape; called before that, it makes the initializer.
    whole = len(call.args) >= 2
    return whole and all(
        (isinstance(one, Api) and one.name in _INITIALIZERS)
        or (isinstance(one, CallResult) and one.api in _INITIALIZERS)
        for one in found
    )


def _of_numpy_array(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Constant) or all(
        isinstance(one, CallResult) and one.api in _NUMPY for one in options(site.value(node))
    )


def _of_numpy(site: Site, node: ast.expr) -> bool:
    """Whether a tree surely holds numpy arrays: `jax.device_get(...)`, `jax.tree.map(np.asarray, ...)`."""
    for one in options(site.value(node)):
        if not isinstance(one, CallResult) or one.call is None:
            return False
        if one.api == "jax.device_get":
            continue
        function = one.call.positional[0] if one.api == "jax.tree.map" and one.call.positional else None
        if function is None or not _maps_to_numpy(site, function):
            return False
    return True


def _maps_to_numpy(site: Site, place: Place) -> bool:
    node = place.node
    if isinstance(node, ast.Lambda) and isinstance(node.body, ast.Call):
        place.file.walked(place.file.scope(node))
        node = node.body.func
    found = options(site.program.value(place.file, node))
    return all(isinstance(one, Api) and one.name in (*_NUMPY, "jax.device_get") for one in found)


def _first_maker(site: Site, node: ast.expr) -> ast.Call | None:
    """The first call in an expression that triggers this rule."""
    makers = (*_JNP, *_RANDOM, *_INITIALIZERS, *_NUMPY, *_COPIES)
    found = [
        call
        for call in walk(node)
        if isinstance(call, ast.Call)
        and any(isinstance(one, Api) and one.name in makers for one in options(site.value(call.func)))
    ]
    return min(found, key=lambda call: (call.lineno, call.col_offset), default=None)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _where(site: Site, array: ast.expr) -> str:
    if isinstance(array, ast.Call) and any(
        isinstance(one, Api) and one.name.startswith("numpy.") for one in options(site.value(array.func))
    ):
        return "a numpy array on the host"
    kinds = {context.kind for context in site.context.contexts}
    if kinds == {"set_mesh"}:
        return "replicated on every device"
    return "on one device" if not kinds or kinds == {"with mesh"} else "on one device or replicated"
