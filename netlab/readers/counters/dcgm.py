"""dcgm-exporter's list of fields (``field, prometheus type, help``): which GPU counters exist, and which declared types are wrong."""

from __future__ import annotations

import re
from pathlib import Path

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed, Sink
from netlab.readers.counters.files import text_of
from netlab.readers.counters.names.node_exporter import DCGM

__all__ = ["VARIABLE_MAP", "DcgmFields"]

VARIABLE_MAP = DCGM.exact
_FIELD = re.compile(r"^(DCGM_FI_\w+)\s*,\s*(gauge|counter|label|histogram)\s*,\s*(.*)$", re.M)


class DcgmFields:
    """The exporter's configuration. It holds no values; fields whose declared type is not how they behave are named."""

    name = "dcgm_fields"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Lines of fields."""
        return len(_FIELD.findall(head[:65_536].decode("utf-8", "replace"))) >= 3

    def read(self, path: Path, sink: Sink, source: str) -> Parsed:
        """Count the fields.

        Raises
        ------
        ParseError
            If there is none.
        """
        fields = _FIELD.findall(text_of(path))
        if not fields:
            raise ParseError(f"NO_SERIES: {source} lists no DCGM field.")
        issues = []
        for name, declared, _ in fields:
            meaning = DCGM.find(name)
            if meaning is not None and meaning.kind == "rate" and declared == "counter":
                message = f"{source}: {name} is declared a counter but behaves as a rate; it is kept as a rate and no difference is taken."
                issues.append(Issue(code="UNKNOWN_COUNTER", severity="info", source=source, message=message))
        known = {name: declared for name, declared, _ in fields}
        return Parsed(reader=self.name, rows=len(fields), issues=tuple(issues), facts={"fields": known})
