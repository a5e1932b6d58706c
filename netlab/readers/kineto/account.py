"""The account of a trace that was read: issues in sentences, status, facts."""

from __future__ import annotations

from collections.abc import Mapping

from netlab.errors import ParseError
from netlab.issues import Issue
from netlab.readers.base import Parsed
from netlab.readers.kineto.columns import Counts
from netlab.readers.kineto.document import Damage, Document
from netlab.readers.kineto.header import RELATIVE_BELOW_NS
from netlab.readers.streams import StreamDamage

__all__ = ["account"]

_KEPT = "marks were kept without an end, others dropped"


def account(source: str, document: Document, counts: Counts, damage: StreamDamage | None, facts: Mapping[str, object]) -> Parsed:
    """Put together what a reader returns.

    Raises
    ------
    ParseError
        If the file has no events at all, or damage left none.
    """
    if document.size_bytes == 0 and damage is None:
        raise ParseError(f"EMPTY_FILE: {source} is empty; record it again.")
    structural = _structural(source, document, damage)
    tally = document.tally
    if not document.has_events or (tally["events"] == 0 and tally["objects"] > 0):
        if structural and (damage or document.truncated):
            raise ParseError(f"{structural[0].code}: {structural[0].message} Nothing usable is left; copy or record the file again.")
        raise ParseError(f"NOT_A_TRACE: {source} is JSON, but has no profiler events under traceEvents; leave it out.")
    if structural and tally["events"] == 0:
        raise ParseError(f"{structural[0].code}: {structural[0].message} Nothing usable is left; copy or record the file again.")
    issues = [*structural, *_values(source, document, counts)]
    if not document.truncated and not damage:
        base_lost = False
    else:
        base_lost = facts["base_time_ns"] == 0 and 0 < counts.latest_ns < RELATIVE_BELOW_NS
    if base_lost:
        message = f"{source} was cut before its base time; its times are relative and fit no other file until a clock offset is found."
        issues.append(Issue(code="BASE_TIME_LOST", source=source, message=message))
    dropped = counts.missing_times + counts.negative_durations
    truncated = any(issue.code in ("TRUNCATED_JSON", "TRUNCATED_GZIP") for issue in structural)
    return Parsed(
        reader="kineto",
        rows=counts.rows,
        lines_unparsed=document.damage_count + dropped,
        status="partial" if structural else "ok",
        message=f"{structural[0].code}: {structural[0].message}" if structural else None,
        issues=tuple(issues),
        facts={**facts, "complete": not structural, "truncated": truncated, "device_event_count": counts.device_events},
    )


def _structural(source: str, document: Document, damage: StreamDamage | None) -> list[Issue]:
    """Damage that cost events, the most telling first."""
    found: list[Issue] = []
    places = list(document.damage)
    if damage is not None:
        cut = next((place for place in places if place.code == "TRUNCATED_JSON"), None)
        offset = damage.offset if cut is None else cut.offset
        message = f"{source}: {damage.message}; events up to byte {offset:,} of the inflated JSON were kept."
        found.append(Issue(code=damage.code, severity="error", source=source, line=offset, message=message))
        places = [place for place in places if place is not cut]
    found += [_issue(source, place) for place in places]
    left = document.damage_count - len(document.damage)
    if left:
        message = f"{source} is damaged in {left:,} more places."
        found.append(Issue(code="MALFORMED_JSON", severity="error", source=source, message=message))
    return found


def _issue(source: str, place: Damage) -> Issue:
    if place.code == "TRUNCATED_JSON":
        message = f"{source} is truncated: the JSON ends in the middle; events up to byte {place.offset:,} were kept."
    elif place.code == "OVERSIZED_EVENT":
        message = f"{source} byte {place.offset:,}: {place.message}."
    else:
        message = (
            f"{source} is malformed JSON at byte {place.offset:,}: {place.message}; reading went on at the next event. "
            "Two processes may have written to one path."
        )
    return Issue(code=place.code, severity="error", source=source, line=place.offset, message=message)


def _quoted(text: str) -> str:
    """A text of the file for use in a format string, cut to a readable length."""
    return (text if len(text) <= 120 else f"{text[:60]}...{text[-40:]}").replace("{", "{{").replace("}", "}}")


def _values(source: str, document: Document, counts: Counts) -> list[Issue]:
    """Values that were dropped or mended."""
    tally = document.tally
    found = (
        (
            "NEGATIVE_DURATION",
            counts.negative_durations,
            f"{{n}} events have a negative duration; {_KEPT} (first: {_quoted(counts.first_negative)})",
        ),
        (
            "MISSING_DURATION",
            counts.missing_times,
            f"{{n}} events lack a time or duration; {_KEPT} (first: {_quoted(counts.first_missing)})",
        ),
        ("NUMBER_TOO_LARGE", tally["overflows"], "{n} numbers do not fit 64 bits; they were read as missing"),
        ("MALFORMED_JSON", tally["odd_values"], "{n} values are no JSON (NaN, Infinity, or none at all); they were read as missing"),
        ("MALFORMED_JSON", tally["extra_commas"], "{n} commas are followed by nothing; they were passed over"),
        ("MALFORMED_JSON", int(counts.bad_escapes), "some texts have an escape that JSON does not know; they were kept as they stand"),
        ("INVALID_UTF8", int(counts.invalid_texts), "some texts are no valid UTF-8; the bad bytes were replaced"),
    )
    return [Issue(code=code, source=source, message=f"{source}: {text.format(n=f'{number:,}')}.") for code, number, text in found if number]
