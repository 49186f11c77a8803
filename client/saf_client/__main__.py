"""The `saf` command, also as `python -m saf_client`. What is asked most often is answered before anything is loaded."""

import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from safd import __version__

        sys.stdout.write(f"saf {__version__}\n")
        sys.exit(0)
    try:
        from saf_client.cli.app import run, stop_on

        stop_on(signal.SIGTERM)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules were still being loaded
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
