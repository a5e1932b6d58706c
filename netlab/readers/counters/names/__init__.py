"""The registry of counter names, one module per source. ``ALL_TABLES`` is asked where a format may carry any of them (plain CSV)."""

from __future__ import annotations

from netlab.readers.counters.names.canonical import CANONICAL
from netlab.readers.counters.names.ethtool import ETHTOOL
from netlab.readers.counters.names.ifmib import IFMIB
from netlab.readers.counters.names.infiniband import INFINIBAND, RDMA
from netlab.readers.counters.names.node_exporter import DCGM, EXPORTERS
from netlab.readers.counters.names.openconfig import OPENCONFIG
from netlab.readers.counters.names.sai import SAI
from netlab.readers.counters.names.switches import EOS, NXOS

__all__ = ["ALL_TABLES", "CANONICAL", "DCGM", "EOS", "ETHTOOL", "EXPORTERS", "IFMIB", "INFINIBAND", "NXOS", "OPENCONFIG", "RDMA", "SAI"]

#: Order matters where names meet: IF-MIB before SAI and InfiniBand, wire counters before netlab's own plain words.
ALL_TABLES = (IFMIB, SAI, EXPORTERS, DCGM, INFINIBAND, RDMA, ETHTOOL, OPENCONFIG, EOS, NXOS, CANONICAL)
