"""`python -m safd`: the same as the `safd` command."""

from safd.cli import main

main()
