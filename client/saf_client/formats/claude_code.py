"""Claude Code's session files and its subagents' files (JSON lines, versions 2.1.x).

Rules, each for something that real files do:

* File order is kept. `parentUuid` is a tree in which a rewind leaves dead branches and a compaction a second root:
  each line keeps its `parent`, the nearest earlier line that is in the record (`progress` and other lines that stand
  in the chain are passed over, `logicalParentUuid` counts where `parentUuid` is null). A branch is a view.
* One reply is written as several lines that share `message.id`, with results between them: one assistant message,
  where its first line stood. Usage and model are those of its last line.
* Results ride in `type: user` lines: role tool where such a line holds nothing else.
* `isSidechain` lines are a subagent's: a conversation of their own, never mixed into the parent.
* What the program itself said in the model's place (`<synthetic>`, API errors) never reaches a model and is not
  lost: a system message without blocks, which keeps the line.
* A block that the record has no word for is named by a text where it came from the user's side; on the model's side
  nothing is put into its mouth. Either way its line is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import attrs

from saf_client.formats.lines import AnyLine, Line, is_true, text_of
from saf_client.formats.transcript import BadLine, LeftOut, Part, Said, Thread, Transcript
from safd.model import spans
from safd.model.blocks import (
    Block,
    Image,
    ImageData,
    ImageUrl,
    InvalidInput,
    JsonText,
    ObjectInput,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from safd.model.messages import Role, Usage
from safd.model.spans import Span

FORMAT = "claude-code"
PROVIDER = "anthropic"
SYNTHETIC = "<synthetic>"

_UI = "state of the program, not conversation"
LEFT_OUT = {
    "progress": "what hooks and running tools reported meanwhile; the parents of later lines are taken past it",
    "queue-operation": "typed input waiting for its turn; what was sent stands as a user line",
    "file-history-snapshot": "backups of edited files",
    "attachment": "context that the program added; what the model saw of it is not in the file",
    "system": "the program's own note",
    "summary": "a title that the program gave",
    "ai-title": "a title that the program gave",
    "custom-title": "a title that a person gave",
    "agent-name": _UI,
    "mode": _UI,
    "permission-mode": _UI,
    "last-prompt": _UI,
    "pr-link": _UI,
    "frame-link": _UI,
    "worktree-state": _UI,
    "relocated": _UI,
    "bridge-session": _UI,
    "started": _UI,
    "result": _UI,
    "atis-latch": _UI,
}
SYSTEM_LEFT_OUT = {
    "compact_boundary": "the place of a compaction; both sides are kept, the summary as the message that it was",
    "local_command": "what a local command printed; the model did not see it",
    "api_error": "a failed request; the model did not see it",
}
_UNKNOWN_LINE = "a kind of line that this importer does not know"
_CONVERSATION = ("user", "assistant")


def recognises(line: Line) -> bool:
    kind = text_of(line.members, "type")
    if kind in _CONVERSATION:
        message = line.members.get("message")
        return message is not None and message.first == "{" and "uuid" in line.members
    return kind in LEFT_OUT


def read(lines: Sequence[AnyLine], source: str) -> Transcript:
    """The main conversation and one for each subagent. Nothing of it depends on `source`, the file's path."""
    reader = _Reader(source=source)
    for line in lines:
        if isinstance(line, BadLine):
            reader.bad.append(line)
        else:
            reader.take(line)
    return Transcript(
        format=FORMAT,
        threads=tuple(reader.threads()),
        left_out=reader.left_out,
        changed=reader.changed,
        bad=tuple(sorted(reader.bad, key=lambda bad: bad.offset)),
    )


@attrs.define(kw_only=True)
class _Reader:
    source: str
    bad: list[BadLine] = attrs.field(factory=list[BadLine])
    left_out: Counter[LeftOut] = attrs.field(factory=Counter[LeftOut])
    changed: Counter[LeftOut] = attrs.field(factory=Counter[LeftOut])
    session: str | None = None
    parents: dict[str, str | None] = attrs.field(factory=dict[str, "str | None"])
    sidechains: set[str] = attrs.field(factory=set[str])
    texts: dict[str, str] = attrs.field(factory=dict[str, str])
    taken: dict[str, list[Line]] = attrs.field(factory=lambda: defaultdict[str, list[Line]](list))

    def take(self, line: Line) -> None:
        kind = text_of(line.members, "type")
        uuid = text_of(line.members, "uuid")
        self.session = self.session or text_of(line.members, "sessionId") or text_of(line.members, "session_id")
        if uuid is not None:
            parent = text_of(line.members, "parentUuid") or text_of(line.members, "logicalParentUuid")
            self.parents.setdefault(uuid, parent)
        if kind not in _CONVERSATION:
            self.left_out[_left_out(line, kind)] += 1
        elif uuid is not None and uuid in self.texts:
            same = self.texts[uuid] == line.text
            why = "the file holds it twice" if same else "another line of the same uuid stands before it"
            self.left_out[LeftOut(what=f"{kind} line", why=why)] += 1
        elif (reason := _unfit(line, kind)) is not None:
            self.bad.append(BadLine(offset=line.offset, reason=reason))
        else:
            if uuid is not None:
                self.texts[uuid] = line.text
                if is_true(line.members, "isSidechain"):
                    self.sidechains.add(uuid)
            self.taken[self._thread(line, uuid)].append(line)

    def threads(self) -> Iterator[Thread]:
        for name, lines in self._rejoined().items():
            thread = _Thread(parents=self.parents, kept=frozenset(self.texts), changed=self.changed)
            units = thread.read(lines)
            source = {"session": self.session or ""}
            if name:
                source["subagent"] = name
            title = thread.title if not name else f"Subagent {name}: {thread.title or ''}".strip()[:80]
            key = f"{FORMAT}:{self.session or self.source}" + (f"/{name}" if name else "")
            yield Thread(key=key, title=title, format=FORMAT, source=source, units=units)

    def _thread(self, line: Line, uuid: str | None) -> str:
        """Empty for the main conversation; a subagent's id; or, in files without one, where its lines begin."""
        if not is_true(line.members, "isSidechain"):
            return ""
        return text_of(line.members, "agentId") or f"?{uuid or ''}"

    def _rejoined(self) -> dict[str, list[Line]]:
        """Sidechain lines without an agent's id belong to the sidechain that their parents lead to."""
        joined: dict[str, list[Line]] = defaultdict(list)
        for name, lines in self.taken.items():
            joined[f"side-{self._root(name[1:])}" if name.startswith("?") else name].extend(lines)
        return {name: sorted(lines, key=lambda line: line.offset) for name, lines in joined.items()}

    def _root(self, uuid: str) -> str:
        seen: set[str] = set()
        root = uuid
        at: str | None = uuid
        while at is not None and at not in seen:
            seen.add(at)
            if at in self.sidechains:
                root = at
            at = self.parents.get(at)
        return root


@attrs.define(kw_only=True)
class _Thread:
    """One conversation's lines, in file order."""

    parents: dict[str, str | None]
    kept: frozenset[str]
    changed: Counter[LeftOut]
    title: str | None = None
    open_calls: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict[str, list[str]](list))

    def read(self, lines: Sequence[Line]) -> tuple[Said, ...]:
        units: list[Said] = []
        replies: dict[str, int] = {}
        for line in lines:
            said = self._said(line)
            at = replies.get(said.reply) if said.reply is not None else None
            if at is not None:
                units[at] = attrs.evolve(
                    units[at], parts=units[at].parts + said.parts, model=said.model or units[at].model
                )
                continue
            if said.reply is not None:
                replies[said.reply] = len(units)
            units.append(said)
        return tuple(units)

    def _said(self, line: Line) -> Said:
        message = spans.members(line.members["message"])
        assistant = text_of(line.members, "type") == "assistant"
        model = text_of(message, "model") if assistant else None
        synthetic = assistant and (model == SYNTHETIC or is_true(line.members, "isApiErrorMessage"))
        blocks = () if synthetic else self._blocks(message["content"], assistant=assistant)
        part = Part(
            id=text_of(line.members, "uuid") or f"line:{line.number}",
            offset=line.offset,
            text=line.text,
            parent=self._parent(line),
            blocks=blocks,
            usage=_usage(message) if assistant and not synthetic else None,
        )
        if synthetic:
            why = "the program's own words in the model's place, such as a failed request: never the model's turn"
            self.changed[LeftOut(what="assistant line of the program", why=f"kept without blocks: {why}")] += 1
            return Said(role=Role.SYSTEM, parts=(part,), timestamp=text_of(line.members, "timestamp"), unsaid=why)
        if assistant:
            return Said(
                role=Role.ASSISTANT,
                parts=(part,),
                reply=text_of(message, "id"),
                model=model,
                provider=PROVIDER,
                timestamp=text_of(line.members, "timestamp"),
            )
        results = [block for block in blocks if isinstance(block, ToolResult)]
        role = Role.TOOL if results and len(results) == len(blocks) else Role.USER
        self._entitle(line, blocks)
        return Said(role=role, parts=(part,), timestamp=text_of(line.members, "timestamp"))

    def _entitle(self, line: Line, blocks: Sequence[Block]) -> None:
        if self.title is None and not is_true(line.members, "isMeta"):
            text = next((block.text for block in blocks if isinstance(block, Text) and block.text.strip()), None)
            self.title = None if text is None else text.strip().splitlines()[0][:72]

    def _parent(self, line: Line) -> str | None:
        at = text_of(line.members, "parentUuid") or text_of(line.members, "logicalParentUuid")
        seen: set[str] = set()
        while at is not None and at not in self.kept and at not in seen:
            seen.add(at)
            at = self.parents.get(at)
        return at if at in self.kept else None

    def _blocks(self, content: Span, *, assistant: bool) -> tuple[Block, ...]:
        if content.first == '"':
            return (Text(text=_string(content)),)
        return tuple(
            block for item in spans.elements(content) for block in self._block(spans.members(item), assistant=assistant)
        )

    def _block(self, found: dict[str, Span], *, assistant: bool) -> tuple[Block, ...]:
        kind = text_of(found, "type") or "block without a type"
        block: Block | None = None
        match kind:
            case "text" if _is_string(found, "text"):
                block = Text(text=_string(found["text"]))
            case "thinking" if assistant:
                block = Reasoning(
                    reasoning=_string(found["thinking"]) if _is_string(found, "thinking") else "",
                    signature=_string(found["signature"]) if _is_string(found, "signature") else None,
                )
            case "redacted_thinking" if assistant and _is_string(found, "data"):
                block = Reasoning(reasoning="", redacted=_string(found["data"]))
            case "tool_use" if assistant:
                block = self._call(found)
            case "tool_result" if not assistant:
                block = self._result(found)
            case "image":
                block = _image(found)
            case _:
                block = None
        if block is not None:
            return (block,)
        if assistant:
            self.changed[
                LeftOut(what=f"{kind} of the model", why="the record has no word for it; the line is kept")
            ] += 1
            return ()
        self.changed[LeftOut(what=kind, why="named by a text; the record has no word for it; the line is kept")] += 1
        return (Text(text=_stands_for(kind)),)

    def _call(self, found: dict[str, Span]) -> ToolUse | None:
        id_, name = text_of(found, "id"), text_of(found, "name")
        if id_ is None or name is None:
            return None
        self.open_calls[id_].append(name)
        given = found.get("input")
        if given is None:
            return ToolUse(id=id_, name=name, input=InvalidInput(text=""))
        match given.first:
            case "{":
                return ToolUse(id=id_, name=name, input=ObjectInput(json=JsonText(str(given))))
            case '"':
                return ToolUse(id=id_, name=name, input=InvalidInput(text=_string(given)))
            case _:
                return ToolUse(id=id_, name=name, input=InvalidInput(text=str(given)))

    def _result(self, found: dict[str, Span]) -> ToolResult | None:
        id_ = text_of(found, "tool_use_id")
        if id_ is None:
            return None
        names = self.open_calls.get(id_)
        return ToolResult(
            tool_use_id=id_,
            tool_name=names.pop(0) if names else None,
            output=self._output(found.get("content")),
            is_error=is_true(found, "is_error"),
        )

    def _output(self, content: Span | None) -> str | tuple[Text | Image, ...]:
        if content is None or content.first == "n":
            return ""
        if content.first == '"':
            return _string(content)
        if content.first != "[":
            return str(content)
        return tuple(self._output_part(item) for item in spans.elements(content))

    def _output_part(self, item: Span) -> Text | Image:
        found = spans.members(item) if item.first == "{" else {}
        kind = text_of(found, "type") or "part without a type"
        if kind == "text" and _is_string(found, "text"):
            return Text(text=_string(found["text"]))
        if kind == "image" and (image := _image(found)) is not None:
            return image
        why = "named by a text; the record has no word for it; the line is kept"
        self.changed[LeftOut(what=f"{kind} in a result", why=why)] += 1
        name = text_of(found, "tool_name") if kind == "tool_reference" else None
        return Text(text=f"[tool reference: {name}]" if name else _stands_for(kind))


def _stands_for(kind: str) -> str:
    return f"[{kind}: not carried over by the import]"


def _left_out(line: Line, kind: str | None) -> LeftOut:
    if kind == "system":
        subtype = text_of(line.members, "subtype") or "no subtype"
        return LeftOut(what=f"system/{subtype}", why=SYSTEM_LEFT_OUT.get(subtype, LEFT_OUT["system"]))
    if kind is None:
        return LeftOut(what="line without a type", why=_UNKNOWN_LINE)
    return LeftOut(what=kind, why=LEFT_OUT.get(kind, _UNKNOWN_LINE))


def _unfit(line: Line, kind: str) -> str | None:
    """Why a conversation line cannot be read as one; None where it can."""
    message = line.members.get("message")
    if message is None or message.first != "{":
        return f"a {kind} line without a message"
    content = spans.members(message).get("content")
    if content is None or content.first not in '"[':
        return f"a {kind} line whose message has no content"
    if content.first == "[" and any(item.first != "{" for item in spans.elements(content)):
        return f"a {kind} line whose content holds something that is not a block"
    return None


def _usage(message: dict[str, Span]) -> Usage | None:
    found = message.get("usage")
    if found is None or found.first != "{":
        return None
    counts = spans.members(found)

    def count(name: str) -> int | None:
        number = spans.value(counts[name]) if name in counts else None
        return number if type(number) is int and number >= 0 else None

    return Usage(
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_input_tokens"),
        cache_write_tokens=count("cache_creation_input_tokens"),
    )


def _image(found: dict[str, Span]) -> Image | None:
    source = found.get("source")
    if source is None or source.first != "{":
        return None
    parts = spans.members(source)
    data, media_type, url = text_of(parts, "data"), text_of(parts, "media_type"), text_of(parts, "url")
    if data is not None and media_type is not None:
        return Image(source=ImageData(media_type=media_type, data=data))
    return None if url is None else Image(source=ImageUrl(url=url, media_type=media_type))


def _is_string(found: dict[str, Span], name: str) -> bool:
    span = found.get(name)
    return span is not None and span.first == '"'


def _string(span: Span) -> str:
    return str(spans.value(span))
