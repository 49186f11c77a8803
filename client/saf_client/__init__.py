"""Client of safd: append, hydrate, follow and replay from asyncio, trio or plain code."""
