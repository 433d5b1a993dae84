"""`dataclass`, which makes most methods of a class when they are first called, and its fields when they are asked for.

The standard decorator compiles six functions for each class, half a millisecond, and makes an object for each field. A
process that reads a small table imports 300 classes and uses a quarter of them: they took a third of its processor
time.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # type checkers know the standard one
else:

    def dataclass(*, slots: bool = False, order: bool = False, **settings: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, whose methods the class gets. Their names are the same before the first call;
        `inspect.signature` of the class too, but not that of its `__init__`."""

        def decorated(cls: type) -> type:
            own = vars(cls)
            types = [str(type_) for type_ in own.get("__annotations__", {}).values()]
            has_variables = any("InitVar" in type_ or "KW_ONLY" in type_ for type_ in types)
            is_derived = any(vars(base).get("__slots__") or _FIELDS in vars(base) for base in cls.__mro__[1:-1])
            own_members = not own.keys().isdisjoint(("__setattr__", "__delattr__", "__slots__"))
            fields = own.keys() & own.get("__annotations__", {}).keys()
            is_refused = any(type(own[name]).__hash__ is None for name in fields)  # such as a default of []
            special = has_variables or own_members or is_refused
            if is_derived or special or order or not slots or settings.get("unsafe_hash"):
                return dataclasses.dataclass(slots=slots, order=order, **settings)(cls)
            return _Methods(cls, settings).made

        return decorated


_FIELDS: Final = "__dataclass_fields__"
_METHODS: Final = {"init": ("__init__",), "repr": ("__repr__",), "eq": ("__eq__", "__hash__")}
"""The methods that each setting asks for."""
_MISSING: Final = type(dataclasses.MISSING)
"""By type: a class that was pickled by value has another object of this type."""
_FACTORY: Final = getattr(dataclasses, "_HAS_DEFAULT_FACTORY", object())
"""The default of an argument that a function makes; signatures show it as `<factory>`."""
_CLASS_VARIABLES: Final = ("ClassVar", "typing.ClassVar")
_UNCOMPILED_CALLS: Final = 8
"""So often `__init__` sets the fields one by one. Compiling it takes as long as 50 of these calls."""


class _Methods:
    """A class with slots, and how its methods and fields are made."""

    def __init__(self, cls: type, settings: dict[str, bool]) -> None:
        own = dict(vars(cls))
        self.types: Final[dict[str, Any]] = own.get("__annotations__", {})
        self.names: Final = tuple(
            name for name, type_ in self.types.items() if str(type_).partition("[")[0] not in _CLASS_VARIABLES
        )
        self.defaults: Final[dict[str, Any]] = {name: own.pop(name) for name in self.names if name in own}
        self.settings: Final = settings
        self.is_frozen: Final = settings.get("frozen", False)
        fields = {name: value for name, value in self.defaults.items() if isinstance(value, dataclasses.Field)}
        without = {name for name, value in fields.items() if not value.init}
        by_name = {name for name, value in fields.items() if value.kw_only is True}
        self.by_name: Final = self.names if settings.get("kw_only") else tuple(n for n in self.names if n in by_name)
        self.in_order: Final = tuple(name for name in self.names if name not in without and name not in self.by_name)
        self.is_set_by_init: Final = not without
        """Whether `__init__` has an argument for each field."""
        self._calls = 0
        self._standard: Final[dict[str, Any]] = {}
        self.made: Final[Any] = self._made(cls, own)

    def _made(self, cls: type, own: dict[str, Any]) -> type:
        for name in ("__dict__", "__weakref__"):
            own.pop(name, None)
        standard = vars(_standard_class(tuple(self.settings.items())))
        own |= {name: standard[name] for name in ("__dataclass_params__", "__replace__") if name in standard}
        own["__qualname__"] = cls.__qualname__
        own["__doc__"] = own.get("__doc__") or cls.__name__  # the standard signature takes as long as a method
        own["__slots__"] = (*self.names, "__weakref__") if self.settings.get("weakref_slot") else self.names
        if self.settings.get("match_args", True):
            own.setdefault("__match_args__", self.in_order)
        own[_FIELDS] = _Fields(self)
        own["__signature__"] = _Signature(self)
        for setting, names in _METHODS.items():
            for name in names if self.settings.get(setting, True) else ():
                if own.get(name) is None:  # a class with `__eq__` has None as `__hash__`
                    is_made = name != "__hash__" or self.is_frozen
                    own[name] = self._late(cls, name) if is_made else None
        if self.is_frozen:
            self._freeze(own)
        return type(cls)(cls.__name__, cls.__bases__, own)

    def _late(self, cls: type, name: str) -> Callable[..., Any]:
        """A method that replaces itself by the standard one."""
        if name == "__init__":

            def method(instance: Any, /, *values: Any, **named: Any) -> Any:
                self._calls += 1
                if self._calls > _UNCOMPILED_CALLS or not self._set_fields(instance, values, named):
                    self.standard(name)(instance, *values, **named)

        else:

            def method(instance: Any, /, *values: Any, **named: Any) -> Any:
                return self.standard(name)(instance, *values, **named)

        method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
        method.is_late = True  # type: ignore[attr-defined]
        return method

    def _set_fields(self, instance: Any, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """As `__init__`; False, and nothing is set, if the arguments are wrong or fields are not arguments."""
        given = dict(zip(self.in_order, values, strict=False)) | named
        if not self.is_set_by_init or len(given) != len(values) + len(named):
            return False
        missing = {name: self._default(name) for name in self.names if name not in given}
        without_default = any(
            isinstance(factory, _MISSING) and isinstance(value, _MISSING) for _, factory, value in missing.values()
        )
        if without_default or len(given) + len(missing) != len(self.names):
            return False
        for name, (_, factory, value) in missing.items():
            given[name] = value if isinstance(factory, _MISSING) else factory()
        put = object.__setattr__ if self.is_frozen else setattr
        for name, value in given.items():
            put(instance, name, value)
        if hasattr(self.made, "__post_init__"):
            instance.__post_init__()
        return True

    def _default(self, name: str) -> tuple[bool, Any, Any]:
        """(whether `__init__` has an argument for the field, the function that makes its default, the default)."""
        value = self.defaults.get(name, dataclasses.MISSING)
        if isinstance(value, dataclasses.Field):
            return value.init, value.default_factory, value.default
        return True, dataclasses.MISSING, value

    def standard(self, name: str) -> Any:
        """The method as the standard decorator makes it, which the class has from now on."""
        if name not in self._standard:
            self._standard[name] = self._init() if name == "__init__" else vars(self.twin(name))[name]
            if hasattr(vars(self.made)[name], "is_late"):  # otherwise it was replaced
                setattr(self.made, name, self._standard[name])
        return self._standard[name]

    def _init(self) -> Any:
        """One function is compiled; the standard decorator makes none without those that freeze a class."""
        own = "__dataclass_self__" if "self" in self.names else "self"
        names: dict[str, Any] = {"__dataclass_missing__": _FACTORY}
        lines: list[str] = []
        arguments: dict[str, str] = {}
        for name in self.names:
            argument, value, default = name, name, f"__dataclass_default_{name}__"
            is_argument, factory, known = self._default(name)
            if not isinstance(factory, _MISSING):
                names[default] = factory
                value = f"{default}() if {name} is __dataclass_missing__ else {name}" if is_argument else f"{default}()"
                argument = f"{name}=__dataclass_missing__"
            elif not isinstance(known, _MISSING):
                names[default], argument = known, f"{name}={default}"
                value = name if is_argument else default
            elif not is_argument:
                continue
            if is_argument:
                arguments[name] = argument
            setter = f"__dataclass_set_{name}__"
            names[setter] = vars(self.made)[name].__set__  # takes two thirds of the time of `object.__setattr__`
            lines.append(f"{setter}({own}, {value})" if self.is_frozen else f"{own}.{name} = {value}")
        if hasattr(self.made, "__post_init__"):
            lines.append(f"{own}.__post_init__()")
        by_name = [argument for name, argument in arguments.items() if name in self.by_name]
        in_order = [argument for name, argument in arguments.items() if name not in self.by_name]
        given = ", ".join([own, *in_order, *(["*", *by_name] if by_name else ())])
        body = "\n  ".join(lines or ["pass"])
        results: dict[str, Any] = {}
        text = f"def make({', '.join(names)}):\n def __init__({given}):\n  {body}\n return __init__"
        module = sys.modules.get(self.made.__module__)
        exec(text, vars(module) if module else {}, results)
        method = results["make"](**names)
        method.__qualname__ = f"{self.made.__qualname__}.__init__"
        method.__annotations__ = {name: self.types[name] for name in arguments} | {"return": None}
        return method

    def twin(self, name: str = "") -> type:
        """A class with the same fields that the standard decorator made, with one of its methods at most."""
        made = self.made
        namespace = {
            "__module__": made.__module__,
            "__qualname__": made.__qualname__,
            "__doc__": made.__name__,
            "__annotations__": self.types,
            **{name: _copied(value) for name, value in self.defaults.items()},
        }
        wanted = {setting: name in methods for setting, methods in _METHODS.items()}
        wanted |= {"frozen": self.is_frozen and name == "__hash__", "weakref_slot": False}
        twin: type = dataclasses.dataclass(**{**self.settings, **wanted})(type(made.__name__, (), namespace))
        return twin

    def _freeze(self, own: dict[str, Any]) -> None:
        """Fields cannot be assigned, and can be pickled, as the standard decorator does both."""
        names = self.names
        get = attrgetter(*names) if names else None

        def set_attribute(instance: Any, name: str, value: Any) -> None:
            if type(instance) is self.made or name in self.names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(self.made, instance).__setattr__(name, value)

        def delete_attribute(instance: Any, name: str) -> None:
            if type(instance) is self.made or name in self.names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(self.made, instance).__delattr__(name)

        def state(instance: Any) -> list[Any]:
            if type(instance) is not self.made:
                return [getattr(instance, field.name) for field in dataclasses.fields(instance)]
            if get is None:
                return []
            values = get(instance)
            return list(values) if len(names) > 1 else [values]

        def set_state(instance: Any, values: list[Any]) -> None:
            is_made = type(instance) is self.made
            for name, value in zip(
                names if is_made else [field.name for field in dataclasses.fields(instance)], values, strict=False
            ):
                object.__setattr__(instance, name, value)

        own["__setattr__"], own["__delattr__"] = set_attribute, delete_attribute
        own.setdefault("__getstate__", state)
        own.setdefault("__setstate__", set_state)


@cache
def _standard_class(settings: tuple[tuple[str, bool], ...]) -> Any:
    """A class without fields; what the standard decorator adds besides methods, a class with these settings shares."""
    wanted = dict(settings)
    plain = wanted | {"init": False, "repr": False, "eq": False, "frozen": False}
    standard: Any = dataclasses.dataclass(slots=True, **plain)(type("Settings", (), {"__doc__": "Settings"}))
    standard.__dataclass_params__.frozen = wanted.get("frozen", False)
    for setting in _METHODS:
        setattr(standard.__dataclass_params__, setting, wanted.get(setting, True))
    return standard


def _copied(value: Any) -> Any:
    """A default, or a field without what the standard decorator has added to it."""
    if not isinstance(value, dataclasses.Field):
        return value
    settings = {name: getattr(value, name) for name in ("init", "repr", "hash", "compare", "metadata")}
    for name in ("default", "default_factory", "kw_only"):
        if not isinstance(getattr(value, name), _MISSING):
            settings[name] = getattr(value, name)
    return dataclasses.field(**settings)


class _Fields:
    """The class's fields, of which the standard decorator makes objects."""

    def __init__(self, methods: _Methods) -> None:
        self._methods = methods

    def __get__(self, instance: object, owner: Any) -> Any:
        made: Any = self._methods.made
        if isinstance(vars(made)[_FIELDS], _Fields):
            setattr(made, _FIELDS, getattr(self._methods.twin(), _FIELDS))
        return vars(made)[_FIELDS]


class _Signature:
    """The signature of the class, without that of the method that stands for `__init__`."""

    def __init__(self, methods: _Methods) -> None:
        self._methods = methods
        self._known: Any = None

    def __get__(self, instance: object, owner: Any) -> Any:
        made = self._methods.made
        if owner is not made or not made.__dataclass_params__.init or "__init__" not in vars(made):
            return None  # `inspect` looks itself
        if self._known is None:
            import inspect  # late: for those who ask

            signature = inspect.signature(self._methods.standard("__init__"))
            self._known = signature.replace(parameters=list(signature.parameters.values())[1:])
        return self._known
