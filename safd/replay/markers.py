"""Every sentence that a projection may add. Constant: no clock, no counter, no cause that nobody knows.

All of them cross on the user's side or inside a tool's result, never in the assistant's mouth.
"""

from typing import Final

from safd.model.ids import MessageId

NOT_COMPLETED: Final = "This call did not complete: no result was recorded before the turn ended."
STILL_RUNNING: Final = "This call is still running: no result is recorded yet."
NO_OUTPUT: Final = "(no output)"
INPUT_INVALID: Final = (
    "The arguments of this call were recorded as text that is not a JSON object; {} stands in their place here."
)
NO_REASONING: Final = "(no reasoning was recorded)"
NOTHING_FROM_USER: Final = "[Nothing from the user is recorded before this point.]"
SYSTEM_HERE: Final = "[System message recorded at this point:]"
SUMMARY: Final = "[Summary of the earlier conversation, which it replaces here:]"
SUMMARY_EMPTY: Final = "(the summary has no text)"

IMAGE_FOLLOWS: Final = "[Image: it follows the results of this round.]"
IMAGE_FROM_ASSISTANT: Final = "[Image from the assistant's message above:]"
NO_VISION: Final = "[Image not seen: images are off for this request.]"
IMAGE_FORMAT: Final = "[Image not seen: its format is not one that this model takes.]"
IMAGE_DAMAGED: Final = "[Image not seen: its data is damaged.]"
IMAGE_LARGE: Final = "[Image not seen: it is larger than this model takes.]"
IMAGE_ADDRESS: Final = "[Image not seen: its address is not one that the provider can read.]"
IMAGE_BUDGET: Final = "[Image not seen: this request holds too many images; it is kept in the record.]"


def cleared(message_id: MessageId, block: int) -> str:
    """In place of a result's body; it says where the body can be fetched."""
    return f"[Result cleared from view; it is kept in the record: message {message_id}, block {block}.]"


def image_from_result(name: str, call_id: str) -> str:
    """Before an image that could not stand in its result."""
    return f"[Image from the result of {name}, call {call_id}:]"


def orphan(name: str, output: str, *, is_error: bool) -> str:
    """A result whose call is gone: evidence, told on the user's side."""
    return f"{'Error' if is_error else 'Result'} ({name}): {output}"
