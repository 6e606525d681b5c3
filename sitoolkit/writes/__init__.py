"""Which calls change state: by the tool's own word, its name, and what its arguments say."""

from sitoolkit.writes.calls import (
    SEED_VERBS,
    WRITE_VERBS,
    is_precedent,
    is_write_call,
    name_words,
    succeeded,
    why_write,
)
from sitoolkit.writes.shell import shell_writes

__all__ = [
    "SEED_VERBS",
    "WRITE_VERBS",
    "is_precedent",
    "is_write_call",
    "name_words",
    "shell_writes",
    "succeeded",
    "why_write",
]
