"""How a cause crosses the wire: one row per error class. HTTP statuses and JSON-RPC numbers stand here alone."""

from typing import cast

import attrs

from safd.model import errors, failures
from safd.model.errors import SafError
from safd.model.spans import JsonObject, JsonValue


@attrs.frozen(kw_only=True)
class Fault:
    """`number` follows JSON-RPC 2.0 (-32700, -32600..-32603 as defined there, -32000.. ours)."""

    status: int
    number: int
    title: str
    retry: bool = False


FAULTS: dict[type[SafError], Fault] = {
    errors.JsonInvalid: Fault(status=400, number=-32700, title="Not valid JSON"),
    errors.TextNotUtf8: Fault(status=400, number=-32700, title="Not UTF-8"),
    errors.RequestMalformed: Fault(status=400, number=-32600, title="Not a request"),
    errors.RequestIncomplete: Fault(status=408, number=-32600, title="Half a request"),
    errors.BodyNotJson: Fault(status=415, number=-32600, title="The body is not JSON"),
    errors.KeyDuplicate: Fault(status=400, number=-32602, title="A key stands twice"),
    errors.NumberNotFinite: Fault(status=400, number=-32602, title="A number is not finite"),
    errors.NestingTooDeep: Fault(status=400, number=-32602, title="Nested too deep"),
    errors.FieldUnknown: Fault(status=400, number=-32602, title="Unknown field"),
    errors.FieldMissing: Fault(status=400, number=-32602, title="A field is missing"),
    errors.FieldType: Fault(status=400, number=-32602, title="Wrong type"),
    errors.FieldReserved: Fault(status=400, number=-32602, title="A reserved field"),
    errors.ValueNotAllowed: Fault(status=400, number=-32602, title="A value that is not allowed"),
    errors.BlockTypeUnknown: Fault(status=400, number=-32602, title="Unknown block type"),
    errors.IdMalformed: Fault(status=400, number=-32602, title="Not an id"),
    errors.PrincipalInRecord: Fault(status=422, number=-32010, title="Authority is never recorded"),
    errors.IdempotencyKeyReused: Fault(status=422, number=-32011, title="Idempotency key used with another body"),
    errors.TurnMoveRefused: Fault(status=409, number=-32012, title="The turn cannot move there"),
    errors.ConversationArchived: Fault(status=409, number=-32013, title="The conversation is archived"),
    errors.CompactionRefused: Fault(status=422, number=-32014, title="Compaction refused"),
    errors.SeqConflict: Fault(status=409, number=-32015, title="The record went on", retry=True),
    errors.TurnAlreadyOpen: Fault(status=409, number=-32016, title="A turn is open", retry=True),
    errors.NotReader: Fault(status=403, number=-32020, title="Not a reader"),
    errors.NotOperator: Fault(status=403, number=-32021, title="Not an operator"),
    errors.NotAdministrator: Fault(status=403, number=-32022, title="Not an administrator"),
    errors.PrincipalInconsistent: Fault(status=403, number=-32023, title="Inconsistent caller"),
    errors.PrincipalForeign: Fault(status=403, number=-32024, title="Caller in another namespace"),
    errors.PrincipalUnresolvable: Fault(status=403, number=-32025, title="Unresolvable caller"),
    errors.BrowserRefused: Fault(status=403, number=-32026, title="Not for web pages"),
    errors.MethodMissing: Fault(status=404, number=-32601, title="No such method"),
    errors.VerbNotAllowed: Fault(status=405, number=-32601, title="Verb not allowed"),
    errors.ConversationMissing: Fault(status=404, number=-32030, title="No such conversation"),
    errors.TurnMissing: Fault(status=404, number=-32031, title="No such turn"),
    errors.MarkMissing: Fault(status=404, number=-32032, title="No such mark"),
    errors.SubscriptionMissing: Fault(status=404, number=-32034, title="No such subscription"),
    errors.CursorGone: Fault(status=410, number=-32033, title="Cursor outside the record"),
    errors.MessageTooLarge: Fault(status=413, number=-32040, title="Message too large"),
    errors.RequestTooLarge: Fault(status=413, number=-32041, title="Request too large"),
    errors.TooManyConnections: Fault(status=429, number=-32042, title="Too many connections", retry=True),
    errors.TooManyFollowers: Fault(status=429, number=-32043, title="Too many followers", retry=True),
    errors.MessagesTooMany: Fault(status=413, number=-32044, title="Too many messages in one append"),
    errors.BuffersFull: Fault(status=429, number=-32045, title="Too much waits for this account", retry=True),
    errors.TooManyValues: Fault(status=413, number=-32047, title="Too many values"),
    errors.TooManySubscriptions: Fault(status=429, number=-32046, title="Too many subscriptions", retry=True),
    failures.DiskFull: Fault(status=507, number=-32050, title="No space left", retry=True),
    failures.StoreBusy: Fault(status=503, number=-32051, title="Store busy", retry=True),
    failures.StoreFailed: Fault(status=503, number=-32052, title="Store failed", retry=True),
    failures.StoreNewer: Fault(status=503, number=-32053, title="Store from a newer safd"),
    failures.StoreLocked: Fault(status=503, number=-32054, title="Store in use"),
    failures.StoreExists: Fault(status=409, number=-32056, title="Something is already there"),
    failures.Stopping: Fault(status=503, number=-32055, title="Stopping", retry=True),
    failures.Internal: Fault(status=500, number=-32603, title="Internal fault"),
    failures.RowUnreadable: Fault(status=500, number=-32060, title="A stored row cannot be read"),
    failures.ChainBroken: Fault(status=500, number=-32061, title="The hash chain is broken"),
}

BY_CODE: dict[str, type[SafError]] = {error.code: error for error in FAULTS}


def detail_of(error: SafError) -> JsonObject:
    """`code`, `detail` (a sentence that says what to do), and what the cause carries beside: path, head_seq..."""
    found: JsonObject = {"code": error.code, "detail": str(error)}
    for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(error))):
        carried: object = getattr(error, field.name)
        found[field.name] = cast(
            JsonValue, list(cast("tuple[str, ...]", carried)) if isinstance(carried, tuple) else carried
        )
    return found
