"""What the model may see of a record, after its marks. What was said is another question (hydration).

Microcompact keeps every call and takes only the bodies of results out of sight. It is decided as a batch, at a moment
that the caller chooses, and kept as a mark: a projection never decides by itself, so nothing slides from turn to turn.

Compaction takes everything up to a seq out of sight. The cut keeps rounds whole: where a result stands behind the cut
and its call before it, the cut moves down before that call, so that nothing is lost that the summary may not tell. A
call that has no result does not hold the cut; a result of it that comes later is an orphan, and crosses as prose.
Where several compactions stand, the last one holds.
"""

from collections.abc import Sequence
from typing import assert_never

import attrs

from safd.model.blocks import Block, ToolResult
from safd.model.errors import CompactionRefused
from safd.model.ids import MarkId, MessageId, Seq
from safd.model.marks import BlockRef, Cleared, Compacted, Mark, Restored
from safd.model.messages import StoredMessage
from safd.replay.rounds import Binder, Result, Round


@attrs.frozen(kw_only=True)
class Sight:
    """Messages up to `through` are replaced by `summary`; the bodies of `cleared` results are not shown."""

    through: int
    summary: tuple[Block, ...] | None
    cleared: frozenset[tuple[MessageId, int]]


def sight(marks: Sequence[Mark]) -> Sight:
    cleared: dict[MarkId, tuple[BlockRef, ...]] = {}
    through, summary = 0, None
    for mark in marks:
        match mark:
            case Cleared():
                cleared[mark.id] = mark.cleared
            case Restored():
                cleared.pop(mark.mark, None)
            case Compacted():
                through, summary = mark.through_seq, mark.summary
            case _ as never:
                assert_never(never)
    refs = frozenset((ref.message_id, ref.block) for batch in cleared.values() for ref in batch)
    return Sight(through=through, summary=summary, cleared=refs)


def clearable(
    messages: Sequence[StoredMessage], marks: Sequence[Mark], keep_recent: int, at_least: int = 1
) -> tuple[BlockRef, ...]:
    """The results in sight whose bodies may go: all but the `keep_recent` newest, and what is cleared or empty already.

    A batch smaller than `at_least` is none: whoever asks at every turn gets one break of the prefix for many results.
    """
    seen = sight(marks)
    results = [
        (stored.id, index, block)
        for stored in messages
        if stored.seq > seen.through
        for index, block in enumerate(stored.message.blocks)
        if isinstance(block, ToolResult)
    ]
    older = results[: max(0, len(results) - keep_recent)]
    found = tuple(
        BlockRef(message_id=message_id, block=index)
        for message_id, index, block in older
        if block.output and (message_id, index) not in seen.cleared
    )
    return found if len(found) >= at_least else ()


def compaction_point(messages: Sequence[StoredMessage], through_seq: int) -> Seq:
    """The highest seq up to `through_seq` that splits no round; CompactionRefused where there is none."""
    cut = through_seq
    for first, last in reversed(_spans(messages)):
        if first <= cut < last:
            cut = first - 1
    if not any(stored.seq <= cut for stored in messages):
        raise CompactionRefused(reason=f"no whole round ends at or before message {through_seq}; choose a later one")
    return Seq(cut)


def _spans(messages: Sequence[StoredMessage]) -> list[tuple[int, int]]:
    """The seqs between which a call and its result lie, sorted by the first."""
    binder = Binder()
    units = [binder.bind(stored) for stored in messages]
    return sorted(
        (min(ends), max(ends))
        for unit in units
        if isinstance(unit, Round)
        for call in unit.calls
        if isinstance(call.answer, Result)
        for ends in ((unit.stored.seq, call.answer.unit.stored.seq),)
    )
