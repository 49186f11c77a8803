"""This machine, read and never written: peers, processes, accounts, admission files, systemd."""
