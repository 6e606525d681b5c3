"""The errors that sitoolkit raises; each message says what happened, where, and the next command to try.

SitoolkitError
  ConfigError(ValueError)             a setting is unknown or out of range
  ParameterError(ValueError)          a notebook or function parameter is unknown or of the wrong type
  TranscriptError(ValueError)         a file that no reader knows, or that cannot be read
  ScopeError(ValueError)              a scope outside the grammar
  TimeError(ValueError)               a time without a zone, or that cannot be read
  NotFoundError(LookupError)          an id that no store holds
  StoreError
    StoreLocked                       another writer holds the workspace
    EmbedderMismatch                  the table was made by another embedder
    MigrationNeeded                   the store has another schema version
    StoreDamaged                      a store that does not open; names the command that rebuilds it
  ModelError
    ModelUnavailable(ConnectionError) a model server was asked for and does not answer
    ModelOutputInvalid(ValueError)    an answer that does not fit its schema after one repair
  ProposalError
    AlreadyDecided                    the proposal has its decision
    StaleProposal                     what was shown is no longer what would be applied
    ApprovalRequired                  a change that only the gate may make
  ToolError
    ToolRefused                       generated code that may not be loaded, with the reason
    ToolFailed                        a tool that ended in an error, with its limits and output
  RunFailed                           a notebook failed: which, which cell, where its output lies
"""

from __future__ import annotations

__all__ = [
    "AlreadyDecided",
    "ApprovalRequired",
    "ConfigError",
    "EmbedderMismatch",
    "MigrationNeeded",
    "ModelError",
    "ModelOutputInvalid",
    "ModelUnavailable",
    "NotFoundError",
    "ParameterError",
    "ProposalError",
    "RunFailed",
    "ScopeError",
    "SitoolkitError",
    "StaleProposal",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "TimeError",
    "ToolError",
    "ToolFailed",
    "ToolRefused",
    "TranscriptError",
]


class SitoolkitError(Exception):
    """Base of every error that sitoolkit raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


class ConfigError(SitoolkitError, ValueError):
    """A setting is unknown or out of range; names the setting and where it came from."""

    exit_code = 2


class ParameterError(SitoolkitError, ValueError):
    """A parameter is unknown or of the wrong type; names the nearest known one."""

    exit_code = 2


class TranscriptError(SitoolkitError, ValueError):
    """A file that no reader knows or that cannot be read."""

    def __init__(self, message: str, *, file: str = "", line: int | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.file, self.line, self.reason = file, line, reason or message


class ScopeError(SitoolkitError, ValueError):
    """A scope outside the grammar."""

    exit_code = 2


class TimeError(SitoolkitError, ValueError):
    """A time without a zone, or that cannot be read."""

    exit_code = 2


class NotFoundError(SitoolkitError, LookupError):
    """An id that no store holds."""


class StoreError(SitoolkitError):
    """A store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another writer holds the workspace; says who and since when."""

    exit_code = 3


class EmbedderMismatch(StoreError):
    """The memory table was made by another embedder; names both and the command that re-embeds."""


class MigrationNeeded(StoreError):
    """The store was written by another version of its schema."""


class StoreDamaged(StoreError):
    """A store does not open or fails its check; names the command that rebuilds it."""


class ModelError(SitoolkitError):
    """A model did not do what was asked."""


class ModelUnavailable(ModelError, ConnectionError):
    """A model server was asked for and does not answer."""

    exit_code = 4


class ModelOutputInvalid(ModelError, ValueError):
    """An answer does not fit its schema after one repair."""


class ProposalError(SitoolkitError):
    """A decision on a proposal cannot be taken."""


class AlreadyDecided(ProposalError):
    """The proposal has its decision."""


class StaleProposal(ProposalError):
    """What was shown is no longer what would be applied."""


class ApprovalRequired(ProposalError):
    """A change that only the gate may make was tried without a decision."""


class ToolError(SitoolkitError):
    """A tool of the library cannot be used."""


class ToolRefused(ToolError):
    """Generated code may not be loaded; the message names the reason."""


class ToolFailed(ToolError):
    """A tool ended in an error or over a limit."""


class RunFailed(SitoolkitError):
    """A notebook run failed: which notebook, which cell, where its output lies."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
