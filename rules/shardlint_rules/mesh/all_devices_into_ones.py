"""SL317."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar

from shardlint.model.values import Api, options
from shardlint.rules_api.rule import Calls, Certainty, Finding, Harm, Rule
from shardlint.rules_api.site import Site
from shardlint_rules.jit.how_many import settled_expression

_ALL = ("jax.devices", "jax.local_devices")
_ARRAYS = ("numpy.array", "numpy.asarray", "jax.numpy.array", "jax.numpy.asarray")


class AllDevicesIntoOnes(Rule):
    """A mesh of one device is made of all devices.

    On a machine with several devices the reshape raises ValueError: cannot reshape array of size 8 into shape (1, 1).

    ## Reports
    - `ones` (likely): `np.array(jax.devices()).reshape((1,) * n)` or `reshape(1, 1)` as the devices of a mesh.

    ## Write instead
    `np.array(jax.devices()[:1]).reshape((1,) * n)`.

    ## Limits
    A sliced list of devices, and functions that count the devices, are not reported.
    """

    code = "SL317"
    name = "all-devices-into-ones"
    harm = Harm.CRASH
    certainty = Certainty.POSSIBLE
    likely = ("ones",)
    assumptions: ClassVar[Mapping[str, str]] = {"ones": "The program runs on more than one device."}
    triggers = (Calls("jax.sharding.Mesh", file_says=("reshape",)),)
    forms = ("call",)
    fixes = "none"
    by_hand = "the mesh may be meant for one device or for all"

    def check(self, site: Site) -> Iterator[Finding]:
        """One finding for a mesh."""
        devices = site.argument("devices")
        if devices is None or not site.wants("ones"):
            return
        reshaped = settled_expression(site.file, devices)
        parts = _reshape(site, reshaped)
        if parts is None or not _is_ones(site, parts[1]) or _of_one(site):
            return
        if _is_all(site, parts[0]):
            yield site.finding(
                reshaped,
                "With more than one device this raises ValueError: every size of the mesh is 1.",
                label="all devices",
                help="write jax.devices()[:1]",
                form="ones",
                why="`jax.devices()` lists every device of the machine",
            )


def _reshape(site: Site, node: ast.expr) -> tuple[ast.expr, list[ast.expr]] | None:
    """What is given another shape, and the shape: `x.reshape(s)`, `x.reshape(1, 1)`, `np.reshape(x, s)`."""
    if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "reshape" or not node.args:
        return None
    called = options(site.value(node.func))
    if all(isinstance(one, Api) and one.name in ("numpy.reshape", "jax.numpy.reshape") for one in called):
        return node.args[0], node.args[1:]
    return node.func.value, node.args


def _is_ones(site: Site, shape: list[ast.expr]) -> bool:
    """Whether a shape has nothing but ones."""
    if len(shape) != 1:
        return bool(shape) and all(_one(part) for part in shape)
    node = settled_expression(site.file, shape[0])
    if (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("tuple", "list")
        and len(node.args) == 1
    ):
        node = node.args[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = [one for one in (node.left, node.right) if isinstance(one, ast.Tuple | ast.List)]
        node = sides[0] if sides else node
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _one(node.elt)
    return isinstance(node, ast.Tuple | ast.List) and bool(node.elts) and all(_one(one) for one in node.elts)


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and node.value is not True


def _is_all(site: Site, node: ast.expr) -> bool:
    """Whether it is an array of all devices."""
    node = settled_expression(site.file, node)
    if not isinstance(node, ast.Call):
        return False
    called = options(site.value(node.func))
    if all(isinstance(one, Api) and one.name in _ARRAYS for one in called):
        return bool(node.args) and _is_all(site, node.args[0])
    return not node.args and all(isinstance(one, Api) and one.name in _ALL for one in called)


def _of_one(site: Site) -> bool:
    """Whether the call runs only after somebody asked how many devices there are."""
    scope = site.scope.function()
    text = site.text(scope.node) if scope is not None else site.file.source.text
    return "device_count" in text or "len(jax.devices" in text or "len(devices" in text
