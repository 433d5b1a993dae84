"""Imports: their directions between folders and layers, no cycles, and the libraries of each folder.

`docs/development/architecture.md` has the reason of each rule. Limits and effects are checked in
`test_architecture_limits.py`, names and docstrings in `test_architecture_names.py`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from tests.package_sources import (
    PYPROJECT,
    REPOSITORY,
    ROOMS,
    Source,
    breaches,
    package_folders,
    package_sources,
    scripts,
)

MAY_IMPORT = {
    "proto": {"proto", "version"},
    "table": {"proto", "table"},
    "kafka": {"proto", "kafka"},
    "enumerator": {"proto", "table", "kafka", "enumerator", "version"},
    "reader": {"proto", "table", "kafka", "reader"},
    "writer": {"proto", "table", "reader", "writer"},
    "engine": {"proto", "table", "kafka", "enumerator", "reader", "writer", "engine", "version"},
    "": {"engine", "proto", "version", "errors", "spark", "daft", "duckdb", "polars", "ray"},
    "pyspark_penstock": {"engine"},
}
"""Room -> rooms that it may import. '' is the package's root."""
LAYERS: dict[str, tuple[str, ...]] = {
    "proto": (
        "errors logging v1 value_classes",
        "model retry",
        "codec enumerator group_service options service_split_service write_service",
        "client",
    ),
    "table": (
        "arrow_arrays arrow_compute block_codecs lzo wire_message",
        "storage columns parquet hfile lance orc orc_tail orc_timestamps base_formats",
        "arrow_errors config predicate",
        "partitions schema",
        "files log",
        "timeline",
        "bootstrap hudi_table",
        "metadata",
    ),
    "kafka": (
        "config errors protocols secrets",
        "client range_progress",
        "schema_registry topic_metadata",
        "partition_buffer record_reader",
        "factory shared_consumer",
    ),
    "enumerator": (
        "call_waits catalog_events clocks log observer paused_collector report_totals write_events subscriptions "
        "tick_thread visibility",
        "planning",
        "continuous",
        "snapshots handover",
        "streams",
        "store",
        "core",
        "coordinator",
        "tables",
        "catalog",
        "groups service_splits writes",
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
    "writer": ("kernels metadata_table rows transaction", "avro index", "files table_services"),
    "engine": (
        "kafka_access requests split_retry stream_offsets",
        "event_time_scan instants",
        "connect",
        "read_tasks",
        "parallel",
        "arrow group write",
        "table_services",
        "consumer demo flight spark sync table",
        "adapters",
        "doctor",
        "cli",
    ),
}
"""Room -> its modules and sub-packages by layer, the lowest first. An import goes to a lower layer, or within one."""
KNOWN_CYCLES: dict[str, tuple[frozenset[str], ...]] = {}
"""Package -> its modules and sub-packages that still import each other. Delete an entry after its cycle is removed."""
WIRE = ("proto/v1/*.py", "proto/codec/*.py", "proto/client/*.py", "enumerator/server/*.py", "enumerator/server/*/*.py")
"""Where gRPC and protobuf may be imported."""
GRPC_MODULES = re.compile(r"(grpc|grpc_health|grpc_reflection|grpc_status|google\.(protobuf|rpc))(\.|$)")
WIRE_MODULES = re.compile(r"penstock\.proto\.(v1|codec|client)(\.|$)")
"""Modules of the contract that are not values: the table and the reader must not import them."""
READING_MODULES = re.compile(r"penstock\.reader\.(merge|avro|values|base|kernels|split\.emit)(\.|$)")
"""Modules of the reader that a writer uses: it merges as a read does, and never plans or reads splits."""
PLANNING_MODULES = re.compile(
    r"penstock\.table\.(hudi_table|timeline\.(active|commits)|config\.properties|files\.slices)(\.|$)"
)
"""Modules only for planning: a reader never lists a folder and never reads `.hoodie`."""
WRITE_DECISIONS = (
    "writer/rows/*.py",
    "writer/index/*.py",
    "writer/table_services/*.py",
    "writer/transaction/clock.py",
    "writer/transaction/conflicts.py",
)
"""Modules that decide about a write: they write nothing."""
WRITING_MODULES = re.compile(
    r"penstock\.(table\.(storage\.local_writes|hudi_table)|writer\.(files|transaction\.(transaction|failed_writes|lock)))(\.|$)"
)
"""Modules that read or write a table's files."""
PROMETHEUS = ("enumerator/server/*.py", "enumerator/server/*/*.py", "engine/sync/metrics.py")
"""Where the Prometheus client may be imported."""
BARE_NAMES = set(ROOMS)
MAY_IMPORT_WRONGLY = re.compile(
    rf"\b(?:from\s*\.|from\s+(?:{'|'.join(ROOMS)})\b|import\s[^\n]*\b(?:{'|'.join(ROOMS)})\b)"
)
"""Finds too much: a text without it has no import that `test_imports_are_absolute_and_named_penstock` refuses."""
TARGETS = REPOSITORY / "engine" / "sync" / "targets"
IMPORT_TO_DISTRIBUTION = {
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "grpc_status": "grpcio-status",
    "google": "protobuf",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",  # its own core, always of the release for which it was built
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
    "confluent_kafka": "confluent-kafka",
    "llvmlite": "numba",  # numba's back end, always of the release for which it was built
    "py4j": "pyspark",  # likewise
    "hive_metastore": "pyiceberg",  # the Thrift stubs in its wheel
}


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
            if source.room == "writer" and name.startswith("penstock.reader.") and not READING_MODULES.match(name):
                lines.append(f"{source.name}:{line}: a writer uses the reader's merge and decoders, not {name}")
            if source.matches(WRITE_DECISIONS) and WRITING_MODULES.match(name):
                lines.append(f"{source.name}:{line}: a decision about a write writes nothing, and does not need {name}")
            if source.room in ("table", "reader", "writer") and WIRE_MODULES.match(name):
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
        text = path.read_text()
        if "generators" not in path.parts and MAY_IMPORT_WRONGLY.search(text):  # parsing all takes ten seconds
            source = Source(path, "", ast.parse(text, str(path)), "")
            files.append((source.name, source.imports()))
    for wrong in ("from . import x", "x = 1; import os, proto", "from proto import x", "import reader.split as r"):
        assert MAY_IMPORT_WRONGLY.search(wrong)
    assert not MAY_IMPORT_WRONGLY.search("from penstock.reader.split import emit")
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
        "pyiceberg": (REPOSITORY / "enumerator" / "catalog", {"pyiceberg"} & names(extras["hive"])),
        "thrift": (REPOSITORY / "enumerator" / "catalog", names(extras["hive"])),
        "grpcio-reflection": (REPOSITORY / "enumerator" / "server", names(extras["server"])),
        "pydantic": (REPOSITORY / "enumerator" / "server", names(extras["server"])),
        "deltalake": (TARGETS, names(extras["delta"])),
        "adbc-driver-manager": (TARGETS, names(extras["postgresql"])),
        "adbc-driver-postgresql": (TARGETS, names(extras["postgresql"])),
        **{
            name: (REPOSITORY / "engine", names(extras[name])) for name in ("daft", "duckdb", "pandas", "polars", "ray")
        },
    }
    lines = []
    for source in package_sources():
        for line, name in source.imports():
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in ("penstock", "pyspark_penstock", ""):
                continue
            distribution = IMPORT_TO_DISTRIBUTION.get(top, top)
            folder, extra = allowed_in.get(distribution, (None, set()))
            if distribution == "prometheus-client" and source.matches(PROMETHEUS):
                folder, extra = source.path, names(extras["server"])
            optional = folder is not None and source.path.is_relative_to(folder) and distribution in extra
            if distribution not in declared and not optional:
                lines.append(f"{source.name}:{line}: {top} is not among the dependencies in pyproject.toml")
    breaches(lines)
