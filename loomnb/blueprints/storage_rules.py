"""What may be asked of storage: names, batches of operations, queries and their cursors. Checked and copied; nothing is read.

Strict, as the contract is: a key nobody knows, a number that is no integer, a text that is no instant are refused with
INVALID_REQUEST, and the message says where. What comes out holds nothing of the caller's any more: the data of an operation is
its JSON text already. Rules: contracts/blueprints.md §1.7, §1.8.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, cast

from loomnb.blueprints.access import StorageCategory, StorageQuery
from loomnb.errors import InvalidRequest, NotJson
from loomnb.jsonvalue import Json, dumps, freeze, loads

__all__ = [
    "MOST",
    "CheckedOperations",
    "CheckedQuery",
    "Operation",
    "OperationType",
    "Position",
    "check_name",
    "check_operations",
    "check_query",
    "cursor_after",
    "instant",
    "milliseconds",
    "place_of",
    "timestamp",
]

MOST = 2**53 - 1
"""The largest revision: JavaScript's largest safe integer."""

OperationType: TypeAlias = Literal["create_artifact", "replace_artifact", "append_record", "remove_artifact", "remove_record"]

_KEYS: Mapping[str, frozenset[str]] = {
    "create_artifact": frozenset({"type", "id", "payload"}),
    "replace_artifact": frozenset({"type", "id", "expectedRevision", "payload"}),
    "append_record": frozenset({"type", "id", "payload"}),
    "remove_artifact": frozenset({"type", "id", "expectedRevision"}),
    "remove_record": frozenset({"type", "id"}),
}
_PAYLOAD = frozenset({"flowName", "stageName", "data"})
_PYTHON_NAMES = {"flow_name": "flowName", "stage_name": "stageName", "expected_revision": "expectedRevision"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation that was checked. What its type has no use for is empty, or 0."""

    type: OperationType
    id: str
    flow_name: str = ""
    stage_name: str = ""
    data: str = "null"
    """JSON text."""
    expected_revision: int = 0

    @property
    def category(self) -> StorageCategory:
        """What it is about."""
        return "records" if self.type in ("append_record", "remove_record") else "artifacts"

    def to_json(self) -> dict[str, Json]:
        """What was given, with the contract's names."""
        out: dict[str, Json] = {"type": self.type, "id": self.id}
        if "expectedRevision" in _KEYS[self.type]:
            out["expectedRevision"] = self.expected_revision
        if "payload" in _KEYS[self.type]:
            out["payload"] = {"flowName": self.flow_name, "stageName": self.stage_name, "data": loads(self.data)}
        return out


@dataclass(frozen=True, slots=True)
class CheckedOperations:
    """A batch that may be applied, in order."""

    operations: tuple[Operation, ...]

    def to_json(self) -> list[dict[str, Json]]:
        """What was given, with the contract's names."""
        return [operation.to_json() for operation in self.operations]

    @property
    def fingerprint(self) -> str:
        """The same for two batches that say the same, in the same order and with the keys of their data in the same order."""
        return _digest([list(dataclasses.astuple(operation)) for operation in self.operations])


# -- names and values ---------------------------------------------------------------------------------

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # Python's text holds a pair as one character: any that is left is alone
_BLANK = (
    "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript trims, but for control characters, which no name may hold; `str.strip` knows another set."""
_NAME_UNITS = 1024


def check_name(value: object, what: str) -> str:
    """A name, id, flow or stage.

    Args:
        value: what was given for it.
        what: what it is, for the message.

    Raises:
        InvalidRequest: it is none.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is no text but {_shown(value)}.")
    text = str.__str__(value)  # of a subclass (an enum of texts) the plain text
    units = len(text) + sum(char > "\uffff" for char in text)
    if not 1 <= units <= _NAME_UNITS:
        raise InvalidRequest(f"{what} has {units:,} characters; a name has 1 to {_NAME_UNITS:,} (UTF-16 units).")
    if _LONE_SURROGATE.search(text):
        raise InvalidRequest(f"{what} holds half of a surrogate pair: it is no valid text.")
    if _CONTROL.search(text):
        raise InvalidRequest(f"{what} holds a control character: {_shown(text)}.")
    if not text.strip(_BLANK):
        raise InvalidRequest(f"{what} is blank.")
    return text


def place_of(flow_name: str, stage_name: str) -> str:
    """A flow and a stage in one text, as the tables keep it. No name holds a tab, so no two pairs give the same."""
    return f"{flow_name}\t{stage_name}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def milliseconds(moment: datetime) -> int:
    """Since 1970, cut and not rounded."""
    return (moment - _EPOCH) // _MILLISECOND


def instant(ms: int) -> datetime:
    """The moment of milliseconds since 1970."""
    return _EPOCH + ms * _MILLISECOND


def timestamp(ms: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` of milliseconds since 1970."""
    return instant(ms).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _check_instant(value: object, what: str) -> datetime:
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            return datetime.fromisoformat(value[:-1]).replace(tzinfo=UTC)
        except ValueError:
            pass  # well formed, but not in the calendar
    raise InvalidRequest(f"{what} is {_shown(value)}, and no instant.", advice="Write it as 2026-01-31T09:30:00.000Z.")


# -- operations ---------------------------------------------------------------------------------------


def check_operations(operations: object) -> CheckedOperations:
    """A batch, checked as a whole and copied.

    Raises:
        InvalidRequest: an operation is malformed, holds what JSON cannot, or is the second one on its target.
    """
    if not isinstance(operations, (list, tuple)):
        raise InvalidRequest(f"A batch is a list of operations, not {_shown(operations)}.")
    checked: list[Operation] = []
    targets: dict[tuple[str, str], int] = {}
    for i, given in enumerate(cast("Sequence[object]", operations)):
        where = f"operations[{i}]"
        operation = _check_operation(_plain(given, where), where)
        first = targets.setdefault((operation.category, operation.id), i)
        if first != i:
            raise InvalidRequest(
                f"{where} is about the same as operations[{first}]: {operation.category} {_shown(operation.id)}.",
                advice="One batch changes an entry once.",
            )
        checked.append(operation)
    return CheckedOperations(tuple(checked))


def _check_operation(given: Mapping[str, object], where: str) -> Operation:
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise InvalidRequest(f"{where}.type is {_shown(kind)}.", advice=f"One of: {', '.join(_KEYS)}.")
    keys = _KEYS[kind]
    _check_keys(given, keys, where)
    name = check_name(given["id"], f"{where}.id")
    revision = _check_revision(given["expectedRevision"], f"{where}.expectedRevision") if "expectedRevision" in keys else 0
    operation = Operation(type=cast("OperationType", kind), id=name, expected_revision=revision)
    if "payload" not in keys:
        return operation
    payload = _plain(given["payload"], f"{where}.payload")
    _check_keys(payload, _PAYLOAD, f"{where}.payload")
    try:
        data = dumps(freeze(payload["data"], path=f"{where}.payload.data"))
    except NotJson as exc:
        raise InvalidRequest(exc.message, advice=exc.advice) from exc
    return dataclasses.replace(
        operation,
        flow_name=check_name(payload["flowName"], f"{where}.payload.flowName"),
        stage_name=check_name(payload["stageName"], f"{where}.payload.stageName"),
        data=data,
    )


def _check_revision(value: object, what: str) -> int:
    if type(value) is not int or not 1 <= value <= MOST:  # a bool is an int to Python, and no revision
        raise InvalidRequest(f"{what} is {_shown(value)}; a revision is an integer from 1.")
    return value


def _plain(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{where} is no mapping but {_shown(value)}.")
    try:
        given = dict(value)
    except Exception as exc:
        raise InvalidRequest(f"{where} cannot be read: {type(exc).__name__}.") from exc
    for ours, theirs in _PYTHON_NAMES.items():  # the names of the JSON side, or those of this one, as everywhere
        if ours in given:
            if theirs in given:
                raise InvalidRequest(f"{where} has both {ours} and {theirs}.", advice="Say it once.")
            given[theirs] = given.pop(ours)
    return given


def _check_keys(given: Mapping[str, object], keys: frozenset[str], where: str) -> None:
    unknown = [key for key in given if key not in keys]
    if unknown:
        raise InvalidRequest(f"{where} has {_shown(unknown[0])}, which is none of: {', '.join(sorted(keys))}.")
    missing = sorted(keys - given.keys())
    if missing:
        raise InvalidRequest(f"{where} has no {missing[0]}.")


# -- queries ------------------------------------------------------------------------------------------

Position: TypeAlias = tuple[int, str]
"""Milliseconds of created_at, and the id: what rows are ordered by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuery:
    """A query that may be asked of a store."""

    category: StorageCategory
    flow_name: str | None
    stage_name: str | None
    ids: tuple[str, ...] | None
    created_after: datetime | None
    created_before: datetime | None
    is_descending: bool
    limit: int
    position: Position | None
    """The row it goes on after."""
    fingerprint: str
    """Of the store and of all that says which rows these are; what a cursor is bound to."""


_FIELDS: Mapping[str, str] = {
    "flowName": "flow_name",
    "stageName": "stage_name",
    "ids": "ids",
    "createdAfter": "created_after",
    "createdBefore": "created_before",
    "order": "order",
    "limit": "limit",
    "cursor": "cursor",
}
_NAMES = {**_FIELDS, **{name: name for name in _FIELDS.values()}}


def check_query(category: StorageCategory, query: object, store_id: str) -> CheckedQuery:
    """A query, checked and copied.

    Args:
        category: what it lists.
        query: a `StorageQuery`, where None is left out; a mapping, where what is left out is not there; None for all.
        store_id: the store it is asked of.

    Raises:
        InvalidRequest: a field is malformed, or the cursor is of another query.
    """
    given = _given(query)
    names = [check_name(given[name], name) if name in given else None for name in ("flow_name", "stage_name")]
    ids = _check_ids(given["ids"]) if "ids" in given else None
    after = _check_instant(given["created_after"], "created_after") if "created_after" in given else None
    before = _check_instant(given["created_before"], "created_before") if "created_before" in given else None
    if after is not None and before is not None and not after < before:
        raise InvalidRequest("created_after is not before created_before: no instant is between them.")
    order, limit = given.get("order", "created_desc"), given.get("limit", 50)
    if not isinstance(order, str) or order not in ("created_asc", "created_desc"):
        raise InvalidRequest(f"order is {_shown(order)}.", advice="One of: created_asc, created_desc.")
    if type(limit) is not int or not 1 <= limit <= 200:  # a bool is an int to Python, and no limit
        raise InvalidRequest(f"limit is {_shown(limit)}; it is an integer from 1 to 200.")
    bounds = [None if bound is None else milliseconds(bound) for bound in (after, before)]
    fingerprint = _digest([store_id, category, *names, None if ids is None else list(ids), *bounds, order])
    return CheckedQuery(
        category=category,
        flow_name=names[0],
        stage_name=names[1],
        ids=ids,
        created_after=after,
        created_before=before,
        is_descending=order == "created_desc",
        limit=limit,
        position=_check_cursor(given["cursor"], fingerprint) if "cursor" in given else None,
        fingerprint=fingerprint,
    )


def _given(query: object) -> dict[str, object]:
    if query is None:
        return {}
    if isinstance(query, StorageQuery):
        values = {field.name: getattr(query, field.name) for field in dataclasses.fields(query)}
        return {name: value for name, value in values.items() if value is not None}
    out: dict[str, object] = {}
    for key, value in _plain(query, "The query").items():
        name = _NAMES.get(key) if isinstance(key, str) else None
        if name is None:
            raise InvalidRequest(f"A query has no {_shown(key)}.", advice=f"It may have: {', '.join(_FIELDS)}.")
        if name in out:
            raise InvalidRequest(f"The query says {name} twice.")
        out[name] = value
    return out


def _check_ids(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidRequest(f"ids is no list but {_shown(value)}.")
    return tuple(sorted({check_name(item, f"ids[{i}]") for i, item in enumerate(cast("Sequence[object]", value))}))


# -- cursors ------------------------------------------------------------------------------------------

_CURSOR_VERSION = 1
_CURSOR_LENGTH = 16_384
_INSTANTS = range(milliseconds(datetime.min.replace(tzinfo=UTC)), milliseconds(datetime.max.replace(tzinfo=UTC)) + 1)


def cursor_after(query: CheckedQuery, position: Position) -> str:
    """The cursor that goes on after a row of this query."""
    text = dumps([_CURSOR_VERSION, query.fingerprint, *position])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _check_cursor(value: object, fingerprint: str) -> Position:
    if not isinstance(value, str) or not 1 <= len(value) <= _CURSOR_LENGTH:
        raise InvalidRequest(f"cursor is {_shown(value)}; it is the text that a page gave as its next_cursor.")
    try:
        text = base64.b64decode(value.encode("ascii") + b"=" * (-len(value) % 4), altchars=b"-_", validate=True)
        parts = loads(text.decode())
    except (ValueError, RecursionError, binascii.Error):
        parts = None
    match parts:
        case [int() as version, str() as bound_to, int() as ms, str() as name] if version == _CURSOR_VERSION and ms in _INSTANTS:
            if bound_to != fingerprint:
                raise InvalidRequest(
                    "The cursor is of another query.",
                    advice="Only the limit may change between pages; filters, order, category and store stay as they are.",
                )
            return ms, check_name(name, "cursor")
        case _:
            raise InvalidRequest("cursor is none that a page gave.")


def _digest(value: Json) -> str:
    return hashlib.sha256(dumps(value).encode()).hexdigest()[:32]


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001  # a value's own __repr__ may raise anything, and this is only for a message
        return f"a {type(value).__name__}"
