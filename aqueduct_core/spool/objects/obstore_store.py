"""The object stores of the library obstore, by URL: S3, GCS, Azure, and memory. The only file
that knows the library.

Credentials are those of the ordinary chain of the environment (of AWS: variables, profiles, web
identity, the host's role). None is in a URL, and a URL that has one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool.objects.store import (
    CreateObject,
    DeleteObject,
    GetObject,
    ListObjects,
    ObjectChanged,
    ObjectDeleted,
    ObjectExists,
    ObjectFound,
    ObjectMissing,
    ObjectsListed,
    ObjectStored,
    Operation,
    StoreDenied,
    StoreOutcome,
    StoreUnavailable,
)

SCHEMES = ("s3", "gs", "az", "memory")
"""Those whose writes can be conditional both ways: a directory (``file``) cannot replace by tag."""


def open_store(url: str, **config: Any) -> ObstoreStore:
    """The store of ``scheme://bucket/prefix``; keys are below the prefix.

    Args:
        config: of the library's store, such as ``endpoint``, for tests.

    Raises:
        InvalidOption: BAD_VALUE for another scheme, or credentials in the URL; MISSING where the
            library is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or parts.query or parts.fragment:
        raise InvalidOption(
            "BAD_VALUE",
            f"a spool cannot be at a URL of scheme {parts.scheme!r}, or one with a query",
            f"Give it as one of {', '.join(f'{each}://bucket/prefix' for each in SCHEMES)}",
        )
    if "@" in parts.netloc:
        raise InvalidOption(
            "BAD_VALUE",
            "the URL of the spool has credentials in it",
            "Give them by the environment, where the libraries of the store look for them",
        )
    try:
        from obstore.store import MemoryStore, from_url
    except ImportError:
        raise InvalidOption(
            "MISSING",
            "spools on object storage need the package obstore",
            "Install it: pip install 'aqueduct-spark[objects]'",
        ) from None
    if parts.scheme == "memory":
        return ObstoreStore(MemoryStore(), url)
    options: dict[str, Any] = {
        # one attempt: what a repeated write came to is for us to find out (`steps`). No options of
        # the client: they would take the place of those of the environment; 30 s are the library's
        "retry_config": {"max_retries": 0},
        **config,
    }
    return ObstoreStore(from_url(url, **options), url)


class ObstoreStore:
    """Carries operations out with a store of the library; see `ObjectStore`."""

    def __init__(self, store: Any, url: str) -> None:
        """Use `open_store`."""
        self._store = store
        self.url = url

    def __repr__(self) -> str:
        return f"<ObstoreStore {self.url}>"

    def carry_out(self, operation: Operation) -> StoreOutcome:
        from obstore import exceptions

        try:
            return self._do(operation)
        except (FileNotFoundError, exceptions.NotFoundError):
            if isinstance(operation, DeleteObject):
                return ObjectDeleted()
            changes = not isinstance(operation, GetObject)
            return ObjectChanged() if changes else ObjectMissing()
        except exceptions.AlreadyExistsError:
            return ObjectExists()
        except exceptions.PreconditionError:
            # S3 answers a create so too, and 409 while another conditional write is under way
            return ObjectExists() if isinstance(operation, CreateObject) else ObjectChanged()
        except (
            exceptions.PermissionDeniedError,
            exceptions.UnauthenticatedError,
            PermissionError,
        ) as error:
            return StoreDenied(_what(error))
        except (exceptions.BaseError, OSError, ValueError) as error:
            return StoreUnavailable(_what(error))

    def _do(self, operation: Operation) -> StoreOutcome:
        import obstore

        store = self._store
        if isinstance(operation, GetObject):
            options: Any = {}
            if operation.stop is not None:
                options = {"range": (operation.start, operation.stop)}
            elif operation.start:
                options = {"range": {"offset": operation.start}}
            found = obstore.get(store, operation.key, options=options)
            return ObjectFound(bytes(found.bytes()), _tag(found.meta))
        if isinstance(operation, CreateObject):
            made = obstore.put(
                store, operation.key, operation.data, mode="create", use_multipart=False
            )
            return ObjectStored(_tag(made))
        if isinstance(operation, DeleteObject):
            obstore.delete(store, operation.key)
            return ObjectDeleted()
        if isinstance(operation, ListObjects):
            return ObjectsListed(tuple(self._keys(operation)))
        made = obstore.put(
            store,
            operation.key,
            operation.data,
            mode={"e_tag": operation.tag},
            use_multipart=False,
        )
        return ObjectStored(_tag(made))

    def _keys(self, operation: ListObjects) -> Iterator[str]:
        import obstore

        pages = obstore.list(self._store, operation.prefix, offset=operation.after or None)
        for page in pages:
            yield from sorted(each["path"] for each in page)
            return


def _tag(meta: Mapping[str, Any]) -> str:
    return str(meta.get("e_tag") or meta.get("version") or "")


def _what(error: BaseException) -> str:
    """The kind of failure. Texts of the library have URLs with signatures, and answers, in them."""
    return type(error).__name__
