"""The `saf` command, also as `python -m saf_client`. What is asked most often is answered before anything is loaded."""

import io
import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from safd import __version__

        sys.stdout.write(f"saf {__version__}\n")
        sys.exit(0)
    _open_streams()
    try:
        from saf_client.cli.app import run, stop_on

        stop_on(signal.SIGTERM)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules were still being loaded
        code = INTERRUPTED
    sys.exit(code)


def _open_streams() -> None:
    """A stream that was closed takes everything and keeps nothing; one that lacks a character shows its number."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  open to the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
