"""The `saf` command, also as `python -m saf_client`. What is asked most often is answered before anything is loaded."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from safd import __version__

        sys.stdout.write(f"saf {__version__}\n")
        sys.exit(0)
    from saf_client.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
