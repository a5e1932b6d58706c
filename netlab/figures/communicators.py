"""The communicator map: who sends to whom over what, hosts together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot
from typing import Any

import altair as alt
import polars as pl

from netlab.figures.frames import members_text, records
from netlab.figures.theme import GRID, INK, MUTED, PAPER, WIDTH, titled
from netlab.units import plural

__all__ = ["TRANSPORT_COLOURS", "communicator_map", "communicator_map_frame"]

#: From fast to slow; the last one of a cell decides its colour.
TRANSPORT_COLOURS: dict[str, str] = {
    "peer to peer": "#2f8f7f",
    "in the network (CollNet)": "#8cbfe6",
    "network with GPUDirect": "#3b6fa0",
    "network": "#6f7fb0",
    "network through host memory": "#9c5f8f",
    "host memory": "#edae49",
    "TCP sockets": "#d1495b",
    "not shown": "#aeb7c0",
}
_CLASSES = list(TRANSPORT_COLOURS)
_RANKS_DRAWN = 64
_HOSTS_DRAWN = 10
_BLOCKS = 48
_ROW = 104
_CURVE_POINTS = 9
_NO_HOST = "host not known"
_DASHES = {"ring": [1, 0], "tree": [6, 3], "pair": [1.5, 3]}


def communicator_map_frame(pairs: pl.DataFrame, ranks: pl.DataFrame, edges: pl.DataFrame, communicators: pl.DataFrame) -> pl.DataFrame:
    """Pairs of ranks with host, transport and what they are neighbours in.

    Parameters
    ----------
    pairs, edges, communicators
        ``PAIR_LINKS``, ``COMMUNICATOR_EDGES`` and ``COMMUNICATORS`` of the logs.
    ranks
        ``RANKS``: host and place of each rank.

    Returns
    -------
    ``src``, ``dst``, ``src_host``, ``dst_host`` ``src_place``, ``dst_place`` (among the ranks of
    the host), ``kind`` (ring, tree or pair), ``transport`` (a key of ``TRANSPORT_COLOURS``), ``network``, ``channels``, ``nics``.
    """
    kinds = _kinds(edges, communicators)
    joined = pairs.join(kinds, on=["src", "dst"], how="full", coalesce=True).with_columns(kind=pl.col("kind").fill_null("pair"))
    joined = joined.filter(pl.col("src") != pl.col("dst"))
    seen = pl.concat([joined.select(rank="src"), joined.select(rank="dst")]).unique()
    places = seen.join(ranks.select(pl.col("rank").cast(pl.Int64), "host"), on="rank", how="left").with_columns(
        pl.col("host").fill_null(_NO_HOST)
    )
    places = places.with_columns(place=pl.col("rank").rank("ordinal").over("host").cast(pl.Int64) - 1)
    for side in ("src", "dst"):
        joined = joined.join(places.rename({"rank": side, "host": f"{side}_host", "place": f"{side}_place"}), on=side, how="left")
    nics = pl.concat_str(pl.col("src_nics").list.join("+"), pl.col("dst_nics").list.join("+"), separator=" to ", ignore_nulls=True)
    named = joined.with_columns(
        pl.Series("transport", [_transport(row) for row in joined.iter_rows(named=True)], dtype=pl.String),
        pl.col("channels").fill_null(0),
        nics.alias("nics"),
    )
    # A tree is used both ways; where only one is printed, the other one adds nothing but a grey line.
    known = named.filter(pl.col("transport") != "not shown").select(src="dst", dst="src")
    silent = named.filter((pl.col("transport") == "not shown") & (pl.col("kind") == "tree")).join(known, on=["src", "dst"], how="semi")
    columns = ["src", "dst", "src_host", "dst_host", "src_place", "dst_place", "kind", "transport", "network", "channels", "nics"]
    return named.join(silent, on=["src", "dst"], how="anti").select(columns).sort("src", "dst")


def _kinds(edges: pl.DataFrame, communicators: pl.DataFrame) -> pl.DataFrame:
    """Neighbours in rings and trees by global rank; a pair in both counts as ring."""
    known = communicators.select("comm_id", "rank", "global_rank").drop_nulls().unique(["comm_id", "rank"], keep="first")
    world = communicators.filter(pl.col("rank") == pl.col("global_rank")).sort("nranks").tail(1)["comm_id"].to_list()
    frame = edges.select("comm_id", "pattern", "src_rank", "dst_rank").unique()
    for side in ("src", "dst"):
        of = known.rename({"rank": f"{side}_rank", "global_rank": side})
        frame = frame.join(of, on=["comm_id", f"{side}_rank"], how="left")
        # In the world communicator ranks are global ones, also those of processes without a log.
        frame = frame.with_columns(pl.when(pl.col("comm_id").is_in(world)).then(pl.col(f"{side}_rank")).otherwise(pl.col(side)).alias(side))
    frame = frame.drop_nulls(["src", "dst"]).with_columns(
        kind=pl.when(pl.col("pattern") == "ring").then(pl.lit("ring")).otherwise(pl.lit("tree"))
    )
    down = frame.select("src", "dst", "kind")
    up = frame.filter(pl.col("kind") == "tree").select(pl.col("dst").alias("src"), pl.col("src").alias("dst"), "kind")
    return pl.concat([down, up]).group_by("src", "dst").agg(pl.col("kind").min())


def _transport(row: Mapping[str, Any]) -> str:
    if row["network"] == "Socket":
        return "TCP sockets"
    words = {"P2P": "peer to peer", "NVLS": "peer to peer", "SHM": "host memory", "COLLNET": "in the network (CollNet)"}
    if row["transport"] == "NET":
        direct = row["gdr_share"]
        return "network" if direct is None else "network with GPUDirect" if direct >= 0.5 else "network through host memory"
    return words.get(row["transport"] or "", "not shown")


def communicator_map(frame: pl.DataFrame) -> Any:
    """Connections coloured by transport: rank by rank up to 64 ranks on 10 hosts, beyond that hosts (or blocks of them) against each other.

    Parameters
    ----------
    frame
        Result of ``communicator_map_frame``.
    """
    hosts = _hosts(frame)
    ranks = sorted({*frame["src"].to_list(), *frame["dst"].to_list()})
    wide = len(ranks) > _RANKS_DRAWN or len(hosts) > _HOSTS_DRAWN
    present = [name for name in _CLASSES if name in set(frame["transport"])]
    legend = {"symbolType": "square", "symbolStrokeWidth": 0} if wide else {"symbolType": "stroke", "symbolStrokeWidth": 3.5}
    colour = alt.Color(
        "transport:N",
        title=None,
        scale=alt.Scale(domain=present, range=[TRANSPORT_COLOURS[name] for name in present]),
        legend=alt.Legend(columns=4, **legend),
    )
    chart, subtitle = _by_host(frame, hosts, colour) if wide else _by_rank(frame, hosts, colour)
    words = f"{plural(len(ranks), 'rank')} on {plural(len(hosts), 'host')}; transports: {', '.join(present)}."
    return titled(chart, "communicators", _title(frame, len(ranks), len(hosts)), subtitle, words)


def _hosts(frame: pl.DataFrame) -> list[str]:
    """Hosts in the order of their lowest rank."""
    both = pl.concat([frame.select(rank="src", host="src_host"), frame.select(rank="dst", host="dst_host")])
    return both.group_by("host").agg(pl.col("rank").min()).sort("rank", "host")["host"].to_list()


def _title(frame: pl.DataFrame, ranks: int, hosts: int) -> str:
    """What connects ranks inside hosts and between them, and how many connections are worse than most."""
    inside = frame.filter(pl.col("src_host") == pl.col("dst_host"))
    between = frame.filter(pl.col("src_host") != pl.col("dst_host"))
    parts = [f"{words} {where}" for words, where in ((_mostly(inside), "inside hosts"), (_mostly(between), "between them")) if words]
    return f"{plural(ranks, 'rank')} on {plural(hosts, 'host')}: {', '.join(parts) if parts else 'connections are not shown'}"


def _mostly(frame: pl.DataFrame) -> str:
    if not frame.height:
        return ""
    counts = dict(frame.group_by("transport").len().iter_rows())
    usual = max(counts, key=lambda name: (counts[name], _CLASSES.index(name)))
    networks = frame.filter(pl.col("transport") == usual)["network"].drop_nulls().unique().sort().to_list()
    named = usual.replace("network", "/".join(networks)) if networks and usual.startswith("network") else usual
    worse = {name: count for name, count in counts.items() if _CLASSES.index(name) > _CLASSES.index(usual) and name != "not shown"}
    odd = ", ".join(f"{count} of {frame.height} over {name}" for name, count in sorted(worse.items()))
    return f"{named} ({odd})" if odd else named


def _by_rank(frame: pl.DataFrame, hosts: list[str], colour: Any) -> tuple[Any, list[str]]:
    drawn = frame.filter(pl.col("kind") != "pair")
    left_out = frame.height - drawn.height if drawn.height and frame.height > 3 * len({*frame["src"], *frame["dst"]}) else 0
    shown = drawn if left_out else frame
    row_of = {host: number for number, host in enumerate(hosts)}
    nodes = _nodes(frame, row_of)
    most = max(node["place"] for node in nodes) + 1
    step = min(92, (WIDTH - 110) / most)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-110, max(step * most, 240)], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[_ROW * len(hosts) - _ROW / 2, -_ROW / 2], nice=False))
    for node in nodes:
        node |= {"x": step * node["place"] + step / 2, "y": _ROW * node["row"]}
    at = {node["rank"]: (node["x"], node["y"]) for node in nodes}
    boxes = [
        {"host": host, "x": 0, "x2": step * most, "y": _ROW * row - 36, "y2": _ROW * row + 36, "middle": _ROW * row, "left": -8}
        for host, row in row_of.items()
    ]
    base = alt.Chart(alt.InlineData(values=boxes))
    curves = alt.Chart(alt.InlineData(values=[point for row in shown.iter_rows(named=True) for point in _curve(row, at)]))
    marks = alt.Chart(alt.InlineData(values=nodes))
    tooltip = [
        alt.Tooltip("edge:N", title="sends"),
        alt.Tooltip("kind:N", title="neighbours in"),
        alt.Tooltip("transport:N", title="transport"),
        alt.Tooltip("network:N", title="network"),
        alt.Tooltip("nics:N", title="NICs"),
        alt.Tooltip("channels:Q", title="channels"),
    ]
    chart = alt.layer(
        base.mark_rect(cornerRadius=8, color=GRID, opacity=0.45).encode(x=x, x2="x2", y=y, y2="y2"),
        base.mark_text(align="right", fontSize=12.5, fontWeight=600, color=INK, limit=104).encode(
            x=alt.X("left:Q", axis=None), y=alt.Y("middle:Q", axis=None), text="host:N"
        ),
        curves.mark_line(strokeWidth=1.8, opacity=0.85, interpolate="monotone").encode(
            x=x, y=y, color=colour, detail="edge:N", order="point:Q", tooltip=tooltip,
            strokeDash=alt.StrokeDash("kind:N", scale=alt.Scale(domain=list(_DASHES), range=list(_DASHES.values())), legend=None),
        ),
        marks.mark_circle(size=430, color=PAPER, opacity=1, stroke=MUTED, strokeWidth=1.2).encode(x=x, y=y),
        marks.mark_text(fontSize=11.5, color=INK, fontWeight=600).encode(x=x, y=y, text="rank:N"),
    ).properties(width=WIDTH, height=_ROW * len(hosts))  # fmt: skip
    words = {"ring": "solid: ring", "tree": "dashed: tree", "pair": "dotted: no ring or tree of the log"}
    kinds = [words[kind] for kind in _DASHES if kind in set(shown["kind"])]
    told = f"; {', '.join(kinds)}" if len(kinds) > 1 else ""
    subtitle = [f"Each circle is a rank, each band a host. Lines bend to the right of the way they send{told}."]
    if left_out:
        subtitle.append(f"{plural(left_out, 'further pair')} (send and receive) of ranks are in the table only.")
    return chart, subtitle


def _nodes(frame: pl.DataFrame, row_of: Mapping[str, int]) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for side in ("src", "dst"):
        for rank, host, place in frame.select(side, f"{side}_host", f"{side}_place").iter_rows():
            found[rank] = {"rank": rank, "row": row_of[host], "place": place}
    return [found[rank] for rank in sorted(found)]


def _curve(row: Mapping[str, Any], at: Mapping[int, tuple[float, float]]) -> Iterator[dict[str, Any]]:
    """A quadratic curve from one rank to another that bows to the right of its way, so that both directions are seen."""
    (x0, y0), (x1, y1) = at[row["src"]], at[row["dst"]]
    length = hypot(x1 - x0, y1 - y0) or 1.0
    bow = min(0.22 * length, 46.0) + 6
    cx, cy = (x0 + x1) / 2 - (y1 - y0) / length * bow, (y0 + y1) / 2 + (x1 - x0) / length * bow
    about = {name: row[name] for name in ("kind", "transport", "network", "nics", "channels")}
    for number in range(_CURVE_POINTS):
        t = number / (_CURVE_POINTS - 1)
        yield {
            "edge": f"{row['src']} to {row['dst']}",
            "point": number,
            "x": round((1 - t) ** 2 * x0 + 2 * t * (1 - t) * cx + t**2 * x1, 1),
            "y": round((1 - t) ** 2 * y0 + 2 * t * (1 - t) * cy + t**2 * y1, 1),
            **about,
        }


def _by_host(frame: pl.DataFrame, hosts: list[str], colour: Any) -> tuple[Any, list[str]]:
    size = -(-len(hosts) // _BLOCKS)
    blocks = [hosts[start : start + size] for start in range(0, len(hosts), size)]
    name_of = {host: block[0] if len(block) == 1 else f"{block[0]} ... {block[-1]}" for block in blocks for host in block}
    names = [name_of[block[0]] for block in blocks]
    slow = pl.col("transport").replace_strict({name: place for place, name in enumerate(_CLASSES)}, return_dtype=pl.Int8)
    shown = frame.filter(pl.col("transport") != "not shown") if (frame["transport"] != "not shown").any() else frame
    cells = (
        shown.with_columns(pl.col("src_host", "dst_host").replace(name_of))
        .group_by("src_host", "dst_host")
        .agg(
            pl.col("transport").sort_by(slow).last(),
            pl.len().alias("pairs"),
            pl.col("network").drop_nulls().unique().sort().str.join(", "),
            pl.col("channels").max(),
        )
    )
    step = max(11, min(26, 560 // max(len(names), 1)))
    axis = {"labelFontSize": 10.5, "labelLimit": 150, "labelOverlap": True, "grid": False}
    chart = (
        alt.Chart(alt.InlineData(values=records(cells.sort("src_host", "dst_host"))))
        .mark_rect(cornerRadius=1)
        .encode(
            x=alt.X("dst_host:N", title="receives", sort=names, scale=alt.Scale(domain=names), axis=alt.Axis(**{**axis, "labelLimit": 76})),
            y=alt.Y("src_host:N", title="sends", sort=names, scale=alt.Scale(domain=names), axis=alt.Axis(**axis)),
            color=colour,
            tooltip=[
                alt.Tooltip("src_host:N", title="from"),
                alt.Tooltip("dst_host:N", title="to"),
                alt.Tooltip("transport:N", title="slowest transport"),
                alt.Tooltip("network:N", title="network"),
                alt.Tooltip("pairs:Q", title="pairs of ranks"),
                alt.Tooltip("channels:Q", title="channels, most"),
            ],
        )
        .properties(width=alt.Step(step), height=alt.Step(step))
    )
    whole = f"{plural(frame.select('src', 'dst').n_unique(), 'pair')} of ranks {members_text(sorted({*frame['src'], *frame['dst']}))}"
    blocked = f"; a cell is {size} hosts against {size}" if size > 1 else ""
    return chart, [f"Hosts that send (rows) and receive (columns), coloured by the slowest transport between them{blocked}. {whole}."]
