"""Classes with late methods behave as those of the standard decorator."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytest

from penstock.proto import value_classes

T = TypeVar("T")
Decorator = Callable[..., Callable[[type], Any]]
BOTH: list[Decorator] = [dataclasses.dataclass, value_classes.dataclass]


class Named(Protocol):
    """What a class may derive from."""

    def name(self) -> str: ...


def shapes(decorator: Decorator) -> list[tuple[Any, list[Any]]]:
    """Classes, each with some instances; the first two are equal."""

    @decorator(frozen=True, slots=True)
    class Plain:
        """Documented."""

        number: int
        text: str = "t"
        items: tuple[int, ...] = ()
        limit: ClassVar[int] = 3

    @decorator(frozen=True, slots=True, kw_only=True)
    class Keyword:
        hidden: str = field(repr=False)
        free: int = field(default=1, compare=False)
        made: dict[str, int] = field(default_factory=dict, hash=False)
        late: int = field(init=False)
        fixed: int = field(init=False, default=7)

        def __post_init__(self) -> None:
            object.__setattr__(self, "late", len(self.hidden))

    @decorator(frozen=True, slots=True)
    class One:
        self: Any

    @decorator(frozen=True, slots=True)
    class Nothing:
        pass

    @decorator(slots=True)
    class Mutable:
        name: str
        items: list[int] = field(default_factory=list)

    @decorator(frozen=True, slots=True, eq=False)
    class ByIdentity:
        name: str

    @decorator(frozen=True, slots=True)
    class OwnMethods(Named):
        value: int

        def name(self) -> str:
            return "n"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnMethods) and self.value % 10 == other.value % 10

        def __hash__(self) -> int:
            return self.value % 10

        def __repr__(self) -> str:
            return f"<{self.value}>"

    @decorator(frozen=True, slots=True)
    class OwnEq(Generic[T]):
        value: int

        def __eq__(self, other: object) -> bool:
            return True

    @decorator(frozen=True, slots=True, order=True)
    class Ordered:
        value: int

    @decorator(frozen=True, slots=True)
    class Derived(Plain):
        more: int = 5

    @decorator(frozen=True, slots=True, repr=False)
    class WithInitVar:
        value: dataclasses.InitVar[int]
        twice: int = 0

        def __post_init__(self, value: int) -> None:
            object.__setattr__(self, "twice", 2 * value)

    nan = float("nan")
    return [
        (Plain, [Plain(1), Plain(1, "t", ()), Plain(2), Plain(1, text="x", items=(3,))]),
        (
            Keyword,
            [Keyword(hidden="a"), Keyword(hidden="a", free=2), Keyword(hidden="b"), Keyword(hidden="a", made={"k": 1})],
        ),
        (One, [One(nan), One(nan), One(1), One(None)]),
        (Nothing, [Nothing(), Nothing()]),
        (Mutable, [Mutable("a"), Mutable("a", []), Mutable("b")]),
        (ByIdentity, [ByIdentity("a"), ByIdentity("a")]),
        (OwnMethods, [OwnMethods(1), OwnMethods(11), OwnMethods(2)]),
        (OwnEq, [OwnEq(1), OwnEq(2)]),
        (Ordered, [Ordered(1), Ordered(1), Ordered(2)]),
        (Derived, [Derived(1), Derived(1), Derived(1, more=6)]),
        (WithInitVar, [WithInitVar(1), WithInitVar(1), WithInitVar(2)]),
    ]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of its error."""
    try:
        return call()
    except (TypeError, AttributeError, ValueError) as error:
        return type(error), str(error)


def facts(cls: Any, values: list[Any]) -> dict[str, Any]:
    """What a user sees of a class and its instances."""
    first, second = values[:2]
    copies = [outcome(lambda v=value: copy.copy(v) is not v and repr(copy.copy(v)) == repr(v)) for value in values]
    return {
        "signature": str(inspect.signature(cls)),
        "init": str(inspect.signature(cls.__init__)),
        "annotations": cls.__init__.__annotations__,
        "fields": [(item.name, item.type, item.kw_only, item.repr) for item in dataclasses.fields(cls)],
        "params": repr(cls.__dataclass_params__),
        "slots": cls.__slots__,
        "match": cls.__match_args__,
        "names": {name for name in vars(cls) if name not in ("__signature__", "__weakref__")},
        "repr": [repr(value) if "0x" not in repr(value) else "" for value in values],
        "equal": [[left == right for right in values] for left in values],
        "other": [value == 1 for value in values],
        "hash": [outcome(lambda v=value: (hash(v) == hash(first), hash(v) == hash(second))) for value in values],
        "unhashable": outcome(lambda: {first}.__class__),
        "without": outcome(lambda: cls(wrong=1)),
        "replace": [outcome(lambda v=value: repr(replace(v)) == repr(v)) for value in values],
        "copies": copies,
        "less": outcome(lambda: first < values[-1]),
        "set": [outcome(lambda n=name: setattr(copy.copy(first), n, 2)) for name in cls.__slots__],
        "weak": isinstance(outcome(lambda: weakref.ref(first)), tuple),
    }


def test_classes_are_those_of_the_standard_decorator() -> None:
    for standard, late in zip(*(shapes(decorator) for decorator in BOTH), strict=True):
        assert facts(*late) == facts(*standard), standard[0].__name__


def test_signature_is_that_before_the_first_call() -> None:
    """The control: the class has not made its method when it is asked."""

    @value_classes.dataclass(frozen=True, slots=True)
    class Late:
        number: int
        items: list[int] = field(default_factory=list)

    assert hasattr(Late.__init__, "is_late")
    assert hasattr(Late.__eq__, "is_late")
    assert str(inspect.signature(Late)) == "(number: 'int', items: 'list[int]' = <factory>) -> None"
    assert not hasattr(Late.__init__, "is_late")
    assert Late(1) == Late(1)
    assert not hasattr(Late.__eq__, "is_late")


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, "a"), {}),
    ((1, "a", (), 4), {}),
    ((1,), {"number": 1}),
    ((), {"number": 1}),
    ((), {"text": "b", "number": 1}),
    ((1,), {"wrong": 1}),
    ((1,), {"made": 1}),
    ((), {"hidden": "a"}),
    ((), {"hidden": "a", "free": 2, "made": {}}),
    (("a",), {}),
]
"""Right for some classes, wrong for others."""


@pytest.mark.parametrize("uncompiled", [0, 1_000_000])
@pytest.mark.parametrize(("values", "named"), ARGUMENTS)
def test_constructors_are_those_of_the_standard_decorator(
    uncompiled: int, values: tuple[Any, ...], named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether `__init__` is compiled or not, which it is after an error."""
    monkeypatch.setattr(value_classes, "_UNCOMPILED_CALLS", uncompiled)
    standard, late = (
        [outcome(lambda c=cls: repr(c(*values, **named)).split("0x")[0]) for cls, _ in shapes(decorator)]
        for decorator in BOTH
    )
    assert late == standard


def test_a_constructor_is_compiled_when_it_is_called_often() -> None:
    """With defaults that a function makes for each instance, and a method after it."""
    seen = []

    @value_classes.dataclass(frozen=True, slots=True)
    class Often:
        number: int
        items: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            seen.append(self.number)

    numbers = []
    while hasattr(Often.__init__, "is_late"):
        numbers.append(len(numbers))
        often = Often(numbers[-1])
        often.items.append(1)
        assert often.items == [1]
    assert 5 < len(numbers) < 20
    assert seen == numbers
    assert Often(3).items == []


@value_classes.dataclass(frozen=True, slots=True, weakref_slot=True)
class Kept:
    """A class that pickle finds."""

    number: int
    text: str = ""


def test_frozen_and_pickled() -> None:
    kept = Kept(1, "a")
    for change in (lambda: setattr(kept, "number", 2), lambda: delattr(kept, "text"), lambda: setattr(kept, "new", 2)):
        with pytest.raises(FrozenInstanceError):
            change()
    assert pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept) == kept == replace(kept, number=1)
    assert pickle.loads(pickle.dumps(kept)) != Kept(2, "a")
    assert weakref.ref(kept)() is kept

    @dataclasses.dataclass(frozen=True, slots=True)
    class Standard:
        number: int
        text: str = ""

    assert Standard(1, "a").__getstate__() == kept.__getstate__()  # type: ignore[attr-defined]


def test_subclass_has_its_own_signature() -> None:
    class Sub(Kept):
        def __init__(self, name: str) -> None:
            super().__init__(len(name), name)

    assert list(inspect.signature(Sub).parameters) == ["name"]
    assert Sub("ab").number == 2


@pytest.mark.parametrize("decorator", BOTH)
def test_a_frozen_class_derived_without_slots_keeps_its_fields(decorator: Decorator) -> None:
    @decorator(frozen=True, slots=True)
    class Base:
        number: int

    @dataclasses.dataclass(frozen=True)
    class Derived(Base):
        more: int = 1

    assert copy.copy(Derived(2, 5)) == Derived(2, 5)


@pytest.mark.parametrize("decorator", BOTH)
def test_an_unsafe_hash_is_made(decorator: Decorator) -> None:
    @decorator(slots=True, unsafe_hash=True)
    class Hashed:
        number: int

    assert hash(Hashed(1)) == hash(Hashed(1))


def test_a_copy_of_the_marker_of_a_missing_default_is_one() -> None:
    """A class that is pickled by value gets such copies."""
    without_default: Any = field(repr=False)
    without_default.default = without_default.default_factory = without_default.kw_only = type(dataclasses.MISSING)()

    @value_classes.dataclass(frozen=True, slots=True)
    class Copied:
        number: int = without_default

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'number'"):
        Copied()  # the constructor is compiled after an error
    assert not hasattr(Copied.__init__, "is_late")
    assert Copied(3).number == 3
    assert repr(Copied(3)).endswith(".Copied()")
    assert [item.default for item in dataclasses.fields(Copied)] == [dataclasses.MISSING]


@pytest.mark.parametrize("decorator", [dataclasses.dataclass, value_classes.dataclass])
def test_definitions_that_the_standard_decorator_refuses(decorator: Decorator) -> None:
    with pytest.raises(ValueError, match="mutable default"):
        decorator(slots=True)(type("Shared", (), {"__annotations__": {"a": "list"}, "a": []}))
    with pytest.raises(TypeError, match="__slots__"):
        decorator(slots=True)(type("Own", (), {"__annotations__": {"a": "int"}, "__slots__": ("a",)}))


@pytest.mark.parametrize("decorator", [dataclasses.dataclass, value_classes.dataclass])
def test_a_type_whose_name_begins_like_a_class_variable_is_one_of_a_field(decorator: Decorator) -> None:
    made: Any = decorator(slots=True)(type("Named", (), {"__annotations__": {"a": "ClassVariable", "b": "ClassVar"}}))
    assert [field.name for field in dataclasses.fields(made)] == ["a"]
    assert made(1).a == 1


@pytest.mark.parametrize("decorator", [dataclasses.dataclass, value_classes.dataclass])
def test_a_subclass_with_its_own_setter_is_asked_at_each_call(decorator: Decorator) -> None:
    made: Any = decorator(slots=True)(type("Base", (), {"__annotations__": {"a": "int"}}))
    seen: list[tuple[str, int]] = []

    class Derived(made):
        def __setattr__(self, name: str, value: int) -> None:
            seen.append((name, value))

    for number in range(12):
        Derived(number)
    assert seen == [("a", number) for number in range(12)]


@pytest.mark.parametrize("decorator", [dataclasses.dataclass, value_classes.dataclass])
def test_a_wrapped_constructor_can_be_called_often(decorator: Decorator) -> None:
    made: Any = decorator(slots=True, frozen=True)(type("Wrapped", (), {"__annotations__": {"a": "int"}}))
    original = made.__init__
    made.__init__ = lambda instance, a: original(instance, a)
    assert [made(number).a for number in range(12)] == list(range(12))


@pytest.mark.parametrize("decorator", [dataclasses.dataclass, value_classes.dataclass])
def test_wrong_arguments_call_no_factory(decorator: Decorator) -> None:
    calls: list[int] = []
    value = dataclasses.field(default_factory=lambda: calls.append(1))
    made: Any = decorator(slots=True)(type("Made", (), {"__annotations__": {"a": "int", "b": "object"}, "b": value}))
    with pytest.raises(TypeError):
        made()
    made(1)
    assert calls == [1]
