"""Mistakes of jit, placement, meshes and donation, put into code that is right."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutated import SPECS, Change, Operator, Text, calls_of, full_name, remove_call_keyword, swap_expressions

_CONSTRAINTS = ("with_sharding_constraint", "with_logical_constraint", "filter_shard", "auto_axes_constraint")
_MANAGERS = ("set_mesh", "use_mesh", "Mesh")
_BATCH = ("batch", "data", "input")


def _remove_out_shardings(text: Text) -> Iterator[Change]:
    """`jax.jit(init, out_shardings=...)` becomes `jax.jit(init)`."""
    for call in calls_of(text, "jit"):
        if not call.args or "init" not in text.node_text(call.args[0]).lower():
            continue
        for keyword in call.keywords:
            if keyword.arg == "out_shardings":
                yield remove_call_keyword(text, call, keyword)


def _jit_calls(text: Text, *names: str) -> Iterator[ast.Call]:
    """Calls of these, and partials of them: `jax.jit(f, ...)`, `partial(jax.jit, ...)`."""
    yield from calls_of(text, *names)
    for call in calls_of(text, "partial"):
        if call.args and full_name(call.args[0]) in names:
            yield call


def _inputs_instead(text: Text) -> Iterator[Change]:
    """`jax.jit(init, out_shardings=...)` becomes `jax.jit(init, in_shardings=...)`."""
    for call in calls_of(text, "jit"):
        if call.args and "init" in text.node_text(call.args[0]).lower():
            given = {keyword.arg: keyword for keyword in call.keywords}
            if "out_shardings" in given and "in_shardings" not in given:
                start = text.bytes.rindex(b"out_shardings", 0, text.node_span(given["out_shardings"].value)[0])
                yield call.lineno, start, start + len("out_shardings"), "in_shardings"


def _remove_static_arguments(text: Text) -> Iterator[Change]:
    """`static_argnums=...` and `static_argnames=...` are taken away."""
    for call in _jit_calls(text, "jit"):
        for keyword in call.keywords:
            if keyword.arg in ("static_argnums", "static_argnames"):
                yield remove_call_keyword(text, call, keyword)


def _shift_donated_index(text: Text) -> Iterator[Change]:
    """`donate_argnums=0` becomes 1, `(0,)` becomes `(1,)`."""
    for call in _jit_calls(text, "jit"):
        for keyword in call.keywords:
            if keyword.arg != "donate_argnums":
                continue
            given = keyword.value.elts if isinstance(keyword.value, ast.Tuple | ast.List) else [keyword.value]
            if len(given) == 1 and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
                yield given[0].lineno, *text.node_span(given[0]), str(given[0].value + 1)


def _remove_donation(text: Text) -> Iterator[Change]:
    """`donate_argnums` of what is called a step is taken away."""
    for call in _jit_calls(text, "jit"):
        for keyword in call.keywords:
            first, last = call.lineno - 1, min(call.lineno + 5 + len(call.keywords), len(text.lines) - 1)
            around = text.bytes[text.lines[first] : text.lines[last]]
            if keyword.arg in ("donate_argnums", "donate_argnames") and b"step" in around:
                yield remove_call_keyword(text, call, keyword)


def _constraint_dropped(text: Text) -> Iterator[Change]:
    """`x = with_sharding_constraint(x, ...)` becomes `with_sharding_constraint(x, ...)`."""
    for node in text.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            if full_name(node.value.func) in _CONSTRAINTS and isinstance(node.targets[0], ast.Name):
                yield node.lineno, text.node_span(node.targets[0])[0], text.node_span(node.value)[0], ""


def _placement_dropped(text: Text) -> Iterator[Change]:
    """`x = jax.device_put(x, sharding)` becomes `jax.device_put(x, sharding)`."""
    for node in text.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            target, call = node.targets[0], node.value
            if (
                full_name(call.func) == "device_put"
                and call.args
                and text.node_text(call.args[0]) == text.node_text(target)
            ):
                yield node.lineno, text.node_span(target)[0], text.node_span(call)[0], ""


def _remove_device_put_sharding(text: Text) -> Iterator[Change]:
    """`jax.device_put(x, sharding)` becomes `jax.device_put(x)`."""
    for call in calls_of(text, "device_put"):
        if len(call.args) == 2 and not call.keywords and "shard" in text.node_text(call.args[1]).lower():
            yield call.lineno, text.node_span(call.args[0])[1], text.node_span(call.args[1])[1], ""


def _put_in_jit(text: Text) -> Iterator[Change]:
    """`jax.lax.with_sharding_constraint(x, sharding)` becomes `jax.device_put(x, sharding)`."""
    for call in calls_of(text, "with_sharding_constraint"):
        if len(call.args) == 2 and text.node_text(call.func).startswith("jax."):
            yield call.lineno, *text.node_span(call.func), "jax.device_put"


def _remove_mesh_context(text: Text) -> Iterator[Change]:
    """`with mesh:` becomes `if True:`."""
    for node in text.nodes:
        if isinstance(node, ast.With) and len(node.items) == 1:
            item = node.items[0].context_expr
            called = isinstance(item, ast.Call) and full_name(item.func) in _MANAGERS
            plain = not isinstance(item, ast.Call) and full_name(item).endswith("mesh")
            if called or plain:
                start = text.lines[node.lineno - 1] + node.col_offset
                yield node.lineno, start, text.node_span(node.items[0].optional_vars or item)[1], "if True"


def _jit_inside_loop(text: Text) -> Iterator[Change]:
    """`step = jax.jit(f)` before a loop, called in it: the call becomes `jax.jit(f)(...)`."""
    for function in text.nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        made = {
            node.targets[0].id: node.value
            for node in function.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call)
            and full_name(node.value.func) in ("jit", "pjit", "pmap")
        }
        for loop in function.body:
            if isinstance(loop, ast.For | ast.While):
                for part in ast.walk(loop):
                    if (
                        isinstance(part, ast.Call)
                        and isinstance(part.func, ast.Name)
                        and part.func.id in made
                    ):
                        yield part.lineno, *text.node_span(part.func), text.node_text(made[part.func.id])


def _rename_spec_axis(text: Text) -> Iterator[Change]:
    """An axis of a spec becomes one that no mesh has: `P("data")` becomes `P("data_axis")`."""
    for call in calls_of(text, *SPECS):
        for part in call.args:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, *text.node_span(part), f'"{part.value}_axis"'
                break


def _one_axis_fewer(text: Text) -> Iterator[Change]:
    """`Mesh(devices, ("data", "model"))` becomes `Mesh(devices, ("data",))`."""
    for call in calls_of(text, "Mesh", "make_mesh"):
        names = call.args[1] if len(call.args) > 1 else None
        for keyword in call.keywords:
            names = keyword.value if keyword.arg == "axis_names" else names
        if isinstance(names, ast.Tuple) and len(names.elts) > 1:
            start, end = text.node_span(names.elts[-2])[1], text.node_span(names.elts[-1])[1]
            yield names.lineno, start, end, "," if len(names.elts) == 2 else ""


def _split_axis_tuple(text: Text) -> Iterator[Change]:
    """`P(("data", "fsdp"))` becomes `P("data", "fsdp")`."""
    for call in calls_of(text, *SPECS):
        if call.args and isinstance(call.args[0], ast.Tuple) and len(call.args[0].elts) > 1:
            one = call.args[0]
            inside = text.node_text(one)
            if inside.startswith("("):
                yield one.lineno, *text.node_span(one), inside[1:-1].rstrip().removesuffix(",")


def _batch_whole(text: Text) -> Iterator[Change]:
    """`batch_sharding = NamedSharding(mesh, P("data"))` becomes one of `P()`."""
    for node in text.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if full_name(call.func) != "NamedSharding" or len(call.args) != 2:
            continue
        spec = call.args[1]
        said = any(word in text.node_text(node.targets[0]).lower() for word in _BATCH)
        if said and isinstance(spec, ast.Call) and full_name(spec.func) in SPECS and spec.args:
            yield node.lineno, *text.node_span(spec), f"{text.node_text(spec.func)}()"


def _specs_swapped(text: Text) -> Iterator[Change]:
    """`in_shardings=(state, batch)` becomes `(batch, state)`."""
    for call in _jit_calls(text, "jit", "pjit"):
        for keyword in call.keywords:
            given = keyword.value
            if keyword.arg == "in_shardings" and isinstance(given, ast.Tuple) and len(given.elts) > 1:
                first, second = given.elts[:2]
                if text.node_text(first) != text.node_text(second):
                    yield swap_expressions(text, first, second)


def _sizes_swapped(text: Text) -> Iterator[Change]:
    """`create_device_mesh((data, model))` becomes `((model, data))`; so of `make_mesh` and `reshape(...)` in `Mesh`."""
    for call in calls_of(text, "create_device_mesh", "make_mesh"):
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Tuple) and len(given.elts) > 1:
            first, second = given.elts[:2]
            if text.node_text(first) != text.node_text(second):
                yield swap_expressions(text, first, second)


def _prepend_none_to_spec(text: Text) -> Iterator[Change]:
    """A constraint's `P("data", None)` becomes `P(None, "data", None)`."""
    for call in calls_of(text, "with_sharding_constraint"):
        for given in call.args[1:2]:
            for spec in ast.walk(given):
                if isinstance(spec, ast.Call) and full_name(spec.func) in SPECS and spec.args:
                    start = text.node_span(spec.args[0])[0]
                    yield spec.lineno, start, start, "None, "


def _bare_spec(text: Text) -> Iterator[Change]:
    """`NamedSharding(mesh, spec)` becomes `spec` where it is given to a call."""
    for call in calls_of(text, "device_put", "with_sharding_constraint"):
        if (
            len(call.args) > 1
            and isinstance(call.args[1], ast.Call)
            and full_name(call.args[1].func) == "NamedSharding"
        ):
            inner = call.args[1]
            if len(inner.args) == 2:
                yield call.lineno, *text.node_span(inner), text.node_text(inner.args[1])


def _drop_last_return(text: Text) -> Iterator[Change]:
    """The last `return x` of a function that places or steps becomes `x`."""
    for node in text.nodes:
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return) and len(node.body) > 1:
            said = node.name.lower()
            if any(word in said for word in ("step", "shard", "update", "place", "init")):
                last = node.body[-1]
                returns = [one for one in ast.walk(node) if isinstance(one, ast.Return)]
                if last.value is not None and len(returns) == 1:
                    yield (
                        last.lineno,
                        text.lines[last.lineno - 1] + last.col_offset,
                        text.node_span(last.value)[0],
                        "",
                    )


def _result_dropped(text: Text) -> Iterator[Change]:
    """`state = jax.tree.map(..., state)` becomes a bare expression; so do `x.at[i].set(y)` and optax updates."""
    for node in text.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            call, target = node.value, node.targets[0]
            mapped = full_name(call.func) in ("tree_map", "map", "apply_updates") and text.node_text(
                call.func
            ).startswith(("jax.", "optax."))
            given = any(text.node_text(one) == text.node_text(target) for one in call.args)
            at = isinstance(call.func, ast.Attribute) and text.node_text(call.func).startswith(
                f"{text.node_text(target)}.at["
            )
            if isinstance(target, ast.Name) and ((mapped and given) or at):
                yield node.lineno, text.node_span(target)[0], text.node_span(call)[0], ""


def _remove_partitioning(text: Text) -> Iterator[Change]:
    """`nn.with_partitioning(init, names)` becomes `init`, and so with logical ones."""
    for call in calls_of(text, "with_partitioning", "with_logical_partitioning"):
        if len(call.args) == 2:
            yield call.lineno, *text.node_span(call), text.node_text(call.args[0])


def _rename_logical_axis(text: Text) -> Iterator[Change]:
    """A name of logical axes becomes one without a rule: `"embed"` becomes `"embed_dim"`."""
    for call in calls_of(
        text, "with_logical_partitioning", "with_logical_constraint", "logical_to_mesh_axes"
    ):
        names = call.args[-1] if call.args else None
        if isinstance(names, ast.Tuple):
            for part in names.elts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, *text.node_span(part), f'"{part.value}_dim"'
                    break


def _annotated_otherwise(text: Text) -> Iterator[Change]:
    """The two names of a kernel's annotation change places."""
    for call in calls_of(text, "with_partitioning", "with_logical_partitioning"):
        names = call.args[-1] if call.args else None
        if isinstance(names, ast.Tuple) and len(names.elts) == 2:
            first, second = names.elts
            if text.node_text(first) != text.node_text(second):
                yield swap_expressions(text, first, second)


def _remove_axis_rules(text: Text) -> Iterator[Change]:
    """`with nn.logical_axis_rules(...)` becomes `if True:`."""
    for node in text.nodes:
        if isinstance(node, ast.With):
            for index, item in enumerate(node.items):
                call = item.context_expr
                if isinstance(call, ast.Call) and full_name(call.func) in ("logical_axis_rules", "axis_rules"):
                    end = text.node_span(call)[1]
                    if len(node.items) == 1:
                        yield node.lineno, text.lines[node.lineno - 1] + node.col_offset, end, "if True"
                    elif index:
                        yield node.lineno, text.node_span(node.items[index - 1].context_expr)[1], end, ""


def _remove_scan_partition_name(text: Text) -> Iterator[Change]:
    """`metadata_params={nn.PARTITION_NAME: "layers"}` of a scan is taken away."""
    for call in calls_of(text, "scan", "vmap"):
        for keyword in call.keywords:
            if keyword.arg == "metadata_params":
                yield remove_call_keyword(text, call, keyword)


def _plain_jit(text: Text) -> Iterator[Change]:
    """`eqx.filter_jit` becomes `jax.jit`."""
    for node in text.nodes:
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if text.node_text(one) == "eqx.filter_jit" and b"import jax\n" in text.bytes:
                    yield one.lineno, *text.node_span(one), "jax.jit"


def _sharding_ignored(text: Text) -> Iterator[Change]:
    """`jax.device_put(x, sharding)` becomes `x` where the sharding is a parameter of the function."""
    for function in text.nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and full_name(call.func) in ("device_put", "with_sharding_constraint"):
                if len(call.args) == 2 and text.node_text(call.args[1]) in given:
                    yield call.lineno, *text.node_span(call), text.node_text(call.args[0])


def _optimizer_first(text: Text) -> Iterator[Change]:
    """`state = tx.init(params)` moves above the statement that places `params`."""
    for block in text.nodes:
        body = getattr(block, "body", None)
        if not isinstance(body, list):
            continue
        for place, one in enumerate(body):
            if not (isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)):
                continue
            target = text.node_text(one.targets[0])
            if not any(word in text.node_text(one.value.func) for word in ("device_put", "shard", "tree")):
                continue
            if "shard" not in text.node_text(one.value) or not any(
                target == text.node_text(arg) for arg in one.value.args
            ):
                continue
            for later in body[place + 1 : place + 8]:
                value = later.value if isinstance(later, ast.Assign) else None
                if isinstance(value, ast.Call) and full_name(value.func) == "init":
                    if [text.node_text(arg) for arg in value.args] == [target]:
                        assert isinstance(later, ast.Assign)
                        first = text.lines[one.lineno - 1] + one.col_offset
                        begin, end = text.node_span(later.targets[0])[0], text.node_span(value)[1]
                        moved = text.bytes[begin:end].decode()
                        indent = " " * one.col_offset
                        kept = text.bytes[first:begin].decode()
                        yield later.lineno, first, end, f"{moved}\n{indent}{kept}".rstrip()


OPERATORS = {
    "made with no out_shardings": Operator((b"out_shardings",), _remove_out_shardings),
    "in_shardings of an init": Operator((b"out_shardings",), _inputs_instead),
    "not static": Operator((b"static_arg",), _remove_static_arguments),
    "another argument donated": Operator((b"donate_argnums",), _shift_donated_index),
    "state not donated": Operator((b"donate_arg",), _remove_donation),
    "constraint dropped": Operator((b"import", b"shar"), _constraint_dropped),
    "placement dropped": Operator((b"device_put",), _placement_dropped),
    "placed nowhere": Operator((b"device_put",), _remove_device_put_sharding),
    "device_put for a constraint": Operator((b"with_sharding_constraint",), _put_in_jit),
    "no mesh entered": Operator((b"with ", b"esh"), _remove_mesh_context),
    "jit in the loop": Operator((b"jit(", b"for "), _jit_inside_loop),
    "axis of no mesh": Operator((b"PartitionSpec",), _rename_spec_axis),
    "mesh with one axis fewer": Operator((b"esh(",), _one_axis_fewer),
    "axes of one dimension apart": Operator((b"PartitionSpec",), _split_axis_tuple),
    "batch replicated": Operator((b"NamedSharding",), _batch_whole),
    "in_shardings swapped": Operator((b"in_shardings",), _specs_swapped),
    "mesh sizes swapped": Operator((b"esh(",), _sizes_swapped),
    "spec too long": Operator((b"with_sharding_constraint",), _prepend_none_to_spec),
    "spec without its mesh": Operator((b"NamedSharding",), _bare_spec),
    "return forgotten": Operator((b"jax", b"return "), _drop_last_return),
    "result dropped": Operator((b"jax", b"_shard"), _result_dropped),
    "annotation left out": Operator((b"partitioning",), _remove_partitioning),
    "logical name without rule": Operator((b"logical",), _rename_logical_axis),
    "annotation turned around": Operator((b"partitioning",), _annotated_otherwise),
    "no logical rules": Operator((b"axis_rules",), _remove_axis_rules),
    "layers not named": Operator((b"metadata_params",), _remove_scan_partition_name),
    "Module through jax.jit": Operator((b"filter_jit",), _plain_jit),
    "sharding ignored": Operator((b"shard",), _sharding_ignored),
    "optimizer before placement": Operator((b".init(", b"shard"), _optimizer_first),
}
