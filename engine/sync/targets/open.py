"""Opens the target of a URL. Each system is imported when it is needed."""

from __future__ import annotations

from penstock.engine.sync.job import TargetUrl
from penstock.engine.sync.targets.target import Target
from penstock.proto.errors import ConfigurationError


def open_target(url: TargetUrl) -> Target:
    """The target. ConfigurationError: it cannot be opened, or its library is not installed; TargetUnavailable."""
    try:
        match url.kind:
            case "duckdb":
                from penstock.engine.sync.targets.duckdb import DuckDBTarget

                return DuckDBTarget(url.place)
            case "delta":
                from penstock.engine.sync.targets.delta import DeltaTarget

                return DeltaTarget(url.place)
            case "parquet":
                from penstock.engine.sync.targets.parquet import ParquetTarget

                return ParquetTarget(url.place)
            case "postgresql":
                from penstock.engine.sync.targets.postgresql import PostgreSQLTarget

                return PostgreSQLTarget(url.place)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"target {url} needs {error.name}: pip install 'penstock[{url.kind}]'") from error
    raise ConfigurationError(f"target {url}: there is no such kind of target")
