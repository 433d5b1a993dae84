"""Apache Arrow's Flight client for Java reads tables and changes: the rows of `penstock.read`."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule
from tests.golden.rows import difference
from tests.interop.flight_java import JavaClient
from tests.unit.engine.flight.served import served

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = [pytest.mark.interop, pytest.mark.golden, pytest.mark.timeout(900)]
MOR, CDC, TYPES = "A_compaction_then_updates_v9_h120", "B_v9_cdc_mor_data_before_after", "A_types_v9_h120"


@pytest.fixture(scope="module")
def java_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    yield JavaClient(tmp_path_factory.mktemp("flight-java"))


def command(table: str, **keys: Any) -> str:
    return json.dumps({"table": table, **keys})


def test_java_reads_what_python_reads(java_client: JavaClient, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """A table with logs, the changes of a range, every type, a filter, and errors; with tokens."""
    paths = {"mor": str(golden.table(MOR)), "cdc": str(golden.table(CDC)), "types": str(golden.table(TYPES))}
    token, line = new_token("java")
    (tmp_path / "tokens").write_text(line + "\n")
    security = {
        "tokens": str(tmp_path / "tokens"),
        "acl": (AclRule(principal="token:java", rights=("read", "plan"), tables=("mor", "cdc", "types")),),
    }
    reads: list[tuple[str, pa.Table]] = [
        ("path:mor", penstock.read(paths["mor"]).read_all()),
        ("path:types", penstock.read(paths["types"]).read_all()),
        (
            command("mor", query="incremental", after="earliest"),
            penstock.read(paths["mor"], query="incremental", after="earliest").read_all(),
        ),
        (
            command("cdc", query="cdc", after="earliest"),
            penstock.read(paths["cdc"], query="cdc", after="earliest").read_all(),
        ),
        (
            command("mor", columns=["id"], where="id > 'id-010'", limit=5),
            penstock.read(paths["mor"], columns=["id"], where="id > 'id-010'", limit=5).read_all(),
        ),
    ]
    refused = ["path:nope", command("mor", columns=["nope"]), command("mor", colums=[]), "forged:mor"]
    with served({**paths, "secret": paths["mor"]}, security) as running:
        answers = java_client.run(running.address, [*(request for request, _ in reads), *refused, "list"], token)
        without_token = java_client.run(running.address, ["path:mor"])
    for (request, expected), (printed, parts) in zip(reads, answers, strict=False):
        assert printed.startswith(f"ok {len(parts)} {str('query' in request).lower()} -1"), (request, printed)
        rows = pa.concat_tables(parts)
        assert rows.schema.names == expected.schema.names
        assert difference(rows, expected) == "", request
        assert rows.equals(expected.cast(rows.schema)), f"{request}: the order differs"
    assert difference(pa.concat_tables(answers[0][1]), reads[2][1].slice(1)) != "", "the comparison finds a difference"
    codes = [printed.split(" ")[1] for printed, _ in answers[len(reads) : -1]]
    assert codes == ["UNAUTHORIZED", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "UNAUTHORIZED"]
    assert answers[-1][0] == "list cdc mor types"
    assert without_token[0][0].startswith("error UNAUTHENTICATED UNAUTHENTICATED: no token was sent")
