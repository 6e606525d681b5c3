"""Which errors happen: failed calls and log lines come in, ranked error signatures go out.

The scan itself stands a floor below, in `signature_scan`, because triage reads signatures too.
"""

from __future__ import annotations

from sitoolkit.grouping import group_messages
from sitoolkit.logs.scan import SetAside, SignatureScan, scan_error_signatures, signature_mapping

__all__ = ["SetAside", "SignatureScan", "group_messages", "scan_error_signatures", "signature_mapping"]
