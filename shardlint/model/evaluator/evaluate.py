"""Abstract evaluator of expressions: names are followed through scopes, files, partials and simple functions.

An abstract evaluator over literals and constants. It never guesses: where the text does not tell, the value is
`Unknown`, and where it depends on the way taken, a `Choice`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable, Iterator
from weakref import WeakSet

from shardlint.config.own_names import NO_OWN_NAMES, OwnNames
from shardlint.model import api
from shardlint.model.evaluator.annotations import annotated_classes
from shardlint.model.evaluator.calling import Calling
from shardlint.model.evaluator.classes import Classes
from shardlint.model.evaluator.displays import DisplayEvaluator, bounded_number
from shardlint.model.evaluator.linking import Linker
from shardlint.model.evaluator.mutations import apply_mutations
from shardlint.model.evaluator.rebound_attributes import value_before_reassignment, wraps_itself
from shardlint.model.evaluator.test_outcomes import is_surely_true, live_branches
from shardlint.model.evaluator.trees import TABLE_METHODS, Trees
from shardlint.model.needs import GIVEN, Answer, Key, Memo
from shardlint.model.project import Project
from shardlint.model.values import (
    Api,
    Assumed,
    AxisOf,
    CallArguments,
    CallResult,
    ClassValue,
    Computed,
    Constant,
    Environment,
    Function,
    Items,
    Leaves,
    ModuleValue,
    Parameter,
    Place,
    Table,
    TableMethod,
    Transformed,
    Unknown,
    Value,
    accept_assumed,
    choose_value,
    mark_assumed,
    options,
)
from shardlint.syntax import Binding, FileFacts, Scope, called_name
from shardlint.syntax.bindings import global_bindings, lookup_bindings, replaces_none
from shardlint.syntax.path_tests import is_not_none, none_is_ruled_out

_DEPTH = 24
# One question asked of code that goes round in circles through attributes and calls may cost this many evaluations.
_STEPS = 4000
_BUILTINS = frozenset(dir(builtins))


class Evaluator:
    """Evaluates expressions of a project's files. Results are remembered, in a call those that ask nothing of it."""

    def __init__(self, project: Project, own_names: OwnNames = NO_OWN_NAMES) -> None:
        self.project = project
        self.own = own_names
        self._known: Memo[Hashable, Value] = Memo(project.needs)
        self._same: Memo[ast.AST, Value] = Memo(project.needs)
        """What expressions of functions are in every call."""
        self._passing: Memo[Hashable, Value] = Memo(project.needs)
        """What was cut short may be whole when it is asked for from elsewhere: it holds for one question only."""
        self._open: set[Hashable] = set()
        self.cuts = 0
        """How often an answer was cut short: what made none, nor leans on one, holds whoever asks."""
        self._steps = self._questions = 0
        self._calls: WeakSet[Environment] = WeakSet()
        """The calls in which something was evaluated: what is known of each leads back to it."""
        self.linker = Linker(self)
        self.classes = Classes(self)
        self.calls = Calling(self)
        self.trees = Trees(self)
        self.written = DisplayEvaluator(self)

    def break_cycles(self) -> None:
        """Break the cycles between calls and what is known in them. Nothing may be asked afterwards."""
        for environment in self._calls:
            environment.clear_values()

    def value(self, place: Place, environment: Environment | None = None) -> Value:
        """The value of an expression. `environment` gives values to the parameters of the function it stands in."""
        node = place.node
        if environment is None:
            return self.answer_query(node, lambda: self._evaluate_node(place, None))
        in_turn = bool(environment.elements)  # what is the same in every call may differ from turn to turn
        if node in self._same and not in_turn:
            return self._same[node]
        known = environment.known.get(node) if not in_turn else None
        if known is not None:
            environment.asked += 1
            self.project.needs.take_needs(known[1])
            return known[0]
        cuts, asked = self.cuts, environment.asked
        value, needed = self._compute_value(node, lambda: self._evaluate_node(place, environment))
        if needed is not None and not in_turn and self.cuts == cuts:
            # What rests on a parameter that this environment does not tell of, another one may tell.
            if environment.asked == asked and not self.project.needs.rests_on_given(needed):
                self._same.remember_answer(node, value, needed)
            else:
                if not environment.known:
                    self._calls.add(environment)
                environment.known[node] = value, needed
        return value

    def environment(self, place: Place) -> Environment | None:
        """Return the values of the parameters around an expression, if they are known without a particular call."""
        return None

    def answer_query(self, key: Hashable, answer: Callable[[], Value]) -> Value:
        """A value that may be asked for on the way to itself, remembered."""
        if key in self._known:
            return self._known[key]
        if key in self._passing:
            self.cuts += 1
            return self._passing[key]
        cuts = self.cuts
        value, needed = self._compute_value(key, answer)
        if needed is not None and self.cuts == cuts:
            self._known.remember_answer(key, value, needed)
        elif needed is not None and self._open:
            self._passing.remember_answer(key, value, needed)
        return value

    def memoize_if_complete(self, known: Memo[Key, Answer], key: Key, answer: Callable[[], Answer]) -> Answer:
        """An answer, kept in `known` unless a value it rests on was cut short, being asked for already."""
        if key in known:
            return known[key]
        cuts, before = self.cuts, self.project.needs.begin_answer()
        try:
            found = answer()
        finally:
            needed = self.project.needs.end_answer(before)
        if self.cuts == cuts:
            known.remember_answer(key, found, needed)
        return found

    def active_queries(self) -> tuple[int, frozenset[Hashable]]:
        """Return the active queries, and the number of the question: see `value_outside`."""
        return self._questions, frozenset(self._open)

    def value_outside(
        self, opened: tuple[int, frozenset[Hashable]], place: Place, environment: Environment | None
    ) -> Value:
        """The value of an expression as if it had been asked for earlier in the question, when less was open."""
        question, keys = opened
        if not keys or question != self._questions or not keys <= self._open:
            return self.value(place, environment)
        now, self._open = self._open, set(keys)
        try:
            return self.value(place, environment)
        finally:
            self._open = now

    def rests_on_call(self) -> None:
        """Say that the answer being made may be another where a call in sight is looked at."""
        self.project.needs.note_need(GIVEN)

    def circular_value(self) -> Unknown:
        """Return the value of a definition that depends on itself."""
        self.cuts += 1
        return Unknown("the definition is circular or too deep")

    def _compute_value(self, key: Hashable, answer: Callable[[], Value]) -> tuple[Value, int | None]:
        """A value and what it needed; None where it must not be asked for here."""
        if not self._open:
            self._steps = 0
            self._questions += 1
        self._steps += 1
        if key in self._open or len(self._open) > _DEPTH or self._steps > _STEPS:
            return self.circular_value(), None
        self._open.add(key)
        before = self.project.needs.begin_answer()
        try:
            value = answer()
        finally:
            self._open.discard(key)
            needed = self.project.needs.end_answer(before)
            if not self._open:
                self._passing = Memo(self.project.needs)
        return value, needed

    def imported_module(self, file: FileFacts, statement: ast.ImportFrom) -> Value:
        """The module a `from` statement takes names from."""
        return self.linker.imported_module(file, statement)

    def project_ancestors(self, cls: ClassValue) -> list[ClassValue]:
        """A class and those of its bases that are in the project, nearest first."""
        return self.classes.project_ancestors(cls)

    def list_bases(self, cls: ClassValue) -> Iterator[Value]:
        """Yield the bases of a class, and of its bases in the project."""
        for one in self.project_ancestors(cls):
            yield from (self.value(Place(one.place.file, base)) for base in one.node.bases)

    def read_arguments(self, place: Place, env: Environment | None = None) -> CallArguments:
        """The arguments of a call as written."""
        return self.calls.read_arguments(place, env)

    def apply_callee(self, callee: Value, arguments: CallArguments) -> Value:
        """The result of calling a value."""
        return self.calls.apply_callee(callee, arguments)

    def bind_parameters(self, function: Function, arguments: CallArguments) -> Environment:
        """Values of a function's parameters for a call: arguments, then defaults, else unknown."""
        return self.calls.bind_parameters(function, arguments)

    def bind_parameter(self, function: Function, arguments: CallArguments, name: str) -> Value | None:
        """The same of one parameter; None where the function has no such."""
        return self.calls.bind_parameter(function, arguments, name)

    def definition_value(
        self, file: FileFacts, node: ast.AST, bound: bool = False, owner: ClassValue | None = None
    ) -> Function:
        """The value of a definition itself, without its decorators."""
        return Function(Place(file, node), bound, owner)

    # expressions

    def _evaluate_node(self, place: Place, env: Environment | None) -> Value:
        file, node = place.file, place.node
        match node:
            case ast.Constant(value=int() as value):
                return bounded_number(value)
            case ast.Constant(value=value):
                return Constant(value)
            case ast.Name():
                return without_none(file, node, self.evaluate_name(file, node, node.id, env))
            case ast.Attribute():
                return without_none(file, node, self._attribute_value(file, node, env))
            case ast.Tuple() | ast.List() | ast.Set():
                return self.written.evaluate_sequence(file, node, env)
            case ast.Dict():
                return self.written.evaluate_dict(file, node, env)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.trees.evaluate_comprehension(file, node, env)
            case ast.Call():
                return self.calls.evaluate_call(Place(file, node), env)
            case ast.Lambda():
                return self.definition_value(file, node)
            case ast.IfExp():
                return choose_value(
                    [self.value(Place(file, part), env) for part in live_branches(self, file, node, env)]
                )
            case ast.NamedExpr():
                return self.value(Place(file, node.value), env)
            case ast.Starred() | ast.Await():
                return Unknown("a starred or awaited expression")
            case ast.BinOp():
                return self.written.evaluate_operation(file, node, env)
            case ast.UnaryOp(op=ast.USub()):
                inner = self.value(Place(file, node.operand), env)
                if isinstance(inner, Constant) and isinstance(inner.value, int | float):
                    return Constant(-inner.value)
                return Computed("arithmetic on something unknown", place, env)
            case ast.BoolOp(op=ast.Or()):
                values: list[Value] = []
                for part in node.values:
                    values.append(self.value(Place(file, part), env))
                    if is_surely_true(values[-1]):
                        break  # what stands behind it is never taken
                return choose_value([value for value in values if value != Constant(None)])
            case ast.Subscript():
                return self.written.evaluate_subscript(file, node, env)
            case ast.JoinedStr():
                return self.written.evaluate_fstring(file, node, env)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self.definition_value(file, node)
            case ast.ClassDef():
                return ClassValue(Place(file, node))
        return Unknown(f"a {type(node).__name__} expression")

    # names

    def evaluate_name(self, file: FileFacts, use: ast.AST, name: str, env: Environment | None = None) -> Value:
        """The value of a name where it is used."""
        bindings, scope = lookup_bindings(file, use, name)
        if scope is None:
            starred = self.linker.starred_member(file, name)
            if starred is not None:
                return starred
            return (
                Api(f"builtins.{name}", name) if name in _BUILTINS else Unknown(f"{name} is not defined here")
            )
        if scope.kind == "module" and file.evaluation_scope(use) is not scope and name in file.rebound_globals:
            bindings = [*file.bindings(scope, name), *global_bindings(file, name)]
        if any(binding.kind == "more" for binding in bindings):
            return Unknown(f"{name} is bound in more places than are followed")
        values = []
        for binding in bindings:
            given = env.bound_value(name, binding.kind, binding.node) if env is not None else None
            if given is not None:
                values.append(
                    self.annotated_instance(file, binding) or given if isinstance(given, Unknown) else given
                )
            else:
                # An environment speaks of the parameters of the innermost function only.
                inner = env if env is not None and scope is file.evaluation_scope(use) else None
                value = apply_mutations(
                    self, Place(file, use), binding, self.evaluate_binding(file, binding, inner), inner
                )
                values += _options_here(file, use, binding, value)
        if len(values) > 1 and any(replaces_none(file, binding) for binding in bindings):
            values = [option for value in values for option in options(value) if option != Constant(None)]
        return choose_value(values)

    def evaluate_binding(self, file: FileFacts, binding: Binding, env: Environment | None = None) -> Value:
        """The value a binding gives its name."""
        place = Place(file, binding.node)
        match binding.kind:
            case "import":
                assert isinstance(binding.node, ast.alias)
                dotted = binding.node.name if binding.node.asname else binding.node.name.partition(".")[0]
                return self.linker.find_module(dotted, file)
            case "from":
                return self.linker.imported_value(file, binding)
            case "def":
                return self._value_of_definition(place)
            case "class":
                return ClassValue(place)
            case "assign" | "walrus" if binding.value is not None:
                given = self.value(Place(file, binding.value), env)
                return (self.annotated_instance(file, binding) or given) if type(given) is Unknown else given
            case "with" if binding.value is not None and binding.index is None:
                return self._value_of_with_target(Place(file, binding.value), env)
            case "unpack" if binding.value is not None and binding.index is not None:
                whole = self.value(Place(file, binding.value), env)
                if isinstance(whole, Items) and not whole.open and binding.index < len(whole.items):
                    return whole.items[binding.index]
                return Unknown("part of something unknown")
            case "augment":
                return self._value_after_augment(file, binding, env)
            case "for" | "comprehension":
                return self.trees.evaluate_loop_target(file, binding, env)
            case "param":
                return self._parameter_value(place, binding)
        return Unknown(f"bound by {binding.kind}")

    def _value_after_augment(self, file: FileFacts, binding: Binding, env: Environment | None) -> Value:
        """`names += ("model",)`, outside of loops. A function that adds to a name around it may run again and again."""
        statement = file.parent(binding.node)
        again = binding.name in file.evaluation_scope(binding.node).outer_names
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.BitOr) and not again:
            if not any(isinstance(outer, ast.For | ast.While) for outer in file.ancestors(statement)):
                before = self.evaluate_name(file, binding.node, binding.name, env)
                more = self.value(Place(file, statement.value), env)
                made = self.written.apply_operator(statement.op, accept_assumed(before), accept_assumed(more))
                if not isinstance(made, Unknown):
                    return mark_assumed(made, before, more)
        return Unknown("bound by augment")

    def _value_of_with_target(self, place: Place, env: Environment | None) -> Value:
        """Return the value that `with ... as name` binds to the name."""
        return choose_value(
            [self._result_of_entering(option, place) for option in options(self.value(place, env))]
        )

    def _result_of_entering(self, manager: Value, place: Place) -> Value:
        """Return the result of entering a context manager: itself, as of most that are closed, or the object it
        holds.
        """
        match manager:
            case Assumed(value=inner):
                return mark_assumed(self._result_of_entering(inner, place), manager)
            case CallResult(by=Api(name=name)) if name in api.ENTERED:
                return manager
            case CallResult(by=Api(name="contextlib.closing" | "contextlib.nullcontext"), call=CallArguments() as call):
                held = call.positional[0] if call.positional else call.keywords.get("enter_result")
                if held is not None:
                    return self.value(held, call.environment)
            case CallResult(by=ClassValue() as cls):
                method = self.classes.evaluate_member(cls, "__enter__", manager)
                if isinstance(method, Function):
                    return self.calls.apply_callee(method, CallArguments(place, (), {}))
            case CallResult(
                by=Transformed(api=Api(name="contextlib.contextmanager"), inner=Function() as function),
                call=CallArguments() as call,
            ):
                return self.calls.evaluate_yield(function, call)
        return Unknown("what a context manager returned")

    def _parameter_value(self, place: Place, binding: Binding) -> Value:
        self.rests_on_call()
        scope = binding.scope
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.parent is not None:
            args = [*scope.node.args.posonlyargs, *scope.node.args.args]
            if scope.parent.kind == "class" and args and args[0] is binding.node:
                decorators = {called_name(decorator) for decorator in scope.node.decorator_list}
                if "staticmethod" not in decorators:
                    cls = ClassValue(Place(place.file, scope.parent.node))
                    return cls if "classmethod" in decorators else CallResult(cls, None)
        return self.annotated_instance(place.file, binding) or Parameter(place, binding.name)

    def annotated_instance(self, file: FileFacts, binding: Binding) -> CallResult | None:
        """An instance of the class of the project that a parameter, field or name is annotated with."""
        return self.instance_of(Place(file, binding.annotation)) if binding.annotation is not None else None

    def instance_of(self, annotation: Place) -> CallResult | None:
        """An instance of the one class of the project that an annotation names."""
        named = annotated_classes(self, annotation)
        classes = [one for one in named if one != Constant(None)]
        return CallResult(classes[0], None) if len(classes) == 1 and isinstance(classes[0], ClassValue) else None

    def _value_of_definition(self, place: Place) -> Value:
        node = place.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        own = self.linker.own_function(place.file, node)
        if own is not None:
            return own
        result: Value = self.definition_value(place.file, node)
        for decorator in reversed(node.decorator_list):
            result = self.apply_decorator(Place(place.file, decorator), result)
        return result

    def apply_decorator(self, decorator: Place, inner: Value) -> Value:
        """A function through one decorator."""
        value = self.value(decorator)
        if isinstance(value, Api):
            return (
                Transformed(value, inner, CallArguments(decorator, (), {}))
                if value.name in api.TRANSFORMS
                else _keep_decorated_function(inner, value)
            )
        if (
            isinstance(value, Transformed)
            and isinstance(value.inner, Api)
            and value.api.name == "functools.partial"
        ) and value.inner.name in api.TRANSFORMS:
            return Transformed(value.inner, inner, value.call)
        if isinstance(value, CallResult) and isinstance(value.by, Api) and value.by.name in api.TRANSFORMS:
            return Transformed(value.by, inner, value.call)
        if isinstance(value, Function):
            made = self.calls.evaluate_decoration(value, inner, decorator)
            if isinstance(made, Transformed) and made.inner is inner and made.api.name in api.TRANSFORMS:
                return made
        return _keep_decorated_function(inner, value)

    # attributes

    def _attribute_value(self, file: FileFacts, node: ast.Attribute, env: Environment | None) -> Value:
        before = value_before_reassignment(file, node)
        if before is not None:
            return self.value(Place(file, before), env)
        base = self.value(Place(file, node.value), env)
        if wraps_itself(file, node):
            return choose_value([self._method_of_class(option, node.attr) for option in options(base)])
        return choose_value([self.evaluate_attribute(option, node.attr) for option in options(base)])

    def _method_of_class(self, base: Value, name: str) -> Value:
        """An attribute as the class of an object has it, where a method is read to be set again on the object."""
        if isinstance(base, CallResult) and isinstance(base.by, ClassValue):
            return self.classes.evaluate_member(base.by, name, base, set_again=False)
        return self.evaluate_attribute(base, name)

    def evaluate_attribute(self, base: Value, name: str) -> Value:
        """An attribute of a value."""
        match base:
            case Assumed(value=inner):
                return mark_assumed(self.evaluate_attribute(inner, name), base)
            case Api():
                member = self.linker.library_api(f"{base.written}.{name}")
                return Constant(api.CONSTANTS[member.name]) if member.name in api.CONSTANTS else member
            case Table() | Leaves() if name in TABLE_METHODS:
                return TableMethod(base, name)
            case ModuleValue():
                return self.linker.module_member(base.file, name)
            case ClassValue():
                return self.classes.evaluate_member(base, name, None)
            case CallResult(by=ClassValue() as cls):
                return self.classes.evaluate_member(cls, name, base)
            case CallResult(by=Api(), call=CallArguments() as call):
                argument = call.argument_for(name, api.SIGNATURES.get(base.api, ()))
                if argument is not None and (
                    base.api.startswith("jax.sharding.") or (base.api, name) == ("jax.make_mesh", "axis_names")
                ):
                    return self.value(argument, call.environment)
            case Parameter() if name == "axis_names":
                return AxisOf("the axes of a mesh that is not known", base)
        return Unknown(f"attribute {name} of something unknown")


def without_none(file: FileFacts, node: ast.expr, value: Value) -> Value:
    """A value that may be None, without it where a test on the way says that it is not."""
    found = options(value)
    if len(found) < 2 or Constant(None) not in found or not is_not_none(file, node):
        return value
    return choose_value([one for one in found if one != Constant(None)])


def _options_here(file: FileFacts, use: ast.AST, binding: Binding, value: Value) -> list[Value]:
    """Return the possible values of a binding, without a None that tests on the path to its use rule out."""
    found = list(options(value))
    if Constant(None) not in found or not isinstance(use, ast.Name) or not none_is_ruled_out(file, use, binding):
        return found
    return [one for one in found if one != Constant(None)]


def _keep_decorated_function(inner: Value, decorator: Value) -> Value:
    """A function behind a decorator we know nothing of: kept, so that its calls can still be told."""
    written = decorator.written if isinstance(decorator, Api) else "an unknown decorator"
    return Transformed(Api("", written), inner, None)


def scope_label(scope: Scope) -> str:
    """How messages name a function: `` `step` `` or "a lambda"."""
    if scope.kind == "function":
        return f"`{scope.name}`"
    return scope.name
