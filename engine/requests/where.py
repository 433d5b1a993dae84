"""Conditions as callers write them in Python, as the text of the option `where`.

A condition is SQL text, a `pyarrow.compute.Expression`, or a list of tuples as `pyarrow.parquet` takes it. The rows of
an expression or a list are those that PyArrow keeps: NaN fulfils no comparison but `!=`, `isin` is never null and
distinguishes -0.0 from 0.0. What cannot be translated exactly is an error.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.engine.requests.expression_tree import Call, Field, Node

Condition: TypeAlias = tuple[str | tuple[str, ...], str, object]
"""(column, operator, value). The column may be a tuple of names: a field inside a struct column."""

Where: TypeAlias = "str | pc.Expression | Sequence[Condition] | Sequence[Sequence[Condition]]"
"""SQL text, an expression, or a list: of conditions that all must be true, or of such lists, of which one must be."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda field, values: field.isin(_list(values)),
    "not in": lambda field, values: ~field.isin(_list(values)),
}
_FORM: Final = (
    'expected SQL text, a pyarrow.compute.Expression, or a list of (column, operator, value) such as [("country", "=", '
    '"NO")]; the operators are ' + ", ".join(_OPERATORS)
)
_COMPARISONS: Final = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_FLOATING: Final = re.compile("float|double")
_SHOWN_CHARS: Final = 120


def where_text(where: Where) -> str:
    """The text of the option `where` for a condition; text as it is.

    ConfigurationError: the condition is malformed, or has a part that no text means exactly.
    """
    if isinstance(where, str):
        return where
    from penstock.engine.requests.expression_tree import tree_of  # late: imports `pyarrow.compute`

    return _text(tree_of(_expression(where)))


def where_part(expression: pc.Expression, schema: pa.Schema) -> str:
    """The text of those terms of the expression's conjunction that have one for a table of this schema; '' if none has.

    Every row for which the expression is true fulfils the text. The caller evaluates the expression afterwards. A
    comparison of a decimal column with a float is left out: engines convert decimals to floats in different ways.
    """
    from penstock.engine.requests.expression_tree import known_terms_of
    from penstock.table.predicate.parse import parse_predicate

    texts = []
    for term in known_terms_of(expression):
        if not _rounds(term, schema):
            with contextlib.suppress(ConfigurationError):
                text = _text(term)
                parse_predicate(text, schema)
                texts.append(text)
    return " AND ".join(texts)


def _rounds(tree: Node, schema: pa.Schema) -> bool:
    """Whether a part of the tree has a decimal column and a float."""
    from penstock.engine.requests.expression_tree import Call, Field, Value

    if not isinstance(tree, Call):
        return False
    columns = [node.path[0] for node in tree.arguments if isinstance(node, Field)]
    literals = [node.scalar.type for node in tree.arguments if isinstance(node, Value)]
    literals += [tree.option("value_set").values.type] if tree.function == "is_in" else []
    kinds = [schema.field(name).type for name in columns if name in schema.names]
    has_float = any(_FLOATING.search(str(kind)) for kind in literals)
    return (has_float and any("decimal" in str(kind) for kind in kinds)) or any(
        _rounds(node, schema) for node in tree.arguments
    )


def _expression(where: Where) -> pc.Expression:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(where, pc.Expression):
        return where
    if not isinstance(where, Sequence) or not where:
        raise ConfigurationError(f"where is {str(where)[:_SHOWN_CHARS]!r}: {_FORM}")
    lists = [where] if isinstance(where[0], tuple) else where
    try:
        return reduce(
            operator.or_, [reduce(operator.and_, [_condition(term) for term in _terms(one)]) for one in lists]
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ConfigurationError):
            raise
        reason = str(error).partition("\n")[0][:_SHOWN_CHARS]
        raise ConfigurationError(f"where is {str(where)[:_SHOWN_CHARS]}: {reason}; {_FORM}") from None


def _terms(conjunction: object) -> Sequence[object]:
    if not isinstance(conjunction, Sequence) or isinstance(conjunction, str) or not conjunction:
        raise ConfigurationError(f"where has {str(conjunction)[:_SHOWN_CHARS]!r} instead of a list: {_FORM}")
    return conjunction


def _condition(term: object) -> pc.Expression:
    import pyarrow.compute as pc

    match term:
        case (str() as name, str() as sign, value) if sign in _OPERATORS:
            result: pc.Expression = _OPERATORS[sign](pc.field(name), value)
            return result
        case ((str(), *_) as names, str() as sign, value) if sign in _OPERATORS and isinstance(names, tuple):
            result = _OPERATORS[sign](pc.field(*names), value)
            return result
    raise ConfigurationError(f"where has the condition {str(term)[:_SHOWN_CHARS]}: {_FORM}")


def _list(values: object) -> list[object]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
        raise ConfigurationError(f"where has {str(values)[:_SHOWN_CHARS]!r} for in: expected a list or a set of values")
    return sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)  # one text for one set


def _text(tree: Node) -> str:
    """The condition as text; in parentheses unless it is one term."""
    from penstock.engine.requests.expression_tree import Call, Field, Value, terms_of

    match tree:
        case Call("and_kleene" | "or_kleene" as function, _):
            word = " AND " if function == "and_kleene" else " OR "
            return f"({word.join(_text(term) for term in terms_of(tree, function))})"
        case Call("invert", (term,)):
            return f"(NOT {_text(term)})"
        case Call(function, (left, right)) if function in _COMPARISONS:
            return _comparison(_COMPARISONS[function], left, right)
        case Call("is_in", (Field() as field,)):
            return _one_of(_name(field), tree)
        case Call("if_else", (Call("is_valid", (Field() as field,)), Call("is_in", (same,)) as members, Value(scalar))):
            if same == field and not scalar.is_valid:
                return _one_of_or_null(_name(field), members)
        case Call("is_null", (Field() as field,)):
            name = _name(field)
            with_nan = tree.options is not None and tree.option("nan_is_null").as_py()
            return f"({name} IS NULL OR isnan({name}))" if with_nan else f"{name} IS NULL"
        case Call("is_valid", (Field() as field,)):
            return f"{_name(field)} IS NOT NULL"
        case Call("is_nan", (Field() as field,)):
            return f"(isnan({_name(field)}) OR {_never(_name(field))})"
        case Call("starts_with" | "ends_with" | "match_substring" | "match_like", (Field() as field,)):
            return _like(_name(field), tree)
        case Field():
            return _name(tree)
    raise _untranslatable(tree)


def _comparison(sign: str, left: Node, right: Node) -> str:
    from penstock.engine.requests.expression_tree import Field, Value

    match left, right:
        case Field() as field, Value(scalar):
            pass
        case Value(scalar), Field() as field:
            sign = _MIRRORED[sign]
        case _:
            raise ConfigurationError(
                "the filter compares something else than a column with a literal: only comparisons of one column with "
                "one literal are possible"
            )
    name = _name(field)
    if not scalar.is_valid:
        raise ConfigurationError(f"the comparison of {name} with null is never true: use is_null() or is_valid()")
    number = _number(scalar)
    if _is_nan(number):
        return f"(NOT {_never(name)})" if sign == "!=" else _never(name)
    text = f"{name} {sign} {_literal(scalar)}"
    # NaN is greater than every number in SQL, but not in PyArrow
    return f"({text} AND NOT isnan({name}))" if number is not None and sign in (">", ">=") else text


def _one_of(name: str, call: Call) -> str:
    """`isin`: false instead of null for nulls, and true for them if they are in the list."""
    scalars = list(call.option("value_set").values)
    if call.option("null_matching_behavior").as_py() != 0:
        raise ConfigurationError(f"is_in({name}) with skip_nulls cannot be a filter: use isin of the column")
    values = [scalar for scalar in scalars if scalar.is_valid]
    with_null = len(values) < len(scalars)
    numbers = [value for value in values if not _is_nan(_number(value))]
    terms = [f"isnan({name})"] if len(numbers) < len(values) else []
    if numbers:
        members = f"{name} IN ({', '.join(dict.fromkeys(map(_literal, numbers)))})"
        zeros = [number for number in map(_number, numbers) if number == 0]
        if any(isinstance(zero, float) and math.copysign(1, zero) < 0 for zero in zeros):
            raise ConfigurationError(f"isin of {name} with -0.0: PyArrow distinguishes it from 0.0, a filter cannot")
        terms.append(f"({members} AND NOT ({name} = 0 AND signbit({name})))" if zeros else members)
    if with_null:
        return f"({' OR '.join([f'{name} IS NULL', *terms])})"
    if not terms:
        return f"({name} IS NULL AND {name} IS NOT NULL)"
    return f"({name} IS NOT NULL AND ({' OR '.join(terms)}))"


def _one_of_or_null(name: str, call: Call) -> str:
    """`if_else(is_valid, is_in, null)`, as DuckDB writes IN: null for nulls."""
    scalars = list(call.option("value_set").values)
    if not scalars or any(not one.is_valid or isinstance(_number(one), float) for one in scalars):
        raise _untranslatable(call)
    return f"{name} IN ({', '.join(dict.fromkeys(map(_literal, scalars)))})"


def _like(name: str, call: Call) -> str:
    pattern = call.option("pattern").as_py()
    text = pattern.decode() if isinstance(pattern, bytes) else str(pattern)
    if call.option("ignore_case").as_py():
        raise ConfigurationError(f"{call.function} of {name} with ignore_case cannot be a filter")
    if call.function != "match_like":
        for special in ("\\", "%", "_"):
            text = text.replace(special, f"\\{special}")
        text = ("" if call.function == "starts_with" else "%") + text + ("" if call.function == "ends_with" else "%")
    return f"{name} LIKE {_quoted(text)}"


def _never(number: str) -> str:
    """False for every number, null for null."""
    return f"({number} = 0 AND {number} != 0)"


def _number(scalar: pa.Scalar) -> int | float | Decimal | None:
    """The number; None for another type."""
    value = scalar.as_py() if re.match("u?int|half|float|double|decimal", str(scalar.type)) else None
    return value if isinstance(value, int | float | Decimal) else None


def _is_nan(number: int | float | Decimal | None) -> bool:
    return isinstance(number, float) and math.isnan(number)


def _name(field: Field) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in field.path)


def _literal(scalar: Any) -> str:
    from penstock.engine.requests.scalar_text import literal_text

    return literal_text(scalar)


def _quoted(text: str) -> str:
    from penstock.engine.requests.scalar_text import quoted

    return quoted(text)


def _untranslatable(tree: Node) -> ConfigurationError:
    from penstock.engine.requests.expression_tree import Call, Value

    match tree:
        case Call(function, _):
            what = f"the function {function}" if function not in _COMPARISONS else "a comparison"
            return ConfigurationError(f"{what} of something else than a column cannot be a filter")
        case Value(scalar):
            return ConfigurationError(f"a literal ({scalar.type}) alone cannot be a filter: compare it with a column")
    return ConfigurationError("the expression cannot be a filter")
