"""Readers of topology: which port is cabled to which, and where the ranks are."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.fabric.edges import BatfishLayer1, NodeLinkJson, UfmNdt
from netlab.readers.fabric.infiniband import IbNetDiscover, IbNetDiscoverPairs
from netlab.readers.fabric.lldp import LldpJson, LldpTables
from netlab.readers.fabric.slurm import SlurmTopologyConf, SlurmTopologyYaml
from netlab.readers.fabric.tables import LinksCsv, PortsCsv, RanksCsv

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (
    PortsCsv(),
    LinksCsv(),
    RanksCsv(),
    IbNetDiscover(),
    IbNetDiscoverPairs(),
    LldpJson(),
    LldpTables(),
    BatfishLayer1(),
    UfmNdt(),
    NodeLinkJson(),
    SlurmTopologyConf(),
    SlurmTopologyYaml(),
)
