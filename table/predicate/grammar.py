"""The grammar of `where`: parses a filter and binds it to a table's schema.

The grammar (docs/reference/semantics.md) is a subset of Spark SQL: comparisons of a column with a literal, IN, BETWEEN,
LIKE 'prefix%', IS [NOT] NULL, a boolean column alone, AND, OR, NOT and parentheses. `table.predicate.literals` decides
comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from penstock.proto.errors import ConfigurationError
from penstock.table.columns import resolve_column
from penstock.table.predicate.literals import (
    BooleanLiteral,
    Comparison,
    ConstantComparison,
    DateLiteral,
    Literal,
    Op,
    TextLiteral,
    TimestampLiteral,
    comparison,
    number,
)
from penstock.table.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    Not,
    OneOf,
    Or,
    Predicate,
    StartsWith,
)

MAX_TEXT_CHARS: Final = 64 << 10
MAX_DEPTH: Final = 16
MAX_TOKENS: Final = 6000
"""Most names, operators and literals of a filter; parsing takes about 20 µs for each. Literals of an IN list do not
count, as lists of numbers and texts bypass the parser."""
MAX_ALL_TOKENS: Final = 24_000
"""The same limit with the literals and commas of IN lists: about 12,000 literals, at 10 µs for each token."""
_LONG_LIST: Final = 16
"""A longer IN list bypasses the parser."""
_MARK: Final = "\ue000"
"""First character of the text that replaces a list of literals in the parsed tokens."""
_SHOWN_CHARS: Final = 120
_ALLOWED: Final = (
    "allowed are: column = | != | <> | < | <= | > | >= literal, IN (…), BETWEEN … AND …, LIKE 'prefix%', "
    "IS [NOT] NULL, a boolean column, NOT, AND, OR and parentheses; literals: numbers, 'text', TRUE, FALSE, "
    "DATE '…', TIMESTAMP '…'; write names with other characters in `backticks`"
)
_COMPARISONS: Final[dict[type[exp.Condition], Op]] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_MIRRORED: Final = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_SIGNS: Final = {"=", "==", "!=", "<>", "<", "<=", ">", ">=", "(", ")", ",", ".", "-"}
_QUOTED: Final = {"STRING", "NUMBER", "IDENTIFIER"}
_NESTING: Final = {"L_PAREN", "NOT", "DASH"}
_TIMESTAMPS: Final = {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"}


def parse_filter(text: str, schema: pa.Schema) -> Predicate:
    """See `predicate.parse_predicate`."""
    if len(text) > MAX_TEXT_CHARS:
        raise ConfigurationError(f"the filter has {len(text)} characters: at most {MAX_TEXT_CHARS} are allowed")
    try:
        node, lists = _parsed(text)
        return _Binding(schema, lists).predicate(node)
    except RecursionError:
        raise _too_deep() from None


def _parsed(text: str) -> tuple[exp.Condition, Mapping[str, Sequence[Literal]]]:
    """The syntax tree, and replacement text -> literals of its long IN lists."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
        if len(tokens) > MAX_ALL_TOKENS:
            raise ConfigurationError(
                f"the filter has {len(tokens)} names, signs and literals: at most {MAX_ALL_TOKENS} are allowed, "
                f"about {MAX_ALL_TOKENS // 2} literals of an IN list; read in several parts"
            )
        _check_tokens([(token.token_type.name, token.text) for token in tokens])
        tokens, lists = _without_lists(tokens)
        if len(tokens) > MAX_TOKENS:
            raise ConfigurationError(
                f"the filter has {len(tokens)} names, signs and literals: at most {MAX_TOKENS} are allowed, besides IN "
                "lists of numbers and texts; write column IN (…) instead of column = … OR column = …"
            )
        (node,) = Dialect.get_or_raise("spark").parser().parse_into(exp.Condition, tokens, text)
        if not isinstance(node, exp.Condition):
            raise ParseError("no expression")
        return node, lists
    except ParseError as error:
        place = error.errors[0] if error.errors else {}
        at = f" at line {place['line']}, column {place['col']}" if place.get("line") else ""
        raise ConfigurationError(f"cannot read the filter {text[:_SHOWN_CHARS]!r}{at}; {_ALLOWED}") from None
    except (
        SqlglotError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # builders of sqlglot raise these too
        reason = str(error).partition("\n")[0][:_SHOWN_CHARS]
        raise ConfigurationError(f"cannot read the filter {text[:_SHOWN_CHARS]!r}: {reason}; {_ALLOWED}") from None


def _check_tokens(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuses unsupported operators, and limits the parser's recursion: open parentheses, successive NOT and minus."""
    depth = run = 0
    for kind, text in tokens:
        if kind not in _QUOTED and text not in _SIGNS and not text.replace("_", "a").isalnum():
            raise ConfigurationError(f"{text[:_SHOWN_CHARS]!r} in the filter is not supported; {_ALLOWED}")
        run = run + 1 if kind in _NESTING else 0
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if max(depth, run) > MAX_DEPTH:
            raise _too_deep()


def _without_lists(tokens: Sequence[Token]) -> tuple[list[Token], dict[str, Sequence[Literal]]]:
    """Replaces each long IN list of numbers and texts by a text; returns the tokens, and text -> literals."""
    result: list[Token] = []
    lists: dict[str, Sequence[Literal]] = {}
    marked = any(_MARK in token.text for token in tokens)
    place = 0
    while place < len(tokens):
        result.append(tokens[place])
        place += 1
        if (
            marked
            or result[-1].token_type != TokenType.L_PAREN
            or place < 2
            or tokens[place - 2].token_type != TokenType.IN
        ):
            continue
        literals, end = _list_from(tokens, place)
        if len(literals) > _LONG_LIST:
            mark = f"{_MARK}{len(lists)}"
            lists[mark] = literals
            result.append(Token.string(mark))
            place = end
    return result, lists


def _list_from(tokens: Sequence[Token], place: int) -> tuple[list[Literal], int]:
    """The numbers and texts from this token on, and the index of the closing parenthesis; no literals if the list has
    anything else."""
    literals: list[Literal] = []
    while place + 1 < len(tokens):
        sign = ""
        if tokens[place].token_type == TokenType.DASH:
            sign, place = "-", place + 1
        token, following = tokens[place], tokens[place + 1] if place + 1 < len(tokens) else None
        if token.token_type == TokenType.NUMBER:
            literals.append(number(sign + token.text))
        elif token.token_type == TokenType.STRING and not sign:
            literals.append(TextLiteral(token.text))
        else:
            return [], place
        if following is not None and following.token_type == TokenType.R_PAREN:
            return literals, place + 1
        if following is None or following.token_type != TokenType.COMMA:
            return [], place
        place += 2
    return [], place


def _too_deep() -> ConfigurationError:
    return ConfigurationError(f"the filter is nested deeper than {MAX_DEPTH} levels: write it flatter")


class _Binding:
    """Converts a syntax tree into a predicate, and binds names and literals to a schema."""

    def __init__(self, schema: pa.Schema, lists: Mapping[str, Sequence[Literal]]) -> None:
        """`lists`: replacement text -> literals of the IN lists that are not in the tree."""
        self._schema, self._lists = schema, lists

    def predicate(self, node: exp.Condition) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return And(self._chain(node, exp.And))
            case exp.Or():
                return Or(self._chain(node, exp.Or))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.In() if node.expressions and not set(_arguments(node)) - {"this", "expressions"}:
                return self._one_of(self._column(node.this, node), self._literals(node.expressions))
            case exp.Between() if not set(_arguments(node)) - {"this", "low", "high"}:
                column = self._column(node.this, node)
                low = _compare(column, Op.GE, _literal(node.args["low"]))
                return And((low, _compare(column, Op.LE, _literal(node.args["high"]))))
            case exp.Like() if not set(_arguments(node)) - {"this", "expression", "negate"}:
                match = StartsWith(self._text_column(node), _prefix(node))
                return Not(match) if node.args.get("negate") else match
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self._column(node.this, node))
            case exp.Column() | exp.Dot():
                return _compare(self._column(node, node), Op.EQ, BooleanLiteral(True))
            case _ if type(node) in _COMPARISONS:
                return self._comparison(node, _COMPARISONS[type(node)])
        raise _refused(node)

    def _chain(self, node: exp.Condition, kind: type[exp.Condition]) -> tuple[Predicate, ...]:
        """The terms of a chain of ANDs or ORs. The tree is left-deep, and can be as deep as the text is long."""
        terms: list[Predicate] = []
        while isinstance(node, kind):
            terms.append(self.predicate(node.expression))
            node = node.this
        terms.append(self.predicate(node))
        return tuple(reversed(terms))

    def _comparison(self, node: exp.Condition, op: Op) -> Predicate:
        left, right = node.this, node.expression
        if isinstance(right, exp.Column | exp.Dot) and not isinstance(left, exp.Column | exp.Dot):
            left, right, op = right, left, _MIRRORED[op]
        return _compare(self._column(left, node), op, _literal(right))

    def _one_of(self, column: Column, literals: Sequence[Literal]) -> Predicate:
        bound = [comparison(str(column), column.type, Op.EQ, literal) for literal in literals]
        values = [against.value for against in bound if isinstance(against, Comparison)]
        if not values:
            return Constant(column, result=False)
        return OneOf(column, pa.array([value.as_py() for value in values], values[0].type))

    def _literals(self, nodes: Sequence[exp.Condition]) -> Sequence[Literal]:
        if len(nodes) == 1 and _is_text(nodes[0]) and nodes[0].this in self._lists:
            return self._lists[nodes[0].this]
        return [_literal(node) for node in nodes]

    def _text_column(self, node: exp.Condition) -> Column:
        column = self._column(node.this, node)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise ConfigurationError(f"column {str(column)!r} is {column.type}: LIKE is for text columns")
        return column

    def _column(self, node: exp.Condition, within: exp.Condition) -> Column:
        names = _names(node)
        if not names:
            hint = " (double quotes delimit a text; quote a column name with `backticks`)" if _is_text(node) else ""
            raise _refused(within, hint)
        first = resolve_column(names[0], self._schema.names)
        path, kind = [first], self._schema.field(first).type
        for name in names[1:]:
            if not pa.types.is_struct(kind):
                raise ConfigurationError(f"column {'.'.join(path)!r} is {kind}: it has no field {name!r}")
            fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
            path.append(resolve_column(name, tuple(fields)))
            kind = fields[path[-1]]
        return Column(tuple(path), kind)


def _names(node: exp.Condition) -> list[str]:
    """The names of a dotted column, outermost first; [] for any other node."""
    match node:
        case exp.Column():
            parts = node.parts
            return [part.name for part in parts] if all(isinstance(part, exp.Identifier) for part in parts) else []
        case exp.Dot():
            outer = _names(node.this)
            inner = node.expression
            return [*outer, inner.name] if outer and isinstance(inner, exp.Identifier) else []
    return []


def _compare(column: Column, op: Op, literal: Literal) -> Predicate:
    match comparison(str(column), column.type, op, literal):
        case Comparison(exact_op, value):
            return Compare(column, exact_op, value)
        case ConstantComparison(result):
            return Constant(column, result)


def _literal(node: exp.Condition) -> Literal:
    match node:
        case exp.Literal():
            return TextLiteral(node.this) if node.is_string else number(node.this)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}")
        case exp.Boolean():
            return BooleanLiteral(bool(node.this))
        case exp.Null():
            raise ConfigurationError("a comparison with NULL is never true: write IS NULL or IS NOT NULL")
        case exp.Cast() if _is_text(node.this) and isinstance(node.to, exp.DataType):
            kind = node.to.this.name
            if kind == "DATE":
                return DateLiteral(node.this.this)
            if kind in _TIMESTAMPS:
                return TimestampLiteral(node.this.this)
        case exp.Concat():
            raise _refused(node, " (write a quote inside a text as \\')")
    raise _refused(node)


def _prefix(node: exp.Condition) -> str:
    """The prefix of a LIKE pattern 'prefix%'. A backslash escapes %, _ and \\."""
    pattern = node.expression
    if not _is_text(pattern):
        raise _refused(node)
    text, prefix, at = pattern.this, [], 0
    while at < len(text) and text[at] != "%":
        if text[at] == "_" or (text[at] == "\\" and text[at + 1 : at + 2] not in ("%", "_", "\\")):
            break
        at += text[at] == "\\"
        prefix.append(text[at])
        at += 1
    if text[at:] != "%":
        raise ConfigurationError(
            f"LIKE {text[:_SHOWN_CHARS]!r}: only 'prefix%' is supported, one % at its end and no _"
        )
    return "".join(prefix)


def _is_text(node: exp.Condition) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _arguments(node: exp.Condition) -> Iterator[str]:
    """The names of a node's arguments that are set."""
    return (name for name, value in node.args.items() if value not in (None, False, []))


def _refused(node: exp.Condition, hint: str = "") -> ConfigurationError:
    shown = re.sub(f"'{_MARK}[0-9]+'", "…", node.sql(dialect="spark"))[:_SHOWN_CHARS]
    return ConfigurationError(f"{shown!r} in the filter is not supported{hint}; {_ALLOWED}")
