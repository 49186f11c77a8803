"""What moves: followers of a conversation, and open turns with the processes they depend on."""
