"""Types that say where a jit inside of a traced program puts its outputs.

The type of what a jit with `out_shardings` returns is that of the body it traced: jax places the array when the program
runs, and leaves it out of the type. So a trace would take for replicated what is not. Within another jit that is so
in truth, for there the types decide.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax


@contextlib.contextmanager
def out_shardings_count() -> Iterator[Callable[[], None]]:
    """While a program is traced, have what its jits return typed by their `out_shardings`, those that no other jit
    calls. Gives what the traced function is to call first.
    """
    from jax.extend.core import get_opaque_trace_state  # which releases without explicit axes lack

    primitive = jax.make_jaxpr(jax.jit(lambda x: x))(1.0).jaxpr.eqns[0].primitive
    bind = primitive.bind
    outermost: list[Any] = []

    def begin_counting() -> None:
        outermost[:] = [get_opaque_trace_state(convention="nnx")]

    def bind_and_count(*args: Any, **params: Any) -> Any:
        outs = bind(*args, **params)
        asked = params.get("out_shardings", ())
        if [get_opaque_trace_state(convention="nnx")] != outermost or len(outs) != len(asked):
            return outs
        return type(outs)(_place_output(out, sharding) for out, sharding in zip(outs, asked, strict=True))

    jax.clear_caches()  # an inner jit that was traced before is not traced again, and keeps the types it had
    try:
        primitive.bind = bind_and_count
        yield begin_counting
    finally:
        del primitive.bind
        jax.clear_caches()


def _place_output(out: Any, sharding: Any) -> Any:
    if not isinstance(sharding, jax.sharding.NamedSharding) or not isinstance(out, jax.core.Tracer):
        return out
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or dict(mesh.shape) != dict(sharding.mesh.shape) or jax.typeof(out).sharding.mesh.empty:
        return out
    return jax.sharding.reshard(out, sharding.spec)
