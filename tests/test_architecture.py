"""Rules of style and structure that a machine can check: imports, pure code, sizes, names.

Add a rule here if `ast` or plain text can decide it. `docs/development/architecture.md` has the reason of each rule.
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
ROOMS = ("proto", "table", "kafka", "enumerator", "reader", "engine")
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")

MAX_FILE_LINES = 400
MAX_MODULES = 16
"""Modules of a folder beside its `__init__` and its sub-packages."""
MAX_FUNCTION_LINES = 70

MAY_IMPORT = {
    "proto": {"proto", "version"},
    "table": {"proto", "table"},
    "kafka": {"proto", "kafka"},
    "enumerator": {"proto", "table", "kafka", "enumerator", "version"},
    "reader": {"proto", "table", "kafka", "reader"},
    "engine": {"proto", "table", "kafka", "enumerator", "reader", "engine", "version"},
    "": {"engine", "proto", "version", "errors", "spark"},
    "pyspark_penstock": {"engine"},
}
"""Room -> rooms that it may import. '' is the package's root."""

LAYERS: dict[str, tuple[str, ...]] = {
    "proto": ("errors logging v1", "model retry", "codec enumerator options", "client"),
    "table": (
        "storage columns parquet hfile",
        "arrow_errors config predicate",
        "partitions schema",
        "files log",
        "timeline",
        "hudi_table",
        "metadata",
    ),
    "kafka": (
        "config errors protocols secrets",
        "client range_progress",
        "schema_registry topic_metadata",
        "record_reader",
        "factory",
    ),
    "enumerator": (
        "clocks log observer report_totals",
        "planning",
        "continuous",
        "snapshots handover",
        "streams",
        "store",
        "core",
        "coordinator",
        "tables",
        "groups",
        "embedded",
        "service",
        "server",
    ),
    "reader": (
        "kernels",
        "values",
        "merge",
        "split",
        "avro base",
        "log topics",
        "cdc",
        "merge_on_read output_schema",
        "read_split",
    ),
    "engine": (
        "kafka_access requests split_retry",
        "event_time_scan",
        "connect",
        "read_tasks",
        "parallel",
        "arrow group spark",
        "consumer demo table",
        "doctor",
        "cli",
    ),
}
"""Room -> its modules and sub-packages by layer, the lowest first. An import goes to a lower layer, or within one."""

KNOWN_CYCLES: dict[str, tuple[frozenset[str], ...]] = {}
"""Package -> its modules and sub-packages that still import each other. Delete an entry after its cycle is removed."""

STALE_WORDS = re.compile(r"(?<![A-Za-z])(told|looker|keeper|shelf|patience)(?![A-Za-z])", re.I)
PERSISTED_WORDS: frozenset[tuple[str, str]] = frozenset(
    {("engine/cli/commands/splits.py", '"told_by": source_text(step),')}
)
"""(file, line) with a given-up word in a name that is stored or sent."""
ROOMS_WITH_STALE_WORDS: set[str] = set()
"""Rooms whose rewrite is not complete. Delete a room when it is."""

ROOMS_WITH_STALE_REFERENCES: set[str] = set()
"""Rooms whose docstrings still refer to names that do not exist. Delete a room when they are fixed."""

FOREIGN_PROJECT = re.compile(
    r"Hoodie|Hudi|Spark|Kafka|Flink|Parquet|Avro|HBase|HFile|Hive|Kryo|Java|Jackson|Debezium|Roaring|Connect"
)
FOREIGN_NAMES = {"rwc", "op_key_only", "hoodie", "java", "org", "filelock", "yield", "blob", "variant"}
"""Lower-case names of other projects, and keywords of Python, that docstrings quote."""

WIRE = ("proto/v1/*.py", "proto/codec/*.py", "proto/client/*.py", "enumerator/server/*.py", "enumerator/server/*/*.py")
"""Where gRPC and protobuf may be imported."""

GRPC_MODULES = re.compile(r"(grpc|grpc_health|grpc_reflection|grpc_status|google\.(protobuf|rpc))(\.|$)")

WIRE_MODULES = re.compile(r"penstock\.proto\.(v1|codec|client)(\.|$)")
"""Modules of the contract that are not values: the table and the reader must not import them."""

PLANNING_MODULES = re.compile(
    r"penstock\.table\.(hudi_table|timeline\.(active|commits)|config\.properties|files\.slices)(\.|$)"
)
"""Modules only for planning: a reader never lists a folder and never reads `.hoodie`."""

PURE = (
    "proto/errors.py",
    "proto/model/positions.py",
    "proto/model/queries.py",
    "proto/model/splits.py",
    "proto/model/reports.py",
    "proto/model/groups.py",
    "proto/model/lost_ranges.py",
    "proto/model/streams.py",
    "proto/model/hybrid.py",
    "proto/codec/hybrid_checks.py",
    "proto/codec/hybrid_json.py",
    "kafka/config.py",
    "kafka/protocols.py",
    "kafka/errors.py",
    "kafka/range_progress.py",
    "enumerator/planning/commit_order.py",
    "enumerator/planning/slice_planner.py",
    "enumerator/core/slot_assigner.py",
    "enumerator/store/sqlite/row_format.py",
    "enumerator/store/protocol.py",
    "enumerator/store/sqlite/wal.py",
    "enumerator/observer.py",
    "enumerator/groups/activity.py",
    "enumerator/server/http/page_data.py",
    "engine/doctor/findings.py",
    "enumerator/server/metrics/catalog.py",
    "enumerator/server/auth/acl.py",
    "enumerator/server/config/settings.py",
    "proto/model/access.py",
    "proto/client/certificates.py",
    "table/storage/refusals.py",
    "enumerator/snapshots/split_list.py",
    "enumerator/streams/watermark.py",
    "enumerator/continuous/consistency.py",
    "enumerator/continuous/lag.py",
    "enumerator/continuous/round_limits.py",
    "enumerator/continuous/types.py",
    "enumerator/handover/commit_offsets.py",
    "enumerator/handover/offset_formats.py",
    "enumerator/handover/offset_fallbacks.py",
    "enumerator/handover/offsets.py",
    "enumerator/handover/topic_position.py",
    "enumerator/handover/offset_search.py",
    "enumerator/handover/explain.py",
    "table/timeline/instants.py",
    "table/files/names.py",
    "table/files/slices.py",
    "table/config/merge_rules.py",
    "table/predicate/*.py",
    "table/columns.py",
    "table/parquet/legacy_calendar.py",
    "table/log/blocks.py",
    "table/log/deletes.py",
    "table/log/positions.py",
    "reader/merge/*.py",
    "reader/kernels/*.py",
    "reader/base/legacy_calendar.py",
    "reader/base/legacy_zones.py",
)
"""Pure decisions: functions of their arguments. Every pattern must name a file.

A module whose docstring says that it is pure is checked as well.
"""

NOT_PURE = ("reader/kernels/cache.py",)
"""Modules with effects among pure files: the folder with the cache of compiled kernels."""

IMPURE_MODULES = {"time", "random", "threading", "asyncio", "socket", "subprocess", "tempfile", "secrets", "uuid"}
IMPURE_CALLS = {"open", "input", "print"}
CLOCK_READS = {"now", "utcnow", "today"}

BARE_NAMES = set(ROOMS)
VAGUE_NAMES = re.compile(r"(^|_)(utils?|common|helpers?|misc|managers?)(_|$)")

IMPORT_TO_DISTRIBUTION = {
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_status": "grpcio-status",
    "google": "protobuf",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",  # its own core, always of the release for which it was built
    "confluent_kafka": "confluent-kafka",
    "llvmlite": "numba",  # numba's back end, always of the release for which it was built
    "py4j": "pyspark",  # likewise
}


@dataclass(frozen=True)
class Source:
    """One parsed Python file of the package."""

    path: pathlib.Path
    module: str
    tree: ast.Module
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(REPOSITORY).as_posix()

    @property
    def room(self) -> str:
        parts = self.module.split(".")
        if parts[0] != "penstock":
            return parts[0]
        return parts[1] if len(parts) > 1 and parts[1] in ROOMS else ""

    def matches(self, patterns: tuple[str, ...]) -> bool:
        return any(self.path.relative_to(REPOSITORY).match(pattern) for pattern in patterns)

    def imports(self) -> Iterator[tuple[int, str]]:
        """(line, absolute dotted name) of everything imported, wherever in the file; relative ones start with a dot."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


@cache
def package_folders() -> dict[str, str]:
    """The folder of each package, relative to the repository; links of `src/penstock` are resolved."""
    folders = {"penstock": "src/penstock", "pyspark_penstock": "src/pyspark_penstock"}
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            folder = path.parent.relative_to(REPOSITORY).as_posix()
            folders["penstock." + folder.replace("/", ".")] = folder
    return folders


@cache
def package_sources() -> tuple[Source, ...]:
    """Every hand-written module of the package; generated stubs are left out."""
    lines = []
    for package, folder in package_folders().items():
        for path in sorted((REPOSITORY / folder).glob("*.py")):
            if GENERATED.search(path.name):
                continue
            module = package if path.stem == "__init__" else f"{package}.{path.stem}"
            text = path.read_text()
            lines.append(Source(path, module, ast.parse(text, str(path)), text))
    return tuple(lines)


def scripts() -> list[pathlib.Path]:
    """Python files that belong neither to the package nor to tests."""
    return [path for folder in ("tools", "bench") for path in sorted((REPOSITORY / folder).rglob("*.py"))]


@cache
def committed_files() -> tuple[str, ...]:
    """Files that are, or would be, committed; the whole tree without git."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.rglob("*") if path.is_file()]
        names = [name for name in names if not name.startswith((".venv", ".cache", ".git/"))]
    return tuple(name for name in names if (REPOSITORY / name).is_file())


def breaches(lines: list[str]) -> None:
    """Fails the test with one line per breach."""
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def test_rules_apply_to_the_package() -> None:
    rooms = {source.room for source in package_sources()}
    assert rooms == set(MAY_IMPORT)


def test_imports_follow_the_allowed_directions() -> None:
    lines = []
    for source in package_sources():
        for line, name in source.imports():
            parts = name.split(".")
            if parts[0] == "penstock" and parts[1] not in MAY_IMPORT[source.room]:
                lines.append(f"{source.name}:{line}: {source.room or 'the root'} must not import {name}")
            if source.room in ("table", "reader") and WIRE_MODULES.match(name):
                lines.append(f"{source.name}:{line}: {source.room} knows the contract's values only, not {name}")
            if source.room == "reader" and PLANNING_MODULES.match(name):
                lines.append(f"{source.name}:{line}: a split is all that a reader needs, not {name}")
    breaches(lines)


@cache
def arrows() -> tuple[tuple[str, str], ...]:
    """(importing module, imported module or package) for each import within the package, lazy ones included."""
    known = {source.module for source in package_sources()} | set(package_folders())
    pairs = set()
    for source in package_sources():
        for _, name in source.imports():
            parts = name.split(".")
            while parts and ".".join(parts) not in known:
                parts.pop()
            if parts:
                pairs.add((source.module, ".".join(parts)))
    return tuple(sorted(pairs))


def import_graph(package: str, pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The direct modules and sub-packages of a package -> those that each imports. A sub-package is one node."""
    graph: dict[str, set[str]] = {}
    for importer, imported in pairs:
        if importer.startswith(f"{package}.") and imported.startswith(f"{package}."):
            above, below = (name.removeprefix(f"{package}.").split(".")[0] for name in (importer, imported))
            graph.setdefault(above, set())
            graph.setdefault(below, set())
            if above != below:
                graph[above].add(below)
    return graph


def cycles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The strongly connected components with more than one node."""
    reach: dict[str, set[str]] = {}
    for node in graph:
        reached: set[str] = set()
        pending = list(graph[node])
        while pending:
            following = pending.pop()
            if following not in reached:
                reached.add(following)
                pending.extend(graph[following])
        reach[node] = reached
    components = {frozenset(other for other in reach[node] if node in reach[other]) for node in graph}
    return sorted((component for component in components if len(component) > 1), key=sorted)


def cycle_breaches(package: str, graph: dict[str, set[str]], allowed: tuple[frozenset[str], ...] = ()) -> Iterator[str]:
    """One line for each cycle outside an allowed one, and for each allowance that is not needed."""
    present = cycles(graph)
    for cycle in present:
        if not any(cycle <= allowance for allowance in allowed):
            imports = [f"{node} -> {other}" for node in sorted(cycle) for other in sorted(graph[node] & cycle)]
            yield f"{package}: an import cycle: {', '.join(imports)}"
    for allowance in allowed:
        if not any(cycle <= allowance for cycle in present):
            yield f"{package}: {sorted(allowance)} is no cycle any more: delete it from KNOWN_CYCLES"


def layer_breaches(
    room: str, graph: dict[str, set[str]], layers: tuple[str, ...], allowed: tuple[frozenset[str], ...] = ()
) -> Iterator[str]:
    """One line for each node without a layer, each layer's node that does not exist, and each import upward."""
    level = {node: number for number, layer in enumerate(layers) for node in layer.split()}
    yield from (f"{room}: {node} has no layer: add it to LAYERS" for node in sorted(graph.keys() - level.keys()))
    yield from (f"{room}: LAYERS names {node}, which is not there" for node in sorted(level.keys() - graph.keys()))
    for node, imported in sorted(graph.items()):
        for other in sorted(imported & level.keys()):
            excused = any({node, other} <= allowance for allowance in allowed)
            if level.get(node, level[other]) < level[other] and not excused:
                yield f"{room}: {node} imports {other}, which is in a higher layer"


def test_modules_and_sub_packages_import_each_other_without_a_cycle() -> None:
    breaches(
        [
            line
            for package in package_folders()
            for line in cycle_breaches(package, import_graph(package, arrows()), KNOWN_CYCLES.get(package, ()))
        ]
    )


def test_no_import_goes_to_a_higher_layer() -> None:
    assert set(LAYERS) == set(ROOMS)
    breaches(
        [
            line
            for room, layers in LAYERS.items()
            for line in layer_breaches(
                room,
                import_graph(f"penstock.{room}", arrows()),
                layers,
                KNOWN_CYCLES.get(f"penstock.{room}", ()),
            )
        ]
    )


FABRICATED_IMPORTS = (
    ("penstock.table.files.names", "penstock.table.config.properties"),
    ("penstock.table.config.keys", "penstock.table.log.blocks"),
    ("penstock.table.log.blocks", "penstock.table.files.slices"),
    ("penstock.table.files.slices", "penstock.table.files.names"),
    ("penstock.table.hudi_table", "penstock.table.files"),
    ("penstock.reader.base.file", "penstock.table.hudi_table"),
)
"""`files`, `config` and `log` import each other through different modules; no two modules do."""


def test_cycle_of_sub_packages_is_reported_without_a_cycle_of_modules() -> None:
    graph = import_graph("penstock.table", FABRICATED_IMPORTS)

    assert graph == {"files": {"config"}, "config": {"log"}, "log": {"files"}, "hudi_table": {"files"}}
    assert list(cycle_breaches("penstock.table", graph)) == [
        "penstock.table: an import cycle: config -> log, files -> config, log -> files"
    ]
    assert cycles(import_graph("penstock.table.files", FABRICATED_IMPORTS)) == []


def test_known_cycle_is_allowed_until_it_is_removed() -> None:
    graph = import_graph("penstock.table", FABRICATED_IMPORTS)
    known = frozenset({"files", "config", "log", "schema"})

    assert list(cycle_breaches("penstock.table", graph, (known,))) == []
    assert list(cycle_breaches("penstock.table", {"files": {"log"}, "log": set()}, (known,))) == [
        "penstock.table: ['config', 'files', 'log', 'schema'] is no cycle any more: delete it from KNOWN_CYCLES"
    ]


def test_import_of_a_higher_layer_is_reported() -> None:
    graph = import_graph("penstock.table", FABRICATED_IMPORTS)

    assert list(layer_breaches("table", graph, ("config storage", "log files"))) == [
        "table: hudi_table has no layer: add it to LAYERS",
        "table: LAYERS names storage, which is not there",
        "table: config imports log, which is in a higher layer",
    ]


def test_wire_and_engine_libraries_are_imported_only_in_their_folders() -> None:
    lines = []
    for source in package_sources():
        spark = source.room == "pyspark_penstock" or source.path.is_relative_to(REPOSITORY / "engine" / "spark")
        for line, name in source.imports():
            if GRPC_MODULES.match(name) and not source.matches(WIRE):
                lines.append(f"{source.name}:{line}: {name} belongs to codec, client and server files")
            if re.match(r"(pyspark|py4j)(\.|$)", name) and not spark:
                lines.append(f"{source.name}:{line}: {name} belongs under engine/spark")
    breaches(lines)


def test_imports_are_absolute_and_named_penstock() -> None:
    files = [(source.name, source.imports()) for source in package_sources()]
    for path in [*scripts(), *sorted((REPOSITORY / "tests").rglob("*.py"))]:
        if "generators" not in path.parts:
            source = Source(path, "", ast.parse(path.read_text(), str(path)), "")
            files.append((source.name, source.imports()))
    lines = []
    for file, imports in files:
        for line, name in imports:
            if name.startswith("."):
                lines.append(f"{file}:{line}: relative import; write `from penstock.x.y import z`")
            elif name.split(".")[0] in BARE_NAMES:
                lines.append(f"{file}:{line}: `{name}` makes a second copy of penstock.{name}")
    breaches(lines)


def test_top_level_folders_were_not_imported_by_this_run() -> None:
    for room in ROOMS:
        module = sys.modules.get(room)
        where = getattr(module, "__file__", None) or ""
        assert module is None or not where.startswith(str(REPOSITORY)), f"`import {room}` happened: {where}"


def test_third_party_imports_are_declared() -> None:
    project = PYPROJECT["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\s<>=!~\[;]", requirement, maxsplit=1)[0].lower() for requirement in requirements}

    declared = names(project["dependencies"])
    extras = project["optional-dependencies"]
    allowed_in = {
        "pyspark": (REPOSITORY / "engine" / "spark", names(extras["spark"])),
        "confluent-kafka": (REPOSITORY / "kafka", names(extras["kafka"])),
        "grpcio-reflection": (REPOSITORY / "enumerator" / "server", names(extras["server"])),
        "prometheus-client": (REPOSITORY / "enumerator" / "server", names(extras["server"])),
        "pydantic": (REPOSITORY / "enumerator" / "server", names(extras["server"])),
        **{library: (REPOSITORY / "engine", names(extras[library])) for library in ("duckdb", "pandas", "polars")},
    }
    lines = []
    for source in package_sources():
        for line, name in source.imports():
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in ("penstock", "pyspark_penstock", ""):
                continue
            distribution = IMPORT_TO_DISTRIBUTION.get(top, top)
            folder, extra = allowed_in.get(distribution, (None, set()))
            optional = folder is not None and source.path.is_relative_to(folder) and distribution in extra
            if distribution not in declared and not optional:
                lines.append(f"{source.name}:{line}: {top} is not among the dependencies in pyproject.toml")
    breaches(lines)


def test_pure_files_use_no_clock_randomness_thread_or_file() -> None:
    lines = []
    for pattern in PURE:
        if not list(REPOSITORY.glob(pattern)):
            lines.append(f"{pattern}: no such file; bring the list of pure files up to date")
    for source in package_sources():
        says_so = re.search(r"\bPure\b", ast.get_docstring(source.tree) or "")
        if source.matches(NOT_PURE) or not (says_so or source.matches(PURE)):
            continue
        for line, name in source.imports():
            if name.split(".")[0] in IMPURE_MODULES:
                lines.append(f"{source.name}:{line}: pure code imports {name}")
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                lines.append(f"{source.name}:{node.lineno}: pure code calls {node.func.id}()")
            if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_READS:
                lines.append(f"{source.name}:{node.lineno}: pure code reads a clock: .{node.func.attr}()")
    breaches(lines)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_stay_short() -> None:
    problems = []
    files = [(source.name, source.text, source.tree) for source in package_sources()]
    files += [(path.name, path.read_text(), ast.parse(path.read_text())) for path in scripts()]
    for name, text, tree in files:
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            problems.append(f"{name}: {lines} lines, at most {MAX_FILE_LINES}: it has more than one job")
        for function in functions(tree):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > MAX_FUNCTION_LINES:
                problems.append(
                    f"{name}:{function.lineno}: {function.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
                )
    breaches(problems)


def test_invariants_are_raised_by_name() -> None:
    """An `assert` is no check of foreign bytes, and is removed by `python -O`; an InvariantViolation names the
    failure."""
    breaches(
        [
            f"{source.name}:{node.lineno}: assert; raise InvariantViolation, or the error that foreign bytes deserve"
            for source in package_sources()
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Assert)
        ]
    )


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
    sources = [source for source in package_sources() if source.room not in ROOMS_WITH_STALE_REFERENCES]
    breaches([line for source in sources for line in stale_references(source, package_names())])


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
    sources = [source for source in package_sources() if source.room not in ROOMS_WITH_STALE_WORDS]
    breaches([line for source in sources for line in stale_words(source.name, source.text)])


@pytest.mark.parametrize("line", ["told = 1", "self._keeper", "kept_by(told_by)", "# Patience", "class Looker:"])
def test_given_up_word_is_reported_in_names_too(line: str) -> None:
    assert len(list(stale_words("table/fabricated.py", f"import ast\n{line}\n"))) == 1


def test_words_that_contain_a_given_up_one_are_allowed() -> None:
    assert list(stale_words("table/fabricated.py", "ZooKeeper, bookkeeper, goalkeeping, impatience")) == []


def test_module_names_describe_their_content() -> None:
    modules = [(source.name, source.path.stem) for source in package_sources()]
    folders = [(folder, pathlib.PurePosixPath(folder).name) for folder in package_folders().values()]
    breaches([f"{path}: a name that says nothing" for path, name in [*modules, *folders] if VAGUE_NAMES.search(name)])


def test_every_folder_of_the_package_is_linked_and_has_an_init() -> None:
    for room in ROOMS:
        link = REPOSITORY / "src" / "penstock" / room
        assert link.is_symlink() and link.readlink() == pathlib.Path("../..") / room
    assert [
        folder for folder in package_folders().values() if not (REPOSITORY / folder / "__init__.py").is_file()
    ] == []


def test_folders_hold_few_modules() -> None:
    lines = []
    for package, folder in package_folders().items():
        modules = [path for path in (REPOSITORY / folder).glob("*.py") if path.name != "__init__.py"]
        if len(modules) > MAX_MODULES:
            lines.append(f"{folder}: {package} has {len(modules)} modules, at most {MAX_MODULES}")
    breaches(lines)


def test_suites_are_packages_and_change_no_import_path() -> None:
    """Suites import shared modules by their full name: each folder is a package, nothing changes `sys.path`."""
    modules = [file for file in committed_files() if file.startswith("tests/") and file.endswith(".py")]
    suites = [pathlib.Path(file) for file in modules if "/generators/" not in file]
    folders = sorted({file.parent for file in suites if not (REPOSITORY / file.parent / "__init__.py").is_file()})
    changes = re.compile(r"sys\.path(\.(append|insert|extend)|\[.*\] *=| *\+=)|from \S*conftest import")
    lines = [(file, line) for file in suites for line in (REPOSITORY / file).read_text().splitlines()]
    breaches([f"{folder}: no __init__.py" for folder in folders])
    breaches([f"{file}: {line.strip()}" for file, line in lines if changes.search(line) and "re.compile" not in line])


def test_no_folder_hides_the_installed_package() -> None:
    named = {pathlib.PurePosixPath(file).parts[0] for file in committed_files()}
    assert "penstock" not in named


def test_committed_text_names_no_machine_and_no_registry() -> None:
    machine = re.compile(r"(?<![\w.$}-])/(root|tmp|home|work)/")
    hosts = re.compile(
        r"pypi\.org|pythonhosted|repo1?\.maven|maven\.org|npmjs|crates\.io|golang\.org/|deb\.debian|apache\.org/maven2",
        re.I,
    )
    own = f"{REPOSITORY}/" if len(REPOSITORY.parts) > 2 else None
    lines = []
    for name in committed_files():
        data = (REPOSITORY / name).read_bytes()
        if b"\0" in data[:8192] or name == "tests/test_architecture.py":  # binary; the patterns themselves
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if machine.search(line) or (own and own in line):
                lines.append(f"{name}:{number}: a path of one machine: {line.strip()[:100]}")
            if hosts.search(line):
                lines.append(f"{name}:{number}: a registry's address: {line.strip()[:100]}")
    breaches(lines)


def test_suites_import_the_installed_package() -> None:
    """`make check` and `make test` set PENSTOCK_TEST_INSTALLED: they import the wheel, not this tree."""
    import penstock

    assert penstock.__file__ is not None
    if os.environ.get("PENSTOCK_TEST_INSTALLED"):
        assert "site-packages" in pathlib.Path(penstock.__file__).parts
