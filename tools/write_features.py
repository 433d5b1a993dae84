"""Which tests of writes use which feature: a table for docs/reference/compatibility.md, from the source of the tests.

Each set of parameters of a test in tests/interop is a case. Its facts are what its calls name: functions, texts among
their arguments, and options, also those of the functions and methods of its module that it calls. A feature counts the
cases of which a fact matches. A feature without a case is an error, and so is a case without a feature.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table."""

    name: str
    """Its name on the page."""
    pattern: str
    """What a whole fact of a case matches."""
    also: str = ""
    """What another fact of the case must match; '' for none."""


@dataclass(frozen=True, slots=True)
class Case:
    """A test with a set of parameters."""

    name: str
    """Module and test."""
    column: str
    """Its column of the table."""
    facts: frozenset[str]
    """What its calls name."""


OLDER: Final = "old_hudi"
"""The fixture of the older release of Hudi."""
_MERGE_ON_READ: Final = r".*\bmerge_on_read\b.*"


def _operation(name: str) -> Feature:
    return Feature(f"Operation {name}", rf"(?!by_hudi|hudi)\w+\({name}\)|(default )?operation={name}")


def _index(name: str, more: str = "") -> Feature:
    return Feature(f"Index {name}", rf"index={name}|(Trip|Serviced|Logged|Lake|shape|wrote)\({name}\){more}")


def _generator(name: str) -> Feature:
    return Feature(f"Key generator {name}", rf"compare_paths\({name}\)|key_generator={name}")


FEATURES: Final = (
    *map(_operation, ("insert", "bulk_insert", "upsert", "delete", "insert_overwrite", "insert_overwrite_table")),
    _operation("delete_partition"),
    *map(_generator, ("SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM")),
    Feature("Key generator NON_PARTITION", "create_table without partition_by"),
    Feature("Record keys, by type", r"test .*finds_the_keys_that_penstock_wrote"),
    _index("bucket", r"|buckets=\d+"),
    *map(_index, ("simple", "bloom", "global_simple", "global_bloom")),
    Feature("Index BLOOM of Hudi", r"hoodie\.index\.type=BLOOM|wrote\(bloom\)"),
    Feature("Columns added or widened", r"test .*(added_column|widened).*"),
    *(
        Feature(f"Change logging {mode}", rf"mode={mode}|Logged\({mode}\)")
        for mode in ("op_key_only", "data_before", "data_before_after")
    ),
    Feature("Stored operations", r"hoodie\.allow\.operation\.metadata\.field=true"),
    Feature("Compaction by Penstock", r"call penstock\.compact"),
    Feature(
        "Compaction by Hudi",
        r"hoodie\.compact\.inline=true|(service|service_call|call|by_hudi)\(compaction\)|compact\((schedule|execute)\)",
        _MERGE_ON_READ,
    ),
    Feature("Clustering by Penstock", r"call penstock\.cluster"),
    Feature("Clustering by Hudi", r"(service|call)\(clustering\)"),
    Feature("Clean by Penstock", r"call (penstock\.)?clean"),
    Feature("Clean by Hudi", r"hoodie\.clean\.automatic=true|by_hudi\(clean\)"),
    Feature("Archival by Penstock", r"call (penstock\.)?archive"),
    Feature("Archival by Hudi", r"hoodie\.archive\.automatic=true|by_hudi\(archive\)"),
    Feature("Savepoint and restore by Penstock", r"call (penstock\.)?restore"),
    Feature("Restore by Hudi", r"text .*rollback_to_savepoint.*"),
    Feature("Rollback of a write", r"call (penstock\.)?rollback"),
    Feature("A writer that was killed or rolled back", r"as_other_process\(\)|test .*rolls_a_running_write_back"),
    Feature("Metadata table of Hudi", r"hoodie\.metadata\.enable=true"),
    Feature("Metadata table of Penstock", r"metadata_table=True"),
    Feature("Upgrade to version 9 by Hudi", r"hoodie\.write\.auto\.upgrade=true"),
    Feature("Snapshot query", r"read\(\)|check\(.*\)|snapshot\(\)"),
    Feature("Read-optimized query", r"query=read_optimized|hoodie\.datasource\.query\.type=read_optimized"),
    Feature("Time travel", r"as_of(=.*)?"),
    Feature("Incremental query", r"query=incremental|incremental\(.*\)"),
    Feature("Change query", r"query=cdc|read_changes\(.*\)"),
)


def table_of(cases: list[Case], columns: Mapping[str, str]) -> list[str]:
    """The lines of the table. columns: column -> its heading.

    SystemExit for a feature without cases, or a case that has no feature beside queries.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for case in cases:
        matches = [feature for feature in FEATURES if has(case, feature)]
        if all(feature.name.endswith(("query", "travel")) for feature in matches):
            raise SystemExit(f"{case.name} matches no feature of the page: add one to FEATURES")
        counts.update((feature.name, case.column) for feature in matches)
    lines = [f"| feature | {' | '.join(columns.values())} |", "|---" * (1 + len(columns)) + "|"]
    for feature in FEATURES:
        if not any(counts[feature.name, column] for column in columns):
            raise SystemExit(f"no test of tests/interop has the feature {feature.name!r} of the page")
        cells = [f"{counts[feature.name, column]}" if counts[feature.name, column] else "–" for column in columns]
        lines.append(f"| {feature.name} | {' | '.join(cells)} |")
    return lines


def has(case: Case, feature: Feature) -> bool:
    """Whether the facts of a case match the feature."""
    patterns = [feature.pattern, *([feature.also] if feature.also else [])]
    return all(any(re.fullmatch(pattern, fact) for fact in case.facts) for pattern in patterns)


def facts_of(test: ast.FunctionDef, module: ast.Module, names: Mapping[str, Any], given: Mapping[str, Any]) -> set[str]:
    """What the calls of a test name, with these parameters. names: of its module."""
    facts = {f"test {test.name}", *(f"{name}={value}" for name, value in given.items())}
    functions = _functions(module, test)
    reached: list[ast.AST] = [test]
    seen: set[ast.AST] = {test}
    while reached:
        for node in _nodes(reached.pop(), given):
            facts.update(_facts_of_node(node, names, given))
            if isinstance(node, ast.Call):
                for function in functions.get(_name(node.func), ()):
                    facts.update(_defaults(function, node))
                    if function not in seen:
                        seen.add(function)
                        reached.append(function)
    return facts


def _functions(module: ast.Module, test: ast.FunctionDef) -> dict[str, list[ast.FunctionDef]]:
    """The functions and methods of a module by name, and those inside of a test; a class by the methods that make an
    instance."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    for node in (*module.body, *ast.walk(test)):
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    is_initial = method.name in ("__init__", "__post_init__")
                    functions.setdefault(node.name if is_initial else method.name, []).append(method)
    return functions


def _nodes(node: ast.AST, given: Mapping[str, Any]) -> Iterator[ast.AST]:
    """The nodes below, without branches that the parameters exclude."""
    yield node
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If | ast.IfExp) and (is_true := _value(node.test, given)) is not None:
        branch = node.body if is_true else node.orelse
        children = branch if isinstance(branch, list) else [branch]
    for child in children:
        yield from _nodes(child, given)


def _value(node: ast.expr, given: Mapping[str, Any]) -> Any:
    """The value of an expression of parameters and constants; None for others."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    if not names <= given.keys() or any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
        return None
    return eval(compile(ast.Expression(node), "a test", "eval"), dict(given))


def _facts_of_node(node: ast.AST, names: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield from _facts_of_call(node, given)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                yield f"{str(key.value).replace('__', '.')}={value.value}"
    elif isinstance(node, ast.Name) and isinstance(options := names.get(node.id), dict):
        yield from (f"{key}={value}" for key, value in options.items() if isinstance(value, str))
    elif isinstance(node, ast.JoinedStr):
        yield "text " + " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))


def _facts_of_call(call: ast.Call, given: Mapping[str, Any]) -> Iterator[str]:
    name = _name(call.func)
    yield from (f"{name}()", f"call {ast.unparse(call.func)}")
    values = [_value(argument, given) for argument in call.args if not isinstance(argument, ast.Starred)]
    yield from (f"{name}({value})" for value in values if isinstance(value, str))
    keywords = {keyword.arg for keyword in call.keywords}
    if name == "create_table" and not keywords & {"partition_by", None}:
        yield "create_table without partition_by"
    if ast.unparse(call.func) in ("write", "penstock.write") and len(call.args) < 3 and "operation" not in keywords:
        yield "default operation=upsert"
    for keyword in call.keywords:
        if keyword.arg:
            yield keyword.arg
            if (value := _value(keyword.value, given)) is not None:
                yield f"{keyword.arg.replace('__', '.')}={value}"


def _defaults(function: ast.FunctionDef, call: ast.Call) -> Iterator[str]:
    """The constants that a call leaves to a function."""
    arguments = [argument.arg for argument in function.args.args if argument.arg != "self"]
    known = {*arguments[: len(call.args)], *(keyword.arg for keyword in call.keywords)}
    with_default = arguments[len(arguments) - len(function.args.defaults) :]
    for name, default in zip(with_default, function.args.defaults, strict=True):
        if name not in known and isinstance(default, ast.Constant):
            yield f"default {name}={default.value}"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
