"""The fabric: hosts, leaves and spines in their tiers, cables coloured by how far they are used and marked where something is wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import records
from netlab.figures.links import link_use_frame
from netlab.figures.theme import INK, MUTED, PAPER, RULE, WIDTH, titled
from netlab.topology import Fabric, fabric_of
from netlab.units import format_percent, plural

__all__ = ["fabric_frame", "fabric_picture"]

#: More devices of a tier than this are drawn as blocks of those that hang on the same switches.
_DEVICES_DRAWN, _LINES_ABOVE_BLOCKS = 24, 48
#: Ends of accused links that are drawn by themselves.
_ALONE = 6
_TIER_HEIGHT = 108
_LEVEL_LABELS, _LETTER = 8, 7
#: A line is thin: its low end must not fade into the page.
_USE = ["rgba(76,134,184,0.28)", "rgba(76,134,184,0.7)", "rgba(46,96,146,1)"]
_WORSE = {"localised": 3, "associated": 2, "errors, loss, pause or marks": 1, "none": 0}
_NAMES = ("hosts", "leaves", "spines", "cores")


def fabric_frame(ports: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Cables between devices, or between blocks of devices where there are many.

    Parameters
    ----------
    ports
        ``PORTS``: cables and roles.
    links
        ``LINKS`` or ``verdict.links``: use and what speaks against each port and direction.

    Returns
    -------
    One row per pair: ``lower`` and ``upper`` (device or block), ``lower_tier``, ``upper_tier``, ``cables``, ``use`` (highest mean of all
    directions; null where nobody counts), ``peak``, ``state`` and ``words`` of its worst port, ``over`` (traced steps or samples: what the
    means are over). Empty where no cable is known.
    """
    fabric = fabric_of(ports)
    tiers = fabric.tiers()
    use = _port_use(links)
    over = "traced steps" if links.height and set(links["window"]) == {"run"} else "samples"
    block_of = _blocks(fabric, tiers, _alone(fabric, use))
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    for device, hops in fabric.hops.items():
        for hop in hops:
            if tiers.get(device, 0) >= tiers.get(hop.peer_device, -1):
                continue
            key = (block_of[device], block_of[hop.peer_device])
            row = pairs.setdefault(
                key,
                {"lower": key[0], "upper": key[1], "lower_tier": tiers[device], "upper_tier": tiers[hop.peer_device], "cables": 0}
                | {"use": None, "peak": None, "state": "none", "words": "", "over": over},
            )
            row["cables"] += 1
            for end in ((hop.device, hop.port), (hop.peer_device, hop.peer_port)):
                for told in use.get(end, ()):
                    _worsen(row, told, "/".join(end))
    schema = {"lower": pl.String, "upper": pl.String, "lower_tier": pl.Int64, "upper_tier": pl.Int64, "cables": pl.Int64}
    schema |= {"use": pl.Float64, "peak": pl.Float64, "state": pl.String, "words": pl.String, "over": pl.String}
    frame = pl.DataFrame(list(pairs.values()), schema=schema)
    rank = pl.col("state").replace_strict(_WORSE, return_dtype=pl.Int8)
    return frame.sort(rank, pl.col("use").fill_null(-1.0), "lower", "upper", descending=[True, True, False, False])


def _port_use(links: pl.DataFrame) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    columns = ("device", "port", "utilization_mean", "utilization_peak", "state", "words")
    for row in link_use_frame(links).select(columns).iter_rows(named=True) if links.height else ():
        found[row["device"], row["port"]].append(row)
    return found


def _worsen(row: dict[str, Any], told: Mapping[str, Any], port: str) -> None:
    for mine, theirs in (("use", "utilization_mean"), ("peak", "utilization_peak")):
        row[mine] = max((value for value in (row[mine], told[theirs]) if value is not None), default=None)
    if _WORSE[told["state"]] > _WORSE[row["state"]]:
        row["state"], row["words"] = told["state"], f"{port} {told['words']}".strip()


def _alone(fabric: Fabric, use: Mapping[tuple[str, str], list[dict[str, Any]]]) -> set[str]:
    """Devices at the ends of the accused links, which no block may hide; none where many are accused."""
    accused = {port for port, rows in use.items() if any(_WORSE[row["state"]] > 1 for row in rows)}
    ends = {device for device, _ in accused}
    ends |= {hop.peer_device for device, _ in accused for hop in fabric.hops.get(device, ()) if (device, hop.port) in accused}
    return ends if len(ends) <= _ALONE else set()


def _blocks(fabric: Fabric, tiers: Mapping[str, int], alone: set[str]) -> dict[str, str]:
    """Name under which each device is drawn: its own, or in a crowded tier that of the block of those with the same neighbours.

    From the hosts up, so that leaves of one pod, which reach the same blocks of hosts, are one block and those of another pod are not.
    """
    names: dict[str, str] = {}
    blocks = False
    for tier in sorted(set(tiers.values())):
        devices = sorted((device for device, at in tiers.items() if at == tier), key=_natural)
        peers = {device: {hop.peer_device for hop in fabric.hops[device]} for device in devices}
        below = {device: {names[peer] for peer in peers[device] if peer in names} for device in devices}
        # Above blocks, switches that reach all of them would be one bundle of lines.
        crowded = len(devices) > _DEVICES_DRAWN or (blocks and sum(map(len, below.values())) > _LINES_ABOVE_BLOCKS)
        blocks |= crowded
        alike: dict[tuple[Any, ...], list[str]] = defaultdict(list)
        for device in devices:
            above = sorted(peer for peer in peers[device] if tiers.get(peer, 0) > tier)
            same = (*above, "", *sorted(below[device] - alone))
            alike[same if crowded and device not in alone else (device,)].append(device)
        for group in alike.values():
            name = group[0] if len(group) == 1 else f"{group[0]} to {group[-1]} ({len(group)})"
            names |= dict.fromkeys(group, name)
    return names


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """``leaf10`` after ``leaf9``."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


def fabric_picture(frame: pl.DataFrame) -> Any:
    """The tiers one above the other; colour is use, a red line beside a cable is trouble.

    Parameters
    ----------
    frame
        Result of ``fabric_frame`` with at least one row.
    """
    at = _positions(frame)
    tiers = sorted({tier for _, tier in at.values()})
    height = _TIER_HEIGHT * (len(tiers) - 1) + 56
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[tiers[-1] + 0.26, tiers[0] - 0.3], nice=False, reverse=True))
    cables = frame.with_columns(
        *(
            pl.Series(name, [at[device][place] for device in frame[end]], dtype=pl.Float64)
            for end, names in (("lower", ("x", "y")), ("upper", ("x2", "y2")))
            for place, name in enumerate(names)
        ),
        pl.format("{} – {}", "lower", "upper").alias("cable"),
        (1.6 + pl.col("cables").cast(pl.Float64).log1p()).alias("width"),
    )
    tooltip = [
        alt.Tooltip("cable:N", title="cable"),
        alt.Tooltip("cables:Q", title="cables"),
        alt.Tooltip("use:Q", title="highest mean use", format=".1%"),
        alt.Tooltip("peak:Q", title="highest peak", format=".1%"),
        alt.Tooltip("words:N", title="against it"),
    ]
    colour = alt.Color(
        "use:Q",
        title=f"used in the mean of the {frame['over'][0]}",
        scale=alt.Scale(domain=[0, 0.5, 1], range=_USE, clamp=True),
        legend=alt.Legend(format=".0%", orient="top", gradientLength=160, titleLimit=400),
    )
    base = alt.Chart(alt.InlineData(values=records(cables, 4)))
    width = alt.StrokeWidth("width:Q", scale=None)
    ends = {"x": x, "x2": "x2:Q", "y": y, "y2": "y2:Q", "tooltip": tooltip}
    nodes = [{"device": device, "x": place, "y": tier, "shape": "host" if tier == 0 else "switch"} for device, (place, tier) in at.items()]
    marks = alt.Chart(alt.InlineData(values=nodes))
    # Words of neighbouring cables stand at different heights.
    part = pl.Series("part", [(0.5, 0.32, 0.68, 0.86)[number % 4] for number in range(cables.height)])
    told = cables.filter(pl.col("state") != "none").head(4)
    told = told.with_columns(part.head(told.height)).with_columns(
        (pl.col(low) + pl.col("part") * (pl.col(high) - pl.col(low))).alias(name)
        for name, low, high in (("mx", "x", "x2"), ("my", "y", "y2"))
    )
    layers = [
        base.transform_filter("datum.use === null").mark_rule(color=MUTED, opacity=0.45, strokeDash=[2, 3]).encode(**ends),
        base.transform_filter("datum.use !== null").mark_rule(strokeCap="round").encode(color=colour, strokeWidth=width, **ends),
        base.transform_filter("datum.state != 'none'").mark_rule(color=RULE, strokeWidth=2, strokeDash=[5, 3]).encode(**ends),
        marks.mark_square(size=210, color=PAPER, opacity=1, stroke=INK, strokeWidth=1.4).encode(x=x, y=y),
        *(_label(marks, x, y, tier, _crowded([device for device, (_, level) in at.items() if level == tier])) for tier in tiers),
        alt.Chart(alt.InlineData(values=[{"y": tier, "tier": _tier_name(tier)} for tier in tiers]))
        .mark_text(align="left", color=MUTED, fontSize=11.5, fontWeight=600)
        .encode(x=alt.value(2), y=y, text="tier:N"),
        _words(told, halo=True),
        _words(told, halo=False),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=height)
    subtitle = [
        "Line: cable, thicker for several, stronger where more used; dotted: nobody counts. Red dashes: something speaks against it."
    ]
    return titled(chart, "fabric", _title(frame), subtitle, f"{plural(frame.height, 'connection')} between {plural(len(at), 'device')}.")


def _words(told: pl.DataFrame, *, halo: bool) -> Any:
    """What speaks against cables, beside them; over a pale edge of its own, so that it can be read across other cables."""
    edge: dict[str, Any] = {"stroke": PAPER, "strokeWidth": 4, "strokeJoin": "round"} if halo else {}
    return (
        alt.Chart(alt.InlineData(values=records(told.select("mx", "my", "words"))))
        .mark_text(align="left", dx=8, color=PAPER if halo else RULE, fontSize=11.5, fontWeight=600, limit=330, **edge)
        .encode(x=alt.X("mx:Q", axis=None), y=alt.Y("my:Q", axis=None), text="words:N")
    )


def _crowded(devices: list[str]) -> bool:
    """Whether names of a tier, side by side, would meet."""
    return len(devices) > _LEVEL_LABELS or max(map(len, devices)) * _LETTER > (WIDTH - 90) / len(devices)


def _label(marks: Any, x: Any, y: Any, tier: int, crowded: bool) -> Any:
    """Names of a tier's devices: below the hosts, above the switches, slanted where they would meet."""
    turned: dict[str, Any] = (
        {"angle": 32, "align": "left", "dx": 4, "dy": 12} if tier == 0 else {"angle": 332, "align": "left", "dx": 6, "dy": -12}
    )
    level: dict[str, Any] = {"dy": 20} if tier == 0 else {"dy": -18}
    weight = 400 if tier == 0 else 600
    own = marks.transform_filter(f"datum.y == {tier}").encode(x=x, y=y, text="device:N")
    text: dict[str, Any] = {"fontSize": 11.5, "fontWeight": weight, "limit": 160, **(turned if crowded else level)}
    return alt.layer(
        own.mark_text(color=PAPER, stroke=PAPER, strokeWidth=3.5, strokeJoin="round", **text), own.mark_text(color=INK, **text)
    )


def _positions(frame: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """Place of every device: its tier, and in it the order that its neighbours below have, so that few cables cross."""
    tiers: dict[int, set[str]] = defaultdict(set)
    above: dict[str, set[str]] = defaultdict(set)
    below: dict[str, set[str]] = defaultdict(set)
    for lower, upper, low, high in frame.select("lower", "upper", "lower_tier", "upper_tier").iter_rows():
        tiers[low].add(lower)
        tiers[high].add(upper)
        above[lower].add(upper)
        below[upper].add(lower)
    places: dict[str, tuple[float, int]] = {}
    for tier in sorted(tiers):
        if tier == min(tiers):
            order = sorted(tiers[tier], key=lambda device: (sorted(map(_natural, above[device]))[:1], _natural(device)))
        else:
            middle = {d: sum(places[n][0] for n in below[d] if n in places) / max(1, len(below[d])) for d in tiers[tier]}
            order = sorted(tiers[tier], key=lambda device: (round(middle[device], 3), _natural(device)))
        step = (WIDTH - 90) / len(order)
        places |= {device: (70 + step * (number + 0.5), tier) for number, device in enumerate(order)}
    return places


def _tier_name(tier: int) -> str:
    return _NAMES[tier] if tier < len(_NAMES) else f"tier {tier}"


def _title(frame: pl.DataFrame) -> str:
    worst = frame.row(0, named=True)
    if worst["state"] in ("localised", "associated"):
        how = "is the link that slow steps follow" if worst["state"] == "localised" else "goes along with slow steps"
        return f"{worst['lower']} – {worst['upper']} {how}: {worst['words']}"
    if worst["state"] != "none":
        count = frame.filter(pl.col("state") != "none").height
        return f"{plural(count, 'connection')} with errors, loss, pause or marks, worst {worst['words']}; no step was traced to them"
    used = frame.drop_nulls("use").sort("use", descending=True)
    if not used.height:
        return "The fabric as its cables tell; how far they are used is not known"
    first = used.row(0, named=True)
    use = f"{format_percent(first['use'])} in the mean of the {first['over']}"
    return f"Nothing speaks against any link; the fullest is {first['lower']} – {first['upper']}, {use}"
