"""Every way in which safd says no: one class per cause, each with a stable `code`.

`str(error)` is a sentence that says what to do. The offending path or id is a field. How a cause crosses the
wire (HTTP status, JSON-RPC number) stands in `safd.api.faults` alone.

The eight families exist for `except` clauses at borders; nothing else is inherited.
"""

from typing import ClassVar

import attrs


class SafError(Exception):
    """Any refusal or failure that safd names."""

    code: ClassVar[str]


class Malformed(SafError):
    """What came does not have the shape that was asked for; sending it again cannot help."""


class Refused(SafError):
    """The shape is right, the content is not allowed."""


class Conflict(SafError):
    """True at another time: read the present state, then decide again."""


class Denied(SafError):
    """This caller may not do this."""


class Missing(SafError):
    """What was named does not exist here."""


class TooMuch(SafError):
    """A limit was met."""


class Unavailable(SafError):
    """Not now; the same request may succeed later."""


class Damaged(SafError):
    """What is stored cannot be read as it was written."""


# --- Malformed


@attrs.define(eq=False, kw_only=True)
class JsonInvalid(Malformed):
    code: ClassVar[str] = "json_invalid"
    path: str
    reason: str
    offset: int | None = None

    def __str__(self) -> str:
        where = "" if self.offset is None else f" at character {self.offset}"
        return f"{self.path or 'The text'} is not valid JSON{where}: {self.reason}. Send one well-formed JSON value."


@attrs.define(eq=False, kw_only=True)
class TextNotUtf8(Malformed):
    code: ClassVar[str] = "text_not_utf8"
    path: str
    offset: int

    def __str__(self) -> str:
        return f"{self.path or 'The text'} is not UTF-8 at byte {self.offset}. JSON is exchanged in UTF-8 (RFC 8259)."


@attrs.define(eq=False, kw_only=True)
class KeyDuplicate(Malformed):
    code: ClassVar[str] = "key_duplicate"
    path: str
    key: str

    def __str__(self) -> str:
        return f"{self.path or 'The object'} has the key {self.key!r} twice. Send each key once."


@attrs.define(eq=False, kw_only=True)
class NumberNotFinite(Malformed):
    code: ClassVar[str] = "number_not_finite"
    path: str
    seen: str

    def __str__(self) -> str:
        return f"{self.path} is {self.seen}, which JSON cannot carry. Send a finite number, a string or null."


@attrs.define(eq=False, kw_only=True)
class NestingTooDeep(Malformed):
    code: ClassVar[str] = "nesting_too_deep"
    path: str
    limit: int

    def __str__(self) -> str:
        return f"{self.path or 'The text'} nests deeper than {self.limit} levels. Send a flatter value."


@attrs.define(eq=False, kw_only=True)
class FieldUnknown(Malformed):
    code: ClassVar[str] = "field_unknown"
    path: str
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path} is not a known field. Known here: {', '.join(self.allowed)}."


@attrs.define(eq=False, kw_only=True)
class FieldMissing(Malformed):
    code: ClassVar[str] = "field_missing"
    path: str

    def __str__(self) -> str:
        return f"{self.path} is required and was not given."


@attrs.define(eq=False, kw_only=True)
class FieldType(Malformed):
    code: ClassVar[str] = "field_type"
    path: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.path} must be {self.expected}, not {self.seen}."


@attrs.define(eq=False, kw_only=True)
class FieldReserved(Malformed):
    code: ClassVar[str] = "field_reserved"
    path: str

    def __str__(self) -> str:
        return f"{self.path} is set by safd. Leave it out of what you append."


@attrs.define(eq=False, kw_only=True)
class ValueNotAllowed(Malformed):
    code: ClassVar[str] = "value_not_allowed"
    path: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.path} must be {self.expected}, not {self.seen}."


@attrs.define(eq=False, kw_only=True)
class BlockTypeUnknown(Malformed):
    code: ClassVar[str] = "block_type_unknown"
    path: str
    seen: str
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path} is {self.seen!r}. A block is one of {', '.join(self.allowed)}."


@attrs.define(eq=False, kw_only=True)
class IdMalformed(Malformed):
    code: ClassVar[str] = "id_malformed"
    path: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.path} must be an id of the form {self.expected}_<UUIDv7>, not {self.seen!r}."


@attrs.define(eq=False, kw_only=True)
class RequestMalformed(Malformed):
    """A line or an HTTP message that is not a request at all."""

    code: ClassVar[str] = "request_malformed"
    reason: str

    def __str__(self) -> str:
        return f"This is not a request safd understands: {self.reason}."


@attrs.define(eq=False, kw_only=True)
class RequestIncomplete(Malformed):
    """The beginning of a request came, and its end did not."""

    code: ClassVar[str] = "request_incomplete"
    waited_s: float

    def __str__(self) -> str:
        return f"Only a part of the request came within {self.waited_s:g} s. Send it whole."


@attrs.define(eq=False, kw_only=True)
class BodyNotJson(Malformed):
    code: ClassVar[str] = "body_not_json"
    content_type: str

    def __str__(self) -> str:
        return (
            f"The body says that it is {self.content_type!r}. Bodies are JSON: "
            "send them with 'Content-Type: application/json' (curl --json, or -H)."
        )


# --- Refused


@attrs.define(eq=False, kw_only=True)
class PrincipalInRecord(Refused):
    code: ClassVar[str] = "principal_in_record"
    path: str

    def __str__(self) -> str:
        return (
            f"{self.path} holds a runtime-principal block. Authority is never recorded or passed on: "
            "leave it out, safd adds a fresh one to each replay."
        )


@attrs.define(eq=False, kw_only=True)
class IdempotencyKeyReused(Refused):
    code: ClassVar[str] = "idempotency_key_reused"
    key: str

    def __str__(self) -> str:
        return f"The idempotency key {self.key!r} was used before with another body. Use a new key for a new body."


@attrs.define(eq=False, kw_only=True)
class TurnMoveRefused(Refused):
    code: ClassVar[str] = "turn_move_refused"
    turn: str
    state: str
    wanted: str

    def __str__(self) -> str:
        return f"The turn {self.turn} is {self.state} and cannot become {self.wanted}. Open a new turn."


@attrs.define(eq=False, kw_only=True)
class ConversationArchived(Refused):
    code: ClassVar[str] = "conversation_archived"
    conversation: str

    def __str__(self) -> str:
        return f"{self.conversation} is archived and takes nothing new. Fork it, or archive with archived=false first."


@attrs.define(eq=False, kw_only=True)
class CompactionRefused(Refused):
    code: ClassVar[str] = "compaction_refused"
    reason: str

    def __str__(self) -> str:
        return f"The compaction was refused: {self.reason}."


# --- Conflict


@attrs.define(eq=False, kw_only=True)
class SeqConflict(Conflict):
    code: ClassVar[str] = "seq_conflict"
    expected_seq: int
    head_seq: int

    def __str__(self) -> str:
        return (
            f"expected_seq is {self.expected_seq}, but the record ends at {self.head_seq}. "
            "Read what was added, then append again."
        )


@attrs.define(eq=False, kw_only=True)
class TurnAlreadyOpen(Conflict):
    code: ClassVar[str] = "turn_already_open"
    turn: str

    def __str__(self) -> str:
        return f"The turn {self.turn} is still open in this conversation. Close it before opening another."


# --- Denied


@attrs.define(eq=False, kw_only=True)
class NotReader(Denied):
    code: ClassVar[str] = "not_reader"
    conversation: str
    uid: int

    def __str__(self) -> str:
        return (
            f"uid {self.uid} may not read {self.conversation}. "
            "Its owner's admission must list the account under readers or operators."
        )


@attrs.define(eq=False, kw_only=True)
class NotOperator(Denied):
    code: ClassVar[str] = "not_operator"
    conversation: str
    uid: int

    def __str__(self) -> str:
        return (
            f"uid {self.uid} may not write to {self.conversation}. "
            "Its owner's admission must list the account under operators."
        )


@attrs.define(eq=False, kw_only=True)
class NotAdministrator(Denied):
    code: ClassVar[str] = "not_administrator"
    uid: int

    def __str__(self) -> str:
        return f"uid {self.uid} is not an administrator of this node. Ask root or a member of the group saf-admin."


@attrs.define(eq=False, kw_only=True)
class PrincipalInconsistent(Denied):
    code: ClassVar[str] = "principal_inconsistent"
    reason: str

    def __str__(self) -> str:
        return (
            f"Opener, sender and current ids of this connection disagree ({self.reason}). "
            "Open a connection of your own and send on it yourself."
        )


@attrs.define(eq=False, kw_only=True)
class PrincipalForeign(Denied):
    code: ClassVar[str] = "principal_foreign"
    reason: str

    def __str__(self) -> str:
        return f"The caller lives in another namespace ({self.reason}). Run the agent in this node's own namespaces."


@attrs.define(eq=False, kw_only=True)
class PrincipalUnresolvable(Denied):
    code: ClassVar[str] = "principal_unresolvable"
    reason: str

    def __str__(self) -> str:
        return f"It cannot be established who is calling ({self.reason}). Nothing was done."


@attrs.define(eq=False, kw_only=True)
class BrowserRefused(Denied):
    """A page of some web site must not reach the record through a browser or a forwarded socket."""

    code: ClassVar[str] = "browser_refused"
    header: str
    seen: str

    def __str__(self) -> str:
        return (
            f"The request carries {self.header}: {self.seen!r}. Requests made by web pages or for another host are "
            "not answered: send no Origin and no Referer, and a host like 'localhost', without a dot."
        )


# --- Missing


@attrs.define(eq=False, kw_only=True)
class MethodMissing(Missing):
    code: ClassVar[str] = "method_missing"
    method: str

    def __str__(self) -> str:
        return f"There is no method {self.method!r}. rpc.discover and /openapi.json list what there is."


@attrs.define(eq=False, kw_only=True)
class VerbNotAllowed(Missing):
    code: ClassVar[str] = "verb_not_allowed"
    verb: str
    path: str
    allowed: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path} does not take {self.verb}. It takes {', '.join(self.allowed)}."


@attrs.define(eq=False, kw_only=True)
class ConversationMissing(Missing):
    code: ClassVar[str] = "conversation_missing"
    conversation: str

    def __str__(self) -> str:
        return f"There is no conversation {self.conversation} that you may see."


@attrs.define(eq=False, kw_only=True)
class TurnMissing(Missing):
    code: ClassVar[str] = "turn_missing"
    turn: str

    def __str__(self) -> str:
        return f"There is no turn {self.turn} in this conversation."


@attrs.define(eq=False, kw_only=True)
class SubscriptionMissing(Missing):
    code: ClassVar[str] = "subscription_missing"
    subscription: str

    def __str__(self) -> str:
        return f"This connection has no subscription {self.subscription}. conversation.attach names the one it makes."


@attrs.define(eq=False, kw_only=True)
class MarkMissing(Missing):
    code: ClassVar[str] = "mark_missing"
    mark: str

    def __str__(self) -> str:
        return f"There is no mark {self.mark} of that kind in this conversation."


@attrs.define(eq=False, kw_only=True)
class CursorGone(Missing):
    code: ClassVar[str] = "cursor_gone"
    cursor: int
    head_seq: int

    def __str__(self) -> str:
        return f"The cursor {self.cursor} is outside the record, which ends at {self.head_seq}. Attach from the start."


# --- TooMuch


@attrs.define(eq=False, kw_only=True)
class MessageTooLarge(TooMuch):
    code: ClassVar[str] = "message_too_large"
    path: str
    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path} has {self.size_bytes} bytes; the limit is {self.limit_bytes}. "
            "Store the body elsewhere and append what refers to it."
        )


@attrs.define(eq=False, kw_only=True)
class RequestTooLarge(TooMuch):
    code: ClassVar[str] = "request_too_large"
    limit_bytes: int

    def __str__(self) -> str:
        return f"The request is larger than {self.limit_bytes} bytes. Send fewer messages in one request."


@attrs.define(eq=False, kw_only=True)
class BuffersFull(TooMuch):
    code: ClassVar[str] = "buffers_full"
    uid: int
    limit_bytes: int
    retry_after_s: int = 1

    def __str__(self) -> str:
        return (
            f"What the daemon keeps for uid {self.uid}, requests half received and answers not read yet, would be more "
            f"than {self.limit_bytes} bytes. Read the answers that were asked for, and ask again in "
            f"{self.retry_after_s} s."
        )


@attrs.define(eq=False, kw_only=True)
class TooManyValues(TooMuch):
    code: ClassVar[str] = "too_many_values"
    limit: int

    def __str__(self) -> str:
        return f"The request holds more than {self.limit} JSON values. Send fewer in one, or a long list as a text."


@attrs.define(eq=False, kw_only=True)
class TooManySubscriptions(TooMuch):
    code: ClassVar[str] = "too_many_subscriptions"
    limit: int

    def __str__(self) -> str:
        return f"This connection already has {self.limit} subscriptions. Detach one, or open another connection."


@attrs.define(eq=False, kw_only=True)
class TooManyConnections(TooMuch):
    code: ClassVar[str] = "too_many_connections"
    uid: int
    limit: int

    def __str__(self) -> str:
        return f"uid {self.uid} already has {self.limit} connections. Close some, or pipeline on one."


@attrs.define(eq=False, kw_only=True)
class TooManyFollowers(TooMuch):
    code: ClassVar[str] = "too_many_followers"
    conversation: str
    limit: int

    def __str__(self) -> str:
        return f"{self.conversation} already has {self.limit} followers. Detach one first."


@attrs.define(eq=False, kw_only=True)
class MessagesTooMany(TooMuch):
    code: ClassVar[str] = "messages_too_many"
    count: int
    limit: int

    def __str__(self) -> str:
        return f"messages has {self.count} entries; one append takes 1 to {self.limit}. Send them in several appends."
