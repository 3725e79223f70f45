"""What an expression is: names followed through scopes, files, partials and simple functions.

An abstract evaluator over literals and constants. It never guesses: where the text does not tell, the value is
`Unknown`, and where it depends on the way taken, a `Choice`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from pathlib import Path

from shardlint.facts import Binding, FileFacts, Scope
from shardlint.program import api
from shardlint.program.project import Project
from shardlint.program.reach import lookup
from shardlint.program.values import (
    Api,
    CallArguments,
    Choice,
    ClassValue,
    Constant,
    Function,
    Items,
    Made,
    ModuleValue,
    Parameter,
    Place,
    Table,
    Unknown,
    Value,
    Wrapped,
    choice,
    options,
)

_DEPTH = 24
# One question asked of code that goes round in circles through attributes and calls may cost this many evaluations.
_STEPS = 4000
_BUILTINS = frozenset(dir(builtins))
Environment = Mapping[str, Value]


class Evaluator:
    """Evaluates expressions of a project's files. Results without an environment are remembered."""

    def __init__(self, project: Project, jit_decorators: frozenset[str] = frozenset()) -> None:
        self.project = project
        self.jit_decorators = jit_decorators
        self._known: dict[ast.AST, Value] = {}
        self._depth = 0
        self._open: set[ast.AST] = set()
        self._cut = False
        self._passing: dict[ast.AST, Value] = {}
        self._steps = 0

    def value(self, place: Place, environment: Environment | None = None) -> Value:
        """The value of an expression. `environment` gives values to the parameters of the function it stands in."""
        node = place.node
        if environment is None and node in self._known:
            return self._known[node]
        if environment is None and node in self._passing:
            return self._passing[node]
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        if self._depth > _DEPTH or node in self._open or self._steps > _STEPS:
            self._cut = True
            return Unknown("the definition is circular or too deep")
        self._depth += 1
        self._open.add(node)
        try:
            result = self._evaluate(place, environment)
        finally:
            self._depth -= 1
            self._open.discard(node)
        # What was cut short from here may be whole when asked for from elsewhere: it holds for this question only.
        if environment is None:
            (self._passing if self._cut else self._known)[node] = result
        if self._depth == 0:
            self._cut = False
            self._passing.clear()
        return result

    def function(self, file: FileFacts, node: ast.AST, bound: bool = False, owner: ClassValue | None = None) -> Function:
        """The value of a definition itself, without its decorators."""
        return Function(Place(file, node), bound, owner)

    # expressions

    def _evaluate(self, place: Place, env: Environment | None) -> Value:
        file, node = place.file, place.node
        match node:
            case ast.Constant(value=value):
                return Constant(value)
            case ast.Name():
                return self.name(file, node, node.id, env)
            case ast.Attribute():
                return self._attribute(file, node, env)
            case ast.Tuple() | ast.List() | ast.Set():
                return self._items(file, node, env)
            case ast.Dict():
                return self._table(file, node, env)
            case ast.Call():
                return self.call(Place(file, node), env)
            case ast.Lambda():
                return self.function(file, node)
            case ast.IfExp():
                return choice([self.value(Place(file, node.body), env), self.value(Place(file, node.orelse), env)])
            case ast.NamedExpr():
                return self.value(Place(file, node.value), env)
            case ast.Starred() | ast.Await():
                return Unknown("a starred or awaited expression")
            case ast.BinOp():
                return self._operation(file, node, env)
            case ast.UnaryOp(op=ast.USub()):
                inner = self.value(Place(file, node.operand), env)
                if isinstance(inner, Constant) and isinstance(inner.value, int | float):
                    return Constant(-inner.value)
                return Unknown("arithmetic on something unknown")
            case ast.BoolOp(op=ast.Or()):
                values = [self.value(Place(file, part), env) for part in node.values]
                return choice([value for value in values if value != Constant(None)])
            case ast.Subscript():
                return self._subscript(file, node, env)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self.function(file, node)
            case ast.ClassDef():
                return ClassValue(Place(file, node))
        return Unknown(f"a {type(node).__name__} expression")

    def _items(self, file: FileFacts, node: ast.Tuple | ast.List | ast.Set, env: Environment | None) -> Value:
        found: list[Value] = []
        is_open = False
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.value(Place(file, element.value), env)
                if isinstance(inner, Items):
                    found.extend(inner.items)
                    is_open = is_open or inner.open
                else:
                    is_open = True
            else:
                found.append(self.value(Place(file, element), env))
        return Items(type(node).__name__.lower(), tuple(found), is_open)

    def _table(self, file: FileFacts, node: ast.Dict, env: Environment | None) -> Value:
        entries: list[tuple[object, Value]] = []
        is_open = False
        for key, value in zip(node.keys, node.values, strict=True):
            name = self.value(Place(file, key), env) if key is not None else Unknown()
            if isinstance(name, Constant):
                entries.append((name.value, self.value(Place(file, value), env)))
            else:
                is_open = True
        return Table(tuple(entries), is_open)

    def _operation(self, file: FileFacts, node: ast.BinOp, env: Environment | None) -> Value:
        left, right = self.value(Place(file, node.left), env), self.value(Place(file, node.right), env)
        if isinstance(left, Constant) and isinstance(right, Constant):
            one, two = left.value, right.value
            if isinstance(one, str) and isinstance(two, str) and isinstance(node.op, ast.Add):
                return Constant(one + two)
            if isinstance(one, int) and isinstance(two, int):
                match node.op:
                    case ast.Add():
                        return Constant(one + two)
                    case ast.Sub():
                        return Constant(one - two)
                    case ast.Mult():
                        return Constant(one * two)
                    case ast.FloorDiv() if two:
                        return Constant(one // two)
        if isinstance(left, Items) and isinstance(right, Items) and isinstance(node.op, ast.Add):
            return Items(left.kind, left.items + right.items, left.open or right.open)
        if isinstance(left, Items) and isinstance(right, Constant) and isinstance(node.op, ast.Mult):
            count = right.value
            if isinstance(count, int) and 0 <= count * len(left.items) <= 64:
                return Items(left.kind, left.items * count, left.open)
        return Unknown("arithmetic on something unknown")

    def _subscript(self, file: FileFacts, node: ast.Subscript, env: Environment | None) -> Value:
        base = self.value(Place(file, node.value), env)
        key = self.value(Place(file, node.slice), env)
        if isinstance(key, Constant):
            if isinstance(base, Items) and isinstance(key.value, int) and not base.open:
                try:
                    return base.items[key.value]
                except IndexError:
                    return Unknown("an index out of range")
            if isinstance(base, Table) and not base.open:
                return base.get(key.value) or Unknown("a key that is not there")
        return Unknown("an element of something unknown")

    # names

    def name(self, file: FileFacts, use: ast.AST, name: str, env: Environment | None = None) -> Value:
        """The value of a name where it is used."""
        bindings, scope = lookup(file, use, name)
        if scope is None:
            starred = self._starred(file, name)
            if starred is not None:
                return starred
            return Api(f"builtins.{name}", name) if name in _BUILTINS else Unknown(f"{name} is not defined here")
        if scope.kind == "module" and file.home(use) is not scope and name in file.rebound_globals:
            return Unknown(f"{name} is rebound through `global`")
        values = []
        for binding in bindings:
            if binding.kind == "param" and env is not None and name in env:
                values.append(env[name])
            else:
                # An environment speaks of the parameters of the innermost function only.
                inner = env if env is not None and scope is file.home(use) else None
                values.append(self.binding(file, binding, inner))
        return choice(values)

    def binding(self, file: FileFacts, binding: Binding, env: Environment | None = None) -> Value:
        """The value a binding gives its name."""
        place = Place(file, binding.node)
        match binding.kind:
            case "import":
                assert isinstance(binding.node, ast.alias)
                dotted = binding.node.name if binding.node.asname else binding.node.name.partition(".")[0]
                return self.module(dotted, file)
            case "from":
                return self._from(file, binding)
            case "def":
                return self._defined(place)
            case "class":
                return ClassValue(place)
            case "assign" | "walrus" if binding.value is not None:
                return self.value(Place(file, binding.value), env)
            case "with" if binding.value is not None and binding.index is None:
                return self._entered(Place(file, binding.value), env)
            case "unpack" if binding.value is not None and binding.index is not None:
                whole = self.value(Place(file, binding.value), env)
                if isinstance(whole, Items) and not whole.open and binding.index < len(whole.items):
                    return whole.items[binding.index]
                return Unknown("part of something unknown")
            case "param":
                return self._parameter(place, binding)
        return Unknown(f"bound by {binding.kind}")

    def _entered(self, place: Place, env: Environment | None) -> Value:
        value = self.value(place, env)
        if isinstance(value, Made) and value.api in ("jax.sharding.Mesh", "jax.make_mesh"):
            return value  # Mesh.__enter__ returns the mesh
        return Unknown("what a context manager returned")

    def _parameter(self, place: Place, binding: Binding) -> Value:
        scope = binding.scope
        if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef) and scope.parent is not None:
            args = [*scope.node.args.posonlyargs, *scope.node.args.args]
            if scope.parent.kind == "class" and args and args[0] is binding.node:
                decorators = {_last_name(decorator) for decorator in scope.node.decorator_list}
                if "staticmethod" not in decorators:
                    cls = ClassValue(Place(place.file, scope.parent.node))
                    return cls if "classmethod" in decorators else Made(cls, None)
        if binding.annotation is not None:
            annotation = self.value(Place(place.file, binding.annotation))
            if isinstance(annotation, ClassValue):
                return Made(annotation, None)
        return Parameter(place, binding.name)

    def _defined(self, place: Place) -> Value:
        node = place.node
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if self.jit_decorators:
            dotted = f"{self.project.module_name(place.file.path)}.{node.name}"
            if dotted in self.jit_decorators:
                return Api(api.USER_JIT, dotted)
        result: Value = self.function(place.file, node)
        for decorator in reversed(node.decorator_list):
            result = self.decorated(Place(place.file, decorator), result)
        return result

    def decorated(self, decorator: Place, inner: Value) -> Value:
        """A function through one decorator."""
        value = self.value(decorator)
        if isinstance(value, Api):
            return Wrapped(value, inner, CallArguments(decorator, (), {})) if value.name in api.TRANSFORMS else _opaque(inner, value)
        if isinstance(value, Wrapped) and isinstance(value.inner, Api) and value.api.name == "functools.partial":
            if value.inner.name in api.TRANSFORMS:
                return Wrapped(value.inner, inner, value.call)
        if isinstance(value, Made) and isinstance(value.by, Api) and value.by.name in api.TRANSFORMS:
            return Wrapped(value.by, inner, value.call)
        return _opaque(inner, value)

    def _from(self, file: FileFacts, binding: Binding) -> Value:
        alias = binding.node
        statement = file.parent(alias)
        assert isinstance(alias, ast.alias)
        assert isinstance(statement, ast.ImportFrom)
        module = self.imported(file, statement)
        if isinstance(module, ModuleValue):
            member = self.member(module.file, alias.name)
            if isinstance(member, Unknown):
                dotted = f"{statement.module}.{alias.name}" if statement.module else alias.name
                if statement.level:
                    submodule = self.project.relative(file.path, statement.level, dotted)
                else:
                    submodule = self.project.resolve(dotted, file.path)
                return self._module_value(submodule) or member
            return member
        if isinstance(module, Api):
            dotted = f"{module.written}.{alias.name}" if module.written else alias.name
            # A folder without __init__.py is a package too: its files are found under their whole names.
            in_library = module.written.partition(".")[0] in api.LIBRARIES
            submodule = None if in_library else self.project.resolve(dotted, file.path)
            return self._module_value(submodule) or self._library(dotted)
        return Unknown(f"{alias.name} is imported from a module that is not here")

    def imported(self, file: FileFacts, statement: ast.ImportFrom) -> Value:
        """The module a `from` statement takes names from."""
        if statement.level:
            path = self.project.relative(file.path, statement.level, statement.module or "")
            return self._module_value(path) or Unknown("a relative import of a module that is not here")
        return self.module(statement.module or "", file)

    def module(self, dotted: str, file: FileFacts) -> Value:
        """A module by absolute name: a library, or a file of the project."""
        if dotted.partition(".")[0] not in api.LIBRARIES:
            found = self._module_value(self.project.resolve(dotted, file.path))
            if found is not None:
                return found
        return Api(api.canonical(dotted), dotted)

    def _library(self, dotted: str) -> Api:
        return Api(api.USER_JIT if dotted in self.jit_decorators else api.canonical(dotted), dotted)

    def _module_value(self, path: Path | None) -> Value | None:
        if path is None:
            return None
        facts = self.project.facts(path)
        return ModuleValue(facts) if facts is not None else Unknown("a module that does not parse")

    def member(self, file: FileFacts, name: str) -> Value:
        """A name of a module, as its importers see it."""
        bindings = [b for b in file.bindings(file.module, name) if b.kind not in ("declared", "delete")]
        if not bindings:
            starred = self._starred(file, name)
            if starred is not None:
                return starred
            if file.path.name == "__init__.py":
                submodule = self._module_value(self.project.relative(file.path, 1, name))
                if submodule is not None:
                    return submodule
            return Unknown(f"{name} is not in {file.path.name}")
        if self._depth > _DEPTH:
            self._cut = True
            return Unknown("imports too deep")
        self._depth += 1
        try:
            if all(file.statement_in_block(b.node, file.module) is not None for b in bindings):
                bindings = bindings[-1:]
            return choice([self.binding(file, binding) for binding in bindings])
        finally:
            self._depth -= 1

    def _starred(self, file: FileFacts, name: str) -> Value | None:
        for binding in file.bindings(file.module, "*"):
            statement = file.parent(binding.node)
            assert isinstance(statement, ast.ImportFrom)
            if self._depth > _DEPTH:
                return None
            module = self.imported(file, statement)
            if isinstance(module, ModuleValue) and module.file is not file:
                self._depth += 1
                try:
                    member = self.member(module.file, name)
                finally:
                    self._depth -= 1
                if not isinstance(member, Unknown):
                    return member
            elif isinstance(module, Api):
                return Unknown(f"{name} may come from `from {module.written} import *`")
        return None

    # attributes

    def _attribute(self, file: FileFacts, node: ast.Attribute, env: Environment | None) -> Value:
        base = self.value(Place(file, node.value), env)
        return choice([self.attribute(option, node.attr) for option in options(base)])

    def attribute(self, base: Value, name: str) -> Value:
        """An attribute of a value."""
        match base:
            case Api():
                return self._library(f"{base.written}.{name}")
            case ModuleValue():
                return self.member(base.file, name)
            case ClassValue():
                return self._class_member(base, name, None)
            case Made(by=ClassValue() as cls):
                return self._class_member(cls, name, base)
            case Made(by=Api(), call=CallArguments() as call):
                argument = call.get(name, api.SIGNATURES.get(base.api, ()))
                if argument is not None and base.api.startswith("jax.sharding."):
                    return self.value(argument, call.environment)
        return Unknown(f"attribute {name} of something unknown")

    def _class_member(self, cls: ClassValue, name: str, instance: Made | None) -> Value:
        for candidate in self.lineage(cls):
            file = candidate.place.file
            scope = file.scope(candidate.node)
            bindings = [b for b in file.bindings(scope, name) if b.kind not in ("declared", "delete")]
            if bindings:
                if instance is not None and any(_is_field(file, binding) for binding in bindings):
                    return self._field(instance, name)
                values = []
                for binding in bindings:
                    value = self.binding(file, binding)
                    values.append(_bind_self(value, cls, instance is not None))
                if instance is not None and all(binding.kind == "assign" for binding in bindings):
                    values += self._assigned(candidate, name)
                return choice(values)
            if instance is not None:
                assigned = self._assigned(candidate, name)
                if assigned:
                    return choice(assigned)
        return Unknown(f"{cls.node.name} has no known {name}")

    def _field(self, instance: Made, name: str) -> Value:
        """A field of a dataclass, NamedTuple or Module: the class shows its default only."""
        given = instance.call.keywords.get(name) if instance.call is not None else None
        if instance.call is None or given is None:
            return Unknown(f"{name} is given when the object is made")
        return self.value(given, instance.call.environment)

    def lineage(self, cls: ClassValue) -> list[ClassValue]:
        """A class and those of its bases that are in the project, nearest first."""
        found = [cls]
        for candidate in found:
            if len(found) > 16:
                break
            for base in candidate.node.bases:
                value = self.value(Place(candidate.place.file, base))
                if isinstance(value, ClassValue) and value not in found:
                    found.append(value)
        return found

    def _assigned(self, cls: ClassValue, name: str) -> list[Value]:
        """Values given to `self.name` in the methods of a class."""
        file = cls.place.file
        values = []
        for node in file.mentions(name):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            function = file.home(node).function()
            if function is None or function.parent is None or function.parent.node is not cls.node:
                continue
            parent = file.parent(node)
            if isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is not None:
                values.append(self.value(Place(file, parent.value)))
            else:
                values.append(Unknown("assigned in parts"))
        return values

    # calls

    def arguments(self, place: Place, env: Environment | None = None) -> CallArguments:
        """The arguments of a call as written."""
        call = place.node
        assert isinstance(call, ast.Call)
        positional: list[Place] = []
        open_positional = False
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                open_positional = True
                break
            positional.append(Place(place.file, argument))
        keywords: dict[str, Place] = {}
        open_keywords = False
        for keyword in call.keywords:
            if keyword.arg is not None:
                keywords[keyword.arg] = Place(place.file, keyword.value)
            elif isinstance(keyword.value, ast.Dict) and all(isinstance(k, ast.Constant) for k in keyword.value.keys):
                for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                    assert isinstance(key, ast.Constant)
                    keywords[str(key.value)] = Place(place.file, value)
            else:
                open_keywords = True
        return CallArguments(place, tuple(positional), keywords, open_positional, open_keywords, env)

    def call(self, place: Place, env: Environment | None = None) -> Value:
        """The result of a call."""
        assert isinstance(place.node, ast.Call)
        callee = self.value(Place(place.file, place.node.func), env)
        arguments = self.arguments(place, env)
        return choice([self.apply(option, arguments) for option in options(callee)])

    def apply(self, callee: Value, arguments: CallArguments) -> Value:
        """The result of calling a value."""
        match callee:
            case Api():
                return self._apply_api(callee, arguments)
            case ClassValue():
                return Made(callee, arguments)
            case Function():
                return self._returned(callee, arguments)
            case Wrapped(api=Api(name="functools.partial"), inner=inner, call=CallArguments() as earlier):
                return self.apply(inner, _joined(earlier, arguments))
            case Wrapped(api=Api(name=name), inner=inner) if name in ("functools.lru_cache", "functools.cache"):
                return self.apply(inner, arguments)
            case Wrapped():
                return Made(callee, arguments)
            case Made(by=Api() as factory, call=CallArguments() as settings) if factory.name in api.TRANSFORMS:
                # `eqx.filter_jit(donate="all")(f)`: the factory was called with settings only.
                inner_place = arguments.positional[0] if arguments.positional else None
                if inner_place is not None and factory.name not in api.DECORATOR_FACTORIES:
                    return Wrapped(factory, self.value(inner_place, arguments.environment), settings)
        return Unknown("the result of an unknown call")

    def _apply_api(self, callee: Api, arguments: CallArguments) -> Value:
        transform = api.TRANSFORMS.get(callee.name)
        if transform is not None and not transform.now and callee.name not in api.DECORATOR_FACTORIES:
            for where in transform.functions:
                place = None
                if isinstance(where, int):
                    place = arguments.positional[where] if where < len(arguments.positional) else None
                else:
                    place = arguments.keywords.get(where)
                if place is not None:
                    inner = self.value(place, arguments.environment)
                    return Wrapped(callee, inner, arguments)
        if callee.name in ("builtins.tuple", "builtins.list") and len(arguments.positional) == 1:
            inner = self.value(arguments.positional[0], arguments.environment)
            if isinstance(inner, Items):
                return Items(callee.name.rpartition(".")[2], inner.items, inner.open)
        if callee.name == "builtins.dict" and not arguments.positional and not arguments.open_keywords:
            entries = [(k, self.value(v, arguments.environment)) for k, v in arguments.keywords.items()]
            return Table(tuple(entries))
        return Made(callee, arguments)

    def _returned(self, function: Function, arguments: CallArguments) -> Value:
        """What a simple function returns for these arguments."""
        file, node = function.place.file, function.node
        if isinstance(node, ast.AsyncFunctionDef):
            return Unknown("the result of a coroutine")
        env = self.parameters(function, arguments)
        if isinstance(node, ast.Lambda):
            return self.value(Place(file, node.body), env)
        scope = file.walked(file.scope(node))
        if not scope.returns or len(scope.returns) > 4 or any(not isinstance(r, ast.Return) for r in scope.returns):
            return Unknown(f"the result of {node.name}")
        results = []
        for statement in scope.returns:
            expression = statement.value
            results.append(self.value(Place(file, expression), env) if expression is not None else Constant(None))
        result = choice(results)
        # A value that leans on a parameter we could not fill in is not known.
        return Choice(tuple(options(result))) if isinstance(result, Choice) else result

    def parameters(self, function: Function, arguments: CallArguments) -> dict[str, Value]:
        """Values of a function's parameters for a call: arguments, then defaults, else unknown."""
        args = function.node.args
        names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
        values: dict[str, Value] = {}
        if function.bound and names:
            owner = function.owner
            values[names[0]] = Made(owner, None) if owner is not None else Unknown("self")
            names = names[1:]
        file = function.place.file
        defaults: dict[str, ast.expr] = {}
        for arg, default in zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults), strict=False):
            defaults[arg.arg] = default
        for arg, keyword_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if keyword_default is not None:
                defaults[arg.arg] = keyword_default
        hidden = arguments.open_positional or arguments.open_keywords
        for name, place in zip(names, arguments.positional, strict=False):
            values[name] = self.value(place, arguments.environment)
        for name, place in arguments.keywords.items():
            values.setdefault(name, self.value(place, arguments.environment))
        for name in (*names, *(arg.arg for arg in args.kwonlyargs)):
            if name not in values:
                if hidden or name not in defaults:
                    values[name] = Unknown(f"argument {name}")
                else:
                    values[name] = self.value(Place(file, defaults[name]))
        return values


def _is_field(file: FileFacts, binding: Binding) -> bool:
    annotation = binding.annotation
    return binding.kind == "assign" and annotation is not None and "ClassVar" not in file.text(annotation)


def _bind_self(value: Value, cls: ClassValue, on_instance: bool) -> Value:
    """A method looked up on an instance has its self; through decorators too."""
    if isinstance(value, Function):
        return Function(value.place, on_instance, cls)
    if isinstance(value, Wrapped):
        if value.api.name == "builtins.staticmethod":
            return value.inner
        if value.api.name == "builtins.classmethod":
            return _bind_self(value.inner, cls, True)
        return Wrapped(value.api, _bind_self(value.inner, cls, on_instance), value.call)
    return value


def _joined(earlier: CallArguments, later: CallArguments) -> CallArguments:
    """Arguments of a partial (without the function itself) followed by those of the call."""
    return CallArguments(
        later.place,
        (*earlier.positional[1:], *later.positional),
        {**earlier.keywords, **later.keywords},
        earlier.open_positional or later.open_positional,
        earlier.open_keywords or later.open_keywords,
        later.environment or earlier.environment,
    )


def _opaque(inner: Value, decorator: Value) -> Value:
    """A function behind a decorator we know nothing of: kept, so that its calls can still be told."""
    written = decorator.written if isinstance(decorator, Api) else "an unknown decorator"
    return Wrapped(Api("", written), inner, None)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def scope_label(scope: Scope) -> str:
    """How messages name a function: `` `step` `` or "a lambda"."""
    if scope.kind == "function":
        return f"`{scope.name}`"
    return scope.name
