"""Short words for records and projections in tests."""

import json
from typing import cast

import attrs

from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    InvalidInput,
    JsonText,
    ObjectInput,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from safd.model.marks import Mark
from safd.model.messages import Message, Role, StoredMessage
from safd.model.projections import Capabilities, Repair, StablePrefix, Target
from safd.model.spans import JsonObject
from safd.replay.project import Projection, Rendered
from tests import strategies
from tests.replay.rules import anthropic, openai_chat

PRINCIPAL = "<runtime-principal>\nagent: hermes\n</runtime-principal>"
PROVIDER, MODEL = "example", "model-1"
PIXEL = strategies.PIXEL


def user(*blocks: Block | str) -> Message:
    return said(Role.USER, *blocks)


def assistant(*blocks: Block | str, provider: str | None = PROVIDER, model: str | None = MODEL) -> Message:
    return attrs.evolve(said(Role.ASSISTANT, *blocks), provider=provider, model=model)


def tool(*blocks: Block | str) -> Message:
    return said(Role.TOOL, *blocks)


def system(*blocks: Block | str) -> Message:
    return said(Role.SYSTEM, *blocks)


def said(role: Role, *blocks: Block | str) -> Message:
    return Message(role=role, blocks=tuple(Text(text=block) if isinstance(block, str) else block for block in blocks))


def call(id_: str, name: str = "read", arguments: str = '{"path":"a.py"}') -> ToolUse:
    return ToolUse(id=id_, name=name, input=ObjectInput(json=JsonText(arguments)))


def broken_call(id_: str, emitted: str, name: str = "read") -> ToolUse:
    return ToolUse(id=id_, name=name, input=InvalidInput(text=emitted))


def result(
    id_: str, output: str | tuple[Text | Image, ...] = "done", name: str | None = None, *, is_error: bool = False
) -> ToolResult:
    return ToolResult(tool_use_id=id_, output=output, tool_name=name, is_error=is_error)


def image(data: str = PIXEL, media_type: str = "image/png") -> Image:
    return Image(source=ImageData(media_type=media_type, data=data))


def thought(
    text: str,
    signature: str | None = None,
    *,
    redacted: str | None = None,
    provider: str | None = None,
    model: str | None = None,
) -> Reasoning:
    return Reasoning(reasoning=text, signature=signature, redacted=redacted, provider=provider, model=model)


@attrs.frozen
class Seen:
    """What a record became: the payload as JSON and the repairs. It has been judged already."""

    rendered: Rendered
    raw: bytes

    @property
    def payload(self) -> JsonObject:
        return cast(JsonObject, json.loads(self.raw))

    @property
    def messages(self) -> list[JsonObject]:
        """The history: what stands behind the system part."""
        found = cast("list[JsonObject]", self.payload["messages"])
        return found[1:] if found and found[0]["role"] == "system" else found

    @property
    def repairs(self) -> list[tuple[str, int | None, int | None]]:
        """Kind, seq of the message, block."""
        return [(each.kind.value, _seq(each), each.block) for each in self.rendered.repairs]

    def kinds(self) -> list[str]:
        return [each.kind.value for each in self.rendered.repairs]


def _seq(repair: Repair) -> int | None:
    return None if repair.message_id is None else int(repair.message_id[-12:], 16)


def project(  # noqa: PLR0913  one parameter for each thing that decides a payload
    messages: list[Message] | tuple[StoredMessage, ...],
    target: Target,
    capabilities: Capabilities | None = None,
    *,
    marks: tuple[Mark, ...] = (),
    provider: str | None = PROVIDER,
    model: str | None = MODEL,
    system: tuple[str, ...] = (),
    live_after: int | None = None,
    since: StablePrefix | None = None,
    judged: bool = True,
) -> Seen:
    """A record projected in one go, and judged by its target's rules."""
    record = strategies.stored(messages) if isinstance(messages, list) else messages
    caps = capabilities or Capabilities(vision=True)
    projection = Projection.start(target, caps, provider, model, marks)
    projection.extend(record)
    rendered = projection.render(system=system, principal_text=PRINCIPAL, live_after=live_after, since=since)
    raw = b"".join(rendered.payload)
    if judged:
        assert judge(target, raw, caps) == []
    return Seen(rendered, raw)


def judge(target: Target, raw: bytes, capabilities: Capabilities) -> list[str]:
    match target:
        case Target.OPENAI_CHAT:
            return openai_chat.violations(raw, capabilities)
        case Target.ANTHROPIC:
            return anthropic.violations(raw, capabilities)


def history(raw: bytes) -> bytes:
    """The bytes of the history in a payload with a principal's text: at OpenAI the first message carries it."""
    found = raw.index(b'"messages":[') + len(b'"messages":[')
    body = raw[found:-2]
    if raw.startswith(b'{"messages":'):
        end = json.JSONDecoder().raw_decode(body.decode("utf-8"))[1]
        body = body[len(body.decode("utf-8")[:end].encode("utf-8")) :].removeprefix(b",")
    return body
