"""`dataclass`, which makes most methods of a class when they are first called.

The standard decorator compiles six functions for each class, half a millisecond. A process that reads a small table
imports 300 classes and uses a quarter of them: they took a third of its processor time.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # type checkers know the standard one
else:

    def dataclass(*, slots: bool = False, order: bool = False, **settings: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, whose methods the class gets. Their names are the same before the first call;
        `inspect.signature` of the class too, but not that of its `__init__`."""

        def decorated(cls: type) -> type:
            is_derived = any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:])
            has_variables = any("InitVar" in str(type_) for type_ in vars(cls).get("__annotations__", {}).values())
            own_setter = not {"__setattr__", "__delattr__"}.isdisjoint(vars(cls))
            if is_derived or has_variables or own_setter or order or not slots or settings.get("unsafe_hash"):
                return dataclasses.dataclass(slots=slots, order=order, **settings)(cls)
            return _with_late_methods(cls, settings)

        return decorated


_COPIED: Final = {"init": ("__init__",), "repr": ("__repr__",), "eq": ("__eq__", "__hash__")}
"""The methods that each setting asks for."""
_MISSING: Final = type(dataclasses.MISSING)
"""By type: a class that was pickled by value has another object of this type."""
_FACTORY: Final = getattr(dataclasses, "_HAS_DEFAULT_FACTORY", object())
"""The default of an argument that a function makes; signatures show it as `<factory>`."""


def _with_late_methods(cls: type, settings: dict[str, bool]) -> type:
    own, is_frozen = dict(vars(cls)), settings.get("frozen", False)
    if not own.get("__doc__"):
        cls.__doc__ = cls.__name__  # the standard decorator takes as long for the signature as for a method
    plain = {**settings, "frozen": False, "init": False, "repr": False, "eq": False}
    made: Any = dataclasses.dataclass(slots=True, **plain)(cls)
    params = made.__dataclass_params__
    params.frozen = is_frozen
    for setting, names in _COPIED.items():
        wanted = settings.get(setting, True)
        setattr(params, setting, wanted)
        for name in names if wanted else ():
            if name == "__hash__" and not is_frozen:
                if own.get(name) is None:
                    made.__hash__ = None
            elif own.get(name) is None:  # a class with `__eq__` has None as `__hash__`
                setattr(made, name, _late(made, name, setting))
    if is_frozen:
        _freeze(made, own)
    made.__signature__ = _Signature(made)
    return made  # type: ignore[no-any-return]


def _late(made: type, name: str, setting: str) -> Callable[..., Any]:
    """A method that replaces itself by the standard one."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return _standard(made, name, setting)(self, *arguments, **named)

    method.__name__, method.__qualname__, method.__module__ = name, f"{made.__qualname__}.{name}", made.__module__
    method.is_late = True  # type: ignore[attr-defined]
    return method


def _standard(made: Any, name: str, setting: str) -> Any:
    """The method as the standard decorator makes it, which the class has from now on."""
    known = vars(made)[name]
    if not hasattr(known, "is_late"):
        return known  # another thread was here, or it was replaced
    method = _init(made) if name == "__init__" else _of_twin(made, name, setting)
    setattr(made, name, method)
    return method


def _init(made: Any) -> Any:
    """One function is compiled; the standard decorator makes none without those that freeze a class."""
    fields = dataclasses.fields(made)
    own = "__dataclass_self__" if any(field.name == "self" for field in fields) else "self"
    names: dict[str, Any] = {"__dataclass_set__": object.__setattr__, "__dataclass_missing__": _FACTORY}
    lines: list[str] = []
    in_order: list[str] = []
    by_name: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        default = f"__dataclass_default_{name}__"
        if not isinstance(field.default_factory, _MISSING):
            names[default] = field.default_factory
            value = f"{default}() if {name} is __dataclass_missing__ else {name}" if field.init else f"{default}()"
            argument = f"{name}=__dataclass_missing__"
        elif not isinstance(field.default, _MISSING):
            names[default], argument = field.default, f"{name}={default}"
            value = name if field.init else default
        else:
            argument = name
            value = name if field.init else ""
        if field.init:
            (by_name if field.kw_only else in_order).append(argument)
        if value:
            is_frozen = made.__dataclass_params__.frozen
            lines.append(f"__dataclass_set__({own}, {name!r}, {value})" if is_frozen else f"{own}.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append(f"{own}.__post_init__()")
    arguments = ", ".join([own, *in_order, *(["*", *by_name] if by_name else ())])
    body = "\n  ".join(lines or ["pass"])
    made_names: dict[str, Any] = {}
    text = f"def make({', '.join(names)}):\n def __init__({arguments}):\n  {body}\n return __init__"
    module = sys.modules.get(made.__module__)
    exec(text, vars(module) if module else {}, made_names)
    method = made_names["make"](**names)
    method.__qualname__ = f"{made.__qualname__}.__init__"
    method.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return method


def _of_twin(made: Any, name: str, setting: str) -> Any:
    """The method of a class with the same fields that the standard decorator made."""
    namespace = {
        "__module__": made.__module__,
        "__qualname__": made.__qualname__,
        "__doc__": made.__name__,
        "__annotations__": {field.name: field.type for field in dataclasses.fields(made)},
        **{field.name: _copied(field) for field in dataclasses.fields(made)},
    }
    settings = {other: other == setting for other in _COPIED} | {"frozen": made.__dataclass_params__.frozen}
    twin: type = dataclasses.dataclass(**settings)(type(made.__name__, (), namespace))
    return vars(twin)[name]


def _copied(field: dataclasses.Field[Any]) -> Any:
    settings = {name: getattr(field, name) for name in ("init", "repr", "hash", "compare", "metadata", "kw_only")}
    if not isinstance(field.default, _MISSING):
        settings["default"] = field.default
    if not isinstance(field.default_factory, _MISSING):
        settings["default_factory"] = field.default_factory
    return dataclasses.field(**settings)


def _freeze(made: Any, own: dict[str, Any]) -> None:
    """Fields cannot be assigned, and can be pickled, as the standard decorator does both."""
    names = tuple(field.name for field in dataclasses.fields(made))
    get = attrgetter(*names) if names else None

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    def state(self: Any) -> list[Any]:
        if type(self) is not made:
            return [getattr(self, field.name) for field in dataclasses.fields(self)]
        if get is None:
            return []
        values = get(self)
        return list(values) if len(names) > 1 else [values]

    def set_state(self: Any, values: list[Any]) -> None:
        own_names = names if type(self) is made else [field.name for field in dataclasses.fields(self)]
        for name, value in zip(own_names, values, strict=False):
            object.__setattr__(self, name, value)

    made.__setattr__, made.__delattr__ = set_attribute, delete_attribute
    for name, function in (("__getstate__", state), ("__setstate__", set_state)):
        if name not in own:
            setattr(made, name, function)


class _Signature:
    """The signature of the class, without that of the method that stands for `__init__`."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._known: Any = None

    def __get__(self, instance: object, owner: Any) -> Any:
        made = self._made
        if owner is not made or not made.__dataclass_params__.init or "__init__" not in vars(made):
            return None  # `inspect` looks itself
        if self._known is None:
            import inspect  # late: for those who ask

            signature = inspect.signature(_standard(made, "__init__", "init"))
            self._known = signature.replace(parameters=list(signature.parameters.values())[1:])
        return self._known
