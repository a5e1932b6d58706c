"""Raw samples of all files as one table: clocks and owners as netlab.toml says, one name per port, repeats marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from zoneinfo import ZoneInfo

import polars as pl

from netlab.align.identities import named_devices
from netlab.align.port_names import port_key, spelled
from netlab.config import FileOptions
from netlab.errors import ConfigError
from netlab.issues import Issue
from netlab.schema.counters import COUNTERS, FABRIC_NODES

__all__ = ["align_counters", "apply_file_options", "options_of"]

_SERIES = ("device", "port", "queue", "direction", "metric")
_NS = 1_000_000_000
#: More files than these with one and the same note are told in one.
_MOST_ALIKE = 5


def options_of(source: str, files: Mapping[str, FileOptions]) -> FileOptions:
    """What netlab.toml says about a file; its keys are paths as ``sources`` has them, or ends of such paths."""
    if source in files:
        return files[source]
    return next((value for key, value in files.items() if source.endswith("/" + key.lstrip("./"))), FileOptions())


def align_counters(
    counters: pl.DataFrame,
    files: Mapping[str, FileOptions] | None = None,
    preferred_ports: pl.DataFrame | None = None,
    nodes: pl.DataFrame | None = None,
) -> tuple[pl.DataFrame, list[Issue]]:
    """The ``counters`` table of a run, from the samples of all files in the order in which they were read.

    Parameters
    ----------
    counters
        Rows of ``COUNTERS`` as readers wrote them (sorting by time is harmless, they carry ``out_of_order`` themselves).
    files
        ``[files]`` of netlab.toml: device, timezone and clock_offset_s by path.
    preferred_ports
        ``PORT_FACTS`` or any frame with ``device`` and ``port``: spellings to prefer where one port was given two names.
    nodes
        ``FABRIC_NODES``: whose the GUIDs and LIDs are by which some counters name devices.

    Returns
    -------
    ``COUNTERS``, sorted by its key, and the issues: TIMEZONE_REQUIRED, DEVICE_ASSUMED, SNAPSHOT_ONLY, PORT_RENAMED, DUPLICATE_SAMPLE,
    OUT_OF_ORDER.
    """
    if counters.is_empty():
        return COUNTERS.empty(), []
    frame, issues = apply_file_options(counters, files or {})
    frame, more = named_devices(frame, FABRIC_NODES.empty() if nodes is None else nodes)
    issues += more
    frame, more = _one_name_per_port(frame, preferred_ports)
    issues += more
    frame = _one_source_per_series(frame)
    issues += _renames(frame)
    frame = frame.sort(COUNTERS.key, maintain_order=True)
    frame, more = _repeats(frame)
    return frame.select([column.name for column in COUNTERS.columns]), [*issues, *more]


def apply_file_options(counters: pl.DataFrame, files: Mapping[str, FileOptions]) -> tuple[pl.DataFrame, list[Issue]]:
    """Set device, zone and clock of each file as netlab.toml says.

    A zone turns naive times into instants; in the hour that a clock change repeats, samples that come after later ones in their file are of
    the second pass. A device name replaces the one taken from the file's name, or the only one that the file has.

    Raises
    ------
    ConfigError
        If a zone is unknown.
    """
    parts, issues = [], []
    sources = counters["source"].unique().cast(pl.String).sort().to_list()
    for source in sources:
        part = counters.filter(pl.col("source") == source) if len(sources) > 1 else counters
        option = options_of(source, files)
        naive = part.filter(_has(part, "clock_naive")).height
        if naive and option.timezone is None:
            message = (
                f'{source}: {naive} times name no zone and were read as UTC; add "{source}" = {{ timezone = "..." }} under '
                "[files] in netlab.toml."
            )
            issues.append(Issue(code="TIMEZONE_REQUIRED", source=source, message=message))
        elif naive:
            part, more = _zoned(part, source, str(option.timezone))
            issues += more
        if option.clock_offset_s:
            part = part.with_columns(pl.col("ts_ns") + round(option.clock_offset_s * _NS))
        part, more = _owned(part, source, option.device)
        issues += more
        untimed = part["ts_ns"].null_count()
        if untimed:
            message = (
                f"{source}: {untimed} values have no time: totals since they were last cleared, from which no rate follows. "
                "Record the counters twice, with times."
            )
            issues.append(Issue(code="SNAPSHOT_ONLY", severity="info", source=source, message=message))
        parts.append(part)
    return pl.concat(parts), _gathered(issues)


def _gathered(issues: list[Issue]) -> list[Issue]:
    """One note for many files of one kind: a copied tree of /sys has hundreds, each without a time."""
    alike: dict[str, list[Issue]] = {}
    for issue in issues:
        if issue.severity == "info":
            alike.setdefault(issue.code, []).append(issue)
    result = [issue for issue in issues if issue.severity != "info" or len(alike[issue.code]) <= _MOST_ALIKE]
    for code, notes in alike.items():
        if len(notes) > _MOST_ALIKE:
            message = f"{notes[0].message} The same holds for {len(notes) - 1} more files."
            result.append(Issue(code=code, severity="info", source=notes[0].source, message=message))
    return result


def _has(frame: pl.DataFrame, flag: str) -> pl.Expr:
    """Whether a row carries a flag; looked up once per distinct text of flags."""
    return pl.col("flags").is_in([text for text in frame["flags"].unique().cast(pl.String) if flag in text.split(",")])


def _without(*flags: str) -> pl.Expr:
    return pl.col("flags").cast(pl.String).str.split(",").list.set_difference(list(flags)).list.join(",").cast(pl.Categorical)


def _zoned(part: pl.DataFrame, source: str, zone: str) -> tuple[pl.DataFrame, list[Issue]]:
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"[files] {source}: timezone {zone!r} is unknown; write a name such as Europe/Berlin or UTC.") from error
    local = pl.from_epoch("ts_ns", time_unit="ns").cast(pl.Datetime("ns"))

    def instant(ambiguous: Literal["earliest", "latest"]) -> pl.Expr:
        return local.dt.replace_time_zone(zone, ambiguous=ambiguous, non_existent="null").dt.timestamp("ns")

    naive = _has(part, "clock_naive")
    frame = part.with_columns(
        instant("earliest").alias("_first"),
        instant("latest").alias("_second"),
        naive.alias("_naive"),
        _has(part, "out_of_order").alias("_late"),
    )
    twice = pl.col("_naive") & (pl.col("_first") != pl.col("_second"))
    chosen = (
        pl.when(~pl.col("_naive")).then(pl.col("ts_ns")).when(twice & pl.col("_late")).then(pl.col("_second")).otherwise(pl.col("_first"))
    )
    flags = (
        pl.when(twice)
        .then(_without("clock_naive", "out_of_order"))
        .when(pl.col("_naive"))
        .then(_without("clock_naive"))
        .otherwise(pl.col("flags"))
    )
    frame = frame.with_columns(chosen.alias("_chosen"), flags.alias("flags"), twice.alias("_twice"))
    issues = []
    skipped = frame.filter(pl.col("_chosen").is_null() & pl.col("ts_ns").is_not_null()).height
    repeated = frame.filter("_twice").height
    if skipped:
        message = (
            f"{source}: {skipped} times do not exist in {zone} (the clock was put forward); they were left out. Export with UTC times."
        )
        issues.append(Issue(code="TIMEZONE_REQUIRED", source=source, message=message))
        frame = frame.filter(pl.col("_chosen").is_not_null() | pl.col("ts_ns").is_null())
    if repeated:
        message = (
            f"{source}: {repeated} times lie in the hour that {zone} repeats; they were told apart by their order in the "
            "file. Export with UTC times."
        )
        issues.append(Issue(code="TIMEZONE_REQUIRED", severity="info", source=source, message=message))
    return frame.with_columns(pl.col("_chosen").alias("ts_ns")).select(part.columns), issues


def _owned(part: pl.DataFrame, source: str, device: str | None) -> tuple[pl.DataFrame, list[Issue]]:
    assumed = _has(part, "device_assumed")
    count = part.filter(assumed).height
    if device is None:
        if not count:
            return part, []
        name = part.filter(assumed)["device"].cast(pl.String)[0]
        message = (
            f'{source} names no device; {name!r} was taken from its name. Add "{source}" = {{ device = "..." }} under [files] '
            "in netlab.toml if that is wrong."
        )
        return part, [Issue(code="DEVICE_ASSUMED", severity="info", source=source, message=message)]
    owner = pl.lit(device).cast(pl.Categorical)
    if count:
        return part.with_columns(
            pl.when(assumed).then(owner).otherwise(pl.col("device")).alias("device"), _without("device_assumed").alias("flags")
        ), []
    names = part["device"].unique().cast(pl.String).sort().to_list()
    if len(names) == 1:
        return part.with_columns(owner.alias("device")), []
    message = f"{source} names {len(names)} devices itself ({', '.join(names[:3])}, ...); the device of [files] was not used."
    return part, [Issue(code="DEVICE_ASSUMED", source=source, message=message)]


def _one_name_per_port(frame: pl.DataFrame, preferred: pl.DataFrame | None) -> tuple[pl.DataFrame, list[Issue]]:
    """Two spellings of one port on one device become one name, with an issue."""
    names = frame.select(pl.col("device", "port").cast(pl.String)).unique().sort("device", "port")
    wanted = set() if preferred is None or preferred.is_empty() else set(preferred.select("device", "port").iter_rows())
    groups: dict[tuple[str, str], list[str]] = {}
    for device, port in names.iter_rows():
        groups.setdefault((device, port_key(port)), []).append(port)
    renamed, issues = [], []
    for (device, _), spellings in groups.items():
        if len(spellings) < 2:
            continue
        kept = spelled(spellings, {port for name, port in wanted if name == device})
        others = [port for port in spellings if port != kept]
        renamed += [(device, port, kept) for port in others]
        message = f"{device}: port {kept} is also called {', '.join(others)}; its counters were joined under {kept}."
        issues.append(Issue(code="PORT_RENAMED", message=message))
    if not renamed:
        return frame, []
    table = pl.DataFrame(renamed, schema={"device": pl.Categorical, "port": pl.Categorical, "kept": pl.Categorical}, orient="row")
    joined = frame.join(table, on=["device", "port"], how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("kept", "port").alias("port")).drop("kept"), issues


def _one_source_per_series(frame: pl.DataFrame) -> pl.DataFrame:
    """Where files count one thing under several names (32 and 64 bits), the widest keeps the metric; the others go by their own name."""
    keys = list(_SERIES)
    names = frame.group_by(*keys, "raw_name").agg(pl.col("width_bits").max(), pl.len().alias("rows"))
    double = names.select(keys).is_duplicated()
    if not double.any():
        return frame
    text = pl.col("raw_name").cast(pl.String)
    order = names.filter(double).sort(pl.col("width_bits").fill_null(0), pl.col("rows"), text, descending=[True, True, False])
    best = order.group_by(keys, maintain_order=True).agg(pl.col("raw_name").first().alias("best"))
    joined = frame.join(best, on=keys, how="left", nulls_equal=True, maintain_order="left")
    kept = pl.col("best").is_null() | (_plain("raw_name") == _plain("best"))
    return joined.with_columns(pl.when(kept).then(pl.col("metric")).otherwise(pl.col("raw_name")).alias("metric")).drop("best")


def _plain(column: str) -> pl.Expr:
    """A counter's name without case and separators: spellings of one vendor's name are one counter."""
    return pl.col(column).cast(pl.String).str.to_lowercase().str.replace_all(r"[^a-z0-9]", "")


def _renames(frame: pl.DataFrame) -> list[Issue]:
    """A port that vanishes between two polls while another appears and counts on from its value has been renamed."""
    series = frame.filter(
        (pl.col("metric") == "bytes") & pl.col("queue").is_null() & (pl.col("port") != "") & pl.col("ts_ns").is_not_null()
    )
    # One sample is no course that could go on.
    spans = series.group_by("device", "port", "direction").agg(
        pl.len().alias("samples"),
        pl.col("ts_ns").min().alias("first"),
        pl.col("ts_ns").max().alias("last"),
        pl.col("value").sort_by("ts_ns").first().alias("start"),
        pl.col("value").sort_by("ts_ns").last().alias("end"),
    )
    issues: dict[tuple[str, str, str], Issue] = {}
    for (device, _), part in spans.filter(pl.col("samples") > 1).group_by("device", "direction", maintain_order=False):
        if part["first"].n_unique() < 2 or part["last"].n_unique() < 2:
            continue
        polls = series.filter(pl.col("device") == device)["ts_ns"].unique().sort()
        gone, come = part.filter(pl.col("last") < polls[-1]), part.filter(pl.col("first") > polls[0])
        for old in gone.iter_rows(named=True):
            after = polls.filter(polls > old["last"])
            matches = [
                new
                for new in come.iter_rows(named=True)
                if len(after) and new["first"] == after[0] and old["end"] > 0 and old["end"] <= new["start"] <= 2 * old["end"] + 1e12
            ]
            if len(matches) == 1:
                key = (str(device), old["port"], matches[0]["port"])
                message = (
                    f"{key[0]}: port {key[1]} ends where {key[2]} begins and counts on: it was probably renamed. The two are "
                    "kept apart; the interval between them is unknown."
                )
                issues[key] = Issue(code="PORT_RENAMED", message=message)
    return [issues[key] for key in sorted(issues)]


def _repeats(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Issue]]:
    """Flag samples of one series that share an instant; the last in reading order counts unless they differ (then neither does)."""
    keys = [*_SERIES, "ts_ns"]
    same = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).shift(1)) for key in keys) & pl.col("ts_ns").is_not_null()
    frame = frame.with_columns(same.fill_null(False).alias("_again"))
    issues = []
    again = frame["_again"]
    if again.any():
        value = pl.col("value_int").ne_missing(pl.col("value_int").shift(1)) | pl.col("value").ne_missing(pl.col("value").shift(1))
        frame = frame.with_columns((pl.col("_again") & value).alias("_differs"))
        counted = (
            frame.filter("_again").group_by("device").agg(pl.len().alias("rows"), pl.col("_differs").sum().alias("differ")).sort("device")
        )
        for device, rows, differ in counted.iter_rows():
            if differ:
                message = (
                    f"{device}: {differ} samples have the same time as another with a different value; what they are part of "
                    f"is unknown ({rows - differ} more repeat exactly)."
                )
            else:
                message = f"{device}: {rows} samples repeat another exactly, time and value; each counts once."
            issues.append(Issue(code="DUPLICATE_SAMPLE", severity="warning" if differ else "info", message=message))
        text = pl.col("flags").cast(pl.String)
        marked = pl.when(text == "").then(pl.lit("duplicate")).otherwise(text + ",duplicate").cast(pl.Categorical)
        touched = pl.col("_again") | pl.col("_again").shift(-1, fill_value=False)
        frame = frame.with_columns(pl.when(touched).then(marked).otherwise(pl.col("flags")).alias("flags")).drop("_differs")
    late = frame.filter(_has(frame, "out_of_order")).group_by("device").len().sort("device")
    for device, rows in late.iter_rows():
        message = f"{device}: {rows} samples stood out of order of time in their file; they were sorted."
        issues.append(Issue(code="OUT_OF_ORDER", severity="info", message=message))
    return frame.drop("_again"), issues
