"""The whole state of an optimizer put on every device, for parameters that are split. For SL232."""

from __future__ import annotations

import ast

from shardlint.model.signatures import JITS
from shardlint.model.values import Place
from shardlint.rules_api.site import Site
from shardlint_rules.jit.leaf import origins, seems_spread
from shardlint_rules.jit.optimizers import init_by_name, keeps_state


def put_whole(site: Site) -> tuple[ast.expr, ast.expr] | None:
    """The sharding and parameters of `jit(tx.init, out_shardings=s)(params)` and `device_put(tx.init(params), s)`."""
    call = site.call
    if site.api in JITS:
        outer = site.file.parent(call)
        where = site.keyword("out_shardings")
        made, sharding = (outer, where.value if where is not None else None)
        init = call.args[0] if call.args else None
        if not isinstance(made, ast.Call) or made.func is not call:
            return None
    else:
        made = call.args[0] if call.args else None
        sharding = site.argument("device")
        init = made.func if isinstance(made, ast.Call) else None
    if sharding is None or not isinstance(made, ast.Call) or len(made.args) != 1 or init is None:
        return None
    if not _is_init(site, init):
        return None
    spread = any(seems_spread(site, one) for one in origins(site.program, Place(site.file, made.args[0])))
    return (sharding, made.args[0]) if spread else None


def _is_init(site: Site, node: ast.expr) -> bool:
    """Whether an expression is the `init` of an optimizer whose state is as large as the parameters."""
    if not isinstance(node, ast.Attribute) or node.attr != "init":
        return False
    value = site.program.followed(site.value(node.value))
    return keeps_state(site, value) is True or init_by_name(site, Place(site.file, node))
