"""Every exception that netlab raises on purpose.

A message is one sentence for the person who reads it: what, where, what to do.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "NetlabError",
    "ParseError",
    "ReportError",
    "RunError",
    "ScenarioError",
    "SchemaError",
    "UnknownFormatError",
]


class NetlabError(Exception):
    """Base of all errors that netlab raises on purpose; ``exit_code`` is what the command line returns."""

    exit_code = 3


class ConfigError(NetlabError):
    """A configuration key, environment variable or flag is unknown or has a wrong type or value."""

    exit_code = 2


class UnknownFormatError(NetlabError):
    """No reader claims a file."""


class ParseError(NetlabError):
    """A file was claimed by a reader, but nothing usable is in it."""


class RunError(NetlabError):
    """The inputs cannot be one run, or a run directory lacks what was asked for."""


class SchemaError(NetlabError):
    """A table does not hold what its declaration says; this is a defect of netlab, not of the input."""

    exit_code = 4


class ScenarioError(NetlabError):
    """A what-if scenario file is wrong."""

    exit_code = 2


class ReportError(NetlabError):
    """The report notebook failed or its kernel died."""

    exit_code = 4
