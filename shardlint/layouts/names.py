"""Names and targets of assignments."""

from __future__ import annotations

import ast

from shardlint.layouts.attributes import find_hook
from shardlint.layouts.builtin_functions import builtin_value
from shardlint.layouts.iteration import join_items, known_items
from shardlint.layouts.pieces import UnknownShape
from shardlint.layouts.run_state import RunState
from shardlint.layouts.values import (
    MISSING,
    AnyTree,
    ClassValue,
    DictValue,
    Frame,
    Instance,
    Lazy,
    ListValue,
    Plain,
    State,
    Unknown,
    Value,
    join_values,
)
from shardlint.model.values import Place
from shardlint.source.searches import WORD


class Names(RunState):
    """A run that reads and binds names."""

    def lookup_name(self, name: str) -> Value:
        """Return the value of a name at this place."""
        frame: Frame | None = self.frame
        start = frame
        while frame is not None:
            if name in frame.names and not (frame.is_class and frame is not start):
                if self._rebound and (id(frame), name) in self._rebound:
                    return self._rebound[id(frame), name]
                found = frame.names[name]
                return found.load_value() if isinstance(found, Lazy) else found
            frame = frame.outer
        self.frame.file.looked.note_access(WORD, name)  # the module may come to bind it
        return builtin_value(name)

    def bind_name(self, name: str, value: Value) -> None:
        """Bind a name in this frame, or where `global` and `nonlocal` say."""
        frame = self.frame
        if name in frame.globals_:
            frame = frame.module_frame
        elif name in frame.nonlocals:
            outer = frame.outer
            while outer is not None and name not in outer.names:
                outer = outer.outer
            frame = outer or frame
        if frame is not self.frame and self.region is not None and name in frame.names:
            value = join_values(frame.names[name], value)
        if frame.file is self.file or frame.outer is not None:
            frame.names[name] = value
        else:  # a global of another module, which other files see as its import left it
            self._rebound[id(frame), name] = value

    def assign_target(self, target: ast.expr, value: Value) -> None:
        """Assign to a target."""
        match target:
            case ast.Name(id=name):
                self.bind_name(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack_value(targets, value)
            case ast.Starred(value=inner):
                self.assign_target(inner, value)
            case ast.Attribute(value=owner, attr=name):
                holder = self.evaluate_expression(owner)
                if isinstance(holder, Instance):
                    hook = find_hook(self, holder, "__setattr__")
                    if hook is not None:
                        self.call_value(hook, (holder, name, value), {}, Place(self.frame.file, target))
                    self.write_attribute(holder, name, value)
                elif isinstance(holder, State):
                    self._set_entry(holder, name, value)
                elif isinstance(holder, ClassValue) and holder.frame.file is self.file:
                    holder.names[name] = value
            case ast.Subscript(value=owner, slice=index):
                holder, key = self.evaluate_expression(owner), self.evaluate_expression(index)
                if isinstance(holder, ListValue):
                    holder = self.changeable_copy(holder)
                if isinstance(holder, DictValue):
                    self._set_entry(holder, key, value)
                elif isinstance(holder, ListValue):
                    if isinstance(key, int) and -len(holder.items) <= key < len(holder.items):
                        holder.items[key] = self._value_after_write(holder, holder.items[key], value)
                    else:
                        holder.items = [Unknown("an entry was replaced")] * min(len(holder.items), 1)
                        holder.open = True
                elif isinstance(holder, Instance):
                    hook = find_hook(self, holder, "__setitem__")
                    if hook is not None:
                        self.call_value(hook, (holder, key, value), {}, Place(self.frame.file, target))

    def _set_entry(self, holder: DictValue, key: Value, value: Value) -> None:
        """Write an entry of a dict."""
        holder = self.changeable_copy(holder)
        if isinstance(key, str | int | bool | float | tuple | Plain | None) and _is_hashable(key):
            holder.entries[key] = self._value_after_write(holder, holder.entries.get(key, MISSING), value)
            holder.open = holder.open or holder.region is not self.region
        else:
            holder.open = True
            holder.entries.clear()

    def _unpack_value(self, targets: list[ast.expr], value: Value) -> None:
        items = self.known_items(value)
        if isinstance(value, UnknownShape):
            items = [value.size_at(place) for place in range(len(targets))]
        starred = next((place for place, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
        if items is None or (starred is None and len(items) != len(targets)) or len(items) < len(targets) - 1:
            each = value if isinstance(value, AnyTree) else join_items(self, value)
            for target in targets:
                self.assign_target(target, ListValue([], True) if isinstance(target, ast.Starred) else each)
            return
        if starred is not None:
            after = len(targets) - starred - 1
            middle = ListValue(list(items[starred : len(items) - after]), region=self.region)
            items = [*items[:starred], middle, *(items[len(items) - after :] if after else [])]
        for target, item in zip(targets, items, strict=True):
            self.assign_target(target, item)

    def known_items(self, value: Value) -> list[Value] | None:
        """The items of something that is iterated over; None where they are not all known."""
        return known_items(self, value)


def _is_hashable(key: Value) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
