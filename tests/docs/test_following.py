"""Negative controls of `doc_following`: mistakes of a page are detected."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.docs.doc_following import Page
from tests.docs.doc_pages import Block
from tests.docs.doc_shell import looks_like, steps
from tests.docs.doc_world import SERVED, World, with_names


@pytest.fixture
def page(world: World, tmp_path: pathlib.Path) -> Iterator[Page]:
    followed = Page(tmp_path, world, SERVED, None)
    yield followed
    followed.close()


def block(language: str, text: str) -> Block:
    return Block("a page", 1, language, text, None)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "1 + 1  # → 3\n"),
        ("python", "there = [\n    1,\n]\nlen(there)  # → 2\n"),
        ("bash", "false\necho after\n"),
        ("bash", "penstock read /lake/orders --colums a\n"),
        ("console", "$ echo one\ntwo\n"),
        ("toml", 'listn = "127.0.0.1:1"\n[tables]\norders = "/lake/orders"\n'),
    ],
)
def test_page_with_a_mistake_fails(page: Page, language: str, text: str) -> None:
    with pytest.raises(AssertionError):
        page.follow(block(language, text))


def test_values_that_the_chart_refuses_fail(page: Page) -> None:
    from jsonschema import ValidationError  # late, as in `doc_following`

    with pytest.raises(ValidationError):
        page.follow(block("yaml", "tabels: {orders: a}\n"))


def test_page_keeps_names_variables_and_folder(page: Page) -> None:
    page.follow(block("python", "n = 1\n"))
    page.follow(block("python", "n + 1  # → 2\n"))
    page.follow(block("bash", "export WORD=stored\nmkdir inner && cd inner\n"))
    page.follow(block("console", "$ echo $WORD $(basename $PWD)\nstored inner\n"))


def test_output_is_compared_line_by_line() -> None:
    assert looks_like("a … c\n…\nz", "a b c\nx\ny\nz  \n")
    assert looks_like("…\nz", "z\n")
    assert not looks_like("a\nz", "a\nb\nz\n")
    assert not looks_like("a … c", "a b\nc\n")
    assert steps("$ one \\\n>   more\nout\n$ two\n") == [("one \\\n  more", "out"), ("two", "")]


def test_names_replace_only_paths() -> None:
    names = {"/lake": "L", SERVED: "S"}
    assert (
        with_names(f"/lake/orders s3://b/lake /lakes {SERVED} x/lake", names) == "L/orders s3://b/lake /lakes S x/lake"
    )
