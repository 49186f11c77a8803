"""The words of safd as types, and the one strict JSON door; pure."""
