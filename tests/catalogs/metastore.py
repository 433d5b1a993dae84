"""A real Hive Metastore: the classes in PySpark's jars, with Derby in a folder."""

from __future__ import annotations

import pathlib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tests.faults.served import until
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S

HUDI = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
PLAIN = "org.apache.hadoop.mapred.TextInputFormat"


class Metastore:
    """A process of `HiveMetaStore`. `stop` and `start` keep its databases and its port."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self.port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Starts the process and waits until it accepts connections."""
        import pyspark

        jars = pathlib.Path(pyspark.__file__).parent / "jars"
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._folder}/db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self._folder / "warehouse"),
        }
        flags = [flag for key, value in settings.items() for flag in ("--hiveconf", f"{key}={value}")]
        java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dhive.async.log.enabled=false"]
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*java, "-cp", f"{jars}/*", main, "-p", str(self.port), *flags],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        until(self._accepts, f"the Metastore accepts connections; its log is {self._folder / 'log'}")
        return self

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PROGRESS_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client that may change the Metastore."""
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        transport = TBufferedTransport(TSocket("127.0.0.1", self.port))
        transport.open()
        try:
            yield Client(TBinaryProtocol(transport))
        finally:
            transport.close()

    def drop(self, database: str, *names: str) -> None:
        """Drops tables."""
        with self.client() as client:
            for name in names:
                client.drop_table(database, name, False)

    def create(self, database: str, name: str, location: object, *, input_format: str = HUDI, view: str = "") -> None:
        """Creates an external table as Hudi's Hive sync does; `view` is the value of `hoodie.query.as.ro.table`."""
        from hive_metastore.ttypes import Database, FieldSchema, SerDeInfo, StorageDescriptor, Table

        serde = SerDeInfo(
            name=name, serializationLib="x", parameters={"hoodie.query.as.ro.table": view} if view else {}
        )
        storage = StorageDescriptor(
            location=f"file:{location}",
            inputFormat=input_format,
            cols=[FieldSchema("c", "string", "")],
            serdeInfo=serde,
        )
        table = Table(
            tableName=name,
            dbName=database,
            sd=storage,
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
            partitionKeys=[],
        )
        with self.client() as client:
            if database not in client.get_all_databases():
                folder = f"file:{self._folder}/warehouse/{database}"
                client.create_database(Database(name=database, locationUri=folder))
            client.create_table(table)

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True
