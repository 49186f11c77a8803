"""What can be set, with its defaults. Sizes in bytes, times in seconds, as the names say."""

from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class Limits:
    """Each has an error of its own when it is met."""

    message_bytes: int = 48 * 1024 * 1024
    request_bytes: int = 64 * 1024 * 1024
    request_values: int = 1_000_000
    """JSON values in one request: each costs memory and time that its bytes do not show."""
    buffered_bytes_per_uid: int = 512 * 1024 * 1024
    """Requests half received and large answers not read yet: what one account's connections may cost together."""
    messages_per_append: int = 1000
    page_messages: int = 10_000
    connections_per_uid: int = 2048
    followers_per_conversation: int = 4096
    subscriptions_per_connection: int = 64
    store_queue: int = 4096
    """Appends that may wait for the writer."""
    store_queue_bytes: int = 256 * 1024 * 1024
    ring_events: int = 1024
    """Live events kept per followed conversation; a follower further behind reads from the store."""
    projections_bytes: int = 512 * 1024 * 1024
    """Warm replays kept, least recently used out."""
    send_timeout_s: float = 60.0
    """How long a peer may refuse to take one piece of an answer."""
    idle_request_s: float = 60.0
    """How long half a request may stay half."""
    heartbeat_s: float = 15.0
    name_service_s: float = 0.5


@attrs.frozen(kw_only=True)
class Settings:
    """`socket` None means: the socket that systemd passed. `shared`: other accounts may connect to one made here.

    `user_mode`: admissions may belong to the daemon's own user as well as to root.
    """

    socket: Path | None
    shared: bool
    store: Path
    admissions: Path
    user_mode: bool
    limits: Limits = attrs.field(factory=Limits)
