"""One of the processes of level `processes`: makes its arguments and runs the function as any process of a
`jax.distributed` program does, and tells the coordinator what it holds.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardlint.verify import containment, messages
from shardlint.verify.fixture import EXPLICIT
from shardlint.verify.inside import (
    checks,
    compiled,
    devices,
    errors,
    exits,
    guard,
    invoke,
    load,
    opaque,
    placed_arguments,
    program_calls,
    programs,
    stacks,
    tree,
)
from shardlint.verify.inside.errors import exit_code, print_trace
from shardlint.verify.inside.failures import failure_from_exception

Say = Callable[[dict[str, Any]], None]
# The descriptor on which it tells.
SAY = 3


def main() -> None:
    """Be one process: what of which job comes as a line of JSON on standard input, and then the word to go on."""
    containment.die_with_parent()
    orders = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    about = messages.read_line(orders)
    job, say = about["job"], messages.message_sender(SAY, about["mark"])
    if job["memory"] is not None:
        devices.limit_process(job["memory"] // job["processes"], job["limit"], job["devices"])
    _, changed = guard.prepare_guard()

    def wait_for_word() -> None:
        # Without a word, because the coordinator is gone, it ends.
        if not os.read(orders, 1):
            exits.exit_now(1)

    work_as_process(job, about["index"], about["port"], Path(about["folder"]), say, wait_for_word, changed)
    errors.flush_output()
    # Not yet: jax takes the end of one process for a fault of the others.
    wait_for_word()
    exits.exit_now(0)


def work_as_process(
    job: dict[str, Any],
    index: int,
    port: int,
    folder: Path,
    say: Say,
    wait: Callable[[], None],
    changed: Callable[[], str],
) -> None:
    """Be process `index` of a job: tell its arguments and its program, `wait` to be told to go on, run,
    and tell its results. Whatever is raised is told too.
    """
    stage = "joining the other processes (jax.distributed.initialize)"

    def enter_state(new: str) -> None:
        nonlocal stage
        stage = new
        say({"stage": stage})

    with (folder / f"stack{index}").open("wb") as stack:
        stacks.dump_to(stack.fileno())
        try:
            enter_state(stage)
            _join_processes(job, index, port)
            enter_state("importing its file")
            fixture = load.fixture_named(Path(job["file"]), job["name"], job.get("digest"))
            function = load.resolve_reference(fixture.fn)
            mesh = devices.mesh_of(job["mesh"], fixture.axis_types == EXPLICIT)
            enter_state("making its arguments")
            entered, under = devices.enter_mesh_context(fixture.context, mesh)
            with entered:
                made = placed_arguments.make_arguments(fixture, mesh)
                args = spread_arguments(made, mesh)
            ready: dict[str, Any] = {
                "args": held_parts(args, [f"args[{index}]" for index in range(len(args))])
            }
            enter_state("compiling fn")
            ready["program"] = _digest_program(
                function, args, mesh, fixture.context, folder / f"program{index}"
            )
            say({"ready": ready, "line": load.place_of(function), "under": under})
            wait()
            enter_state("running fn")
            origins = program_calls.Origins()
            for name, leaf in named_arguments(args):
                origins.note_origin(leaf, name, name)
            program_calls.watch_calls(lambda call: say({"call": call}), origins)
            given = tree.snapshot_tree(args)
            output = invoke.call_function(function, args, mesh, fixture.context)
            enter_state("done with fn")
            leaves = tree.array_leaves(output, "out")
            checked = checks.check_placement(leaves, fixture.expected_specs(), mesh, None)
            checked += checks.check_deleted(given, fixture.donate)
            checked.failures += opaque.check_opaque(output)
            failures = [vars(failure) for failure in checked.failures]
            held = held_parts([output], ["out"])
            said = {"count": checked.count, "failures": failures, "out": held}
            said["notes"] = checked.looked.coverage_sentences()
            said["made"] = [origins.origin_of(leaf) for _, leaf in named_arguments([output])]
            say({"result": said, "changed": changed()})
        except placed_arguments.Indivisible as error:
            say({"skip": str(error)})
        except SystemExit as error:
            say({"raised": f"called sys.exit({exit_code(error)})", "stage": stage})
        except BaseException as error:
            if not load.blame_line(error):
                print_trace()
            say({"raised": failure_from_exception(error).message, "stage": stage})


def _join_processes(job: dict[str, Any], index: int, port: int) -> None:
    devices.simulate_devices(job["devices"])
    devices.compile_quickly()
    # The default since jax 0.5; what releases before it do by default cannot talk to other processes.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(
        address,
        num_processes=job["processes"],
        process_id=index,
        coordinator_bind_address=address,
        initialization_timeout=60,
    )


def spread_arguments(host_arguments: Sequence[placed_arguments.HostArgument], mesh: Any) -> list[Any]:
    """The arguments as global arrays, each process giving the parts its devices hold from what it made
    itself: that those agree is what the level is to find out. Arrays that are global already are moved to
    their spec.
    """
    placed = []
    for one in host_arguments:
        leaves, treedef = jax.tree_util.tree_flatten(one.tree)
        paths = [path for path, _, _ in tree.flatten_tree(one.tree)]
        put = [
            _make_global_leaf(leaf, one.specs[path], one, mesh) if path in one.specs else leaf
            for path, leaf in zip(paths, leaves, strict=True)
        ]
        placed.append(jax.tree_util.tree_unflatten(treedef, put))
    return placed


def _make_global_leaf(leaf: Any, spec: Any, host_argument: placed_arguments.HostArgument, mesh: Any) -> Any:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        # Not device_put, which moves no keys.
        return (
            leaf
            if spec is None
            else jax.jit(lambda x: x, out_shardings=placed_arguments.named_sharding(mesh, spec))(leaf)
        )
    if spec is None:  # over the devices of this process alone
        return leaf
    host = tree.to_host(tree.materialise_leaf(leaf, host_argument.below, host_argument.seed))
    if isinstance(host, tree.HostKey):
        wrap = functools.partial(jax.random.wrap_key_data, impl=host.impl)
        sharding = placed_arguments.named_sharding(mesh, spec)
        return jax.jit(wrap, out_shardings=sharding)(_make_global_array(host.data, sharding))
    # As device_put does: without x64 there are no 64-bit arrays.
    return _make_global_array(
        np.asarray(host, jax.dtypes.canonicalize_dtype(host.dtype)), placed_arguments.named_sharding(mesh, spec)
    )


def _make_global_array(host: Any, sharding: Any) -> Any:
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def named_arguments(args: Sequence[Any]) -> list[tuple[str, Any]]:
    """The arrays of some arguments, as a person writes them."""
    return [
        (f"args[{index}]{where}", leaf)
        for index, value in enumerate(args)
        for _, where, leaf in tree.flatten_tree(value)
        if isinstance(leaf, jax.Array)
    ]


def held_parts(trees: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Each global jax array of some trees, and a digest of each part of it that this process holds."""
    found = []
    for value, name in zip(trees, names, strict=True):
        for path, where, leaf in tree.flatten_tree(value):
            if not isinstance(leaf, jax.Array) or leaf.is_deleted() or len(leaf.sharding.device_set) == 1:
                continue
            one = tree.Leaf(path, name + where, tuple(leaf.shape), leaf.dtype, leaf.sharding)
            data = jax.jit(jax.random.key_data)(leaf) if tree.is_key(leaf.dtype) else leaf
            parts = [
                (
                    _format_part(shard.index, data.shape),
                    shard.device.id,
                    program_calls.digest_array(shard.data),
                )
                for shard in data.addressable_shards
            ]
            spec = checks.sharding_text(leaf.sharding)
            found.append({"where": one.where, "path": path, "array": one.describe_array, "spec": spec, "parts": parts})
    return found


def _format_part(index: Any, shape: tuple[int, ...]) -> str:
    """A part of an array as one writes it: `[0:2, 0:4]`."""
    ends = (one.indices(size)[:2] for one, size in zip(index, shape, strict=True))
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in ends) + "]"


def _digest_program(function: Any, args: Sequence[Any], mesh: Any, kind: str, file: Path) -> str:
    """The digest of what `function` is lowered to, whose text goes to `file`; "" for a plain function,
    which consists of any number of programs.
    """
    if not compiled.can_lower(function):
        return ""
    entered, _ = devices.enter_mesh_context(kind, mesh)
    with entered:
        lowered = function.lower(*args, **invoke.keyword_arguments(function, args, mesh))
    return programs.write_program(getattr(lowered, "lowered", lowered), file)
