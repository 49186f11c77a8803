"""The fast reader says what the exact one says, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safd.model import codec, fastparse, spans
from safd.model.errors import SafError
from safd.model.ids import MessageId, Seq, Uid
from safd.model.messages import Message, StoredMessage, Writer
from safd.model.principals import Posture
from tests.messages import messages

TEXTS = [
    '{"role":"user","blocks":[{"type":"text","text":"a"}]}',
    ' {"blocks":[ ],"role" : "tool"} ',
    '{"role":"user","blocks":[{"type":"text","text":"\\ud800"}]}',
    '{"role":"user","blocks":[{"type":"text","text":"\\u0000\\ud83d\\ude00"}]}',
    '{"role":"assistant","blocks":[{"type":"tool_use","id":"","name":"","input":{"n":12345678901234567890123,"p":1.10}}]}',
    '{"role":"assistant","blocks":[{"type":"tool_use","id":"a","name":"b","input": "{\\"a\\":"}]}',
    '{"role":"assistant","blocks":[{"type":"tool_use","id":"a","name":"b","input":[1]}]}',
    '{"role":"assistant","blocks":[{"type":"tool_use","id":"a","name":"b","input":null}]}',
    '{"role":"tool","blocks":[{"type":"tool_result","tool_use_id":"a","output":""}]}',
    '{"role":"tool","blocks":[{"type":"tool_result","tool_use_id":"a","output":[],"is_error":null,"tool_name":null}]}',
    '{"role":"tool","blocks":[{"type":"tool_result","tool_use_id":"a","output":[{"type":"tool_use"}]}]}',
    '{"role":"user","blocks":[{"type":"image","data":"x"}]}',
    '{"role":"user","blocks":[{"type":"image","media_type":"image/png","data":"x"}]}',
    '{"role":"user","blocks":[{"type":"image","url":"x"}]}',
    '{"role":"user","blocks":[{"type":"image","url":"x","data":"y","media_type":"z"}]}',
    '{"role":"user","blocks":[],"metadata":{"a":1e2}}',
    '{"role":"user","blocks":[],"metadata":null,"usage":null,"model":null}',
    '{"role":"user","blocks":[],"metadata":"x"}',
    '{"role":"user","blocks":[],"usage":{"input_tokens":-1}}',
    '{"role":"user","blocks":[],"usage":{"input_tokens":99999999999999999999}}',
    '{"role":"user","blocks":[],"usage":{"input_tokens":1.0}}',
    '{"role":"user","blocks":[],"timestamp":1764576000}',
    '{"role":"user","blocks":[],"timestamp":1764576000.25}',
    '{"role":"user","blocks":[],"timestamp":true}',
    '{"role":"user","blocks":[],"timestamp":12345678901234567890123}',
    '{"role":"robot","blocks":[]}',
    '{"role":"user","blocks":[],"seq":1}',
    '{"role":"user"}',
    '{"role":"user","blocks":[{"type":"sound"}]}',
    '{"role":"user","blocks":[{"text":"a"}]}',
    '{"role":"user","blocks":[{"type":"text","text":1}]}',
]


def exactly(text: str) -> Message | None:
    """What the exact reader makes of it, without its rule about who may say what."""
    try:
        return codec.parse_message(spans.whole(text))
    except SafError:
        return None


@pytest.mark.parametrize("text", TEXTS)
def test_the_fast_reader_never_differs_and_never_takes_what_is_refused(text: str) -> None:
    """Whatever it takes, it takes as the exact reader does."""
    fast = fastparse.parse_message(text)
    assert fast is None or fast == exactly(text)


@given(messages)
def test_ordinary_messages_are_taken_as_the_exact_reader_takes_them(message: Message) -> None:
    """For every message that can be written, fast equals exact; only escaped surrogates and huge numbers are left."""
    text = codec.render_message(message).decode()
    fast = fastparse.parse_message(text)
    assert exactly(text) == message
    assert fast is None or fast == message
    if "\\ud" not in text:
        assert fast == message


@given(messages, st.integers(min_value=1, max_value=2**31))
def test_stored_messages_are_taken_with_what_the_daemon_added(message: Message, seq: int) -> None:
    """A stored text gives the same types by both ways."""
    stored = codec.render_stored(
        id_=MessageId("msg_x"),
        seq=Seq(seq),
        recorded_at="2026-12-01T00:00:00.000Z",
        writer=Writer(uid=Uid(7), agent=None, posture=Posture.RESIDENT),
        prev_hash="00",
        offered=codec.render_message(message).decode(),
    )
    fast = fastparse.parse_stored(stored)
    exact: StoredMessage = codec.parse_stored(spans.whole(stored.decode()))
    assert exact.message == message
    assert fast is None or fast == exact
