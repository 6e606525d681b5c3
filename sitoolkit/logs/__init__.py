"""Log files: lines, the events on them, their kinds and counts, and the scan that reads only what is new."""
