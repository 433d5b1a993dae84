"""Names and docstrings: every public name has one, they refer to names that exist, and use the words of the field."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.package_sources import REPOSITORY, Source, breaches, package_folders, package_sources, scripts

STALE_WORDS = re.compile(r"(?<![A-Za-z])(told|looker|keeper|shelf|patience)(?![A-Za-z])", re.I)
PERSISTED_WORDS: frozenset[tuple[str, str]] = frozenset(
    {("engine/cli/commands/splits.py", '"told_by": source_text(step),')}
)
"""(file, line) with a given-up word in a name that is stored or sent."""
FOREIGN_PROJECT = re.compile(
    r"Hoodie|Hudi|Spark|Kafka|Flink|Parquet|Avro|HBase|HFile|Hive|Kryo|Java|Jackson|Debezium|Roaring|Connect"
)
FOREIGN_NAMES = {"rwc", "op_key_only", "hoodie", "java", "org", "filelock", "yield", "blob", "variant"}
"""Lower-case names of other projects, and keywords of Python, that docstrings quote."""
VAGUE_NAMES = re.compile(r"(^|_)(utils?|common|helpers?|misc|managers?)(_|$)")


def public(name: str) -> bool:
    """Whether callers may use the name."""
    return not name.startswith("_")


def undocumented(source: Source) -> Iterator[str]:
    """Public names of a module without a docstring.

    A method is excused if a base class, or a protocol of the same module, has the docstring.
    """
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.bases]
    methods = [member for node in classes for member in node.body if isinstance(member, ast.FunctionDef)]
    promised = {member.name for member in methods if ast.get_docstring(member)}
    if not ast.get_docstring(source.tree):
        yield f"{source.name}:1: the module has no docstring"
    for node in source.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not public(node.name):
            continue
        if not ast.get_docstring(node):
            yield f"{source.name}:{node.lineno}: {node.name} has no docstring"
        if isinstance(node, ast.ClassDef) and not node.bases:
            for member in node.body:
                if not isinstance(member, ast.FunctionDef) or not public(member.name) or member.name in promised:
                    continue
                if not ast.get_docstring(member):
                    yield f"{source.name}:{member.lineno}: {node.name}.{member.name} has no docstring"


def test_modules_and_public_names_have_docstrings() -> None:
    lines = [line for source in package_sources() for line in undocumented(source)]
    lines += [f"{path.name}: no docstring" for path in scripts() if not ast.get_docstring(ast.parse(path.read_text()))]
    breaches(lines)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The docstrings of a module, its classes, functions and attributes."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def names_in_code(source: Source) -> Iterator[str]:
    """Every identifier of a module, and every word of its texts except docstrings."""
    yield from source.module.split(".")
    documentation = {id(node) for node in docstrings(source.tree)}
    for node in ast.walk(source.tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str() as name) | ast.ExceptHandler(name=str() as name):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (*name.split("."), other or name)
            case ast.Constant(value=str() as text) if id(node) not in documentation:
                yield from re.findall(r"\w+", text)


@cache
def package_names() -> frozenset[str]:
    """Every name that a docstring of the package may refer to."""
    return frozenset(name for source in package_sources() for name in names_in_code(source))


def stale_references(source: Source, known: frozenset[str] | set[str]) -> Iterator[str]:
    """Names between backticks in docstrings that do not exist, one line each.

    Names with a capital letter may also belong to another project (Hudi's classes and methods) that the docstring, or
    the module's, names.
    """
    of_module = ast.get_docstring(source.tree) or ""
    for node in docstrings(source.tree):
        text = str(node.value)
        quotes_foreign_code = FOREIGN_PROJECT.search(text + of_module)
        for match in re.finditer(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`", text):
            parts = match[1].split(".")
            unknown = [part for part in parts if part not in known and parts[0] not in FOREIGN_NAMES]
            if unknown and not (quotes_foreign_code and all(part != part.lower() for part in unknown)):
                yield f"{source.name}:{node.lineno}: the docstring names `{match[1]}`, which does not exist"


def test_docstrings_refer_to_names_that_exist() -> None:
    breaches([line for source in package_sources() for line in stale_references(source, package_names())])


def test_docstring_that_refers_to_no_name_is_reported() -> None:
    text = '''"""Reads a `footer` (Hudi `HoodieFooter.readAll`); see `pages` and `moved_module.Part`."""'''
    source = Source(REPOSITORY / "table" / "fabricated.py", "penstock.table.fabricated", ast.parse(text), text)
    here = "table/fabricated.py:1: the docstring names"

    assert list(stale_references(source, {"pages", "Part"})) == [
        f"{here} `footer`, which does not exist",
        f"{here} `moved_module.Part`, which does not exist",
    ]
    assert list(stale_references(source, {"pages", "Part", "footer", "moved_module"})) == []


def stale_words(name: str, text: str) -> Iterator[str]:
    """Lines with a word of the given-up private language, one line each."""
    for number, line in enumerate(text.splitlines(), 1):
        if (word := STALE_WORDS.search(line)) and (name, line.strip()) not in PERSISTED_WORDS:
            yield f"{name}:{number}: {word[1]!r}: use the field's word: {line.strip()[:80]}"


def test_code_uses_the_words_of_the_field() -> None:
    breaches([line for source in package_sources() for line in stale_words(source.name, source.text)])


@pytest.mark.parametrize("line", ["told = 1", "self._keeper", "kept_by(told_by)", "# Patience", "class Looker:"])
def test_given_up_word_is_reported_in_names_too(line: str) -> None:
    assert len(list(stale_words("table/fabricated.py", f"import ast\n{line}\n"))) == 1


def test_words_that_contain_a_given_up_one_are_allowed() -> None:
    assert list(stale_words("table/fabricated.py", "ZooKeeper, bookkeeper, goalkeeping, impatience")) == []


def test_module_names_describe_their_content() -> None:
    modules = [(source.name, source.path.stem) for source in package_sources()]
    folders = [(folder, pathlib.PurePosixPath(folder).name) for folder in package_folders().values()]
    breaches([f"{path}: a name that says nothing" for path, name in [*modules, *folders] if VAGUE_NAMES.search(name)])
