"""Where a function ends up being called.

A function value is followed forward from its definition: through decorators, transforms, assignments, attributes and
arguments, to the calls that run it. Both "why is this traced" and "under which mesh" are read off these ends.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from shardlint.model import api
from shardlint.model.evaluator.evaluate import Evaluator
from shardlint.model.function_uses import RULE, FunctionUse, FunctionUses, Wrapper
from shardlint.model.needs import Memo
from shardlint.model.passed_functions import (
    is_function_argument,
    receiving_parameters,
    storing_attribute,
    transform_of,
)
from shardlint.model.project import Project
from shardlint.model.values import (
    Api,
    CallResult,
    ClassValue,
    Constant,
    Function,
    ModuleValue,
    Parameter,
    Place,
    Transformed,
    Unknown,
    Value,
    options,
)
from shardlint.syntax import FileFacts, last_name
from shardlint.syntax.bindings import lookup_bindings, may_refer
from shardlint.syntax.nodes import walk_nodes

_DEPTH = 12
_MODULES = ("flax.linen.Module", "flax.nnx.Module", "equinox.Module")
# What these make is no object of the project's: `self.tx.update` is optax's.
_OF_OTHERS = ("optax.", "numpy.", "argparse.")
# Methods that give a function a rule of its own (`f.defvjp(forward, backward)`), which runs wherever the function does.
_RULES = ("defvjp", "defjvp", "defjvps", "def_fwd", "def_bwd", "def_jvp", "def_vmap")
# These look at a function that they are given, and do not call it.
_LOOKING = frozenset(
    """
functools.wraps functools.update_wrapper inspect.signature builtins.callable builtins.isinstance builtins.id
builtins.print builtins.repr builtins.hash builtins.len
""".split()
)
# Methods of a dict or list that give an entry, that give all of them, and that call none of them.
_GIVE_ONE, _GIVE_ALL = ("get", "pop", "setdefault"), ("values", "items", "copy")
_GIVE_NONE = ("keys", "append", "extend", "insert", "update", "clear", "index", "count", "remove")
# What goes over the entries of a list that it is given.
_GOING_OVER = ("enumerate", "zip", "reversed", "list", "tuple", "iter")
# Methods of linen's that run a module's `__call__`.
_RUNS_A_MODULE = ("apply", "init", "init_with_output")


class Flow:
    """Follows functions of a project to their calls. Answers are remembered."""

    def __init__(self, project: Project, evaluator: Evaluator) -> None:
        self.project = project
        self.evaluator = evaluator
        self._ends: Memo[ast.AST, FunctionUses] = Memo(project.needs)
        self._seen: Memo[ast.AST, FunctionUses] = Memo(project.needs)

    def ends(self, file: FileFacts, node: ast.AST) -> FunctionUses:
        """Where the function or lambda defined by `node` is called."""
        if isinstance(node, ast.Lambda):
            return self._find_ends(node, lambda ends: self._follow_expression(Place(file, node), (), ends, 0))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._find_ends(node, lambda ends: self._follow_definition(file, node, ends))
        return FunctionUses()

    def _find_ends(self, node: ast.AST, follow: Callable[[FunctionUses], None], every: bool = False) -> FunctionUses:
        """The ends of a node, followed once. Asked for on its own way, those found so far."""
        known = self._seen if every else self._ends
        if node in known:
            return known[node]
        ends = FunctionUses(every=every)
        known.begin_answer(node, ends)

        def find_all_ends() -> FunctionUses:
            follow(ends)
            return ends

        return known.make_answer(node, find_all_ends)

    def find_class_calls(self, file: FileFacts, node: ast.ClassDef) -> FunctionUses:
        """Where a class is called, that is, its instances are made."""
        return self._find_ends(node, lambda ends: self._follow_class(file, node, ends))

    def in_sight(self, file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> FunctionUses:
        """The calls of a function or class that can be seen, also where there may be others."""
        if isinstance(node, ast.ClassDef):
            return self._find_ends(node, lambda ends: self._follow_class(file, node, ends), every=True)
        return self._find_ends(node, lambda ends: self._follow_definition(file, node, ends), every=True)

    def _follow_class(self, file: FileFacts, node: ast.ClassDef, uses: FunctionUses) -> None:
        for decorator in node.decorator_list:
            uses.add_end(FunctionUse("escaped", Place(file, decorator), (), "a class decorator may call it"))
        self._follow_name(file, node, node.name, (), uses, 0)

    def calls(self, place: Place, every: bool = False) -> FunctionUses:
        """Where what an expression makes (`jax.jit(f)`) is called. `every`: there may be others."""
        return self._find_ends(place.node, lambda ends: self._follow_expression(place, (), ends, 0), every)

    def _follow_definition(
        self, file: FileFacts, node: ast.FunctionDef | ast.AsyncFunctionDef, uses: FunctionUses
    ) -> None:
        self._follow_decorators(file, node, node.decorator_list, (), uses, 0)

    def _follow_decorators(
        self,
        file: FileFacts,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        decorators: list[ast.expr],
        wrappers: tuple[Wrapper, ...],
        uses: FunctionUses,
        depth: int,
    ) -> None:
        """A function through some of its decorators, the last of them first, and then its name."""
        for index, decorator in reversed(list(enumerate(decorators))):
            place = Place(file, decorator)
            wrapper = self._wrapper_of_decorator(place)
            ruled = self._function_with_rule(place)
            if wrapper is not None:
                wrappers += (wrapper,)
                if wrapper.effect == "staged":
                    uses.add_end(FunctionUse("wrapped", place, wrappers))
            elif ruled is not None:  # it returns the function
                self._follow_rule(place, ruled, wrappers, uses)
            elif isinstance(value := self.evaluator.value(place), Function) and value.positional_parameters:
                # The name is what the decorator returns; the function itself is known to the decorator alone.
                for through in self._follow_into_decorator(place, value, wrappers, uses):
                    self._follow_decorators(file, node, decorators[:index], through, uses, depth + 1)
                return
            else:
                uses.add_end(
                    FunctionUse("escaped", place, wrappers, f"the decorator {place.source_text()} may call it")
                )
        scope = file.evaluation_scope(node)
        if scope.kind == "class":
            self._follow_method(file, node, ClassValue(Place(file, scope.node)), wrappers, uses)
        else:
            self._follow_name(file, node, node.name, wrappers, uses, depth)

    def _follow_into_decorator(
        self, decorator: Place, value: Function, wrappers: tuple[Wrapper, ...], uses: FunctionUses
    ) -> list[tuple[Wrapper, ...]]:
        """Follow a function into a decorator of the project; the wrappers through which it is behind its name.

        That it is where what the decorator returns calls it.
        """
        file, args = value.place.file, value.node.args
        parameter = [*args.posonlyargs, *args.args][int(value.bound)]
        # Once for a decorator: what it returns comes to all that it decorates, and from there to it again.
        name = parameter.arg
        inside = self._find_ends(
            parameter, lambda found: self._follow_name(file, parameter, name, (), found, 1), uses.every
        )
        uses.cut = uses.cut or inside.cut
        results = options(self.evaluator.calls.evaluate_decoration(value, Unknown("the decorated function"), decorator))
        behind: list[tuple[Wrapper, ...]] = []
        for end in inside.found:
            home = end.place.file.evaluation_scope(end.place.node).enclosing_function()
            if end.kind != "called" or end.is_staged or home is None or home.node is value.node:
                uses.add_end(FunctionUse(end.kind, end.place, (*wrappers, *end.wrappers), end.why))
                continue
            layers = [_decorator_wrappers(one, home.node, decorator) for one in results]
            known = [(*wrappers, *end.wrappers, *layer) for layer in layers if layer is not None]
            staged = [any(one.effect == "staged" for one in through) for through in known]
            if len(known) < len(layers) or (len(known) > 1 and not all(staged)):
                uses.add_end(
                    FunctionUse(
                        "escaped", decorator, wrappers, f"the decorator {decorator.source_text()} may call it"
                    )
                )
            elif all(staged):
                for through in known:
                    uses.add_end(FunctionUse("wrapped", through[-1].place, through))
            else:
                behind += known
        return list(dict.fromkeys(behind))

    def _function_with_rule(self, method: Place) -> Transformed | None:
        """The function that a method (`f.defvjp`) gives a rule of its own."""
        node = method.node
        if not isinstance(node, ast.Attribute) or node.attr not in _RULES:
            return None
        found = self.evaluator.value(Place(method.file, node.value))
        return found if isinstance(found, Transformed) and isinstance(found.inner, Function) else None

    def _follow_rule(
        self, method: Place, ruled: Transformed, wrappers: tuple[Wrapper, ...], uses: FunctionUses
    ) -> None:
        """A rule of a function runs where the function does."""
        inner = ruled.inner
        assert isinstance(inner, Function) and isinstance(method.node, ast.Attribute)
        rule = Wrapper("transparent", method.file.source_text(method.node.value), method, RULE)
        made = self.calls(inner.place, uses.every) if isinstance(inner.node, ast.Lambda) else (
            self.in_sight if uses.every else self.ends
        )(inner.place.file, inner.node)  # fmt: skip
        uses.cut = uses.cut or made.cut
        for end in made.found:
            if any(one.api == ruled.api.name for one in end.wrappers):
                uses.add_end(FunctionUse(end.kind, end.place, (*wrappers, rule, *end.wrappers), end.why))

    def _wrapper_of_decorator(self, place: Place) -> Wrapper | None:
        made = self.evaluator.apply_decorator(place, Unknown("the decorated function"))
        name = made.api.name if isinstance(made, Transformed) else ""
        transform = api.TRANSFORMS.get(name)
        if transform is None:
            return None
        return Wrapper(transform.effect, transform_as_written(place), place, "decorated with", name)

    # following a name

    def _follow_name(
        self,
        file: FileFacts,
        binder: ast.AST,
        name: str,
        wrappers: tuple[Wrapper, ...],
        uses: FunctionUses,
        depth: int,
    ) -> None:
        """Uses of a name bound by `binder`, in its own file and, for a module's name, in its importers."""
        scope = file.evaluation_scope(binder)
        self._follow_reads(file, binder, name, wrappers, uses, depth)
        if scope.kind == "module":
            self._follow_importers(file, name, wrappers, uses, depth)
        elif scope.kind == "class":
            uses.add_end(FunctionUse("escaped", Place(file, binder), wrappers, "a class attribute"))

    def _follow_reads(
        self,
        file: FileFacts,
        binder: ast.AST,
        name: str,
        wrappers: tuple[Wrapper, ...],
        uses: FunctionUses,
        depth: int,
    ) -> None:
        home = file.evaluation_scope(binder)
        local = home.kind in ("function", "lambda") and name not in home.outer_names
        for node in file.mentions_in(home, name) if local else file.find_mentions(name):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and self._name_refers_here(file, node, name, binder, uses)
            ):
                self._follow_expression(Place(file, node), wrappers, uses, depth + 1)

    def _name_refers_here(
        self, file: FileFacts, use: ast.Name, name: str, binder: ast.AST, uses: FunctionUses
    ) -> bool:
        if not may_refer(file, use, name, binder):
            return False
        bindings, _ = lookup_bindings(file, use, name)
        if any(binding.kind == "more" for binding in bindings):
            uses.cut = True
        return any(binding.node is binder for binding in bindings)

    def _follow_importers(
        self, file: FileFacts, name: str, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        if uses.is_following_useless(wrappers):
            return  # it may have callers we cannot see, so reading more files would prove nothing
        if depth > _DEPTH:
            uses.note_cut_path()
            return
        for other in self.project.files_importing(file.path, name):
            if other is None:
                uses.cut = True
            if other is None or uses.is_following_useless(wrappers):
                return
            starred = self._imports_all(other, file)
            if starred and other.path.name == "__init__.py":
                uses.add_end(FunctionUse("escaped", Place(other, other.tree), wrappers, "exported by its package"))
            passed_on = starred and not other.bindings(other.module, name)
            if passed_on and uses.is_first_visit((other.path, name, tuple(one.effect for one in wrappers))):
                self._follow_importers(other, name, wrappers, uses, depth + 1)
            for node in other.find_mentions(name):
                if isinstance(node, ast.Name) and starred and lookup_bindings(other, node, name)[1] is None:
                    self._follow_expression(Place(other, node), wrappers, uses, depth + 1)
                elif isinstance(node, ast.alias):
                    if self._imports_name_of(other, node, file, name):
                        if other.path.name == "__init__.py":
                            uses.add_end(
                                FunctionUse("escaped", Place(other, node), wrappers, "exported by its package")
                            )
                        self._follow_name(other, node, node.asname or node.name, wrappers, uses, depth + 1)
                elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    base = self.evaluator.value(Place(other, node.value))
                    if isinstance(base, ModuleValue) and base.file.path == file.path:
                        self._follow_expression(Place(other, node), wrappers, uses, depth + 1)

    def _imports_all(self, other: FileFacts, file: FileFacts) -> bool:
        """Return whether a file has a `from file import *`."""
        for binding in other.bindings(other.module, "*"):
            statement = other.parent(binding.node)
            if isinstance(statement, ast.ImportFrom):
                module = self.evaluator.imported_module(other, statement)
                if isinstance(module, ModuleValue) and module.file.path == file.path:
                    return True
        return False

    def _imports_name_of(self, other: FileFacts, alias: ast.alias, file: FileFacts, name: str) -> bool:
        statement = other.parent(alias)
        if not isinstance(statement, ast.ImportFrom) or alias.name != name:
            return False
        module = self.evaluator.imported_module(other, statement)
        return isinstance(module, ModuleValue) and module.file.path == file.path

    # following a method

    def _follow_method(
        self,
        file: FileFacts,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        cls: ClassValue,
        wrappers: tuple[Wrapper, ...],
        uses: FunctionUses,
    ) -> None:
        if node.name == "__call__" and self._is_module(cls):
            self._follow_instances(cls, wrappers, uses)
            return
        if node.name.startswith("__") and node.name.endswith("__"):
            if node.name == "__call__":
                self._follow_instances(cls, wrappers, uses)
            uses.add_end(FunctionUse("escaped", Place(file, node), wrappers, f"Python calls {node.name} itself"))
            return
        self._follow_reads(
            file, node, node.name, wrappers, uses, 0
        )  # `step = jax.jit(_step)` in the class body
        self._follow_attribute(file, node.name, cls, wrappers, uses, 0)

    def _is_module(self, cls: ClassValue) -> bool:
        """Return whether a class is a Module of a library, whose instances are made and called visibly."""
        return any(isinstance(base, Api) and base.name in _MODULES for base in self.evaluator.list_bases(cls))

    def _follow_instances(self, cls: ClassValue, wrappers: tuple[Wrapper, ...], uses: FunctionUses) -> None:
        """Calls of the instances of a Module: of what its own calls make."""
        made = (self.in_sight if uses.every else self.find_class_calls)(cls.place.file, cls.node)
        if made.cut or not made.found:
            uses.cut = True
        for end in made.found:
            if end.kind == "called" and not end.wrappers:
                self._follow_expression(end.place, wrappers, uses, 1)
            else:
                uses.add_end(FunctionUse("escaped", end.place, wrappers, "made somewhere out of sight"))

    def _follow_attribute(
        self,
        file: FileFacts,
        name: str,
        cls: ClassValue,
        wrappers: tuple[Wrapper, ...],
        uses: FunctionUses,
        depth: int,
    ) -> None:
        """Uses of an attribute of the instances of a class; a receiver of unknown type may be one of them."""
        if depth > _DEPTH:
            uses.note_cut_path()
            return
        for other in self.project.files_with_attribute(file, name):
            if other is None:
                uses.cut = True
            if other is None or uses.is_following_useless(wrappers):
                return
            for node in other.find_mentions(name):
                if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                    continue
                related = self._is_instance_receiver(other, node, cls, uses.every)
                if related is True:
                    self._follow_expression(Place(other, node), wrappers, uses, depth + 1)
                elif related is None:
                    uses.add_end(
                        FunctionUse("escaped", Place(other, node), wrappers, f"{other.source_text(node)} may be it")
                    )

    def _is_instance_receiver(
        self, file: FileFacts, node: ast.Attribute, cls: ClassValue, every: bool
    ) -> bool | None:
        """Return whether the receiver is an instance (or the class itself); None when that is not known."""
        answer: bool | None = False
        receivers = options(self.evaluator.value(Place(file, node.value)))
        if every:
            receivers = tuple(given for option in receivers for given in self._visible_values(option))
        for option in receivers:
            found: ClassValue | None = None
            if isinstance(option, CallResult) and isinstance(option.by, ClassValue):
                found = option.by
            elif isinstance(option, ClassValue):
                found = option
            if found is not None:
                if cls in self.evaluator.project_ancestors(found) or found in self.evaluator.project_ancestors(cls):
                    return True
            elif isinstance(option, CallResult) and option.api.startswith(_OF_OTHERS):
                continue
            elif not isinstance(option, Api | ModuleValue | Function | Transformed):
                answer = None
        return answer

    def _visible_values(self, value: Value) -> tuple[Value, ...]:
        """Return the values of a parameter in the visible calls, and any other value as it is."""
        if not isinstance(value, Parameter):
            return (value,)
        from shardlint.model.evaluator.callers import Callers  # it follows parameters by this flow

        given = Callers(self.evaluator, self).visible_argument_values(value)
        return tuple(one for way in given for one in options(way)) or (value,)

    # following an expression that is the function

    def _follow_expression(self, place: Place, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int) -> None:
        if depth > _DEPTH:
            uses.note_cut_path()
            return
        file, node = place.file, place.node
        parent = file.parent(node)
        if wrappers and wrappers[-1].effect == "held" and self._follow_extracted(place, wrappers, uses, depth):
            return
        if _is_in_annotation(file, node):
            return
        match parent:
            case ast.Call() if parent.func is node:
                uses.add_end(FunctionUse("called", Place(file, parent), wrappers))
            case ast.Call():
                self._follow_argument(place, parent, wrappers, uses, depth)
            case ast.keyword():
                call = file.parent(parent)
                if isinstance(call, ast.Call):
                    self._follow_argument(place, call, wrappers, uses, depth)
                else:
                    uses.add_end(FunctionUse("escaped", place, wrappers, "a class keyword"))
            case ast.List() | ast.Tuple() if isinstance(file.parent(parent), ast.Call | ast.keyword):
                self._follow_expression(
                    Place(file, parent), wrappers, uses, depth + 1
                )  # lax.switch(i, [f, g])
            case ast.List(elts=held) | ast.Tuple(elts=held) | ast.Dict(values=held) if node in held:
                key = parent.keys[held.index(node)] if isinstance(parent, ast.Dict) else None
                inside, before = Wrapper("held", file.source_text(node), Place(file, key or node)), len(uses.found)
                self._follow_expression(Place(file, parent), (*wrappers, inside), uses, depth + 1)
                if len(uses.found) == before:  # nothing in sight takes it out
                    uses.add_end(FunctionUse("escaped", place, wrappers, f"stored by {type(parent).__name__.lower()}"))
            case ast.Assign():
                for target in parent.targets:
                    self._follow_assigned(file, target, wrappers, uses, depth)
            case ast.AnnAssign():
                self._follow_assigned(file, parent.target, wrappers, uses, depth)
            case ast.NamedExpr():
                self._follow_assigned(file, parent.target, wrappers, uses, depth)
                self._follow_expression(Place(file, parent), wrappers, uses, depth + 1)
            case ast.IfExp():
                self._follow_expression(Place(file, parent), wrappers, uses, depth + 1)
            case ast.Attribute():
                self._follow_through_attribute(place, parent, wrappers, uses, depth)
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                decorated = Place(file, parent) if node in getattr(parent, "decorator_list", ()) else None
                uses.add_end(FunctionUse("escaped", place, wrappers, "used as a decorator", decorated))
            case ast.Expr() | ast.Compare() | ast.Assert() | ast.Delete():
                pass  # it is looked at, not called
            case ast.Return():
                self._follow_returned(place, wrappers, uses, depth)
            case _:
                uses.add_end(FunctionUse("escaped", place, wrappers, f"stored by {type(parent).__name__.lower()}"))

    def _follow_extracted(self, place: Place, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int) -> bool:
        """Follow what is taken out of a dict, list or tuple that holds the function; False where the whole is used."""
        file, node = place.file, place.node
        parent = file.parent(node)
        rest = wrappers[:-1]
        call = file.parent(parent) if isinstance(parent, ast.Attribute) else parent
        if isinstance(parent, ast.Subscript) and parent.value is node:
            if isinstance(parent.ctx, ast.Load) and not self._is_other_entry(file, parent, wrappers[-1]):
                one = not isinstance(parent.slice, ast.Slice)
                self._follow_expression(Place(file, parent), rest if one else wrappers, uses, depth + 1)
            return True
        if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and parent.iter is node:
            if not isinstance(
                self._display_around(wrappers[-1]), ast.Dict
            ):  # of a dict it goes over the keys
                self._follow_assigned(file, parent.target, rest, uses, depth + 1)
            return True
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            if parent.attr in _GIVE_ONE:
                self._follow_expression(Place(file, call), rest, uses, depth + 1)
            elif parent.attr in _GIVE_ALL:
                self._follow_loop_target(Place(file, call), int(parent.attr == "items"), wrappers, uses, depth)
            return parent.attr in (*_GIVE_ONE, *_GIVE_ALL, *_GIVE_NONE)
        if isinstance(parent, ast.Call) and node in parent.args and isinstance(parent.func, ast.Name):
            if parent.func.id in _GOING_OVER:
                index = {"enumerate": 1, "zip": parent.args.index(node)}.get(parent.func.id, 0)
                self._follow_loop_target(place._replace(node=parent), index, wrappers, uses, depth)
                return True
        return False

    def _follow_loop_target(
        self, place: Place, index: int, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        """The target of a loop over entries, of which the function is the one at an index where they are tuples."""
        parent = place.file.parent(place.node)
        if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and parent.iter is place.node:
            target = parent.target
            if isinstance(target, ast.Tuple) and index < len(target.elts):
                target = target.elts[index]
            self._follow_assigned(place.file, target, wrappers[:-1], uses, depth + 1)
        else:
            self._follow_expression(place, wrappers, uses, depth + 1)

    def _display_around(self, wrapper: Wrapper) -> ast.AST | None:
        """The display of a dict, list or tuple in which a function stands."""
        return wrapper.place.file.parent(wrapper.place.node)

    def _index_in_display(self, wrapper: Wrapper) -> int | None:
        """The position of a function in a list or tuple; None where a star before it, or a dict, hides it."""
        display, element = self._display_around(wrapper), wrapper.place.node
        if not isinstance(display, ast.List | ast.Tuple) or element not in display.elts:
            return None
        before = display.elts[: display.elts.index(element)]
        return None if any(isinstance(one, ast.Starred) for one in before) else len(before)

    def _is_other_entry(self, file: FileFacts, subscript: ast.Subscript, wrapper: Wrapper) -> bool:
        """Return whether an entry of a dict or list is surely not the function, because its key is another one."""
        display, key = self._display_around(wrapper), wrapper.place.node
        own: Value = Constant(self._index_in_display(wrapper))
        if isinstance(display, ast.Dict):
            own = self.evaluator.value(wrapper.place) if key in display.keys else Unknown("spread")
        if not isinstance(own, Constant) or own.value is None:
            return False
        asked = options(self.evaluator.value(Place(file, subscript.slice)))
        known = [one.value for one in asked if isinstance(one, Constant)]
        negative = not isinstance(display, ast.Dict) and any(
            isinstance(one, int) and one < 0 for one in known
        )
        return len(known) == len(asked) and own.value not in known and not negative

    def _follow_returned(self, place: Place, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int) -> None:
        """Follow the calls of a function that returns the value: `jax.grad(make_loss(spec))`."""
        file = place.file
        maker = file.evaluation_scope(place.node)
        plain = isinstance(maker.node, ast.FunctionDef) and not maker.node.decorator_list
        if not plain or any(isinstance(one, ast.Yield | ast.YieldFrom) for one in walk_nodes(maker.node)):
            uses.add_end(FunctionUse("escaped", place, wrappers, "returned"))
            return
        assert isinstance(maker.node, ast.FunctionDef)
        made = (self.in_sight if uses.every else self.ends)(file, maker.node)
        elsewhere = [end for end in made.found if end.decorated is None]
        if FunctionUses(elsewhere, made.cut).may_have_unseen_calls or not made.found:
            uses.add_end(FunctionUse("escaped", place, wrappers, "returned"))
        for end in made.found:
            decorated = end.decorated.node if end.decorated is not None and not end.wrappers else None
            if isinstance(decorated, ast.FunctionDef | ast.AsyncFunctionDef):
                above = decorated.decorator_list
                above = above[: above.index(end.place.node)]  # type: ignore[arg-type]
                self._follow_decorators(end.place.file, decorated, above, wrappers, uses, depth + 1)
            elif end.decorated is not None:
                uses.add_end(FunctionUse("escaped", end.place, wrappers, "returned"))
            elif end.kind == "called" and not end.wrappers:
                self._follow_expression(end.place, wrappers, uses, depth + 1)
            elif end.kind == "called":
                uses.add_end(FunctionUse("escaped", end.place, wrappers, "returned through a transform"))

    def _follow_through_attribute(
        self, place: Place, parent: ast.Attribute, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        file = place.file
        if parent.attr in (
            "__name__",
            "__doc__",
            "__wrapped__",
            "clear_cache",
            "_cache_size",
            "__qualname__",
        ):
            return
        # `jit(f).lower(x)`, `.trace`, `.compile`: run as the wrapped function would be.
        call = file.parent(parent)
        if (
            isinstance(call, ast.Call)
            and call.func is parent
            and parent.attr in ("lower", "trace", "eval_shape", "__call__")
        ):
            uses.add_end(FunctionUse("called", Place(file, call), wrappers))
        elif parent.attr in _RUNS_A_MODULE:
            if self._has_its_own(file, parent):
                return  # a method of the project's own class: what it calls is followed there
            if isinstance(call, ast.Call) and any(one.arg in (None, "method") for one in call.keywords):
                uses.add_end(FunctionUse("escaped", place, wrappers, "another method may be run"))
            else:
                self._follow_expression(Place(file, parent), wrappers, uses, depth + 1)
        elif parent.attr not in (*_RULES, "def_partition"):
            uses.add_end(FunctionUse("escaped", place, wrappers, f"its attribute {parent.attr} is used"))

    def _has_its_own(self, file: FileFacts, attribute: ast.Attribute) -> bool:
        """Return whether an object's class, or a base of it in the project, defines the method that is asked for."""
        found = self.evaluator.value(Place(file, attribute.value))
        if not isinstance(found, CallResult) or not isinstance(found.by, ClassValue):
            return False
        lineage = self.evaluator.classes.project_ancestors(found.by)
        return any(c.place.file.bindings(c.place.file.scope(c.node), attribute.attr) for c in lineage)

    def _follow_assigned(
        self, file: FileFacts, target: ast.expr, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        if isinstance(target, ast.Name):
            self._follow_name(file, target, target.id, wrappers, uses, depth + 1)
            return
        if isinstance(target, ast.Tuple | ast.List) and wrappers and wrappers[-1].effect == "held":
            index = self._index_in_display(wrappers[-1])  # `init, step = make()` of what returns `init, step`
            starred = any(isinstance(one, ast.Starred) for one in target.elts)
            if index is not None and index < len(target.elts) and not starred:
                self._follow_assigned(file, target.elts[index], wrappers[:-1], uses, depth)
                return
        if isinstance(target, ast.Attribute):
            owner = self.evaluator.value(Place(file, target.value))
            if isinstance(owner, CallResult) and isinstance(owner.by, ClassValue):
                self._follow_attribute(file, target.attr, owner.by, wrappers, uses, depth + 1)
                return
        uses.add_end(FunctionUse("escaped", Place(file, target), wrappers, f"stored in {file.source_text(target)}"))

    def _follow_argument(
        self, place: Place, call: ast.Call, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        file = place.file
        where = Place(file, call)
        ruled = self._function_with_rule(Place(file, call.func))
        if ruled is not None:
            self._follow_rule(Place(file, call.func), ruled, wrappers, uses)
            return
        for option in options(self.evaluator.value(Place(file, call.func))):
            transform, name = transform_of(option)
            if (
                isinstance(option, Transformed)
                and option.api.name == "functools.partial"
                and isinstance(option.inner, Api)
            ):
                transform, name = api.TRANSFORMS.get(option.inner.name), option.inner
            if uses.every:
                self._follow_into_function(place, option, where, wrappers, uses, depth)
            if name is not None and name.name in _LOOKING:
                continue
            if transform is None or name is None:
                uses.add_end(FunctionUse("escaped", place, wrappers, f"passed to {file.source_text(call.func)}"))
                continue
            if not is_function_argument(call, place.node, transform):
                if name.name == "functools.partial" and (bound := self._partial_transform(place, call)) is not None:
                    self._follow_expression(where, (*wrappers, bound), uses, depth + 1)
                elif name.name == "functools.partial":
                    uses.add_end(FunctionUse("escaped", place, wrappers, "an argument bound by functools.partial"))
                elif not name.name.startswith("jax.tree"):
                    uses.add_end(FunctionUse("escaped", place, wrappers, f"passed to {file.source_text(call.func)}"))
                continue
            how = "passed to" if transform.now else "wrapped by"
            wrapper = Wrapper(transform.effect, transform_as_written(where), where, how, name.name)
            if name.name == "functools.partial":
                self._follow_expression(where, (*wrappers, wrapper), uses, depth + 1)
            elif transform.now:
                uses.add_end(FunctionUse("called", where, (*wrappers, wrapper)))
            else:
                if wrapper.effect == "staged":
                    uses.add_end(FunctionUse("wrapped", where, (*wrappers, wrapper)))
                self._follow_expression(where, (*wrappers, wrapper), uses, depth + 1)

    def _partial_transform(self, place: Place, call: ast.Call) -> Wrapper | None:
        """The transform to which a partial binds the function: `partial(jax.tree.map, f)`."""
        inner = self.evaluator.value(Place(place.file, call.args[0])) if call.args else None
        transform = api.TRANSFORMS.get(inner.name) if isinstance(inner, Api) else None
        if transform is None or not isinstance(inner, Api):
            return None
        given = ast.Call(call.func, call.args[1:], call.keywords)
        if not is_function_argument(given, place.node, transform):
            return None
        where = Place(place.file, call)
        return Wrapper(transform.effect, transform_as_written(where), where, "passed to", inner.name)

    def _follow_into_function(
        self, place: Place, to: Value, call: Place, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        """Follow a function that is passed to a function of the project, or stored by an instance."""
        wrapper = Wrapper("passed", transform_as_written(call), call, "passed to")
        effects = tuple(other.effect for other in wrappers if other.effect != "passed")
        inside = wrappers[-1:] if wrappers and wrappers[-1].effect == "held" else ()
        through = (*wrappers[: len(wrappers) - len(inside)], wrapper, *inside)
        for one in receiving_parameters(self.evaluator, to, call, place.node):
            if one.binder is not None and uses.is_first_visit((one.binder.node, effects)):
                self._follow_name(one.binder.file, one.binder.node, one.name, through, uses, depth + 1)
            elif one.owner is not None and uses.is_first_visit((one.owner.node, one.name, effects)):
                file = one.owner.place.file
                self._follow_attribute(file, one.name, one.owner, through, uses, depth + 1)
        kept = storing_attribute(self.evaluator, to, call, place.node)
        if kept is not None and uses.is_first_visit((call.node, kept)):
            self._follow_stored_function(place.file, kept, through, uses, depth + 1)

    def _follow_stored_function(
        self, file: FileFacts, name: str, wrappers: tuple[Wrapper, ...], uses: FunctionUses, depth: int
    ) -> None:
        """Reads of an attribute under which a library's object keeps a function."""
        for other in self.project.files_with_attribute(file, name):
            if other is None:
                return
            for node in other.find_mentions(name):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    self._follow_expression(Place(other, node), wrappers, uses, depth + 1)


def _decorator_wrappers(value: Value, function: ast.AST, decorator: Place) -> tuple[Wrapper, ...] | None:
    """The transforms through which a decorator returns a function of its own; None where it returns another value."""
    found: list[Wrapper] = []
    while isinstance(value, Transformed):
        transform = api.TRANSFORMS.get(value.api.name)
        if transform is None:
            return None
        where = value.call.place if value.call is not None else decorator
        found.insert(
            0, Wrapper(transform.effect, transform_as_written(where), where, "wrapped by", value.api.name)
        )
        value = value.inner
    return tuple(found) if isinstance(value, Function) and value.node is function else None


def _is_in_annotation(file: FileFacts, node: ast.AST) -> bool:
    """Return whether a mention is in an annotation: `placer: Placer | None`."""
    inner, outer = node, file.parent(node)
    while isinstance(outer, ast.Subscript | ast.BinOp | ast.Tuple):
        inner, outer = outer, file.parent(outer)
    match outer:
        case ast.arg(annotation=said) | ast.AnnAssign(annotation=said):
            return said is inner
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
            return outer.returns is inner or any(one is not None and one.annotation is inner for one in every)
    return False


def transform_as_written(place: Place) -> str:
    """A transform as the user wrote it: `eqx.filter_jit`, `jax.jit` (through `partial` too)."""
    node = place.node
    while isinstance(node, ast.Call):
        inner = node.args[0] if node.args else None
        last = last_name(node.func)
        node = inner if last == "partial" and inner is not None else node.func
    return place.file.source_text(node)
