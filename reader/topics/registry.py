"""Schemas of a schema registry by their id. The only place where one is asked.

Source: Confluent's REST interface, `GET /schemas/ids/{id}`: a JSON object with `schema`, the text, and `schemaType`
where that is not Avro.
"""

from __future__ import annotations

import base64
import functools
import http.client
import json
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.proto.errors import ConfigurationError, KafkaUnavailable, PermissionDenied, Unauthenticated
from penstock.reader.topics.errors import Unfit
from penstock.table.schema.avro import MAX_JSON_BYTES

TIMEOUT_S: Final = 10.0
MAX_SCHEMAS: Final = 10_000


class SchemaRegistry(Protocol):
    """Where schemas are. Any thread."""

    def schema(self, schema_id: int) -> str:
        """The Avro schema of an id, as JSON text. Unfit for an id that is not known, or no Avro schema of its own.

        KafkaUnavailable if the registry does not answer; Unauthenticated, PermissionDenied.
        """
        ...


@functools.lru_cache(maxsize=16)
def registry_of(url: str) -> SchemaRegistry:
    """The registry at this address, which may hold user and password: the same one each time, with its cache.

    ConfigurationError for what is no http or https address; its text does not show it.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise ConfigurationError("schema registry: its address must be like http://host:port or https://host:port")
    return HttpRegistry(parts)


class HttpRegistry:
    """Asks over HTTP, each id once; follows no redirect."""

    def __init__(self, parts: SplitResult) -> None:
        self._parts = parts
        self._known: dict[int, str] = {}

    def schema(self, schema_id: int) -> str:
        """See `SchemaRegistry`."""
        found = self._known.get(schema_id)
        if found is None:
            found = self._asked(schema_id)
            if len(self._known) >= MAX_SCHEMAS:
                self._known.clear()
            self._known[schema_id] = found
        return found

    def _asked(self, schema_id: int) -> str:
        where = f"schema registry at {self._parts.hostname}"
        path = f"{self._parts.path.rstrip('/')}/schemas/ids/{schema_id}"
        try:
            status, body = self._get(path)
        except (OSError, http.client.HTTPException) as error:
            raise KafkaUnavailable(f"{where} does not answer: {type(error).__name__}") from None
        if status == 404:
            raise Unfit(f"schema {schema_id} is not known to the {where}")
        if status in (401, 403):
            refusal = Unauthenticated if status == 401 else PermissionDenied
            raise refusal(f"{where}: status {status}; give user and password in its address")
        if status != 200:
            raise KafkaUnavailable(f"{where}: status {status} for schema {schema_id}, expected 200")
        return _schema_text(body, schema_id, where)

    def _get(self, path: str) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(self._parts.hostname), self._parts.port, timeout=TIMEOUT_S)
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._parts.username is not None:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_JSON_BYTES + 1)
        finally:
            connection.close()


def _schema_text(body: bytes, schema_id: int, where: str) -> str:
    if len(body) > MAX_JSON_BYTES:
        raise Unfit(f"schema {schema_id} of the {where} has more than {MAX_JSON_BYTES} bytes")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise KafkaUnavailable(f"{where}: its answer for schema {schema_id} is no JSON") from None
    text = answer.get("schema") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise KafkaUnavailable(f"{where}: its answer for schema {schema_id} has no schema")
    if answer.get("schemaType", "AVRO") != "AVRO":
        raise Unfit(f"schema {schema_id} is one of {str(answer['schemaType'])[:40]}, expected Avro")
    if answer.get("references"):
        raise Unfit(f"schema {schema_id} refers to other schemas of the registry, which is not read")
    return text
