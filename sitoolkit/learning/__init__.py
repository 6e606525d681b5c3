"""What loops learn by: contrasts between calls, patterns of a tool, precedents, rates, and how reflections are written."""
