"""Import and export: one foreign transcript format per module, pure."""
