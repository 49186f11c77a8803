"""One room per wire format: its rules with their sources, and how bound shapes are spelled there."""
