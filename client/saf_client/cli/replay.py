"""`saf replay` and `compact`: what a model may see of a record."""

import json
import sys
from collections import Counter

import click

from saf_client import wire
from saf_client.cli.app import NOTHING_FOUND
from saf_client.cli.asked import Asked, conversation_argument, standard_input, utf8, with_asked
from saf_client.cli.printing import counted, print_json, print_pairs, print_result, print_table, print_text
from safd.api.results import Replayed
from safd.model import spans
from safd.model.ids import ConversationId
from safd.model.projections import Capabilities, ReasoningCapability, Target

DEADLINE_S = 120.0


@click.command("replay")
@conversation_argument
@click.option("--target", "-t", type=click.Choice([target.value for target in Target]), required=True)
@click.option("--provider", metavar="NAME", help="For whom signed reasoning must be valid.")
@click.option("--model", metavar="NAME", help="And for which model.")
@click.option("--vision", is_flag=True, help="The model sees images.")
@click.option("--thinking", is_flag=True, help="The request runs with extended thinking on.")
@click.option("--mid-system", is_flag=True, help="A system message may stand inside the history.")
@click.option(
    "--reasoning",
    type=click.Choice([one.value for one in ReasoningCapability]),
    help="How reasoning goes back to this server. Default: as the target itself has it.",
)
@click.option("--system", multiple=True, help="Your own system text, before the principal's block; may be repeated.")
@click.option("--explain", is_flag=True, help="Every repair and the principal, instead of the payload.")
@with_asked
def replay_command(  # noqa: PLR0913  one parameter for each thing a replay can be asked
    asked: Asked,
    *,
    conversation: ConversationId,
    target: str,
    provider: str | None,
    model: str | None,
    vision: bool,
    thinking: bool,
    mid_system: bool,
    reasoning: str | None,
    system: tuple[str, ...],
    explain: bool,
) -> None:
    """Print the record as the payload that TARGET accepts; --json gives the whole answer."""
    capabilities = Capabilities(
        vision=vision,
        thinking=thinking,
        mid_system=mid_system,
        reasoning=None if reasoning is None else ReasoningCapability(reasoning),
    )
    with asked.connect(deadline_s=DEADLINE_S) as client:
        answer = client.replay(
            conversation,
            target,
            agent=asked.agent,
            provider=provider,
            model=model,
            capabilities=capabilities,
            system=system or None,
        )
    if asked.as_json:
        print_result(answer)
    elif explain:
        print_explained(answer)
    elif sys.stdout.isatty():
        click.echo(json.dumps(wire.decoded(answer.payload.text), indent=2))
    else:
        print_json(answer.payload.text)


def print_explained(answer: Replayed) -> None:
    """What the payload is and where it differs from the record."""
    usage = answer.usage
    print_pairs(
        [
            ("target", answer.target.value),
            ("payload", f"{len(answer.payload.text):,} bytes"),
            ("stable prefix", counted(answer.stable_prefix.messages, "message")),
            ("its sha256", answer.stable_prefix.sha256),
            ("head seq", str(answer.head_seq)),
            ("tokens", f"{usage.input_tokens or 0:,} in, {usage.output_tokens or 0:,} out, as providers reported"),
            ("principal", f"{answer.principal.posture.value}, {answer.principal.account}"),
        ]
    )
    print_repairs(answer)


def print_repairs(answer: Replayed) -> None:
    if not answer.repairs:
        click.echo("No repairs: the payload says what the record says.")
        return
    counts = Counter(repair.kind.value for repair in answer.repairs)
    print_text("Repairs: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    rows = [
        (
            repair.kind.value,
            "-" if repair.message_id is None else f"…{repair.message_id[-8:]}",
            "-" if repair.block is None else str(repair.block),
            repair.detail,
        )
        for repair in answer.repairs
    ]
    print_table(("repair", "message", "block", "why"), rows, fold=3)


@click.command("compact")
@conversation_argument
@click.option(
    "--through", metavar="SEQ", type=click.IntRange(1), help="Everything up to this seq, for the model, is the summary."
)
@click.option("--summary", metavar="TEXT|-", callback=utf8, help="The summary; - reads standard input.")
@click.option("--micro", is_flag=True, help="Clear the bodies of older tool results.")
@click.option(
    "--keep", metavar="N", type=click.IntRange(0), default=5, show_default=True, help="With --micro: results that stay."
)
@click.option("--restore", metavar="MARK", help="Take an earlier --micro back.")
@with_asked
def compact_command(
    asked: Asked,
    *,
    conversation: ConversationId,
    through: int | None,
    summary: str | None,
    micro: bool,
    keep: int,
    restore: str | None,
) -> int | None:
    """Let the model see less. The record keeps everything; it gets a mark.

    One of: --through N --summary TEXT, --micro, --restore MARK.
    """
    ways = [through is not None or summary is not None, micro, restore is not None]
    if sum(ways) != 1 or (ways[0] and (through is None or summary is None)):
        raise click.UsageError("Give one of: --through N --summary TEXT, --micro [--keep N], --restore MARK.")
    with asked.connect(deadline_s=DEADLINE_S) as client:
        if through is not None and summary is not None:
            text = spans.decode_utf8(standard_input(), "standard input") if summary == "-" else summary
            if not text.strip():
                raise click.UsageError("The summary is empty.")
            compacted = client.compact(conversation, through_seq=through, summary=text)
            if asked.as_json:
                print_result(compacted)
            else:
                click.echo(f"{compacted.mark.id}: the model sees the summary instead of 1 to {through}")
            return None
        cleared = (
            client.restore(conversation, restore) if restore else client.microcompact(conversation, keep_recent=keep)
        )
    if asked.as_json:
        print_result(cleared)
    elif cleared.mark is None:
        click.echo(f"Nothing to clear: no more than {keep} tool results are shown whole.", err=True)
    elif restore:
        click.echo(f"{cleared.mark.id}: {restore} no longer holds")
    else:
        click.echo(f"{cleared.mark.id}: {counted(len(cleared.cleared), 'tool result')} cleared for the model")
        click.echo(f"Take it back with: saf compact {conversation} --restore {cleared.mark.id}", err=True)
    return None if cleared.mark is not None else NOTHING_FOUND
