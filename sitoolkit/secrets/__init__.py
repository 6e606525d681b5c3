"""Where a text holds a secret. `redaction` is the way in for the other parts."""

from sitoolkit.secrets.names import PLACEHOLDER, key_kind, placeholder
from sitoolkit.secrets.scan import find_secrets
from sitoolkit.secrets.spans import Span

__all__ = ["PLACEHOLDER", "Span", "find_secrets", "key_kind", "placeholder"]
