"""The trace: every observable event of a processor, in one schema."""
