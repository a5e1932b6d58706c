"""Readers of switch, NIC and GPU counters, one module per format."""

from __future__ import annotations

from netlab.readers.base import Reader
from netlab.readers.counters.arista import EosJson
from netlab.readers.counters.cisco import IosXrXml, NxosJson, NxosTables
from netlab.readers.counters.csv_files import PlainCsv
from netlab.readers.counters.cumulus import NvueJson, NvueTables
from netlab.readers.counters.dcgm import DcgmFields
from netlab.readers.counters.exposition import Exposition
from netlab.readers.counters.gnmi import Gnmi
from netlab.readers.counters.host import EthtoolStatistics, RdmaStatistic, SysfsFile, SysfsTexts
from netlab.readers.counters.infiniband import IbDiagnet, IbQueryErrors, IbSwInfo, PerfQuery
from netlab.readers.counters.juniper import JunosXml
from netlab.readers.counters.lineprotocol import LineProtocol
from netlab.readers.counters.prometheus_json import PrometheusJson
from netlab.readers.counters.series_csv import SeriesCsv
from netlab.readers.counters.sonic import SonicDatabase, SonicTables
from netlab.readers.counters.ufm import UfmCsv, UfmMessages

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (
    PrometheusJson(),
    SonicDatabase(),
    NxosJson(),
    UfmMessages(),
    Gnmi(),
    EosJson(),
    NvueJson(),
    SonicTables(),
    NvueTables(),
    NxosTables(),
    IosXrXml(),
    JunosXml(),
    PerfQuery(),
    IbQueryErrors(),
    IbDiagnet(),
    IbSwInfo(),
    SysfsFile(),
    SysfsTexts(),
    RdmaStatistic(),
    EthtoolStatistics(),
    LineProtocol(),
    DcgmFields(),
    Exposition(),
    UfmCsv(),
    SeriesCsv(),
    PlainCsv(),
)
