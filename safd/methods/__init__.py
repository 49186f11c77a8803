"""What each method does: observe, allow, act, answer."""
