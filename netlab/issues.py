"""Issues: defects of an input and doubts about it. A reader or stage records one wherever it skips, repairs or assumes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import polars as pl

from netlab.schema.inputs import ISSUES

__all__ = ["ISSUE_CODES", "Issue", "issues_frame"]

#: Code to meaning; the source of docs/codes.md.
ISSUE_CODES: dict[str, str] = {
    "TRUNCATED_JSON": "The JSON ends in the middle; complete events before the cut are kept.",
    "TRUNCATED_GZIP": "The gzip stream ends early; what could be inflated is kept.",
    "DAMAGED_COMPRESSION": "Compressed data are corrupt or their checksum is wrong; what could be inflated was read.",
    "EXPANSION_LIMIT": "A compressed file inflates to an implausible size; reading stopped.",
    "OVERSIZED_EVENT": "An event is too long to be one; it was left out.",
    "NUMBER_TOO_LARGE": "A number does not fit 64 bits; it was read as missing.",
    "BASE_TIME_LOST": "The file was cut before its base time; its times are relative.",
    "MALFORMED_JSON": "The file is JSON, but damaged inside; events around the damage are kept.",
    "EMPTY_FILE": "The file has no bytes.",
    "NOT_A_TRACE": "The file is JSON, but not a profiler trace.",
    "INVALID_UTF8": "Bytes that are no UTF-8 were replaced.",
    "UNSAFE_PICKLE": "The pickle would run code; it was refused.",
    "IMPOSSIBLE_DURATION": "A duration is longer than the capture; it was clipped.",
    "NEGATIVE_DURATION": "A duration is negative; the event was dropped.",
    "MISSING_DURATION": "An event has no duration; it was dropped.",
    "LAUNCH_AFTER_START": "A kernel starts before its launch.",
    "DUPLICATE_RANK": "Two files claim one rank and overlap in time.",
    "SEVERAL_RUNS": "The files are not of one run.",
    "MISSING_RANK": "A rank of the world has no trace.",
    "RANK_ASSUMED": "The rank is not in the content; it was taken from the file name or the order of files.",
    "RANK_STEPS_DIFFER": "Ranks do not have the same steps.",
    "WARMUP_STEPS": "The first steps are much slower than the rest.",
    "WRONG_RESULTS": "A speed test found wrong results: data were corrupted on the way.",
    "NO_TIMING": "The dump has no durations.",
    "MULTI_DEVICE": "One file has kernels of several devices.",
    "SEQ_GAP": "Sequence numbers of a process group have a gap.",
    "DUPLICATE_SEQ": "One rank has the same sequence number of a group twice.",
    "GROUP_ASSUMED": "The trace names no groups; all ranks of the world are taken as one.",
    "NO_GROUP_METADATA": "Communication without group metadata could not be matched.",
    "NO_STEPS": "The trace has no ProfilerStep; figures are over the whole capture.",
    "STEP_WITHOUT_DEVICE_EVENTS": "A step has launches, but no device events; it is kept out of the figures.",
    "NO_DEVICE_EVENTS": "The trace has no device activity; shares cannot be given.",
    "SCHEDULE_UNKNOWN": "The operations of a job do not follow a pipeline schedule that is known, so they cannot be replayed.",
    "NO_COMMUNICATION": "No communication was seen.",
    "COMMUNICATORS_APART": "Logs of old versions name no communicator; those of several files could not be joined for certain.",
    "COMM_ON_COMPUTE_STREAM": "Communication runs on the stream of compute and cannot overlap it.",
    "UNCLASSIFIED_KERNEL": "A long kernel alone on a side stream may be communication; add it under [[classify]].",
    "CLOCK_SKEW": "Clocks of two domains differ by more than 100 us; it was corrected.",
    "CLOCK_UNCHECKED": "Fewer than 3 collectives are shared between clock domains; the clock error is not known.",
    "INIT_INCOMPLETE": "A communicator's initialisation did not complete.",
    "NO_LOG_FOR_RANK": "No log was given for a rank.",
    "RING_BUFFER_DROPPED": "The flight recorder's ring buffer has dropped its oldest entries.",
    "PARTS_ADDED": "A counter comes in parts by a label (lane, type, reason); its sum is used.",
    "COUNTER_RESET": "A counter went back to zero.",
    "COUNTER_WRAP": "A counter wrapped around.",
    "COUNTER_GAP": "Samples are missing.",
    "COUNTER_SATURATED": "A counter stands at its largest value.",
    "PORT_RENAMED": "A port changed its name.",
    "TIMEZONE_REQUIRED": "Times have no zone; give one in netlab.toml.",
    "DUPLICATE_SAMPLE": "Two samples have one time.",
    "QUERY_ERROR": "The file holds the error answer of a query.",
    "NO_SERIES": "The query returned no series.",
    "SNAPSHOT_ONLY": "Counters have no time, or one sample only: totals without rates.",
    "DEVICE_ASSUMED": "A device was named by the file's name, or two names (with a domain and without) were taken for one.",
    "OUT_OF_ORDER": "Samples were not in order of time; they were sorted.",
    "STALE_REPEAT": "A poll repeated old values; its interval was merged with the next.",
    "MIXED_TIME_UNITS": "One file has Unix times in several units; it was refused.",
    "AMBIGUOUS_COLUMNS": "Two columns of a table mean the same; it was refused.",
    "MALFORMED_CSV": "The file is no readable CSV.",
    "UNREADABLE_LINE": "A line or cell could not be read; it was left out.",
    "ABOVE_LINE_RATE": "A port moved more than its speed allows: check speed, unit or time stamps.",
    "SCALE_MISMATCH": "The two ends of a cable count different amounts: check the unit or the cabling.",
    "MISCABLED": "A cable does not fit the pattern of the others.",
    "SEVERAL_TOPOLOGIES": "One file holds several topologies; one of them was used.",
    "MALFORMED_YAML": "The file is no YAML.",
    "MALFORMED_HOSTLIST": "A hostlist expression is broken.",
    "UNMAPPED": "Ports with counters have no known speed or cable.",
    "UNKNOWN_FORMAT": "No reader recognises the file.",
    "UNKNOWN_COUNTER": "A counter has no canonical name; it keeps its own.",
    "UNREADABLE_FILE": "The file cannot be opened.",
    "WORKER_KILLED": "The process that read the file was killed every time.",
    "NO_INPUT": "There is no file that could be read.",
    "NOT_A_VERDICT": "A verdict.json cannot be read.",
    "UNUSED_FILE_OPTION": "A key of [files] in netlab.toml names no input.",
    "READER_FAILED": "A reader stopped at an unexpected place; report the file.",
    "TORN_RECORD": "A log record is cut off, usually because several processes write to one pipe.",
    "UNKNOWN_MESSAGE": "NCCL messages of a form that netlab does not know.",
    "FOREIGN_LINES": "Lines of a log without an NCCL record.",
    "EVENTS_DROPPED": "A log has more events than are kept.",
    "RANK_DISAGREES": "Launcher, log, dump or trace disagree about the rank of a process.",
    "NO_RECORDS": "A log holds no NCCL record.",
    "TRUNCATED_PICKLE": "The pickle is cut off or damaged.",
    "NOT_A_DUMP": "The file is no flight-recorder dump.",
    "UNKNOWN_SCHEMA": "The file's schema is newer than this netlab knows.",
    "MALFORMED_ENTRY": "Records of a dump could not be read.",
    "TOO_LARGE": "The file is larger than its format ever is.",
    "OPERATION_ASSUMED": "A table of nccl-tests does not name its operation; the file's name does.",
    "NO_ROWS": "The file has a head, but no result.",
    "UNIT_ASSUMED": "A column of speeds names no unit; it was told by the size of its values.",
    "MALFORMED_XML": "The XML is damaged.",
}


class Issue(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One defect or doubt. ``line`` is a line number or, for JSON, a byte offset."""

    code: str
    message: str
    severity: str = "warning"
    source: str | None = None
    line: int | None = None


def issues_frame(issues: Iterable[Issue]) -> pl.DataFrame:
    """The ``issues`` table of some issues, sorted, repeats removed.

    >>> issues_frame([Issue(code="NO_STEPS", message="No ProfilerStep.")]).height
    1
    """
    rows = [msgspec.to_builtins(issue) for issue in set(issues)]
    frame = pl.DataFrame(rows, schema=dict(ISSUES.schema.items()), orient="row") if rows else ISSUES.empty()
    return ISSUES.validate(ISSUES.conform(frame))
