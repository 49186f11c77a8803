"""The contract between the daemon and its callers: methods, shapes, events, framing, faults; pure."""
