"""From facts about a caller to posture, drift, access and the block's text; pure."""
