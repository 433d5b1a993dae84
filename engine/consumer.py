"""`penstock.Consumer`: a reader of a consumer group that takes its options by name."""

from __future__ import annotations

import os
import secrets
import socket
import warnings
from collections.abc import Sequence

from penstock.engine.group.connect import GroupEnumerator, group_enumerator_for
from penstock.engine.group.lease import Runtime
from penstock.engine.group.reader import ConsumedBatch, GroupReader
from penstock.engine.requests.times import Time
from penstock.engine.requests.where import Where, where_text
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import sanitized_name
from penstock.proto.model.queries import is_pattern
from penstock.proto.options.registry import EntryPoint, parse_options

__all__ = ["ConsumedBatch", "Consumer"]


class Consumer(GroupReader):
    """A reader of a consumer group, and a context manager that joins on entry and leaves on exit.

        with penstock.Consumer("127.0.0.1:7070", "trips", group="billing", reader_id="billing-1") as consumer:
            for consumed in consumer:
                write(consumed.batch)
                consumer.commit()

    Delivery is at least once. What a reader did not commit before it ended or lost its lease is handed out again, from
    the row after the last committed row of the split. Changes of one key arrive in order, at one reader. Delivery is
    exactly once for an application that stores `position`, split and ordinals together with its output, or that writes
    each split as a whole under its id before it commits (as `penstock tail --output-dir` does).

    Used by one thread; a second thread renews the lease. When the lease ends, or when the server reports that the
    reader's epoch is not current, `poll` and `commit` raise Fenced. `join` then starts again.
    """

    def __init__(
        self,
        server: str | None = None,
        table: str | os.PathLike[str] | None = None,
        *,
        group: str,
        tables: str | None = None,
        reader_id: str | None = None,
        query: str | None = None,
        cdc_format: str | None = None,
        after: Time | None = None,
        upto: Time | None = None,
        columns: Sequence[str] | str | None = None,
        where: Where | None = None,
        on_lost_range: str | None = None,
        max_splits: int | None = None,
        enumerator: GroupEnumerator | None = None,
        runtime: Runtime | None = None,
        **options: object,
    ) -> None:
        """Does not join yet.

        `server` (HOST:PORT) stores the group and serves `table` under that name. `tables` instead of `table` is a shell
        pattern such as `sales.*`: the group consumes every served table whose name matches, also those that are added
        later. `reader_id` is generated if absent: then no later process continues its splits before the lease ends.
        `query`: incremental (the default:
        rows as the end of each round leaves them) or cdc (each change). `after` (earliest, the default; latest; an
        instant; an ISO time) applies when the group is created. Times and `where` are as in `penstock.read`. `options`
        are the other options in docs/reference/options.md, in snake_case. `enumerator` and `runtime` replace the server
        and the clock in tests.
        ConfigurationError for options that are unknown, invalid or exclude each other."""
        explicit: dict[str, object] = {
            "group": group,
            "reader_id": generated_reader_id() if reader_id is None else reader_id,
            "server": server,
            "query": query,
            "cdc_format": cdc_format,
            "after": after,
            "upto": upto,
            "columns": columns if columns is None or isinstance(columns, str) else tuple(columns),
            "where": where if where is None else where_text(where),
            "on_lost_range": on_lost_range,
            "max_splits": max_splits,
        }
        parsed = parse_options({**explicit, **options}, entry_point=EntryPoint.CONSUMER, environment=os.environ)
        for text in parsed.warnings:
            warnings.warn(f"penstock.Consumer: {text}", UserWarning, stacklevel=2)
        name, over_tables = consumed_tables(table, tables)
        super().__init__(
            name,
            parsed,
            enumerator or group_enumerator_for(parsed.server, parsed.access),
            runtime,
            over_tables=over_tables,
        )


def consumed_tables(table: str | os.PathLike[str] | None, tables: str | None) -> tuple[str, bool]:
    """The name of the table, or the pattern of their names; and whether it is a pattern. `tables` without a character
    of patterns is the name of one table. ConfigurationError unless exactly one is given."""
    if (table is None) == (tables is None):
        given = "neither" if table is None else "both"
        raise ConfigurationError(
            f"a consumer takes either `table`, a name, or `tables`, a pattern of names such as sales.*: got {given}"
        )
    if table is not None:
        return os.fspath(table), False
    if not tables:
        raise ConfigurationError("tables: got nothing, expected a pattern of names such as sales.*")
    return tables, is_pattern(tables)


def generated_reader_id() -> str:
    """A reader id of this process: its host, process id and a random part."""
    return sanitized_name(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")
