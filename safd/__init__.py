"""One conversation record and one truthful runtime principal for every agent on a Unix node."""

__version__ = "0.1.0"
