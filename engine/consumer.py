"""The consumer door of Python: `penstock.Consumer`, a reader of a consumer group that takes its options by name.

Belongs here: options in, a reader out. Not here: what a reader does (`group_reader`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from penstock.engine.group.connect import GroupEnumerator, group_enumerator_for
from penstock.engine.group.reader import ConsumedBatch, GroupReader
from penstock.engine.group.retry import Runtime
from penstock.proto.options.registry import EntryPoint, parse_options

__all__ = ["ConsumedBatch", "Consumer"]


class Consumer(GroupReader):
    """A reader of a consumer group, as a context manager: joins at the beginning, leaves at the end.

        with penstock.Consumer("127.0.0.1:7070", "trips", group="billing", reader_id="billing-1") as consumer:
            for consumed in consumer:
                write(consumed.batch)
                consumer.commit()

    At least once: what was not committed when a reader ended, or lost its lease, is handed out again, from the last
    committed row of a split on. Changes of one key stay in one reader's order. Exactly once for who keeps `position`,
    split and ordinals with the output, or writes a split whole under its id before the commit (`penstock tail
    --output-dir`).

    Used by one thread; another renews the lease. The reader stops by itself before its lease ends: then, and when the
    server says that its epoch is not current, `poll` and `commit` raise Fenced, and `join` begins anew.
    """

    def __init__(
        self,
        server: str | None,
        table: str | os.PathLike[str],
        *,
        group: str,
        reader_id: str,
        query: str | None = None,
        cdc_format: str | None = None,
        after: str | None = None,
        upto: str | None = None,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        on_lost_range: str | None = None,
        max_splits: int | None = None,
        door: GroupEnumerator | None = None,
        runtime: Runtime | None = None,
        **options: object,
    ) -> None:
        """Joins nothing yet. `server` (HOST:PORT) keeps the group, and serves `table` under that name; with `door` that
        is asked instead. `query`: incremental (the default: rows as each round's end leaves them) or cdc (each change).
        `after` (earliest, which is the default; latest; an instant; an ISO time) counts when the group is made.
        `options` are the others of the registry (docs/reference/options.md) in snake_case. ConfigurationError names
        what is wrong."""
        explicit: dict[str, object] = {
            "group": group,
            "reader_id": reader_id,
            "server": server,
            "query": query,
            "cdc_format": cdc_format,
            "after": after,
            "upto": upto,
            "columns": columns if columns is None or isinstance(columns, str) else tuple(columns),
            "where": where,
            "on_lost_range": on_lost_range,
            "max_splits": max_splits,
        }
        parsed = parse_options({**explicit, **options}, entry_point=EntryPoint.CONSUMER, environment=os.environ)
        for text in parsed.warnings:
            warnings.warn(f"penstock.Consumer: {text}", UserWarning, stacklevel=2)
        super().__init__(os.fspath(table), parsed, door or group_enumerator_for(parsed.server, parsed.access), runtime)
