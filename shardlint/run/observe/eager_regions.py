"""A `shard_map` called outside of jit, which jax runs an operation at a time: the operations, taken down as they run.

What is taken down has the shape of a traced program, so that it is judged as one (`region`). Each line of the user's
that calls one is taken down once; nothing that the program computes is kept alive by it.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from types import SimpleNamespace
from typing import Any

from . import mapped_functions, region
from .event_sink import silence_errors, write_event
from .frames import user_stack

_SPECS = ("mats", "vmas", "reps")
_current: list[_Record] = []
_done: list[_Record] = []
_seen: set[Any] = set()


class _Record:
    """The operations of one call, and the variable that stands for each value."""

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines
        self.eqns: list[Any] = []
        self.invars: list[Any] = []
        self.taken: list[frozenset[str]] = []
        self.outvars: list[Any] = []
        self.sizes: dict[str, int] = {}
        self.checked = False
        self._known: dict[int, Any] = {}

    def variable_for(self, value: Any, aval: Any = None) -> Any:
        """The variable of a value, a new one where it is met for the first time."""
        array = getattr(value, "val", value)
        if not hasattr(array, "sharding"):
            return SimpleNamespace(val=array, aval=array)
        known = self._known.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        return self.new_variable(array, aval if aval is not None else getattr(value, "aval", array))

    def new_variable(self, array: Any, aval: Any) -> Any:
        """A new variable for a value."""
        made = _Variable(aval)
        self._known[id(array)] = (weakref.ref(array), made)
        return made


class _Variable:
    def __init__(self, aval: Any) -> None:
        self.aval = SimpleNamespace(
            shape=tuple(getattr(aval, "shape", ())), dtype=getattr(aval, "dtype", None)
        )


def install(jax: Any) -> None:
    """Watch how jax runs such a call: its beginning and end, each operation, and the specs of its results."""
    try:
        from jax._src import shard_map as module

        module._run_shmap  # noqa: B018
    except (ImportError, AttributeError):
        from jax.experimental import shard_map as module
    run, names = module._run_shmap, module._check_names
    process = module.ShardMapTrace.process_primitive
    signature = inspect.signature(run)

    @functools.wraps(run)
    def run_shmap(*args: Any, **kwargs: Any) -> Any:
        record = None if _current else _begin_record(signature, args, kwargs)
        if record is None:
            return run(*args, **kwargs)
        _current.append(record)
        try:
            outs = run(*args, **kwargs)
        finally:
            _current.clear()
        _end_record(jax, record, outs)
        return outs

    @functools.wraps(process)
    def process_primitive(self: Any, prim: Any, tracers: Any, params: Any, /) -> Any:
        outs = process(self, prim, tracers, params)
        if _current:
            _record_operation(_current[-1], prim, tracers, params, outs)
        return outs

    @functools.wraps(names)
    def check_names(specs: Any, *args: Any, **kwargs: Any) -> Any:
        if _done:
            _judge_record(_done.pop(), specs)
        return names(specs, *args, **kwargs)

    module._run_shmap, module._check_names = run_shmap, check_names
    module.ShardMapTrace.process_primitive = process_primitive


@silence_errors
def _begin_record(signature: Any, args: Any, kwargs: Any) -> _Record | None:
    given = signature.bind(*args, **kwargs).arguments
    lines = user_stack()
    if not lines or tuple(lines[0]) in _seen:
        return None
    _seen.add(tuple(lines[0]))
    record = _Record(lines)
    record.sizes = {str(name): int(size) for name, size in dict(given["mesh"].shape).items() if size > 1}
    record.checked = bool(given.get("check_vma", given.get("check_rep", False)))
    for key in _SPECS:
        if key in given:
            for value, one in zip(given["args"], given[key], strict=False):
                record.invars.append(
                    record.variable_for(value, SimpleNamespace(shape=value.shape[1:], dtype=value.dtype))
                )
                axes = frozenset(map(str, getattr(one, "varying", one or ())))
                record.taken.append(frozenset(record.sizes) - axes if key == "reps" else axes)
    return record


@silence_errors
def _record_operation(record: _Record, prim: Any, tracers: Any, params: Any, outs: Any) -> None:
    results = list(outs) if prim.multiple_results else [outs]
    frames = [
        SimpleNamespace(file_name=file, line_num=line, function_name=name) for file, line, name in user_stack()
    ]
    info = SimpleNamespace(traceback=SimpleNamespace(frames=frames), name_stack="")
    invars = [record.variable_for(one) for one in tracers]
    outvars = [record.new_variable(one.val, one.aval) for one in results]
    record.eqns.append(
        SimpleNamespace(primitive=prim, invars=invars, outvars=outvars, params=params, source_info=info)
    )


@silence_errors
def _end_record(jax: Any, record: _Record, outs: Any) -> None:
    first = outs[0] if isinstance(outs, tuple) else outs
    values = list(getattr(first, "vals", first) or ())
    values = [value for value in values if hasattr(value, "sharding")]
    record.outvars = [record.variable_for(value, SimpleNamespace(shape=value.shape[1:])) for value in values]
    _done[:] = [record]


@silence_errors
def _judge_record(record: _Record, specs: Any) -> None:
    import jax

    specs = list(getattr(specs, "vals", specs) or ())
    kinds = (jax.sharding.PartitionSpec, dict)
    specs = [one for one in specs if one is None or isinstance(one, kinds)]
    if len(specs) != len(record.outvars):
        return
    given = [region.flatten_axes(one.values() if isinstance(one, dict) else one or ()) for one in specs]
    body = SimpleNamespace(eqns=record.eqns, invars=record.invars, outvars=record.outvars, constvars=())
    seen = region.judge_body(body, record.taken, given, record.sizes, record.checked, [record.lines[0]])
    place = next(
        (eqn.source_info.traceback.frames[0] for eqn in record.eqns if eqn.source_info.traceback.frames), None
    )
    name = place.function_name.rpartition(".")[2] if place is not None else ""
    made = mapped_functions.line_of_mapped_function(name, place.file_name) if place is not None else None
    write_event(
        "region", seen=seen.seen, function=name, defined=None, made=made,
        called=record.lines[:4], collectives=seen.collectives, axes=record.sizes, pmap=False, checked=record.checked,
    )  # fmt: skip
