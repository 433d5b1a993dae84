"""The tables of a data server: their descriptions, the plans of flights, and the rows of a ticket."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.engine.connect import embedded_enumerator, enumerator_for
from penstock.engine.flight.descriptor import FlightRequest
from penstock.engine.flight.errors import expired_if_gone
from penstock.engine.flight.ticket import Ticket
from penstock.engine.read_tasks import ReadTask, SharedByTasks, open_read
from penstock.engine.requests.batch import RANGES
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import Overloaded, PenstockError, TableNotFound
from penstock.proto.model.reports import TableDescription
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.proto.retry import RetryPolicy
from penstock.reader.read_split import output_schema
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.uris import redacted_uri

MAX_PLANS: Final = 4
"""Plans and their answers made at once; further calls wait."""
PLAN_WAIT_S: Final = 30
"""How long a call waits for its turn, in seconds."""


@dataclass(frozen=True, slots=True)
class PlannedFlight:
    """The plan of a flight."""

    schema: pa.Schema
    """The schema of every batch."""
    content: Ticket | None = field(repr=False)
    """A ticket with all splits of the plan; None: there are no splits."""
    bytes: int
    """The bytes on storage of all splits."""
    in_order: bool
    """Whether the order of the splits has a meaning: ranges of commits are in commit order."""


class FlightTables:
    """The tables by name. Any thread."""

    def __init__(self, paths: Mapping[str, str], planner: Mapping[str, object]) -> None:
        """`paths`: where this process reads the tables. `planner`: the options `server…` of the server that plans and
        has the tables under the same names; empty: this process plans."""
        self._paths, self._planner = dict(paths), dict(planner)
        self._embedded = None if planner else embedded_enumerator(tables=paths)
        self._enumerator: Enumerator = self._embedded or _server_of(planner)
        self._plans = threading.BoundedSemaphore(MAX_PLANS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(sorted(self._paths))

    def path(self, table: str) -> str:
        """The path or URI of a table. TableNotFound: there is no table of that name here."""
        path = self._paths.get(table)
        if path is None:
            raise TableNotFound(f"no table {table[:200]!r} is served here: ListFlights lists the tables")
        return path

    def describe(self, table: str) -> TableDescription:
        """The table now."""
        with self._named(table):
            return self._enumerator.describe_table(table)

    @contextmanager
    def planned(self, request: FlightRequest, principal: str, expires_s: float) -> Iterator[PlannedFlight]:
        """Plans a read for a caller, who makes the answer before the block ends: at most MAX_PLANS plans and their
        tickets are in memory. Errors: `penstock.proto.errors`."""
        self.path(request.table)  # an unknown name waits for no turn
        options = request.parsed(self._planner)
        if not self._plans.acquire(timeout=PLAN_WAIT_S):
            raise Overloaded(f"{MAX_PLANS} flights are being planned, and none ended for {PLAN_WAIT_S} s: retry later")
        try:
            with self._named(request.table):
                flight = self._plan(request.table, options, principal, expires_s)
            yield flight
        finally:
            self._plans.release()

    def _plan(self, table: str, options: ParsedOptions, principal: str, expires_s: float) -> PlannedFlight:
        planned = open_read(table, options, self._embedded).planned()
        content = None
        if planned.tasks:
            content = Ticket(
                table=table,
                principal=principal,
                expires_s=expires_s,
                scan=planned.scan,
                splits=tuple(task.split for task in planned.tasks),
                batch_rows=options.batch_rows,
                limit=options.limit,
            )
        size = sum(task.bytes for task in planned.tasks)
        return PlannedFlight(planned.schema, content, size, options.query in RANGES)

    def read(self, ticket: Ticket, stop: threading.Event) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        """The schema and the rows of a ticket. Closing the generator closes its files. When `stop` is set, an error of
        storage is not retried. PositionExpired: a file of the plan is deleted."""
        scan = replace(ticket.scan, table=ticket.table, base_path=self.path(ticket.table))
        with self._named(ticket.table):
            schema = output_schema(scan)
        shared = SharedByTasks(
            scan=scan,
            schema=schema,
            limit=ticket.limit,
            batch_rows=ticket.batch_rows,
            event_time="",
            event_time_unit="",
            retry=RetryPolicy(),
            plan=None,
        )
        tasks = [ReadTask(split, shared, 0, index) for index, split in enumerate(ticket.splits)]
        return schema, self._batches(tasks, ticket, stop)

    def _batches(
        self, tasks: list[ReadTask], ticket: Ticket, stop: threading.Event
    ) -> Generator[pa.RecordBatch, None, None]:
        left = ticket.limit
        with self._named(ticket.table):
            try:
                for task in tasks:
                    if left == 0:
                        return
                    with closing(task.batches(left, stop=stop)) as batches:
                        for batch in batches:
                            if left is not None:
                                left -= batch.num_rows
                            yield batch
            except PenstockError as error:
                raise expired_if_gone(error, ticket.table) from error

    @contextmanager
    def _named(self, table: str) -> Iterator[None]:
        """Errors in this block have the table's name instead of its path, which is the server's own."""
        path = self.path(table)
        try:
            yield
        except PenstockError as error:
            text = str(error)
            forms = (path, redacted_uri(path), *(() if "://" in path else (str(pathlib.Path(path).absolute()),)))
            for own in (form.rstrip("/") for form in forms if "/" in form.rstrip("/")):
                text = text.replace(own, table)
            error.args = (text,)
            raise


def schema_of(description: TableDescription) -> pa.Schema:
    """The schema of a snapshot of the table; without columns if the table has none yet."""
    if not description.schema_json:
        return pa.schema([])
    return arrow_schema(parse_record_schema(description.schema_json, f"schema of table {description.table}"))


def _server_of(planner: Mapping[str, object]) -> Enumerator:
    options = parse_options(planner, entry_point=EntryPoint.ARROW, environment={})
    return enumerator_for(options.server, options.access)
