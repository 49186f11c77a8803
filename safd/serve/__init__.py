"""The socket: bytes in and out, two framings over one method table."""
