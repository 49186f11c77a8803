"""Live events to one reader: as they come, with a look at the reader's right to them at each heartbeat."""

from collections.abc import Callable

import trio

from safd.api.blocks import BLOCK_BYTES
from safd.api.events import LiveEvent
from safd.methods.subscription import Subscription
from safd.serve.intake import Share
from safd.serve.outgoing import Outgoing

COPIES = 2
"""An event is held as it is stored and as it is framed."""


async def follow(
    subscription: Subscription,
    outgoing: Outgoing,
    share: Share,
    heartbeat_s: float,
    frame: Callable[[LiveEvent], bytes],
    beat: bytes | None,
) -> None:
    """Never returns. Raises PeerGone, BuffersFull, and what the reader would be refused with now.

    `share`: of the reader's account, for large events that it does not read.

    The heartbeat comes at its time however much is told, so that a right that was lost ends a busy stream too. It
    may fall into the middle of a frame: what is queued is sent before anything else.
    """
    while True:
        with trio.move_on_after(heartbeat_s):
            while True:
                events = await subscription.next()
                size = sum(len(event.data) for event in events)
                if size > BLOCK_BYTES:
                    share.hold(COPIES * size)
                if len(events) == 1:
                    await outgoing.send(frame(events[0]))
                else:
                    await outgoing.send_blocks(map(frame, events))
                share.release()
        await outgoing.flush()
        await subscription.still_allowed()
        if beat is not None:
            await outgoing.send(beat)
