"""The hash chain of a record.

The hash of a message is the SHA-256 of its whole stored text, which itself carries the hash before it as
`prev_hash`. So anyone who holds hydrated messages can verify the chain without the store.
"""

import hashlib

from safd.model.ids import ConversationId


def genesis(conversation: ConversationId) -> str:
    """What stands before the first message: bound to its conversation, so that records cannot be swapped."""
    return hashlib.sha256(conversation.encode()).hexdigest()


def message_hash(stored: bytes) -> str:
    """Hex SHA-256 of one message's stored text, exactly as hydration returns it."""
    return hashlib.sha256(stored).hexdigest()
