"""A server that hands table services out, and tables with services that are due."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import penstock
from penstock.engine.table_services.work.due import due_services
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions, running_service
from penstock.enumerator.server.config.services import ServiceSettings
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from tests.unit.engine.write.service.coordinated import create, rows

SERVICES = ServiceSettings(
    run=("compact", "clean", "archive"), hold_at_most="1000 commits", commits=1, keep_min=2, keep_max=3
)


@contextmanager
def served(
    tables: Mapping[str, pathlib.Path],
    services: ServiceSettings = SERVICES,
    own: Mapping[str, ServiceSettings] = MappingProxyType({}),
    **settings_of_access: Any,
) -> Iterator[RunningServer]:
    """A server that hands the services of tables out: those of the table's `own` settings, else `services`."""
    settings = Settings(
        tables={name: TableSettings(path=str(path), services=own.get(name)) for name, path in tables.items()},
        listen="127.0.0.1:0",
        services=services,
        services_interval_ms=50,
        services_return_ms=0,
        poll_interval_ms=50,
        **settings_of_access,
    )
    functions = TableFunctions(timelines=ServedTimeline, due_services=due_services)
    with (
        running_service(settings, functions=functions) as service,
        serve_enumerator(
            service,
            groups=service,
            tables=service,
            writes=service.writes,
            service_splits=service.service_splits,
            settings=settings,
        ) as running,
    ):
        yield running


def written(path: pathlib.Path, writes: int = 6, **options: object) -> pathlib.Path:
    """A table with so many delta commits."""
    create(path, **options)
    for number in range(writes):
        penstock.write(str(path), rows("a", "oslo", number))
        penstock.write(str(path), rows("b", "riga", number))
    return path


def instants(path: pathlib.Path, suffix: str) -> list[str]:
    """The files of the timeline that end so."""
    return sorted(each.name for each in (path / ".hoodie" / "timeline").glob(f"*{suffix}"))
