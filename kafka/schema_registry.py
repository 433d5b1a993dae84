"""Schemas of a schema registry, read with Confluent's client (`confluent_kafka.schema_registry`, extra `kafka`).

Confluent's client sends the requests, authenticates, and parses the answers. It does not bound the size of an answer
or of its cache, splits the URL at commas and shows parts of it in errors; this module adds these checks. Retries are
those of `penstock.proto.retry`: the client itself makes one attempt. Requests ignore the proxies of the environment, as
Kafka's own client does.
"""

from __future__ import annotations

import functools
import os
import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.kafka.client import NEEDS_EXTRA
from penstock.kafka.protocols import SchemaRegistry, UnusableSchema
from penstock.proto.errors import ConfigurationError, KafkaUnavailable, PermissionDenied, Unauthenticated

TIMEOUT_S: Final = 10.0
"""The timeout of connecting, and of each read and write."""
MAX_SCHEMA_BYTES: Final = 16 << 20
"""The size limit of one response of the registry."""
MAX_SCHEMAS: Final = 10_000
"""The number of schemas that a process caches for a registry. One more empties the cache."""

_HEADERS: Final = {"Accept-Encoding": "identity", "Connection": "close"}
"""No compression, so that the size limit holds for what is parsed. No idle connections: each schema is read once."""


def open_registry(url: str) -> SchemaRegistry:
    """The registry at this URL, which may contain user and password: one per process and URL, with its cache.

    ConfigurationError without the extra `kafka`, and for a URL that is not http or https; its text does not show it.
    """
    return _registry_of(url, os.getpid())


@functools.lru_cache(maxsize=16)
def _registry_of(url: str, _process: int) -> SchemaRegistry:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigurationError("schema registry: its address must be like http://host:port or https://host:port")
    return ConfluentRegistry(parts)


class ConfluentRegistry:
    """A registry, read by Confluent's client. Reads each id once, follows no redirect. Any thread."""

    def __init__(self, parts: SplitResult) -> None:
        self._name = f"schema registry at {parts.hostname}"
        self._new_client = functools.partial(_new_client, parts)
        self._client, self._failures = self._new_client()
        self._schemas: dict[int, str] = {}

    def schema(self, schema_id: int) -> str:
        """See `SchemaRegistry`."""
        text = self._schemas.get(schema_id)
        if text is None:
            text = self._read(schema_id)
            if len(self._schemas) >= MAX_SCHEMAS:  # the client's own cache has no bound: a new client empties it
                self._schemas.clear()
                self._client, self._failures = self._new_client()
            self._schemas[schema_id] = text
        return text

    def _read(self, schema_id: int) -> str:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            schema = self._client.get_schema(schema_id)
        except SchemaRegistryError as error:
            raise self._refusal(error.http_status_code, schema_id) from None
        except self._failures as error:
            raise KafkaUnavailable(f"{self._name} does not answer: {_root_cause(error)}") from None
        except (ValueError, RecursionError) as error:
            if isinstance(error, UnusableSchema):
                raise
            raise KafkaUnavailable(f"{self._name}: its answer for schema {schema_id} is no JSON") from None
        except (AttributeError, KeyError, TypeError):
            raise KafkaUnavailable(f"{self._name}: its answer for schema {schema_id} has no schema") from None
        return self._text(schema, schema_id)

    def _refusal(self, status: int, schema_id: int) -> Exception:
        if status == 404:
            return UnusableSchema(f"schema {schema_id} is not known to the {self._name}")
        if status in (401, 403):
            refusal = Unauthenticated if status == 401 else PermissionDenied
            return refusal(f"{self._name}: status {status}; give user and password in its address")
        return KafkaUnavailable(f"{self._name}: status {status} for schema {schema_id}, expected 200")

    def _text(self, schema: Any, schema_id: int) -> str:
        text = schema.schema_str
        if not isinstance(text, str):
            raise KafkaUnavailable(f"{self._name}: its answer for schema {schema_id} has no schema")
        if schema.schema_type != "AVRO":
            raise UnusableSchema(f"schema {schema_id} is one of {str(schema.schema_type)[:40]}, expected Avro")
        if schema.references:
            raise UnusableSchema(f"schema {schema_id} refers to other schemas of the registry, which is not supported")
        return text


def _new_client(parts: SplitResult) -> tuple[Any, tuple[type[Exception], ...]]:
    """Confluent's client with this module's limits, and the exceptions of its HTTP library for failed requests."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(f"{NEEDS_EXTRA} ({error})") from None
    host = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/").replace(",", "%2C")  # the client takes a comma for the end of a URL
    settings: dict[str, object] = {
        "url": f"{parts.scheme}://{host}{path}",
        "timeout": TIMEOUT_S,
        "max.retries": 0,
    }
    if parts.username is not None:
        settings["basic.auth.user.info"] = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    trusted = ssl.get_default_verify_paths()
    authorities = trusted.cafile or trusted.capath
    if authorities:  # else the client trusts the list of the package certifi
        settings["ssl.ca.location"] = authorities
    client = SchemaRegistryClient(settings)
    rest = client._rest_client  # the client has no public way to its HTTP session
    library = sys.modules[type(rest.session).__module__.partition(".")[0]]  # httpx or httpx2, whichever it uses
    rest.session = library.Client(
        verify=ssl.create_default_context() if authorities else rest.verify,  # the file and the directory
        auth=rest.session.auth,
        timeout=rest.session.timeout,
        headers=_HEADERS,
        event_hooks={"response": [_size_limit(library)]},
        trust_env=False,  # no proxy of HTTP_PROXY: it would see the password
    )
    return client, (library.HTTPError, library.InvalidURL, library.StreamError, OSError)


def _size_limit(library: Any) -> Callable[[Any], None]:
    """A response hook: the answer is read up to `MAX_SCHEMA_BYTES`, then it is UnusableSchema."""

    class LimitedStream(library.SyncByteStream):  # type: ignore[misc]
        """The bytes of an answer."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for chunk in self._stream:
                size += len(chunk)
                if size > MAX_SCHEMA_BYTES:
                    raise UnusableSchema(f"an answer of the schema registry has more than {MAX_SCHEMA_BYTES} bytes")
                yield chunk

        def close(self) -> None:
            self._stream.close()

    def limit(response: Any) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise KafkaUnavailable("the schema registry compresses its answers, which was not asked for")
        response.stream = LimitedStream(response.stream)

    return limit


def _root_cause(error: BaseException) -> str:
    """The name of the innermost exception: `ConnectionRefusedError` says more than the library's `ConnectError`."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return type(error).__name__
