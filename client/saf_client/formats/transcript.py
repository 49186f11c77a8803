"""What every foreign format becomes: threads of messages to append, and what was left out, with its reason.

A thread is one conversation. Its key names it for good, so that importing again finds it; each message has a key of
its own, so that what is there already is not appended again.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never

import attrs

from safd.model import codec, spans
from safd.model.blocks import Block, JsonText
from safd.model.messages import Message, Role, Usage

IMPORTED = "imported"
"""The one key of a message's (and a conversation's) `metadata` under which an import keeps what is foreign."""

TITLE_CHARACTERS = 72
LINE_KEPT_BYTES = 4 * 1024 * 1024
"""A longer foreign line is kept by its hash and length: twice its size would not fit into a message."""


_HALF = re.compile("[\ud800-\udfff]")


@attrs.frozen(kw_only=True)
class BadLine:
    """A line that cannot be read: where it begins, in bytes, and why."""

    offset: int
    reason: str


@attrs.frozen(kw_only=True)
class LeftOut:
    """Something that is in the file and not in the record's conversation."""

    what: str
    why: str


@attrs.frozen(kw_only=True)
class Part:
    """One foreign line and the blocks it holds. `parent` is the nearest line before it that is in the record."""

    id: str
    offset: int
    text: str
    parent: str | None
    blocks: tuple[Block, ...]
    usage: Usage | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@attrs.frozen(kw_only=True)
class Said:
    """One message, of one or more foreign lines. `reply` is the provider's id where the lines share one.

    `unsaid` says why nothing of it is for the model: the message then has no blocks, and keeps its lines.
    """

    role: Role
    parts: tuple[Part, ...]
    reply: str | None = None
    model: str | None = None
    provider: str | None = None
    timestamp: str | None = None
    unsaid: str | None = None


@attrs.frozen(kw_only=True)
class Exact:
    """One message whose text is appended as it stands."""

    id: str
    offset: int
    text: str


Unit: TypeAlias = Said | Exact


@attrs.frozen(kw_only=True)
class Thread:
    """One conversation to be. `format` and `source` say where it comes from."""

    key: str
    title: str | None
    format: str
    source: Mapping[str, str]
    units: tuple[Unit, ...]

    @property
    def idempotency_key(self) -> str:
        return _digest_key(self.key)

    @property
    def metadata(self) -> str:
        """Says where the conversation comes from; two threads never say the same."""
        return codec.dump({IMPORTED: {"format": self.format, **self.source, "thread": self.idempotency_key}}).decode()


@attrs.frozen(kw_only=True)
class Transcript:
    """A file that was understood. `changed` counts what was rewritten on the way, `left_out` what was not taken."""

    format: str
    threads: tuple[Thread, ...]
    left_out: Mapping[LeftOut, int]
    changed: Mapping[LeftOut, int]
    bad: tuple[BadLine, ...]


@attrs.frozen(kw_only=True)
class Offer:
    """A message to append, under the key that makes it happen once."""

    key: str
    text: str
    continues: bool = False


@attrs.frozen(kw_only=True)
class Differs:
    """A line that the record holds with another text; what is stored stays."""

    offset: int


Known: TypeAlias = Mapping[str, str]
"""Foreign lines that a record holds already: their ids, and the hashes of their texts."""


def title_of(text: str) -> str | None:
    """The first line that says something. Half a character, which no title may hold, is shown as one that is lost."""
    lines = text.strip().splitlines()
    return _HALF.sub("\ufffd", lines[0][:TITLE_CHARACTERS]) if lines else None


def offer(thread: Thread, unit: Unit, known: Known) -> tuple[Offer | None, tuple[Differs, ...]]:
    """What of this unit is still to be appended; None where the record has it.

    A reply that grew since an earlier import: what is stored is not rewritten. The new lines are appended as a
    message of their own that says which reply it continues.
    """
    match unit:
        case Exact():
            return Offer(key=_key(thread, unit.id), text=unit.text), ()
        case Said():
            new = tuple(part for part in unit.parts if part.id not in known)
            differs = tuple(
                Differs(offset=part.offset) for part in unit.parts if part.id in known and known[part.id] != part.digest
            )
            if not new:
                return None, differs
            continues = len(new) < len(unit.parts)
            text = render(thread, unit, new, continues=continues)
            return Offer(key=_key(thread, new[0].id), text=text, continues=continues), differs
        case _ as never:
            assert_never(never)


def render(thread: Thread, unit: Said, parts: Sequence[Part], *, continues: bool) -> str:
    """The message of these lines. A continuation carries no usage: the reply's was counted with its beginning."""
    imported: spans.JsonObject = {"format": thread.format, "lines": [_line(part) for part in parts]}
    if unit.unsaid is not None:
        imported["not_for_model"] = unit.unsaid
    if continues:
        imported["continues"] = unit.reply
    message = Message(
        role=unit.role,
        blocks=() if unit.unsaid is not None else tuple(block for part in parts for block in part.blocks),
        usage=None if continues else _usage(parts),
        model=unit.model,
        provider=unit.provider,
        timestamp=unit.timestamp,
        metadata=JsonText(codec.dump({IMPORTED: imported}).decode()),
    )
    return codec.render_message(message).decode()


def thread_of(metadata: str | None) -> str | None:
    """Which thread a conversation was imported from, by the key that names it."""
    thread = _imported(None if metadata is None else spans.trusted(metadata)).get("thread")
    return thread if isinstance(thread, str) else None


def known_lines(stored: bytes) -> Known:
    """The foreign lines that one stored message keeps."""
    lines = _imported(spans.members(spans.trusted(stored.decode("utf-8"))).get("metadata")).get("lines")
    known: dict[str, str] = {}
    for line in lines if isinstance(lines, list) else []:
        if isinstance(line, dict) and isinstance(line.get("id"), str):
            text, digest = line.get("text"), line.get("sha256")
            known[str(line["id"])] = hashlib.sha256(text.encode()).hexdigest() if isinstance(text, str) else str(digest)
    return known


def _imported(metadata: spans.Span | None) -> spans.JsonObject:
    """What an import keeps in a metadata; empty where it is somebody else's."""
    if metadata is None or metadata.first != "{":
        return {}
    found = spans.members(metadata).get(IMPORTED)
    kept = spans.value(found) if found is not None else None
    return kept if isinstance(kept, dict) else {}


def _usage(parts: Sequence[Part]) -> Usage | None:
    """The last that was stated: a provider repeats its counts on each line of a reply and corrects them at the end."""
    return next((part.usage for part in reversed(parts) if part.usage is not None), None)


def is_kept(text: str) -> bool:
    """Whether a foreign line is kept with its text."""
    return len(text.encode()) <= LINE_KEPT_BYTES


def _line(part: Part) -> spans.JsonObject:
    if is_kept(part.text):
        return {"id": part.id, "parent": part.parent, "text": part.text}
    return {"id": part.id, "parent": part.parent, "sha256": part.digest, "bytes": len(part.text.encode())}


def _key(thread: Thread, id_: str) -> str:
    return _digest_key(f"{thread.key}\0{id_}")


def _digest_key(text: str) -> str:
    # a foreign id may hold half a surrogate pair, as an escape; a file's name may hold what is no UTF-8
    return "import:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
