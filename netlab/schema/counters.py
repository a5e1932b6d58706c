"""Tables of network counters: raw cumulative samples, rates per interval, ports, cables and who sits behind them.

Text columns of the two long tables are categorical: ten million samples then take some 0.7 GB instead of 2.
"""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "CABLES",
    "COUNTERS",
    "COUNTER_TABLES",
    "FABRIC_NODES",
    "LINKS",
    "LINK_CELLS",
    "LINK_INTERVALS",
    "LINK_TESTS",
    "PORTS",
    "PORT_FACTS",
    "RANK_MAP",
    "SWITCH_MEMBERS",
]

COUNTERS = Table(
    name="counters",
    doc="Raw samples as a device gave them: cumulative, in canonical units.",
    key=("device", "port", "queue", "direction", "metric", "ts_ns"),
    unique=False,
    columns=(
        Column(
            "ts_ns",
            pl.Int64,
            "Instant of the sample, Unix epoch; null where the format has no time (a single snapshot).",
            unit="ns",
            nullable=True,
        ),
        Column("device", pl.Categorical, "Switch or host."),
        Column("port", pl.Categorical, "Port or NIC; empty for a counter of the whole device."),
        Column("queue", pl.Categorical, "Queue, priority or traffic class.", nullable=True),
        Column("direction", pl.Categorical, "rx, tx or none; the owner's direction."),
        Column("metric", pl.Categorical, "Canonical name, or the vendor's own."),
        Column("kind", pl.Categorical, "counter, gauge, rate or watermark."),
        Column("value", pl.Float64, "Value in canonical units; null where the source has none.", nullable=True),
        Column(
            "value_int",
            pl.UInt64,
            "The same value exactly, where it is a whole number; differences are taken from it, a float would round above 2^53.",
            nullable=True,
        ),
        Column("width_bits", pl.Int32, "Width of the counter.", nullable=True),
        Column("overflow", pl.Categorical, "What the counter does at its end: wrap or stick.", nullable=True),
        Column("flags", pl.Categorical, "Comma-separated flags (scaled_x4, clock_naive, ...); empty if none."),
        Column("raw_name", pl.Categorical, "The vendor's name."),
        Column(
            "ts_source",
            pl.Categorical,
            "Whose clock and grid the instant is: device, exporter, collector, query_grid or file.",
            nullable=True,
        ),
        Column("source", pl.Categorical, "File.", refers_to="sources.path"),
    ),
)

LINK_INTERVALS = Table(
    name="link_intervals",
    doc="Differences of successive samples of one counter.",
    key=("device", "port", "queue", "direction", "metric", "t0_ns"),
    unique=False,
    columns=(
        Column("t0_ns", pl.Int64, "Start of the interval.", unit="ns"),
        Column("t1_ns", pl.Int64, "End of the interval.", unit="ns"),
        Column("device", pl.Categorical, "Switch or host."),
        Column("port", pl.Categorical, "Port or NIC."),
        Column("queue", pl.Categorical, "Queue or priority.", nullable=True),
        Column("direction", pl.Categorical, "rx, tx or none."),
        Column("metric", pl.Categorical, "Canonical name, or the vendor's own."),
        Column(
            "delta",
            pl.Int64,
            "Growth; null after a reset, an ambiguous wrap, saturation or conflicting duplicates.",
            nullable=True,
        ),
        Column("rate_per_s", pl.Float64, "Growth per second.", nullable=True),
        Column("utilization", pl.Float64, "Share of the port's speed; bytes of a whole port only.", nullable=True),
        Column("flags", pl.Categorical, "Comma-separated flags; empty if none."),
    ),
)

PORTS = Table(
    name="ports",
    doc="Ports of switches and NICs.",
    key=("device", "port"),
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("speed_gbps", pl.Float64, "Speed of one direction.", unit="Gbit/s", nullable=True),
        Column("role", pl.String, "host, up, down, peer, hca, lag, vlan or mgmt.", nullable=True),
        Column("lag", pl.String, "LAG that the port belongs to.", nullable=True),
        Column("peer_device", pl.String, "Other end of the cable.", nullable=True),
        Column("peer_port", pl.String, "Port at the other end.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("plane", pl.String, "Plane.", nullable=True),
        Column("host", pl.String, "Host behind the port.", nullable=True),
        Column("nic", pl.String, "NIC behind the port.", nullable=True),
        Column(
            "leaf",
            pl.String,
            "Switch (or block) that the host behind the port hangs on: by its cable, else as Slurm's topology says.",
            nullable=True,
        ),
        Column(
            "ranks",
            pl.List(pl.Int32),
            "Ranks whose NIC the port is or is cabled to; between switches, those below.",
            nullable=True,
        ),
    ),
)

PORT_FACTS = Table(
    name="port_facts",
    doc="What one input says about one port; `ports` is what all of them say together.",
    key=("device", "port"),
    unique=False,
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC, as the input writes it."),
        Column("speed_gbps", pl.Float64, "Speed of one direction.", unit="Gbit/s", nullable=True),
        Column("role", pl.String, "host, up, down, peer, hca, lag, vlan or mgmt.", nullable=True),
        Column("lag", pl.String, "LAG that the port belongs to.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("plane", pl.String, "Plane.", nullable=True),
        Column("host", pl.String, "Host behind the port.", nullable=True),
        Column("nic", pl.String, "NIC behind the port.", nullable=True),
        Column("declared", pl.Boolean, "Written down by a person (ports.csv), so it wins over what a device reports."),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

CABLES = Table(
    name="cables",
    doc="Cables: pairs of ports, each once, from links.csv, LLDP, ibnetdiscover and others.",
    key=("a_device", "a_port", "b_device", "b_port"),
    unique=False,
    columns=(
        Column("a_device", pl.String, "Device at one end."),
        Column("a_port", pl.String, "Its port."),
        Column("b_device", pl.String, "Device at the other end."),
        Column("b_port", pl.String, "Its port."),
        Column("speed_gbps", pl.Float64, "Speed of one direction.", unit="Gbit/s", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("plane", pl.String, "Plane.", nullable=True),
        Column("lag", pl.String, "LAG that the cable belongs to.", nullable=True),
        Column("role", pl.String, "Role of the port at the `a` end.", nullable=True),
        Column("a_kind", pl.String, "switch or host, where the input says so.", nullable=True),
        Column("b_kind", pl.String, "switch or host, where the input says so.", nullable=True),
        Column("declared", pl.Boolean, "Written down by a person (links.csv), not discovered."),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

RANK_MAP = Table(
    name="rank_map",
    doc="Ranks and their NICs as ranks.csv gives them.",
    key=("rank",),
    unique=False,
    columns=(
        Column("rank", pl.Int32, "Global rank."),
        Column("host", pl.String, "Host of the rank.", nullable=True),
        Column("local_rank", pl.Int32, "Rank within its host.", nullable=True),
        Column("gpu_index", pl.Int32, "GPU within its host.", nullable=True),
        Column("nic", pl.String, "NIC that carries its traffic.", nullable=True),
        Column("nic_port", pl.String, "Port of that NIC.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

SWITCH_MEMBERS = Table(
    name="switch_members",
    doc="Which switch a host or switch hangs on, without ports (Slurm topology files).",
    key=("switch", "member"),
    unique=False,
    columns=(
        Column("switch", pl.String, "Switch, or block."),
        Column("member", pl.String, "Host or lower switch."),
        Column("kind", pl.String, "host or switch: what the member is."),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

FABRIC_NODES = Table(
    name="fabric_nodes",
    doc="Whose a GUID or LID is (ibnetdiscover, ibdiagnet): counters that name devices by them are joined to names here.",
    key=("key", "number"),
    unique=False,
    columns=(
        Column("key", pl.String, "`guid <hex digits>` or `lid <number>`."),
        Column("number", pl.String, "Number of the port that the GUID of a host's node is asked with; empty if any."),
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port of a host; null for a switch, whose ports keep their numbers.", nullable=True),
        Column("source", pl.String, "File.", refers_to="sources.path"),
    ),
)

LINKS = Table(
    name="links",
    doc="Measures of each (port, direction) over the run's window.",
    key=("device", "port", "direction"),
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("direction", pl.String, "rx or tx; none for a port that has only undirected counters."),
        Column("role", pl.String, "Role of the port.", nullable=True),
        Column("speed_gbps", pl.Float64, "Speed of one direction.", unit="Gbit/s", nullable=True),
        Column("coverage", pl.Float64, "Share of the window with a known rate.", nullable=True),
        Column("window", pl.String, "run (step times known) or samples."),
        Column("window_start_ns", pl.Int64, "Start of the window.", unit="ns"),
        Column("window_end_ns", pl.Int64, "End of the window.", unit="ns"),
        Column("utilization_mean", pl.Float64, "Time-weighted mean utilisation.", nullable=True),
        Column(
            "utilization_comm",
            pl.Float64,
            "Mean utilisation over communication time alone; null without traces, or where it fills under a fifth of each poll.",
            nullable=True,
        ),
        Column("utilization_peak", pl.Float64, "Highest utilisation of one interval; never over a gap.", nullable=True),
        Column(
            "resolution_ms",
            pl.Float64,
            "Median interval between polls: what the peak cannot see below.",
            unit="ms",
            nullable=True,
        ),
        Column("bytes", pl.Int64, "Bytes counted in the window.", unit="B", nullable=True),
        Column("loss_ratio", pl.Float64, "Discards and errors over packets and discards.", nullable=True),
        Column("pause_ratio", pl.Float64, "Share of time paused, of the priority paused longest.", nullable=True),
        Column(
            "pause_ratio_max",
            pl.Float64,
            "Upper bound of the share of time paused where only pause frames are counted.",
            nullable=True,
        ),
        Column("ecn_ratio", pl.Float64, "ECN-marked packets over packets.", nullable=True),
        Column(
            "wait_ratio",
            pl.Float64,
            "Share of time that packets waited for InfiniBand credits, at 64 bit times a tick; compare like devices only.",
            nullable=True,
        ),
        Column("errors", pl.Int64, "Errors counted in the window (symbol, FCS, uncorrected FEC, receive errors).", nullable=True),
        Column("discards", pl.Int64, "Packets discarded in the window.", nullable=True),
        Column("link_downed", pl.Int64, "Times the link went down in the window.", nullable=True),
        Column("rail", pl.String, "Rail.", nullable=True),
        Column("peer", pl.String, "device/port at the other end.", nullable=True),
        Column("ranks", pl.List(pl.Int32), "Ranks whose traffic uses the port.", nullable=True),
        Column("localised", pl.String, "no, associated or localised."),
    ),
)

LINK_TESTS = Table(
    name="link_tests",
    doc="What the test of links against steps concluded: the four best verdicts, or one row without a link that gives the reason.",
    key=("number",),
    columns=(
        Column("number", pl.Int32, "Order, the strongest evidence first."),
        Column("device", pl.String, "Switch or host.", nullable=True),
        Column("port", pl.String, "Port or NIC.", nullable=True),
        Column("direction", pl.String, "rx, tx or none.", nullable=True),
        Column("metric", pl.String, "Counter that was tested.", nullable=True),
        Column("state", pl.String, "localised, associated, no evidence or cannot tell."),
        Column("reason", pl.String, "Why not more; empty if localised."),
        Column("p_value", pl.Float64, "Family-wise p.", nullable=True),
        Column("excess_ms", pl.Float64, "Exposed communication beyond cells without the event, per step.", unit="ms", nullable=True),
        Column("excess_low_ms", pl.Float64, "Lower end of its 95 % interval.", unit="ms", nullable=True),
        Column("excess_high_ms", pl.Float64, "Upper end.", unit="ms", nullable=True),
        Column("cells", pl.Int64, "Cells of time compared."),
        Column("cell_ms", pl.Float64, "Length of a cell.", unit="ms", nullable=True),
        Column("detectable_r2", pl.Float64, "Smallest share of variance that could have been named at 0.01.", nullable=True),
    ),
)

LINK_CELLS = Table(
    name="link_cells",
    doc="Evidence of the links in `link_tests`, cell by cell of time.",
    key=("device", "port", "direction", "metric", "t0_ns"),
    columns=(
        Column("device", pl.String, "Switch or host."),
        Column("port", pl.String, "Port or NIC."),
        Column("direction", pl.String, "rx, tx or none."),
        Column("metric", pl.String, "Counter that was tested."),
        Column("t0_ns", pl.Int64, "Start of the cell.", unit="ns"),
        Column("exposed_ms", pl.Float64, "Mean exposed communication of a rank.", unit="ms"),
        Column("events", pl.Float64, "Events of the link."),
        Column("peer_events", pl.Float64, "Mean events of its peers; null without peers.", nullable=True),
        Column("state", pl.String, "localised or associated."),
    ),
)

COUNTER_TABLES = (
    COUNTERS,
    LINK_INTERVALS,
    PORTS,
    LINKS,
    PORT_FACTS,
    CABLES,
    RANK_MAP,
    SWITCH_MEMBERS,
    FABRIC_NODES,
    LINK_TESTS,
    LINK_CELLS,
)
