"""Copies that `penstock sync` keeps in three systems, each by processes that are killed, and the rows of the copies."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

JOB = """
[[sync]]
from = "{lake}/*"
exclude = "shard_*"
to = "{url}"

[[sync]]
from = "{lake}/shard_*"
to = "{url}"
into = "shards"
source_column = "shard"
"""


class Copy(ABC):
    """A copy of the lake in one target."""

    def __init__(self, name: str, url: str, folder: pathlib.Path) -> None:
        self.name, self._folder = name, folder
        self._job, self._log = folder / f"{name}.toml", folder / f"{name}.log"
        self._job.write_text(JOB.format(lake=folder / "lake", url=url))

    def sync(self, kill_after: int | None) -> int:
        """`penstock sync --once`, killed after so many transactions. Its exit code."""
        command = [sys.executable, "-P", "-m", "penstock", "sync", str(self._job), "--once"]
        with (
            self._log.open("a") as log,
            subprocess.Popen(command, stderr=subprocess.PIPE, stdout=log, text=True) as process,
        ):
            assert process.stderr is not None
            transactions = 0
            for line in process.stderr:
                log.write(line)
                transactions += ": synced " in line
                if transactions == kill_after:
                    process.kill()
                    kill_after = None
        return process.returncode

    def log(self) -> str:
        """The end of what the processes printed."""
        return self._log.read_text()[-3_000:]

    @abstractmethod
    def rows(self, table: str) -> pa.Table:
        """The rows of a table."""

    @abstractmethod
    def delete(self, table: str, key: str) -> None:
        """Deletes a row, as no sync does."""


class InDuckDB(Copy):
    """A DuckDB file."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._file = folder / "copy.db"
        super().__init__("duckdb", f"duckdb:///{self._file}", folder)

    def rows(self, table: str) -> pa.Table:
        import duckdb

        with duckdb.connect(str(self._file), read_only=True) as copy:
            return copy.sql(f'SELECT * FROM "{table}"').to_arrow_table()

    def delete(self, table: str, key: str) -> None:
        import duckdb

        with duckdb.connect(str(self._file)) as copy:
            copy.execute(f'DELETE FROM "{table}" WHERE id = ?', [key])


class InPostgreSQL(Copy):
    """A database of a PostgreSQL server."""

    def __init__(self, folder: pathlib.Path, url: str) -> None:
        super().__init__("postgresql", url, folder)
        self._url = url

    def rows(self, table: str) -> pa.Table:
        """The driver returns decimals as text."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self._url) as connection, connection.cursor() as cursor:
            cursor.execute(f'SELECT *, d::text AS d_text FROM "{table}"')
            rows = cursor.fetch_arrow_table()
        decimals = rows["d_text"].cast(pa.decimal128(10, 2))
        return rows.drop_columns(["d", "d_text"]).append_column("d", decimals)

    def delete(self, table: str, key: str) -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self._url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f'DELETE FROM "{table}" WHERE id = $1', [key])


class InDelta(Copy):
    """A folder of Delta tables."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__("delta", f"delta:///{folder / 'delta'}", folder)

    def rows(self, table: str) -> pa.Table:
        from deltalake import DeltaTable

        return DeltaTable(str(self._folder / "delta" / table)).to_pyarrow_table()

    def delete(self, table: str, key: str) -> None:
        from deltalake import DeltaTable

        DeltaTable(str(self._folder / "delta" / table)).delete(f"id = '{key}'")


class Killer(threading.Thread):
    """Starts a sync each time when `is_due` says so, and kills it after one to nine transactions."""

    def __init__(self, copy: Copy, is_due: Callable[[int], bool], rng: random.Random) -> None:
        """`is_due` gets the number of syncs until now, waits, and returns False to end."""
        super().__init__(name=f"killer-{copy.name}", daemon=True)
        self.copy, self._is_due, self._rng = copy, is_due, rng
        self.kills = self.starts = 0

    def run(self) -> None:
        """See the class."""
        while self._is_due(self.starts):
            self.starts += 1
            self.kills += self.copy.sync(self._rng.randrange(1, 10)) == -9
