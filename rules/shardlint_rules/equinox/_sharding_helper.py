"""Recognising a function that does what `eqx.filter_shard` does: for SL104.

    def shard(x, device_or_shardings):
        if isinstance(device_or_shardings, Device):
            shardings = SingleDeviceSharding(device_or_shardings)
        else:
            shardings = device_or_shardings
        dynamic, static = eqx.partition(x, eqx.is_array)
        dynamic = jax.lax.with_sharding_constraint(dynamic, shardings)
        return eqx.combine(dynamic, static)

Every statement must be one of these steps, in an order that works; the first is optional.
"""

from __future__ import annotations

import ast

from shardlint.model.values import Api
from shardlint.rules_api.site import Site
from shardlint.source.lazy import dataclass
from shardlint.syntax.nodes import names_in, walk
from shardlint_rules.equinox.wrapped import positional

_CONSTRAIN = "jax.lax.with_sharding_constraint"


@dataclass(frozen=True)
class Helper:
    """Such a function: the statements after its docstring, the tree it shards, and by what, as texts."""

    function: ast.FunctionDef
    body: list[ast.stmt]
    tree: str
    target: str


def recognise(site: Site) -> Helper | None:
    """The function around a call of `eqx.combine` that returns its result, if it is such a one."""
    statement = site.file.parent(site.call)
    scope = site.scope
    if not isinstance(statement, ast.Return) or not isinstance(scope.node, ast.FunctionDef):
        return None
    function = scope.node
    docstring = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if docstring else function.body
    if len(body) < 2 or body[-1] is not statement:
        return None
    reader = _Reader(site, function)
    for one in body[:-1]:
        if not reader.step(one):
            return None
    target = reader.result(site.call)
    if target is None or reader.tree is None:
        return None
    return Helper(function, body, reader.tree, target)


class _Reader:
    """Reads the steps of one function."""

    def __init__(self, site: Site, function: ast.FunctionDef) -> None:
        self.site = site
        args = [*positional(function), *function.args.kwonlyargs]
        self.parameters = {arg.arg for arg in args}
        self.tree: str | None = None
        self.arrays: str | None = None
        self.rest: str | None = None
        self.constrained: str | None = None
        self.target: str | None = None
        self.stands_for: dict[str, str] = {}
        """Names of shardings that are made of a device, and the parameter they are made of."""

    def step(self, statement: ast.stmt) -> bool:
        """Read a statement; False when it is none of the steps."""
        if isinstance(statement, ast.If):
            return self._device_case(statement)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple):
            return self._split(target, value)
        if not isinstance(target, ast.Name):
            return False
        return (
            self._conditional(target.id, value)
            or self._filtered(target.id, value)
            or self._constrains(target.id, value)
        )

    def result(self, call: ast.Call) -> str | None:
        """What the tree is sharded by, from the call of combine that ends the function."""
        if len(call.args) != 2 or call.keywords or self.rest is None:
            return None
        one, two = call.args
        if self.constrained is None and not self._constrains("", one):
            return None
        named = self.constrained == "" or self._is(one, self.constrained)
        return self.target if named and self._is(two, self.rest) else None

    # the device

    def _device_case(self, statement: ast.If) -> bool:
        """`if isinstance(p, Device): s = SingleDeviceSharding(p)`, `else: s = p`."""
        if len(statement.body) != 1 or len(statement.orelse) > 1:
            return False
        bound = [self._plain(one) for one in (*statement.body, *statement.orelse)]
        parameter = self._asks(statement.test)
        first = bound[0]
        if first is None or parameter is None or not self._of_device(first[1], parameter):
            return False
        if len(bound) == 2:
            second = bound[1]
            if second is None or second[0] != first[0] or not self._is(second[1], parameter):
                return False
        elif first[0] != parameter:
            return False
        self.stands_for[first[0]] = parameter
        return True

    def _conditional(self, name: str, value: ast.expr) -> bool:
        if not isinstance(value, ast.IfExp):
            return False
        parameter = self._asks(value.test)
        if (
            parameter is None
            or not self._of_device(value.body, parameter)
            or not self._is(value.orelse, parameter)
        ):
            return False
        self.stands_for[name] = parameter
        return True

    def _asks(self, test: ast.expr) -> str | None:
        """The parameter that a test asks whether it is a device."""
        if (
            not isinstance(test, ast.Call)
            or self._name(test.func) != "builtins.isinstance"
            or len(test.args) != 2
        ):
            return None
        asked, kind = test.args
        device = self._name(kind)
        if not isinstance(asked, ast.Name) or asked.id not in self.parameters:
            return None
        return asked.id if device.startswith("jax") and device.endswith(".Device") else None

    def _of_device(self, value: ast.expr, parameter: str) -> bool:
        """`SingleDeviceSharding(p)`, `PositionalSharding([p])`, `PositionalSharding([p]).replicate()`."""
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "replicate"
        ):
            value = value.func.value
        if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords:
            return False
        inner = value.args[0]
        name = self._name(value.func)
        if name == "jax.sharding.PositionalSharding":
            elements = inner.elts if isinstance(inner, ast.List | ast.Tuple) else []
            return len(elements) == 1 and self._is(elements[0], parameter)
        return name == "jax.sharding.SingleDeviceSharding" and self._is(inner, parameter)

    # the parts

    def _split(self, target: ast.Tuple, value: ast.expr) -> bool:
        names = [one.id for one in target.elts if isinstance(one, ast.Name)]
        if len(names) != 2 or not self._by_is_array(value, "equinox.partition"):
            return False
        self.arrays, self.rest = names
        return self._free(*names)

    def _filtered(self, name: str, value: ast.expr) -> bool:
        """`eqx.filter(x, eqx.is_array)` and the same with `inverse=True`."""
        if not isinstance(value, ast.Call):
            return False
        inverse = [one for one in value.keywords if one.arg == "inverse"]
        plain = ast.Call(value.func, value.args, [one for one in value.keywords if one not in inverse])
        if not self._by_is_array(plain, "equinox.filter"):
            return False
        if not inverse:
            self.arrays = name
        elif isinstance(inverse[0].value, ast.Constant) and inverse[0].value.value is True:
            self.rest = name
        else:
            return False
        return self._free(name)

    def _by_is_array(self, value: ast.expr, by: str) -> bool:
        """Whether a call splits a parameter by `eqx.is_array`, always the same one."""
        if not isinstance(value, ast.Call) or self._name(value.func) != by:
            return False
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        given |= dict(zip(("pytree", "filter_spec"), value.args, strict=False))
        if set(given) != {"pytree", "filter_spec"} or len(value.args) > 2:
            return False
        tree = given["pytree"]
        if (
            not isinstance(tree, ast.Name)
            or tree.id not in self.parameters
            or self.tree not in (None, tree.id)
        ):
            return False
        self.tree = tree.id
        return self._name(given["filter_spec"]) == "equinox.is_array"

    def _constrains(self, name: str, value: ast.expr) -> bool:
        """`with_sharding_constraint(arrays, s)`, or `tree.map` of a lambda that does it leaf by leaf."""
        if (
            self.constrained is not None
            or not isinstance(value, ast.Call)
            or value.keywords
            or len(value.args) != 2
        ):
            return False
        tree, target = value.args
        if self._name(value.func) == "jax.tree.map":
            function, tree = value.args
            if not isinstance(function, ast.Lambda) or len(positional(function)) != 1:
                return False
            call, leaf = function.body, positional(function)[0].arg
            if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
                return False
            if not self._is(call.args[0], leaf):
                return False
            value, target = call, call.args[1]
            if any(self._is(part, leaf) for part in walk(target)):
                return False
        if self._name(value.func) != _CONSTRAIN or self.arrays is None or not self._is(tree, self.arrays):
            return False
        used = names_in(target)
        if isinstance(target, ast.Name) and target.id in self.stands_for:
            self.target = self.stands_for[target.id]
        elif used & {self.arrays, self.rest, *self.stands_for}:
            return False
        else:
            self.target = self.site.text(target)
        self.constrained = name
        return name == "" or name == self.arrays or self._free(name)

    # names

    def _free(self, *names: str) -> bool:
        """Whether names can be bound without hiding what is still to be read."""
        return not set(names) & (self.parameters - {self.tree}) - set(self.stands_for)

    def _plain(self, statement: ast.stmt) -> tuple[str, ast.expr] | None:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                return target.id, statement.value
        return None

    def _is(self, node: ast.AST, name: str | None) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    def _name(self, node: ast.expr) -> str:
        value = self.site.value(node)
        return value.name if isinstance(value, Api) else ""
