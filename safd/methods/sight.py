"""What the model may see from now on: microcompact and compaction, decided once and kept as marks."""

from safd.api import params, results
from safd.api.methods import Action
from safd.methods import guard
from safd.methods.context import Call
from safd.methods.events import mark_event
from safd.model.authority import refuse_principal
from safd.model.conversations import Conversation
from safd.model.errors import CompactionRefused, ValueNotAllowed
from safd.model.ids import ConversationId
from safd.model.marks import Mark
from safd.model.messages import StoredMessage
from safd.replay.sight import clearable, compaction_point
from safd.store.port import ClearedDraft, CompactedDraft, MarkDraft, RestoredDraft


async def microcompact(call: Call, asked: params.Microcompact) -> results.Microcompacted:
    found = await guard.conversation_for(call, asked.conversation, Action.WRITE)
    if asked.restore is not None:
        mark = await _mark(call, asked.conversation, RestoredDraft(mark=asked.restore))
        return results.Microcompacted(mark=mark, cleared=())
    if asked.keep_recent < 0:
        raise ValueNotAllowed(path="keep_recent", expected="a whole number from 0", seen=str(asked.keep_recent))
    marks = await call.services.projections.marks_of(asked.conversation)
    refs = clearable(await _messages(call, found), marks, asked.keep_recent)
    if not refs:
        return results.Microcompacted(mark=None, cleared=())
    mark = await _mark(call, asked.conversation, ClearedDraft(cleared=refs))
    return results.Microcompacted(mark=mark, cleared=refs)


async def compact(call: Call, asked: params.Compact) -> results.CompactedThrough:
    found = await guard.conversation_for(call, asked.conversation, Action.WRITE)
    if not 1 <= asked.through_seq <= found.head_seq:
        raise ValueNotAllowed(path="through_seq", expected=f"1 to {found.head_seq}", seen=str(asked.through_seq))
    if not asked.summary:
        raise CompactionRefused(reason="the summary is empty, so the model would lose the past without a word")
    refuse_principal(asked.summary, "summary")
    through = compaction_point(await _messages(call, found), asked.through_seq)
    mark = await _mark(call, asked.conversation, CompactedDraft(through_seq=through, summary=asked.summary))
    return results.CompactedThrough(mark=mark)


async def _mark(call: Call, conversation: ConversationId, draft: MarkDraft) -> Mark:
    services = call.services
    mark = await services.store.mark(conversation, call.writer, draft)
    services.projections.marked(conversation)
    services.feed.publish(conversation, mark_event(mark))
    return mark


async def _messages(call: Call, found: Conversation) -> tuple[StoredMessage, ...]:
    return await call.services.projections.messages(found.id, found.head_seq)
