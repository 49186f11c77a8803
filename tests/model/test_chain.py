"""The hash chain can be verified by anyone from hydrated texts, and shows every change."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from safd.model import chain, codec, spans
from safd.model.ids import ConversationId, MessageId, Seq, Uid
from safd.model.messages import Message, Writer
from safd.model.principals import Posture
from tests.messages import messages

HERE = ConversationId("conv_01936f2e-8c00-7abc-8def-0123456789ab")
WRITER = Writer(uid=Uid(1), agent=None, posture=Posture.UNADMITTED)


def record(offers: list[Message]) -> list[bytes]:
    texts: list[bytes] = []
    previous = chain.genesis(HERE)
    for seq, offer in enumerate(offers, 1):
        text = codec.render_stored(
            id_=MessageId(f"msg_{seq}"),
            seq=Seq(seq),
            recorded_at="2026-12-01T10:00:00.000Z",
            writer=WRITER,
            prev_hash=previous,
            offered=codec.render_message(offer).decode(),
        )
        texts.append(text)
        previous = chain.message_hash(text)
    return texts


def holds(texts: list[bytes]) -> bool:
    """The chain as a reader verifies it: from the texts alone."""
    previous = hashlib.sha256(HERE.encode()).hexdigest()
    for text in texts:
        if codec.parse_stored(spans.whole(text.decode())).prev_hash != previous:
            return False
        previous = hashlib.sha256(text).hexdigest()
    return True


@given(st.lists(messages, max_size=4))
def test_chain_holds_over_what_was_stored(offers: list[Message]) -> None:
    """What the daemon stores verifies from the texts alone."""
    assert holds(record(offers))


@given(st.lists(messages, min_size=2, max_size=4), st.data())
def test_chain_shows_every_change(offers: list[Message], data: st.DataObject) -> None:
    """A message that was left out, doubled, swapped or rewritten before the last one breaks the chain."""
    texts = record(offers)
    at = data.draw(st.integers(min_value=0, max_value=len(texts) - 2))
    rewritten = texts[at].replace(b'"uid":1,', b'"uid":2,', 1)
    assert not holds(texts[:at] + texts[at + 1 :])
    assert not holds(texts[: at + 1] + texts[at:])
    assert not holds([*texts[:at], texts[at + 1], texts[at], *texts[at + 2 :]])
    assert not holds([*texts[:at], rewritten, *texts[at + 1 :]])


def test_records_cannot_be_swapped() -> None:
    """Two conversations start from different hashes, so one cannot be passed off as the other."""
    other = ConversationId(HERE.replace("8def", "9def"))
    assert chain.genesis(HERE) != chain.genesis(other)
    assert len(chain.genesis(HERE)) == 64
