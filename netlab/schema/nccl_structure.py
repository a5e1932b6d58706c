"""Tables of structure that NCCL prints: rings and trees, predicted speeds, the inside of a host, and collectives that hang."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "CALL_COMMUNICATORS",
    "COMMUNICATOR_EDGES",
    "FLIGHT_ARRIVALS",
    "GROUP_LINKS",
    "HANGS",
    "NCCL_STRUCTURE_TABLES",
    "PAIR_LINKS",
    "RANK_PLACES",
    "TOPOLOGY_NODES",
    "TOPOLOGY_PATHS",
    "TUNING_PREDICTIONS",
]

COMMUNICATOR_EDGES = Table(
    name="communicator_edges",
    doc="Edges of the rings and trees that NCCL built, from its ring, tree and order lines.",
    key=("comm_id", "pattern", "channel", "src_rank", "dst_rank"),
    unique=False,
    columns=(
        Column("comm_id", pl.String, "Identity of the communicator.", nullable=True),
        Column("pattern", pl.String, "ring, tree, nvls or nvls_tree."),
        Column("channel", pl.Int64, "Channel."),
        Column("src_rank", pl.Int64, "Ring: sender. Tree: parent."),
        Column("dst_rank", pl.Int64, "Ring: receiver. Tree: child."),
        Column("basis", pl.String, "order (printed order of the ring), graph (Ring/Tree line) or trees (Trees line)."),
        Column("truncated", pl.Boolean, "The line that it comes from was cut by NCCL."),
        Column("source", pl.String, "File."),
        Column("line", pl.Int64, "Line number."),
    ),
)

TUNING_PREDICTIONS = Table(
    name="tuning_predictions",
    doc="NCCL's own prediction: time in us = latency + bytes / (1000 x bandwidth). Combinations that are off are left out.",
    key=("comm_id", "op", "algorithm", "protocol"),
    unique=False,
    columns=(
        Column("comm_id", pl.String, "Identity of the communicator.", nullable=True),
        Column("host", pl.String, "Host that printed it.", nullable=True),
        Column("pid", pl.Int64, "Process that printed it.", nullable=True),
        Column("op", pl.String, "Operation, netlab's name."),
        Column("algorithm", pl.String, "Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree or PAT."),
        Column("protocol", pl.String, "LL, LL128 or Simple."),
        Column("latency_us", pl.Float64, "Latency.", unit="us"),
        Column("bandwidth_gb_per_s", pl.Float64, "Bandwidth.", unit="GB/s"),
        Column("source", pl.String, "File."),
        Column("line", pl.Int64, "Line number."),
    ),
)

TOPOLOGY_NODES = Table(
    name="topology_nodes",
    doc="Parts of a host (CPUs, PCI switches, GPUs, NICs, NVSwitches) from NCCL's topology XML or its GRAPH lines.",
    key=("source", "node"),
    columns=(
        Column("host", pl.String, "Host, where the file tells it (an XML does not).", nullable=True),
        Column("node", pl.String, "Identity within the host: kind and bus id or number."),
        Column("kind", pl.String, "cpu, pci, gpu, nic, nvswitch or net."),
        Column("parent", pl.String, "Node that it hangs on.", nullable=True),
        Column("bus_id", pl.String, "PCI bus id.", nullable=True),
        Column("numa", pl.Int64, "NUMA node.", nullable=True),
        Column("device", pl.Int64, "CUDA or network device index.", nullable=True),
        Column("rank", pl.Int64, "Rank of the GPU in the communicator that wrote the file.", nullable=True),
        Column("name", pl.String, "Name of the NIC, or vendor and model.", nullable=True),
        Column(
            "link_gb_per_s", pl.Float64, "Speed of the link to the parent, one direction, as NCCL counts it.", unit="GB/s", nullable=True
        ),
        Column("speed_gbps", pl.Float64, "Speed of a network port.", unit="Gbit/s", nullable=True),
        Column("gdr", pl.Boolean, "GPUDirect RDMA possible.", nullable=True),
        Column("source", pl.String, "File."),
    ),
)

TOPOLOGY_PATHS = Table(
    name="topology_paths",
    doc="Distance between GPUs and from GPU to NIC, as printed or worked out from the tree by NCCL's rule.",
    key=("source", "from_node", "to_node"),
    columns=(
        Column("host", pl.String, "Host, where known.", nullable=True),
        Column("from_node", pl.String, "Node.", refers_to="topology_nodes.node"),
        Column("to_node", pl.String, "Node.", refers_to="topology_nodes.node"),
        Column("to_kind", pl.String, "gpu or net (nic in files without network devices)."),
        Column("path", pl.String, "LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET or DIS."),
        Column("hops", pl.Int64, "Links on the way.", nullable=True),
        Column("bandwidth_gb_per_s", pl.Float64, "Narrowest link on the way.", unit="GB/s", nullable=True),
        Column("source", pl.String, "File."),
    ),
)

RANK_PLACES = Table(
    name="rank_places",
    doc="Where each rank runs and which NICs carry its traffic, joined from NCCL logs.",
    key=("rank",),
    columns=(
        Column("rank", pl.Int64, "Global rank."),
        Column("host", pl.String, "Host.", nullable=True),
        Column("local_rank", pl.Int64, "Place among the ranks of its host.", nullable=True),
        Column("cuda_device", pl.Int64, "CUDA device index.", nullable=True),
        Column("bus_id", pl.String, "PCI bus id of the GPU.", nullable=True),
        Column("nic", pl.String, "NIC of most of its network connections.", nullable=True),
        Column("network", pl.String, "Network of its connections between hosts.", nullable=True),
        Column("nccl_version", pl.String, "NCCL or RCCL version.", nullable=True),
    ),
)

HANGS = Table(
    name="hangs",
    doc="Collectives that some ranks are inside of and that others never joined or that never ended.",
    key=("group", "seq", "op", "group_name"),
    columns=(
        Column("group", pl.String, "Sorted member list as text, or the group's name where its members are unknown."),
        Column("seq", pl.Int64, "Sequence number in the group."),
        Column("op", pl.String, "Operation that waits."),
        Column("waiting_ranks", pl.List(pl.Int64), "Ranks that are inside."),
        Column("missing_ranks", pl.List(pl.Int64), "Ranks that did not join."),
        Column("last_completed_seq", pl.Int64, "Last collective of the group that every rank completed.", nullable=True),
        Column("basis", pl.String, "flight (dumps), watchdog (log lines) or ras."),
        Column("group_name", pl.String, "Process-group name: several groups may have the same members.", nullable=True),
    ),
)

_GROUP = Column("group", pl.String, "Sorted member list as text.")
_LAYER = Column("layer", pl.String, "intra_node or inter_node; null where a host is not known.", nullable=True)

GROUP_LINKS = Table(
    name="group_links",
    doc="How each group of ranks is connected: groups of the timeline, and communicators of NCCL logs whose members are known.",
    key=("group", "comm_id"),
    columns=(
        _GROUP,
        Column("comm_id", pl.String, "Its communicator; null where no log shows one of these members.", nullable=True),
        Column("name", pl.String, "Process groups of the timeline with these members (and this communicator).", nullable=True),
        Column("basis", pl.String, "members or calls: what joined timeline and communicator; null where nothing could.", nullable=True),
        Column("nranks", pl.Int64, "Members."),
        Column("hosts", pl.Int64, "Hosts of its members, where all are known.", nullable=True),
        _LAYER,
        Column("transport", pl.String, "Slowest transport that connects members: P2P, SHM, COLLNET, NET.", nullable=True),
        Column("network", pl.String, "Network that carries most of its connections: IB, RoCE, Socket, OFI, ...", nullable=True),
        Column("nics", pl.List(pl.String), "NICs in use, over all hosts."),
        Column("channels", pl.Int64, "Channels with a connection.", nullable=True),
        Column("connections", pl.Int64, "Connections that logs show."),
        Column("gdr_share", pl.Float64, "Network connections with GPUDirect RDMA, of all.", nullable=True),
        Column("predicted_gb_per_s", pl.Float64, "Best bus bandwidth of NCCL's own TUNING table for it.", unit="GB/s", nullable=True),
    ),
)

PAIR_LINKS = Table(
    name="pair_links",
    doc="How each pair of ranks is connected, in the direction of sending: pairs that logs or messages of the timeline show.",
    key=("src", "dst"),
    columns=(
        Column("src", pl.Int64, "Sender, global rank."),
        Column("dst", pl.Int64, "Receiver, global rank."),
        _LAYER,
        Column("transport", pl.String, "Slowest transport of its connections; null where no log shows one.", nullable=True),
        Column("network", pl.String, "Network of most of them.", nullable=True),
        Column("src_nics", pl.List(pl.String), "NICs that send."),
        Column("dst_nics", pl.List(pl.String), "NICs that receive."),
        Column("gdr_share", pl.Float64, "Network connections with GPUDirect RDMA, of all.", nullable=True),
        Column("channels", pl.Int64, "Channels."),
        Column("connections", pl.Int64, "Connections that logs show, both ends counted."),
    ),
)

CALL_COMMUNICATORS = Table(
    name="call_communicators",
    doc="Collectives of the timeline and the communicator that carried each, where that is certain.",
    key=("instance",),
    columns=(
        Column("instance", pl.Int64, "Instance of the timeline.", refers_to="collectives.instance"),
        _GROUP,
        Column("group_name", pl.String, "Process-group name.", nullable=True),
        Column("comm_id", pl.String, "The communicator."),
        Column("basis", pl.String, "members: the only one of these members; calls: the only one with this order of calls."),
        Column("op_count", pl.Int64, "opCount of its COLL lines, where the calls of trace and log are in step.", nullable=True),
    ),
)

FLIGHT_ARRIVALS = Table(
    name="flight_arrivals",
    doc="When each rank called a collective, by flight-recorder dumps of all its members: on the CPU, by the clocks of the hosts.",
    key=("group", "group_name", "seq", "rank"),
    columns=(
        _GROUP,
        Column("group_name", pl.String, "Process-group name: several groups may have the same members.", nullable=True),
        Column("seq", pl.Int64, "Sequence number in the group."),
        Column("rank", pl.Int64, "Rank in the world."),
        Column("op", pl.String, "Operation, netlab's name."),
        Column("created_ns", pl.Int64, "Instant of the call.", unit="ns"),
        Column("lag_ns", pl.Int64, "Behind the first member's call.", unit="ns"),
        Column(
            "excess_ns",
            pl.Int64,
            "Lag beyond the least that the rank has in this group, which may be its clock; null with one collective only.",
            unit="ns",
            nullable=True,
        ),
    ),
)

NCCL_STRUCTURE_TABLES = (
    COMMUNICATOR_EDGES,
    TUNING_PREDICTIONS,
    TOPOLOGY_NODES,
    TOPOLOGY_PATHS,
    RANK_PLACES,
    GROUP_LINKS,
    PAIR_LINKS,
    CALL_COMMUNICATORS,
    FLIGHT_ARRIVALS,
    HANGS,
)
