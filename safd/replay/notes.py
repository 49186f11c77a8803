"""What is noted while one message is shaped: for whom it is, where it stands, how it differs from the record."""

import attrs

from safd.model.ids import MessageId
from safd.model.projections import Capabilities, ReasoningCapability, Repair, RepairKind
from safd.replay.unicode import carried
from safd.replay.wire import Rules


@attrs.frozen(kw_only=True)
class Request:
    """For whom a record is projected. `cleared` are the results whose bodies are out of sight."""

    rules: Rules
    capabilities: Capabilities
    provider: str | None
    model: str | None
    cleared: frozenset[tuple[MessageId, int]]

    @property
    def reasoning(self) -> ReasoningCapability:
        """How reasoning goes back at this target, or OMIT."""
        asked = self.capabilities.reasoning or self.rules.reasoning
        if asked not in self.rules.reasoning_ways:
            return ReasoningCapability.OMIT
        if self.rules.thinking_switch and not self.capabilities.thinking:
            return ReasoningCapability.OMIT
        return asked


@attrs.define(eq=False)
class Notes:
    """`careful`: every text is looked at for what JSON in UTF-8 cannot carry. `stored_id` None: a summary's."""

    request: Request
    stored_id: MessageId | None
    careful: bool
    repairs: list[Repair] = attrs.field(factory=list[Repair])

    def repair(self, kind: RepairKind, block: int | None, detail: str) -> None:
        self.repair_at(self.stored_id, kind, block, detail)

    def repair_at(self, message_id: MessageId | None, kind: RepairKind, block: int | None, detail: str) -> None:
        self.repairs.append(Repair(kind=kind, message_id=message_id, block=block, detail=detail))

    def omitted(self, block: int | None, why: str) -> None:
        self.repair(RepairKind.REASONING_OMITTED, block, why)

    def carried(self, block: int | None, text: str) -> str:
        """The text as it can cross."""
        if not self.careful:
            return text
        found = carried(text)
        if found != text:
            self.repair(RepairKind.TEXT_UNICODE, block, "a lone surrogate, which JSON cannot carry, was replaced")
        return found
