"""The resources that the read paths of the demo share: the unpacked table, a server, a Spark session, a scratch folder.

Server and session start on first use, and end with the stage.
"""

from __future__ import annotations

import pathlib
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.engine.demo.sample import Sample
from penstock.engine.demo.server_process import ServerProcess

if TYPE_CHECKING:
    from penstock.engine.spark.local_session import LocalSpark


class Stage:
    """The resources of one run. `close` stops server and session; the caller removes the scratch folder."""

    def __init__(self, sample: Sample, table: pathlib.Path, scratch: pathlib.Path) -> None:
        self.sample, self.table, self.scratch = sample, table, scratch
        self._started = ExitStack()

    @cached_property
    def server(self) -> ServerProcess:
        """`penstock serve` for the table."""
        server = ServerProcess(self.sample.table, self.table, self.scratch)
        self._started.callback(server.stop)
        return server

    @cached_property
    def spark(self) -> LocalSpark:
        """A Spark session."""
        from penstock.engine.spark.local_session import LocalSpark

        spark = LocalSpark(self.scratch)
        self._started.callback(spark.stop)
        return spark

    def close(self) -> None:
        """Stops the session, then the server."""
        self._started.close()
