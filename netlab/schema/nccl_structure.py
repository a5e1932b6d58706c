"""Tables of structure that NCCL prints: rings and trees, predicted speeds, the inside of a host, and collectives that hang."""

from __future__ import annotations

import polars as pl

from netlab.schema.table import Column, Table

__all__ = [
    "COMMUNICATOR_EDGES",
    "HANGS",
    "NCCL_STRUCTURE_TABLES",
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
    key=("group", "seq", "op"),
    columns=(
        Column("group", pl.String, "Sorted member list as text, or the group's name where its members are unknown."),
        Column("seq", pl.Int64, "Sequence number in the group."),
        Column("op", pl.String, "Operation that waits."),
        Column("waiting_ranks", pl.List(pl.Int64), "Ranks that are inside."),
        Column("missing_ranks", pl.List(pl.Int64), "Ranks that did not join."),
        Column("last_completed_seq", pl.Int64, "Last collective of the group that every rank completed.", nullable=True),
        Column("basis", pl.String, "flight (dumps), watchdog (log lines) or ras."),
    ),
)

NCCL_STRUCTURE_TABLES = (COMMUNICATOR_EDGES, TUNING_PREDICTIONS, TOPOLOGY_NODES, TOPOLOGY_PATHS, RANK_PLACES, HANGS)
