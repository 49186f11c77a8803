"""A transcript into a record: each message once, however often its file is imported.

The conversation is found again by its thread's key, each message by its own. What a record holds already is read
from it where a message may have grown since (see `formats.transcript.offer`); elsewhere the daemon knows the key.
"""

from collections.abc import Callable, Iterator

import attrs

from saf_client.errors import Malformed, SafdError, from_cause
from saf_client.formats.transcript import Exact, Known, Said, Thread, Unit, known_lines, offer, thread_of
from saf_client.sync import Client
from safd.model.conversations import Conversation
from safd.model.errors import SafError
from safd.model.ids import ConversationId

KEY_REUSED = "idempotency_key_reused"
_PAGE = 500
OF_ONE_MESSAGE = frozenset({"principal_in_record", "message_too_large", "request_too_large"})
"""Codes that refuse one message and say nothing about the next; all of the family Malformed does the same."""


@attrs.frozen(kw_only=True)
class RefusedMessage:
    """A message that the daemon does not take; `offset` is its first line's, in bytes."""

    offset: int
    code: str
    detail: str


@attrs.define(kw_only=True)
class Taken:
    """What became of one thread."""

    conversation: ConversationId
    title: str | None
    appended: int = 0
    already: int = 0
    continued: int = 0
    """Of `appended`: messages that go on a reply which had grown since the last import."""
    differs: list[int] = attrs.field(factory=list[int])
    """Offsets of lines that the record holds with another text; what is stored stays."""
    refused: list[RefusedMessage] = attrs.field(factory=list[RefusedMessage])


def import_thread(
    client: Client, thread: Thread, *, agent: str | None, begun: Callable[[Taken], None], progress: Callable[[], None]
) -> None:
    """Append what the record does not hold yet, in file order.

    `begun` is given the account of it as soon as there is a conversation: it stays true, also where an error or an
    interrupt ends the import. `progress` is called after each message.
    """
    made = _conversation(client, thread, agent)
    taken = Taken(conversation=made.id, title=made.title)
    begun(taken)
    grows = any(isinstance(unit, Said) for unit in thread.units)
    known: Known = _known(client, made.id) if made.head_seq and grows else {}
    for unit in thread.units:
        try:
            known = _take(client, thread, unit, known, made.head_seq, taken)
        except SafdError as error:
            if error.code == KEY_REUSED:
                taken.already += 1
                taken.differs.append(_offset(unit))
            elif isinstance(error, Malformed) or error.code in OF_ONE_MESSAGE:
                taken.refused.append(RefusedMessage(offset=_offset(unit), code=error.code, detail=error.detail))
            else:
                raise
        progress()


def _take(client: Client, thread: Thread, unit: Unit, known: Known, head: int, taken: Taken) -> Known:
    """Returns what is known of the record then."""
    try:
        _import_unit(client, thread, unit, known, head, taken)
    except SafdError as error:
        if error.code != KEY_REUSED or isinstance(unit, Exact):
            raise
        # another import of a shorter or longer copy is under way: take the record's word
        known = _known(client, taken.conversation)
        _import_unit(client, thread, unit, known, head, taken)
    return known


def _conversation(client: Client, thread: Thread, agent: str | None) -> Conversation:
    """The thread's conversation, made now or at an earlier import.

    A copy that has changed since may give it another title, and the importer may go by another agent's name: the
    daemon then says that the key was used otherwise, and the conversation is found by where it came from.
    """
    try:
        return client.create(
            agent=agent, title=thread.title, metadata=thread.metadata, idempotency_key=thread.idempotency_key
        ).conversation
    except SafdError as error:
        if error.code != KEY_REUSED:
            raise
        mine = client.observe(agent=agent).principal.uid
        for one in _conversations(client):
            if one.owner.uid == mine and thread_of(one.metadata) == thread.idempotency_key:
                return one
        raise


def _conversations(client: Client) -> Iterator[Conversation]:
    for archived in (False, True):
        after: ConversationId | None = None
        while True:
            page = client.list(archived=archived, after=after, limit=_PAGE)
            yield from page.data
            if not page.has_more:
                break
            after = page.data[-1].id


def _import_unit(client: Client, thread: Thread, unit: Unit, known: Known, head: int, taken: Taken) -> None:
    offered, differs = offer(thread, unit, known)
    answer = None
    if offered is not None:
        try:
            answer = client.append(taken.conversation, offered.text, idempotency_key=offered.key)
        except SafError as error:  # refused before it was sent
            raise from_cause(error) from error
    taken.differs.extend(one.offset for one in differs)
    if offered is None or answer is None or answer.first_seq <= head:
        taken.already += 1
        return
    taken.appended += 1
    taken.continued += offered.continues


def _known(client: Client, conversation: ConversationId) -> Known:
    known: dict[str, str] = {}
    for stored in client.record(conversation):
        known.update(known_lines(stored))
    return known


def _offset(unit: Unit) -> int:
    return unit.parts[0].offset if isinstance(unit, Said) else unit.offset
