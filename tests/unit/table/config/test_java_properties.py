"""Java's properties syntax, to the letter of java.util.Properties.load."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.config.java_properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("  a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a\t \f= b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a := b", {"a": "= b"}),
        ("=b", {"": "b"}),
        ("# c=1\n! d=2\n  # e\na=b#no", {"a": "b#no"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3\n\n", {"a": "1", "b": "2", "c": "3"}),
        (r"p=ts\:TIMESTAMP", {"p": "ts:TIMESTAMP"}),
        (r"s={\"type\"\:\"record\"\,\#\!\=}", {"s": '{"type":"record",#!=}'}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\\x\q", {"a": "\t\n\r\f\\xq"}),
        (r"a=\u00e9\u0041\u20AC", {"a": "éA€"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        (r"a=\ud83d", {"a": "�"}),
        ("a=b\\\n   c\\\r\n\td", {"a": "bcd"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n\\\n", {}),
        ("\\\n# c\na=b", {"a": "b"}),
        ("# c\\\na=b", {"a": "b"}),
        ("", {}),
    ],
)
def test_syntax(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text.encode("iso-8859-1")) == expected


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", "b=1\n\na=\\u+123"])
def test_malformed_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d+: malformed"):
        parse_properties(text.encode())


def _stored(text: str) -> str:
    """As java.util.Properties.store writes it."""
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    out = []
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = int.from_bytes(units[at : at + 2], "big")
        char = chr(code)
        if char in named:
            out.append(named[char])
        elif char in "=:#!\\ ":
            out.append("\\" + char)
        else:
            out.append(char if 0x20 <= code <= 0x7E else f"\\u{code:04X}")
    return "".join(out)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_that_java_stores_are_read_back(values: dict[str, str]) -> None:
    lines = "#comment\n" + "".join(f"{_stored(key)}={_stored(value)}\n" for key, value in values.items())
    assert parse_properties(lines.encode("ascii")) == values


@given(st.binary(max_size=200))
def test_any_bytes_give_properties_or_value_error(data: bytes) -> None:
    try:
        parse_properties(data)
    except ValueError as error:
        assert "malformed" in str(error)


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.text(
    " \t\n\r\f=:#!\\u0041é😀", max_size=12
)


@given(st.dictionaries(TEXTS, TEXTS, max_size=6), st.lists(TEXTS, max_size=3))
def test_formatted_properties_are_parsed_to_the_same_entries(entries: dict[str, str], comments: list[str]) -> None:
    data = format_properties(entries, comments)
    assert data.isascii()
    parsed = parse_properties(data)
    assert parsed == entries
    assert list(parsed) == list(entries)


def test_properties_are_escaped_as_java_does() -> None:
    data = format_properties({"a b": " c d", "é": "😀=:#!\\", "t": "\t\n\r\f"}, ("first\nsecond: é",))
    assert data == (b"#first\n#second: \\u00E9\na\\ b=\\ c d\n\\u00E9=\\uD83D\\uDE00\\=\\:\\#\\!\\\\\nt=\\t\\n\\r\\f\n")


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        format_properties({"a": "\ud83d"})


@pytest.mark.golden
def test_properties_of_every_golden_table_are_formatted_to_the_bytes_of_hudi(golden: Any) -> None:
    formatted = 0
    for case in golden.names():
        data = (golden.table(case) / ".hoodie" / "hoodie.properties").read_bytes()
        comments = [line[1:] for line in data.decode("ascii").splitlines() if line.startswith("#")]
        assert format_properties(parse_properties(data), comments) == data, case
        formatted += 1
    assert formatted > 100
