# ruff: noqa: E501
"""The grammar of NCCL's messages, one row per kind: (kind, closed, pattern).

Every form and its range of versions is in ../shared/notes/nccl_formats.md sections 1.5 to 1.13. A pattern has to cover the whole message.
``closed`` kinds end in something definite, so foreign text behind them may be cut off.
"""

from __future__ import annotations

__all__ = ["KINDS", "PATH"]

_P = r"(?P<comm>0x[0-9a-f]+)"
_RCCL = r"(?: comm (?P<comm>0x[0-9a-f]+))?(?: nRanks (?P<nranks>\d+))?(?: busId (?P<bus>[0-9a-f]+))?"
_NET = r"(?:NET|COLLNET)/(?P<name>[A-Za-z][\w .-]*?)/(?P<device>\d+)(?:\((?P<proxy>\d+)\))?(?P<gdr>/GDRDMA(?:\(PCI\))?)?(?:/Shared)?"
_P2P = r"P2P/(?:IPC|CUMEM|MNNVL|intraMNNVL|direct pointer|direct|indirect/\d+\[[0-9a-f]+\])(?:/(?:read|CE|write))*"
_SHM = r"SHM(?:/(?:direct|CE)){0,2}|direct shared memory"
#: A transport as it stands behind "via".
PATH = _NET + "|" + _P2P + "|" + _SHM
_INIT = (
    r"(?:\[Rank \d+\] )?(?:(?P<function>nccl\w+) )?comm "
    + _P
    + r" rank (?P<rank>\d+) nranks (?P<nranks>\d+)(?: cudaDev (?P<device>-?\d+))?"
    r"(?: nvmlDev (?P<nvml>-?\d+))?(?: busId (?P<bus>[0-9a-f]+))?(?: parent (?P<parent>\S+))?(?: (?:split|child)Count (?P<split>\d+))?"
    r"(?: color (?P<color>-?\d+) key (?P<key>-?\d+))?(?: commId (?P<id>0x[0-9a-f]+))?(?: localSize .*?)? ?- (?P<what>Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
)

KINDS: tuple[tuple[str, bool, str], ...] = (
    ("operation", True, r"(?P<function>\w+): opCount (?P<seq>[0-9a-f]+) sendbuff \S+ recvbuff \S+ count (?P<count>\d+) datatype (?P<dtype>\d+) op (?P<redop>\d+) root (?P<root>-?\d+) comm (?P<comm>0x[0-9a-f]+) \[nranks=(?P<nranks>\d+)\] stream (?P<stream>0x[0-9a-f]+|\(nil\))(?: task (?P<task>\d+) globalrank (?P<globalrank>\d+))?"),
    ("via", True, r"(?:Channel|Ring) (?P<channel>\d+)(?:/(?P<connection>\d+))? : (?P<src>\d+)(?:\[[0-9a-f]+\])? -> (?P<dst>\d+)(?:\[[0-9a-f]+\])?(?: \[(?P<side>send|receive)\])? via (?P<path>" + PATH + ")" + _RCCL),
    ("collnet_via", True, r"(?:CollNet|Coll) (?P<channel>\d+)(?:/\d+)? : (?P<rank>\d+) \[(?P<side>send|receive)\] via COLLNET/(?P<name>[\w .-]+?)/(?P<device>\d+)(?P<gdr>/GDRDMA(?:\(PCI\))?)?(?:/Shared)?"),
    ("init", True, _INIT),
    ("layout", True, r"comm " + _P + r" rank (?P<rank>\d+) nRanks (?P<nranks>\d+) nNodes (?P<nodes>\d+) localRanks (?P<local_ranks>\d+) localRank (?P<local_rank>\d+) MNNVL (?P<mnnvl>\d+)"),
    ("timings", True, r"Init timings(?: - (?P<function>\w+))?: rank (?P<rank>\d+) nranks (?P<nranks>\d+) total (?P<total>\d+\.\d+) \((?P<rest>[^)]*)\)"),
    ("bootstrap_timings", True, r"Bootstrap timings total (?P<total>\d+\.\d+) \((?P<rest>[^)]*)\)"),
    ("channels", True, r"(?P<coll>\d+) coll channels, (?:(?P<collnet>\d+) collnet channels, )?(?:(?P<nvls>\d+) nvls channels, )?(?P<p2p>\d+) p2p channels, (?P<peer>\d+) p2p channels per peer"),
    ("connected", False, r"Connected (?:all rings|all trees|NVLS tree|binomial trees)(?:, use ring PXN (?P<pxn>\d+) GDR (?P<gdr>\d+))?" + _RCCL),
    ("thresholds", False, r"threadThresholds [\d/]+ \| [\d/]+ \| \d+(?: \| \d+)?"),
    ("ring_order", False, r"Channel (?P<channel>\d+)/(?P<channels>\d+) : (?P<order>[ \d]*\d)(?P<cut> ?\.\.\.)?"),
    ("trees", False, r"Trees (?P<trees>(?:\[\d+\] -?\d+(?:/-?\d+)*->\d+->-?\d+ ?)+)" + _RCCL),
    ("graph_ring", False, r"Ring (?P<channel>\d+) : (?P<prev>-?\d+) -> (?P<me>\d+) -> (?P<next>-?\d+)" + _RCCL),
    ("graph_tree", False, r"Tree (?P<channel>\d+) : (?P<up>-?\d+) -> (?P<me>\d+) -> (?P<down>-?\d+(?:/-?\d+)*)" + _RCCL),
    ("nvls_trees", False, r"NVLS Trees : (?P<trees>.*)"),
    ("nvls_head", False, r"NVLS Head +(?P<head>\d+): ?(?P<ranks>[ \d-]*)"),
    ("nvls_support", False, r"NVLS multicast support is (?P<state>not available|available) on dev (?P<device>\d+)(?: \(NVLS_NCHANNELS (?P<channels>\d+)\))?"),
    ("nvls_comm", False, r"NVLS comm " + _P + r" headRank -?\d+ nHeads (?P<heads>\d+) .*"),
    ("affinity", False, r"Setting affinity for GPU (?P<device>\d+) to [0-9a-f,-]+"),
    ("p2p_chunk", False, r"P2P Chunksize set to (?P<bytes>\d+)"),
    ("mnnvl", False, r"MNNVL (?:busId|\d+ cliqueId|\(cliqueSize).*"),
    ("nics", False, r"NET/IB : Using (?P<list>[\[{ =].*?)(?: \[RO\])? ?(?:; OOB (?P<oob>\S+))?"),
    ("nics_socket", False, r"NET/Socket : Using (?P<list>\[\d+\].*)"),
    ("virtual_nic", False, r"NET/IB : Made virtual device \[(?P<device>\d+)\] name=(?P<name>\S+) speed=(?P<speed>\d+) ndevs=(?P<count>\d+).*"),
    ("no_ib_device", False, r"NET/IB : No device found\.?"),
    ("network", False, r"Using network (?P<name>[\w .-]+?)" + _RCCL),
    ("plugin", False, r"(?:NET/Plugin|COLLNET/Plugin|TUNER/Plugin|PROFILER/Plugin|ENV/Plugin|GIN/Plugin)\b.*|(?:Initialized|Assigned) NET plugin (?P<name>\S+).*|Using non-device net plugin version \d+|Using (?:internal|external) .*plugin.*"),
    ("gdr_hca", False, r"NET/IB ?: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA (?P<device>\d+) '(?P<name>[^']*)'"),
    ("gdr_gpu", False, r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>[0-9a-f]+) / HCA (?P<device>[0-9a-f]+) \(distance (?P<distance>\d+) (?:<=|>|<|>=) (?P<limit>\d+)\)(?:, read (?P<read>\d+)(?: mode \S+)?)?"),
    ("gdr_pair", False, r"GPU Direct RDMA (?P<state>Enabled|Disabled) for .*"),
    ("ib_queue", False, r"NET/IB ?: (?:NCCL Dev|Dev|IbDev|dev) .*(?:mtu|qpn|GID|LID).*"),
    ("socket_threads", False, r"NET/Socket ?: Using \d+ threads and \d+ sockets per thread"),
    ("ofi", False, r"NET/OFI (?P<text>.*)"),
    ("env", False, r"(?P<name>[A-Z][A-Z0-9_]+) set (?:by environment )?to (?P<value>.*)"),
    ("system", False, r"=== System : max(?:Bw|Width) (?P<max>[\d.]+) total(?:Bw|Width) (?P<total>[\d.]+) ===|={5,}"),
    ("topology", False, r"(?P<indent> *)(?:\+ (?P<link>[A-Z0-9]+)\[(?P<speed>[\d.]+)\] - )?(?P<node>(?:CPU|GPU|PCI|NIC|NET|NVS|PAR|DIE|GIN)/[0-9A-Fa-f-]+)(?: ?\((?P<info>[^)]*)\))?"),
    ("paths", False, r"(?P<node>(?:GPU|NET|CPU|NVS|PCI|NIC|GIN)/[0-9A-Fa-f-]+) ?:(?P<paths>(?:(?:GPU|NET|CPU|NVS|PCI|NIC|GIN)/[0-9A-Fa-f-]+ ?\(\d+/[\d.]+/[A-Z0-9]+\) ?)+)"),
    ("pattern", False, r"Pattern (?P<pattern>\d+), crossNic (?P<cross>\d+), nChannels (?P<channels>\d+), (?:bw|speed) (?P<intra>[\d.]+)/(?P<inter>[\d.]+), type (?P<type_intra>\w+)/(?P<type_inter>\w+), sameChannels (?P<same>\d+)"),
    ("pattern_channel", False, r" *\d+ :(?: (?:NET|GPU|CPU|NVS|NIC|GIN)/[0-9A-Fa-f-]+)+ *"),
    ("choice", False, r"(?:(?P<function>[A-Za-z]+)(?: \[(?P<mode>[^\]]+)\])?: )?(?P<bytes>\d+) Bytes -> (?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)(?: time (?P<time>[\d.]+)| channel\{Lo\.\.Hi\}=\{\d+\.\.\d+\})?|Kernel (?P<kernel>\S+) nchannels (?P<channels>\d+) nthreads \d+(?: nWorks \d+)?|(?P<copy>\w+))"),
    ("table_algorithms", False, r" *Algorithm +\|(?P<cells>.*)"),
    ("table_protocols", False, r" *Protocol +\|(?P<cells>.*)"),
    ("table_threads", False, r" *Max NThreads +\|.*"),
    ("table_row", False, r" *(?P<function>[A-Z][A-Za-z]+) +\|?(?P<cells>(?: *-?[\d.]+/ *-?[\d.]+ *\|?)+) *"),
    ("matrix", False, r"Enabled NCCL Func/Proto/Algo Matrix:.*"),
    ("no_collnet", False, r"Communicator has \d+ nodes which is less than CollNet node threshold \d+, disabling CollNet"),
    ("p2p_disabled_nvlink", False, r"P2P is disabled between NVLINK connected GPUs (?P<a>\d+) and (?P<b>\d+)\b.*"),
    ("p2p_disabled", False, r"P2P is disabled between connected GPUs (?P<a>\d+) and (?P<b>\d+)\b.*"),
    ("rail_mismatch", False, r"NET/IB ?: There are mismatched physical devices between local \((?P<local>[^)]*)\) and remote \((?P<remote>[^)]*)\).*"),
    ("ib_completion", False, r"NET/IB ?: Got completion (?:from peer (?P<peer>\S+) )?with (?:error (?P<error>\d+)|status=(?:(?P<name>[A-Z_0-9]+)\((?P<named>\d+)\)|(?P<status>\d+)))(?!\d)(?P<rest>.*)"),
    ("ib_async", False, r"NET/IB ?: (?:(?P<where>[\w.-]+:\d+) )?(?:Got async (?:error )?event ?: (?P<event>.*)|async fatal event(?: on (?P<object>\w+ \(\S+\)))?[^:]*: (?P<fatal>.*))"),
    ("ib_device_failed", False, r"NET/IB ?: Device (?P<device>\d+) marked as failed\..*"),
    ("modify_qp", False, r"(?:NET/IB ?: )?Call to ibv_modify_qp failed with (?:error )?(?P<error>.*?)(?:, on dev (?P<where>[\w.:-]+))?(?:,.*)?"),
    ("verbs_call", False, r"(?:NET/IB ?: )?Call to (?P<call>ibv_\w+) failed\b.*"),
    ("socket_closed", False, r".*Connection closed by remote peer (?P<peer>\S+)"),
    ("connect_failed", False, r"(?:socketStartConnect: |Net : |misc/socket: )?[Cc]onnect to (?P<peer>\S+) (?:failed|returned)\b.*"),
    ("cuda_failure", False, r"Cuda failure (?:(?P<number>\d+) )?'(?P<text>[^']*)'.*"),
    ("duplicate_gpu", False, r"Duplicate GPU detected : rank (?P<a>\d+) and rank (?P<b>\d+) both on CUDA device (?P<bus>\S+)"),
    ("version_mismatch", False, r"Mismatched NCCL version detected : rank (?P<a>\d+) version (?P<va>\d+) rank (?P<b>\d+) version (?P<vb>\d+).*"),
    ("truncated_message", False, r"NET/Socket : (?:peer \S+ )?message truncated : receiving (?P<got>\d+) bytes instead of (?P<want>\d+).*"),
    ("host_hint", False, r".*(?:iommu=pt|NUMA balancing|numa_balancing|GDR Flush only supported).*"),
    ("version", False, r"(?P<library>NCCL|RCCL|nccl|rccl) version ?:? ?(?P<version>\d+\.\d+\.\d+\S*)(?:\+cuda(?P<cuda>[\d.]+))?.*"),
    ("driver", False, r"cudaDriverVersion (?P<version>\d+)|cudaRuntimeVersion (?P<runtime>\d+)|(?:HIP|ROCm|hip|rocm) ?version ?:? ?.*"),
    ("bootstrap", False, r"(?:Bootstrap|NCCL bootstrap|bootstrap)\s?: ?Using (?P<interface>[^:\s]+):?.*"),
    ("launch_mode", False, r"Launch mode .*"),
    ("error_trail", False, r"(?P<where>[\w./-]+\.(?:cc|h|cu|cpp)):\d+ -> (?P<result>\d+)(?: \[[^\]]*\])?(?: \(.*\))?"),
    ("init_call", True, r"(?P<function>nccl[A-Z]\w*) ?\(.*\)"),
    ("memory", False, r"(?:Allocated|Mem |MemManager|Alloc|cuMem|CuMem|register|Registered|comm 0x[0-9a-f]+ (?:register|deregister)).*"),
    ("quiet", False, r"(?:Check P2P Type .*|RAS .*|ras: .*|New proxy|proxy\w* .*|Proxy .*|Latency/AlgBw.*|TUNER/.*|Plugin .*|Using .*|Comm config .*|comm 0x[0-9a-f]+ (?:Destroy|Abort|commHash).*|group\.cc.*|Trying to bootstrap.*|Could not .*|Failed to .*|dlerror=.*|DMA-BUF is .*|No NUMA .*|Attribute .*|Topology .*|GPU/.*|symmetric .*|\[Proxy \w+\] .*|\[Service thread\] .*|NCCL_[A-Z0-9_]+ .*|NVLS .* buffer.*|Flush .*|Intel CPU.*|AMD CPU.*|MSCCL.*|Stack size .*)"),
)  # fmt: skip
