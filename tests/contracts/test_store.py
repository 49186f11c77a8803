"""The laws that every store keeps, whatever it is made of."""

import hashlib
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from safd.model import chain, codec, spans
from safd.model.blocks import Image, ImageUrl, JsonText, ObjectInput, Text, ToolResult, ToolUse
from safd.model.conversations import Owner
from safd.model.errors import (
    ConversationArchived,
    ConversationMissing,
    IdempotencyKeyReused,
    MarkMissing,
    SeqConflict,
    TurnAlreadyOpen,
    TurnMissing,
    TurnMoveRefused,
)
from safd.model.failures import StoreBusy
from safd.model.ids import ConversationId, MarkId, Seq, TurnId, Uid
from safd.model.marks import BlockRef, Cleared, Compacted, Restored
from safd.model.turns import TurnState
from safd.settings import Limits
from safd.store.port import ClearedDraft, CompactedDraft, Process, RestoredDraft, Row
from safd.store.sqlite import SqliteStore
from tests.contracts.world import WRITER, Heard, begun, draft, offer, offered_part, opened, said, seqs, turn, whole

NOBODY = ConversationId("conv_01890000-0000-7000-8000-000000000000")

VERBATIM = (
    '{"role":"user","blocks":[{"type":"text","text":"NUL \\u0000 and \\ud800 alone"}]}',
    '{"role":"user","blocks":[],"metadata":{"big":123456789012345678901234567890,"price":1.10,"tiny":1e-400}}',
    '{ "role" : "user" ,\n\t"blocks" : [ ] }',
    '{"role":"user","blocks":[{"type":"text","text":"e\\u0301 é é \U0001f980 \\ud83e\\udd80 \u2028 \\/ /"}]}',
    '{"role":"user","blocks":[{"type":"text","text":"\x7f\u0080\ufeff\uffff"}]}',
    '{"blocks":[],"role":"assistant","metadata":{"z":1,"a":{"":[]}}}',
    said("x" * 5_000_000),
    said("\u00e9" * 2_500_000),
)


# --- verbatim, chained, in order


@pytest.mark.trio
async def test_what_was_appended_comes_back_byte_for_byte(tmp_path: Path) -> None:
    """Every offered text stands in its stored text unchanged, also after the store was opened again."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        receipt = await store.append(offer(conversation, *VERBATIM))
        assert list(seqs(receipt)) == list(range(1, len(VERBATIM) + 1))
        before = (await whole(store, conversation)).rows
    async with opened(tmp_path / "s.db") as store:
        after = (await whole(store, conversation)).rows
    assert before == after
    assert [offered_part(row) for row in after if isinstance(row, Row)] == [text.encode() for text in VERBATIM]


@pytest.mark.trio
async def test_each_message_names_itself_and_the_one_before(tmp_path: Path) -> None:
    """Id, seq, writer and chain stand in the stored text, and anybody can verify them from hydration alone."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        for number in range(5):
            await store.append(offer(conversation, said(f"{number}"), said(f"{number} again")))
        rows = (await whole(store, conversation)).rows
    prev_hash = chain.genesis(conversation)
    for seq, row in enumerate(rows, start=1):
        assert isinstance(row, Row)
        stored = codec.parse_stored(spans.whole(row.text.decode()))
        assert (stored.seq, stored.id, stored.writer, stored.prev_hash) == (seq, row.id, WRITER, prev_hash)
        assert row.seq == seq
        prev_hash = hashlib.sha256(row.text).hexdigest()


@pytest.mark.trio
async def test_committed_appends_are_told_once_in_commit_order_before_the_answer(tmp_path: Path) -> None:
    """Followers hear of every fresh append in the order of its seqs, and no waiter is answered before them."""
    heard = Heard()
    async with opened(tmp_path / "s.db", heard=heard) as store:
        conversation = await begun(store)

        async def client(number: int) -> None:
            for turn_ in range(10):
                receipt = await store.append(offer(conversation, *[said(f"{number}/{turn_}")] * (1 + number % 3)))
                told = [row.seq for _, rows in heard.appends for row in rows]
                assert set(seqs(receipt)) <= set(told)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(client, number)
        rows = (await whole(store, conversation)).rows
    told = [row for _, rows_ in heard.appends for row in rows_]
    assert told == list(rows)
    assert {id_ for id_, _ in heard.appends} == {conversation}


@pytest.mark.trio
async def test_clients_interleave_whole_appends(tmp_path: Path) -> None:
    """The messages of one append stand together, in order, with nobody else's between them."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        wanted = {}

        async def client(number: int) -> None:
            for round_ in range(6):
                texts = [said(f"{number}.{round_}.{part}") for part in range(4)]
                receipt = await store.append(offer(conversation, *texts))
                wanted[tuple(seqs(receipt))] = (receipt.ids, texts)

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(client, number)
        rows = (await whole(store, conversation)).rows
    assert sorted(seq for taken in wanted for seq in taken) == list(range(1, 6 * 6 * 4 + 1))
    for taken, (ids, texts) in wanted.items():
        stored = [rows[seq - 1] for seq in taken]
        assert [row.id for row in stored] == list(ids)
        assert [offered_part(row).decode() for row in stored] == texts


# --- exactly once, optimistic concurrency


@pytest.mark.trio
async def test_a_key_gives_its_first_answer_again_also_after_a_restart(tmp_path: Path) -> None:
    """The same key and body store nothing new and say so; another body is refused; keys belong to a conversation."""
    heard = Heard()
    async with opened(tmp_path / "s.db", heard=heard) as store:
        conversation, other = await begun(store), await begun(store)
        first = await store.append(offer(conversation, said("a"), said("b"), idempotency_key="k"))
        await store.append(offer(conversation, said("later")))
        elsewhere = await store.append(offer(other, said("x"), idempotency_key="k"))
        again = await store.append(offer(conversation, said("a"), said("b"), idempotency_key="k"))
        assert first.fresh
        assert elsewhere.fresh
        assert again == attrs.evolve(first, fresh=False)
        assert len(heard.appends) == 3
    async with opened(tmp_path / "s.db", heard=heard) as store:
        await store.archive(conversation, archived=True)
        again = await store.append(offer(conversation, said("a"), said("b"), idempotency_key="k", expected_seq=0))
        assert again == attrs.evolve(first, fresh=False)
        for body in ([said("a")], [said("a"), said("c")], [said("b"), said("a")], [said("a") + said("b")]):
            with pytest.raises(IdempotencyKeyReused):
                await store.append(offer(conversation, *body, idempotency_key="k"))
        assert (await whole(store, conversation)).head_seq == 3


@pytest.mark.trio
async def test_one_key_at_once_is_stored_once(tmp_path: Path) -> None:
    """Retries that race each other get one answer, of which exactly one is fresh."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        receipts = []

        async def client() -> None:
            receipts.append(await store.append(offer(conversation, said("once"), idempotency_key="\ud800 k")))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(client)
        assert {receipt.ids for receipt in receipts} == {receipts[0].ids}
        assert sum(receipt.fresh for receipt in receipts) == 1
        assert (await whole(store, conversation)).head_seq == 1


@pytest.mark.trio
async def test_expected_seq_lets_one_of_the_racers_through(tmp_path: Path) -> None:
    """Who expects another head than there is gets the present one, and nothing is stored."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        outcomes = []

        async def client() -> None:
            try:
                outcomes.append((await store.append(offer(conversation, said("me"), expected_seq=0))).head_seq)
            except SeqConflict as error:
                outcomes.append((error.expected_seq, error.head_seq))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client)
        assert sorted(map(str, outcomes)) == sorted(map(str, [1, *[(0, 1)] * 4]))
        assert (await whole(store, conversation)).head_seq == 1


ops = st.lists(
    st.tuples(
        st.integers(0, 1),  # conversation
        st.lists(st.text(max_size=5), min_size=1, max_size=3),
        st.none() | st.sampled_from("ab"),  # key
        st.none() | st.integers(0, 6),  # expected_seq
    ),
    max_size=12,
)


@given(ops=ops, reopen_at=st.integers(0, 12))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_appends_agree_with_the_model(tmp_path_factory: pytest.TempPathFactory, ops: list, reopen_at: int) -> None:
    """Whatever is offered in whatever order, also across a restart: the store does what a dictionary of lists does."""
    trio.run(_against_model, tmp_path_factory.mktemp("model") / "s.db", ops, reopen_at)


async def _against_model(path: Path, ops: list, reopen_at: int) -> None:
    records: dict[int, list[str]] = {0: [], 1: []}
    keys: dict[tuple[int, str], tuple[list[str], tuple]] = {}
    async with opened(path) as store:
        conversations = [await begun(store), await begun(store)]
        await _play(store, conversations, ops[:reopen_at], records, keys)
    async with opened(path) as store:
        await _play(store, conversations, ops[reopen_at:], records, keys)
        for number, conversation in enumerate(conversations):
            page = await whole(store, conversation)
            assert [offered_part(row).decode() for row in page.rows] == records[number]
            assert page.head_seq == (await store.conversation(conversation)).head_seq == len(records[number])
        counts = await store.counts()
        assert (counts.conversations, counts.messages) == (2, sum(map(len, records.values())))


async def _play(store: SqliteStore, conversations: list, ops: list, records: dict, keys: dict) -> None:
    for number, words, key, expected in ops:
        texts = [said(word) for word in words]
        record = records[number]
        offering = offer(conversations[number], *texts, idempotency_key=key, expected_seq=expected)
        if key is not None and (number, key) in keys:
            body, answer = keys[number, key]
            if body != texts:
                with pytest.raises(IdempotencyKeyReused):
                    await store.append(offering)
            else:
                receipt = await store.append(offering)
                assert (receipt.first_seq, receipt.last_seq, receipt.ids, receipt.fresh) == (*answer, False)
            continue
        if expected is not None and expected != len(record):
            with pytest.raises(SeqConflict):
                await store.append(offering)
            continue
        receipt = await store.append(offering)
        assert (receipt.first_seq, receipt.head_seq, receipt.fresh) == (len(record) + 1, receipt.last_seq, True)
        record += texts
        assert receipt.last_seq == len(record)
        if key is not None:
            keys[number, key] = (texts, (receipt.first_seq, receipt.last_seq, receipt.ids))


# --- waiting


@pytest.mark.trio
async def test_a_cancelled_waiter_does_not_cancel_its_offer(tmp_path: Path) -> None:
    """Once queued, an offer is committed and told, whoever still waits; a retry with its key finds the answer."""
    heard = Heard()
    async with opened(tmp_path / "s.db", heard=heard) as store:
        conversation = await begun(store)
        offering = offer(conversation, said("x"), idempotency_key="k")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.append, offering)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        receipt = await store.append(offering)
        assert not receipt.fresh
        assert [rows[0].seq for _, rows in heard.appends] == [1]


@pytest.mark.trio
async def test_who_is_cancelled_before_queues_nothing(tmp_path: Path) -> None:
    """A caller that is already cancelled does not store anything."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.append(offer(conversation, said("never")))
        assert scope.cancelled_caught
        assert (await whole(store, conversation)).head_seq == 0


@pytest.mark.trio
async def test_the_queue_is_bounded_by_count_and_by_bytes(tmp_path: Path) -> None:
    """What does not fit is refused whole and can be sent again; what was queued is stored."""
    outcomes: list[str] = []
    for limits, size in ((Limits(store_queue=3), 1), (Limits(store_queue_bytes=10_000), 3000)):
        async with opened(tmp_path / f"{size}.db", limits=limits) as store:
            conversation = await begun(store)
            outcomes.clear()

            async def client(store: SqliteStore, conversation: ConversationId, size: int) -> None:
                try:
                    await store.append(offer(conversation, said("x" * size)))
                except StoreBusy:
                    outcomes.append("busy")
                else:
                    outcomes.append("stored")

            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(client, store, conversation, size)
            assert sorted(outcomes) == ["busy"] * 5 + ["stored"] * 3
            assert (await whole(store, conversation)).head_seq == 3
            await store.append(offer(conversation, said("x" * 20_000)))  # alone, even what is larger than the bound


@pytest.mark.trio
async def test_closing_commits_what_waits(tmp_path: Path) -> None:
    """Whoever was queued when the store closes is answered, and finds its message after."""
    answered = []
    async with trio.open_nursery() as nursery, opened(tmp_path / "s.db") as store:
        conversation = await begun(store)

        async def client(store: SqliteStore, conversation: ConversationId) -> None:
            answered.append((await store.append(offer(conversation, said("last words")))).last_seq)

        for _ in range(20):
            nursery.start_soon(client, store, conversation)
        await wait_all_tasks_blocked()
    async with opened(tmp_path / "s.db") as store:
        assert sorted(answered) == list(range(1, 21))
        assert (await whole(store, conversation)).head_seq == 20


# --- reading


@pytest.mark.trio
async def test_pages_give_exactly_what_they_are_asked_for(tmp_path: Path) -> None:
    """For every cursor, bound, limit and direction: the right rows, and `has_more` never lies."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        assert (await store.page(conversation, after=None, before=None, limit=5, descending=True)).rows == ()
        await store.append(offer(conversation, *[said(str(number)) for number in range(1, 8)]))
        for after in (None, -3, 0, 3, 7, 99):
            for before in (None, -3, 1, 4, 8, 99):
                for limit in (1, 2, 7, 100):
                    for descending in (False, True):
                        lowest, highest = (after if after is not None else 0), (before if before is not None else 8)
                        due = [seq for seq in range(1, 8) if lowest < seq < highest]
                        due = due[::-1] if descending else due
                        page = await store.page(
                            conversation, after=after, before=before, limit=limit, descending=descending
                        )
                        assert [row.seq for row in page.rows] == due[:limit]
                        assert page.has_more == (len(due) > limit)
                        assert page.head_seq == 7


@pytest.mark.trio
async def test_reading_on_is_cut_by_bytes_and_always_moves(tmp_path: Path) -> None:
    """A reader that follows its own last seq sees every row once, in pieces of about the size it asked for."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        await store.append(offer(conversation, *[said("x" * size) for size in (10, 5000, 10, 10, 20_000, 10)]))
        for limit_bytes in (0, 1, 600, 6000, 10**9):
            found: list[int] = []
            while piece := await store.read_after(conversation, found[-1] if found else 0, limit_bytes=limit_bytes):
                assert sum(len(row.text) for row in piece[:-1]) < max(limit_bytes, 1)
                found += [row.seq for row in piece]
            assert found == [1, 2, 3, 4, 5, 6]


@pytest.mark.trio
async def test_what_does_not_exist_is_missing(tmp_path: Path) -> None:
    """No method answers for a conversation that is not there with an empty default."""
    async with opened(tmp_path / "s.db") as store:
        assert store.known(NOBODY) is None
        for call in (
            store.conversation(NOBODY),
            store.append(offer(NOBODY, said("x"))),
            store.page(NOBODY, after=None, before=None, limit=1, descending=False),
            store.read_after(NOBODY, 0, limit_bytes=1),
            store.marks(NOBODY),
            store.mark(NOBODY, WRITER, ClearedDraft(cleared=())),
            store.archive(NOBODY, archived=True),
            store.open_turn(turn(NOBODY), None),
            store.move_turn(NOBODY, turn(NOBODY).id, TurnState.WAITING, reason=None),
            store.conversations(owner=None, agent=None, archived=False, after=NOBODY, limit=1),
        ):
            with pytest.raises(ConversationMissing):
                await call


# --- conversations


@pytest.mark.trio
async def test_a_conversation_is_what_was_drafted(tmp_path: Path) -> None:
    """Title, agent and metadata come back as they were, whatever characters they hold; `known` agrees with the disk."""
    odd = draft(agent="a\ud800", title="t\x00\udfff é", metadata=JsonText('{"n":1.10,"s":"\\ud800"}'))
    async with opened(tmp_path / "s.db") as store:
        made = await store.create(odd)
        assert (made.agent, made.title, made.metadata, made.owner) == (odd.agent, odd.title, odd.metadata, odd.owner)
        assert (made.head_seq, made.archived_at, made.turn) == (0, None, None)
        assert store.known(made.id) == made
        await store.append(offer(made, said("x")))
        now = store.known(made.id)
        assert now is not None
        assert now.head_seq == 1
        assert now.updated_at > made.updated_at == made.created_at
    async with opened(tmp_path / "s.db") as store:
        assert store.known(made.id) is None
        assert await store.conversation(made.id) == now
        assert store.known(made.id) == now
        assert await store.conversations(owner=None, agent="a\ud800", archived=False, after=None, limit=9) == (now,)


@pytest.mark.trio
async def test_creating_with_a_key_creates_once(tmp_path: Path) -> None:
    """The same owner, key and draft give the first conversation as it is now; another draft is refused."""
    async with opened(tmp_path / "s.db") as store:
        made = await store.create(draft(idempotency_key="k"))
        await store.append(offer(made, said("x")))
        again = await store.create(draft(idempotency_key="k"))
        assert (again.id, again.head_seq) == (made.id, 1)
        with pytest.raises(IdempotencyKeyReused):
            await store.create(draft(idempotency_key="k", title="another"))
        with pytest.raises(IdempotencyKeyReused):
            await store.create(draft(idempotency_key="k", title="-", agent=None))
        other = await store.create(draft(idempotency_key="k", owner=Owner(uid=Uid(7), account="kim")))
        assert other.id != made.id
        assert (await store.counts()).conversations == 2


@pytest.mark.trio
async def test_lists_are_newest_first_and_page_by_the_last_seen(tmp_path: Path) -> None:
    """Owner, agent and archive choose; walking pages gives each conversation once."""
    async with opened(tmp_path / "s.db") as store:
        made = []
        for number in range(9):
            owner = Owner(uid=Uid(number % 2), account="x")
            made.append(await store.create(draft(owner=owner, agent="ab"[number % 3 > 0])))
        made[4] = await store.archive(made[4].id, archived=True)
        assert made[4].archived_at is not None
        for owner in (None, Uid(0), Uid(1)):
            for agent in (None, "a", "b"):
                for archived in (False, True):
                    due = [
                        one
                        for one in reversed(made)
                        if (owner is None or one.owner.uid == owner)
                        and (agent is None or one.agent == agent)
                        and (one.archived_at is not None) == archived
                    ]
                    found: list = []
                    while page := await store.conversations(
                        owner=owner, agent=agent, archived=archived, after=found[-1].id if found else None, limit=2
                    ):
                        assert len(page) <= 2
                        found += page
                    assert found == due


@pytest.mark.trio
async def test_an_archived_conversation_takes_nothing_new(tmp_path: Path) -> None:
    """Appends and turns are refused until it is taken back; archiving twice keeps the first moment."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        first = await store.archive(conversation, archived=True)
        assert first.archived_at is not None
        assert await store.archive(conversation, archived=True) == first
        with pytest.raises(ConversationArchived):
            await store.append(offer(conversation, said("x")))
        with pytest.raises(ConversationArchived):
            await store.open_turn(turn(conversation), None)
        with pytest.raises(ConversationArchived):
            await store.mark(conversation, WRITER, ClearedDraft(cleared=()))
        assert (await store.archive(conversation, archived=False)).archived_at is None
        await store.append(offer(conversation, said("x")))


# --- marks


SUMMARY = (
    Text(text="so far \ud800"),
    ToolUse(id="c", name="n", input=ObjectInput(json=JsonText('{"a":1.10}'))),
    ToolResult(tool_use_id="c", output=(Text(text="t"), Image(source=ImageUrl(url="u")))),
)


@pytest.mark.trio
async def test_marks_come_back_in_order_as_they_were_drafted(tmp_path: Path) -> None:
    """Each kind of mark survives a restart with every field, stamped with the head at its commit."""
    async with opened(tmp_path / "s.db") as store:
        conversation = await begun(store)
        receipt = await store.append(offer(conversation, said("a"), said("b")))
        refs = tuple(BlockRef(message_id=id_, block=0) for id_ in receipt.ids)
        cleared = await store.mark(conversation, WRITER, ClearedDraft(cleared=refs))
        await store.append(offer(conversation, said("c")))
        restored = await store.mark(conversation, WRITER, RestoredDraft(mark=cleared.id))
        compacted = await store.mark(conversation, WRITER, CompactedDraft(through_seq=Seq(2), summary=SUMMARY))
        assert isinstance(cleared, Cleared)
        assert isinstance(restored, Restored)
        assert isinstance(compacted, Compacted)
        assert (cleared.cleared, restored.mark, compacted.summary) == (refs, cleared.id, SUMMARY)
        assert [cleared.at_seq, restored.at_seq, compacted.at_seq] == [2, 3, 3]
        assert await store.marks(conversation) == (cleared, restored, compacted)
        assert (await store.conversation(conversation)).head_seq == 3
    async with opened(tmp_path / "s.db") as store:
        assert await store.marks(conversation) == (cleared, restored, compacted)


@pytest.mark.trio
async def test_only_a_cleared_mark_of_this_conversation_can_be_restored(tmp_path: Path) -> None:
    """Another conversation's mark, another kind and an id that never was are all missing."""
    async with opened(tmp_path / "s.db") as store:
        here, there = await begun(store), await begun(store)
        elsewhere = await store.mark(there, WRITER, ClearedDraft(cleared=()))
        other_kind = await store.mark(here, WRITER, CompactedDraft(through_seq=Seq(0), summary=()))
        for mark in (elsewhere.id, other_kind.id, MarkId("mark_never")):
            with pytest.raises(MarkMissing):
                await store.mark(here, WRITER, RestoredDraft(mark=mark))
        assert await store.marks(here) == (other_kind,)


# --- turns


@pytest.mark.trio
async def test_a_turn_knows_where_it_began_and_one_is_open_at_a_time(tmp_path: Path) -> None:
    """`after_seq` is the head at the commit; a second turn waits for the end of the first; moves follow the table."""
    process = Process(pid=42, start_ticks=2**40, boot_id="b")
    async with opened(tmp_path / "s.db") as store:
        conversation, other = await begun(store), await begun(store)
        await store.append(offer(conversation, said("a"), said("b")))
        opened_ = await store.open_turn(turn(conversation, 1), process)
        assert opened_.after_seq == 2
        with pytest.raises(TurnAlreadyOpen):
            await store.open_turn(turn(conversation, 2), None)
        beside = await store.open_turn(turn(other, 3), None)
        assert [(one.turn, one.process) for one in await store.open_turns()] == [(opened_, process), (beside, None)]
        waiting = await store.move_turn(conversation, opened_.id, TurnState.WAITING, reason=None)
        assert store.known(conversation).turn == waiting
    async with opened(tmp_path / "s.db") as store:
        assert (await store.conversation(conversation)).turn == waiting
        with pytest.raises(TurnMoveRefused):
            await store.move_turn(conversation, opened_.id, TurnState.WAITING, reason=None)
        ended = await store.move_turn(conversation, opened_.id, TurnState.INTERRUPTED, reason="gone \ud800")
        assert (ended.state, ended.reason, ended.ended_at is not None) == (TurnState.INTERRUPTED, "gone \ud800", True)
        assert (await store.conversation(conversation)).turn == ended
        second = await store.open_turn(turn(conversation, 2), None)
        for state in TurnState:
            with pytest.raises(TurnMoveRefused):
                await store.move_turn(conversation, opened_.id, state, reason=None)
        assert (await store.conversation(conversation)).turn == second
        for unknown in (TurnId("turn_never"), beside.id):
            with pytest.raises(TurnMissing):
                await store.move_turn(conversation, unknown, TurnState.WAITING, reason=None)
        assert [one.turn for one in await store.open_turns()] == [beside, second]
