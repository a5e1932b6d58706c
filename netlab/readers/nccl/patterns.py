# ruff: noqa: E501
"""The grammar of NCCL's messages, one row per kind: (kind, closed, pattern).

From NCCL's sources of 2.4 to 2.30 (INFO, WARN and TRACE calls). A pattern has to cover the whole message.
``closed`` kinds end in something definite, so foreign text behind them may be cut off.
"""

from __future__ import annotations

__all__ = ["KINDS", "PATH"]

_P = r"(?P<comm>0x[0-9a-f]{1,16})"
_RCCL = r"(?: comm (?P<comm>0x[0-9a-f]{1,16}))?(?: nRanks (?P<nranks>\d{1,7}))?(?: busId (?P<bus>[0-9a-f]+))?"
_NET = (
    r"(?:NET|COLLNET)/(?P<name>[A-Za-z][\w .-]*?)/(?P<device>\d{1,9})(?:\((?P<proxy>\d{1,9})\))?(?P<gdr>/GDRDMA(?:\(PCI\))?)?(?:/Shared)?"
)
_P2P = r"P2P/(?:IPC|CUMEM|MNNVL|intraMNNVL|direct pointer|direct|indirect/\d{1,15}\[[0-9a-f]+\])(?:/(?:read|CE|write))*"
_SHM = r"SHM(?:/(?:direct|CE)){0,2}|direct shared memory"
#: A transport as it stands behind "via".
PATH = _NET + "|" + _P2P + "|" + _SHM
_INIT = (
    r"(?:\[Rank \d{1,15}\] )?(?:(?P<function>nccl\w+) )?comm "
    + _P
    + r" rank (?P<rank>\d{1,7}) nranks (?P<nranks>\d{1,7})(?: cudaDev (?P<device>-?\d{1,9}))?"
    r"(?: nvmlDev (?P<nvml>-?\d{1,9}))?(?: busId (?P<bus>[0-9a-f]+))?(?: parent (?P<parent>\S+))?(?: (?:split|child)Count (?P<split>\d{1,15}))?"
    r"(?: color (?P<color>-?\d{1,15}) key (?P<key>-?\d{1,15}))?(?: commId (?P<id>0x[0-9a-f]{1,16}))?(?: localSize .*?)? ?- (?P<what>Init START|Init COMPLETE|Destroy COMPLETE|Abort COMPLETE)"
)

KINDS: tuple[tuple[str, bool, str], ...] = (
    ("operation", True, r"(?P<function>\w+): opCount (?P<seq>[0-9a-f]{1,15}) sendbuff \S+ recvbuff \S+ count (?P<count>\d{1,15}) datatype (?P<dtype>\d{1,4}) op (?P<redop>\d{1,9}) root (?P<root>-?\d{1,9}) comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<nranks>\d{1,7})\] stream (?P<stream>0x[0-9a-f]{1,15}|\(nil\))(?: task (?P<task>\d{1,15}) globalrank (?P<globalrank>\d{1,7}))?"),
    ("via", True, r"(?:Channel|Ring) (?P<channel>\d{1,7})(?:/(?P<connection>\d{1,3}))? : (?P<src>\d{1,7})(?:\[[0-9a-f]+\])? -> (?P<dst>\d{1,7})(?:\[[0-9a-f]+\])?(?: \[(?P<side>send|receive)\])? via (?P<path>" + PATH + ")" + _RCCL),
    ("collnet_via", True, r"(?:CollNet|Coll) (?P<channel>\d{1,7})(?:/\d{1,15})? : (?P<rank>\d{1,7}) \[(?P<side>send|receive)\] via COLLNET/(?P<name>[\w .-]+?)/(?P<device>\d{1,9})(?P<gdr>/GDRDMA(?:\(PCI\))?)?(?:/Shared)?"),
    ("init", True, _INIT),
    ("layout", True, r"comm " + _P + r" rank (?P<rank>\d{1,7}) nRanks (?P<nranks>\d{1,7}) nNodes (?P<nodes>\d{1,7}) localRanks (?P<local_ranks>\d{1,7}) localRank (?P<local_rank>\d{1,7}) MNNVL (?P<mnnvl>\d{1,15})"),
    ("timings", True, r"Init timings(?: - (?P<function>\w+))?: rank (?P<rank>\d{1,7}) nranks (?P<nranks>\d{1,7}) total (?P<total>\d{1,15}\.\d{1,15}) \((?P<rest>[^)]*)\)"),
    ("bootstrap_timings", True, r"Bootstrap timings total (?P<total>\d{1,15}\.\d{1,15}) \((?P<rest>[^)]*)\)"),
    ("channels", True, r"(?P<coll>\d{1,15}) coll channels, (?:(?P<collnet>\d{1,15}) collnet channels, )?(?:(?P<nvls>\d{1,15}) nvls channels, )?(?P<p2p>\d{1,15}) p2p channels, (?P<peer>\d{1,15}) p2p channels per peer"),
    ("connected", False, r"Connected (?:all rings|all trees|NVLS tree|binomial trees)(?:, use ring PXN (?P<pxn>\d{1,15}) GDR (?P<gdr>\d{1,15}))?" + _RCCL),
    ("thresholds", False, r"threadThresholds [\d/]+ \| [\d/]+ \| \d{1,15}(?: \| \d{1,15})?"),
    ("ring_order", False, r"Channel (?P<channel>\d{1,7})(?:/(?P<channels>\d{1,15}) :(?= )| :(?= +\d+ +\d)) (?P<order>[ \d]*\d)(?P<cut> ?\.\.\.)?"),
    ("trees", False, r"Trees (?P<trees>(?:\[\d{1,15}\] -?\d{1,15}(?:/-?\d{1,15})*->\d{1,15}->-?\d{1,15} ?)+)" + _RCCL),
    ("graph_ring", False, r"Ring (?P<channel>\d{1,7}) : (?P<prev>-?\d{1,7}) -> (?P<me>\d{1,7}) -> (?P<next>-?\d{1,7})" + _RCCL),
    ("graph_tree", False, r"Tree (?P<channel>\d{1,7}) : (?P<up>-?\d{1,15}) -> (?P<me>\d{1,7}) -> (?P<down>-?\d{1,15}(?:/-?\d{1,15})*)" + _RCCL),
    ("nvls_trees", False, r"NVLS Trees : (?P<trees>.*)"),
    ("nvls_head", False, r"NVLS Head +(?P<head>\d{1,15}): ?(?P<ranks>[ \d-]*)"),
    ("nvls_support", False, r"NVLS multicast support is (?P<state>not available|available) on dev (?P<device>\d{1,9})(?: \(NVLS_NCHANNELS (?P<channels>\d{1,15})\))?"),
    ("nvls_comm", False, r"NVLS comm " + _P + r" headRank -?\d{1,15} nHeads (?P<heads>\d{1,15}) .*"),
    ("affinity", False, r"Setting affinity for GPU (?P<device>\d{1,9}) to [0-9a-f,-]+"),
    ("p2p_chunk", False, r"P2P Chunksize set to (?P<bytes>\d{1,15})"),
    ("mnnvl", False, r"MNNVL (?:busId|\d{1,15} cliqueId|\(cliqueSize).*"),
    ("nics", False, r"NET/IB : Using (?P<list>[\[{ =].*?)(?: \[RO\])? ?(?:; OOB (?P<oob>\S+))?"),
    ("nics_socket", False, r"NET/Socket : Using (?P<list>\[\d{1,15}\].*)"),
    ("virtual_nic", False, r"NET/IB : Made virtual device \[(?P<device>\d{1,9})\] name=(?P<name>\S+) speed=(?P<speed>\d{1,15}) ndevs=(?P<count>\d{1,15}).*"),
    ("no_ib_device", False, r"NET/IB : No device found\.?"),
    ("network", False, r"Using network (?P<name>[\w .-]+?)" + _RCCL),
    ("plugin", False, r"(?:NET/Plugin|COLLNET/Plugin|TUNER/Plugin|PROFILER/Plugin|ENV/Plugin|GIN/Plugin)\b.*|(?:Initialized|Assigned) NET plugin (?P<name>\S+).*|Using non-device net plugin version \d{1,15}|Using (?:internal|external) .*plugin.*"),
    ("gdr_hca", False, r"NET/IB ?: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA (?P<device>\d{1,9}) '(?P<name>[^']*)'"),
    ("gdr_gpu", False, r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>[0-9a-f]+) / HCA (?P<device>[0-9a-f]+) \(distance (?P<distance>\d{1,15}) (?:<=|>|<|>=) (?P<limit>\d{1,15})\)(?:, read (?P<read>\d{1,15})(?: mode \S+)?)?"),
    ("gdr_pair", False, r"GPU Direct RDMA (?P<state>Enabled|Disabled) for .*"),
    ("ib_queue", False, r"NET/IB ?: (?:NCCL Dev|Dev|IbDev|dev) (?:.*?\bmtu (?P<mtu>\d{1,2})\b.*|.*(?:qpn|GID|LID).*)"),
    ("socket_threads", False, r"NET/Socket ?: Using \d{1,15} threads and \d{1,15} sockets per thread"),
    ("ofi", False, r"NET/OFI (?P<text>.*)"),
    ("env", False, r"(?P<name>[A-Z][A-Z0-9_]+) set (?:by environment )?to (?P<value>.*)"),
    ("system", False, r"=== System : max(?:Bw|Width) (?P<max>\d{1,15}(?:\.\d{1,15})?) total(?:Bw|Width) (?P<total>\d{1,15}(?:\.\d{1,15})?) ===|={5,}"),
    ("topology", False, r"(?P<indent> *)(?:\+ (?P<link>[A-Z0-9]+)\[(?P<speed>\d{1,15}(?:\.\d{1,15})?)\] - )?(?P<node>(?:CPU|GPU|PCI|NIC|NET|NVS|PAR|DIE|GIN)/[0-9A-Fa-f-]+)(?: ?\((?P<info>[^)]*)\))?"),
    ("paths", False, r"(?P<node>(?:GPU|NET|CPU|NVS|PCI|NIC|GIN)/[0-9A-Fa-f-]+) ?:(?P<paths>(?:(?:GPU|NET|CPU|NVS|PCI|NIC|GIN)/[0-9A-Fa-f-]+ ?\(\d{1,15}/\d{1,15}(?:\.\d{1,15})?/[A-Z0-9]+\) ?)+)"),
    ("pattern", False, r"Pattern (?P<pattern>\d{1,15}), crossNic (?P<cross>\d{1,15}), nChannels (?P<channels>\d{1,15}), (?:bw|speed) (?P<intra>\d{1,15}(?:\.\d{1,15})?)/(?P<inter>\d{1,15}(?:\.\d{1,15})?), type (?P<type_intra>\w+)/(?P<type_inter>\w+), sameChannels (?P<same>\d{1,15})"),
    ("pattern_channel", False, r" *\d{1,15} :(?: (?:NET|GPU|CPU|NVS|NIC|GIN)/[0-9A-Fa-f-]+)+ *"),
    ("choice", False, r"(?:(?P<function>[A-Za-z]+)(?: \[(?P<mode>[^\]]+)\])?: )?(?P<bytes>\d{1,15}) Bytes -> (?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)(?: time (?P<time>\d{1,15}(?:\.\d{1,15})?)| channel\{Lo\.\.Hi\}=\{\d{1,15}\.\.\d{1,15}\})?|Kernel (?P<kernel>\S+) nchannels (?P<channels>\d{1,15}) nthreads \d{1,15}(?: nWorks \d{1,15})?|(?P<copy>\w+))"),
    ("table_algorithms", False, r" *Algorithm +\|(?P<cells>.*)"),
    ("table_protocols", False, r" *Protocol +\|(?P<cells>.*)"),
    ("table_threads", False, r" *Max NThreads +\|.*"),
    ("table_row", False, r" *(?P<function>[A-Z][A-Za-z]+) +\|?(?P<cells>(?: *-?\d{1,15}(?:\.\d{1,15})?/ *-?\d{1,15}(?:\.\d{1,15})? *\|?)+) *"),
    ("matrix", False, r"Enabled NCCL Func/Proto/Algo Matrix:.*"),
    ("no_collnet", False, r"Communicator has \d{1,15} nodes which is less than CollNet node threshold \d{1,15}, disabling CollNet"),
    ("p2p_disabled_nvlink", False, r"P2P is disabled between NVLINK connected GPUs (?P<a>\d{1,7}) and (?P<b>\d{1,7})\b.*"),
    ("p2p_disabled", False, r"P2P is disabled between connected GPUs (?P<a>\d{1,7}) and (?P<b>\d{1,7})\b.*"),
    ("rail_mismatch", False, r"NET/IB ?: There are mismatched physical devices between local \((?P<local>[^)]*)\) and remote \((?P<remote>[^)]*)\).*"),
    ("ib_completion", False, r"NET/IB ?: Got completion (?:from peer (?P<peer>\S+) )?with (?:error (?P<error>\d{1,15})|status=(?:(?P<name>[A-Z_0-9]+)\((?P<named>\d{1,15})\)|(?P<status>\d{1,15})))(?!\d)(?P<rest>.*)"),
    ("ib_async", False, r"NET/IB ?: (?:(?P<where>[\w.-]+:\d{1,15}) )?(?:Got async (?:error )?event ?: (?P<event>.*)|async fatal event(?: on (?P<object>\w+ \(\S+\)))?[^:]*: (?P<fatal>.*))"),
    ("ib_device_failed", False, r"NET/IB ?: Device (?P<device>\d{1,9}) marked as failed\..*"),
    ("modify_qp", False, r"(?:NET/IB ?: )?Call to ibv_modify_qp failed with (?:error )?(?P<error>.*?)(?:, on dev (?P<where>[\w.:-]+))?(?:,.*)?"),
    ("verbs_call", False, r"(?:NET/IB ?: )?Call to (?P<call>ibv_\w+) failed\b.*"),
    ("socket_closed", False, r".*Connection closed by remote peer (?P<peer>\S+)"),
    ("connect_failed", False, r"(?:socketStartConnect: |Net : |misc/socket: )?[Cc]onnect to (?P<peer>\S+) (?:failed|returned)\b.*"),
    ("cuda_failure", False, r"Cuda failure (?:(?P<number>\d{1,15}) )?'(?P<text>[^']*)'.*"),
    ("duplicate_gpu", False, r"Duplicate GPU detected : rank (?P<a>\d{1,7}) and rank (?P<b>\d{1,7}) both on CUDA device (?P<bus>\S+)"),
    ("version_mismatch", False, r"Mismatched NCCL version detected : rank (?P<a>\d{1,7}) version (?P<va>\d{1,15}) rank (?P<b>\d{1,7}) version (?P<vb>\d{1,15}).*"),
    ("truncated_message", False, r"NET/Socket : (?:peer \S+ )?message truncated : receiving (?P<got>\d{1,15}) bytes instead of (?P<want>\d{1,15}).*"),
    ("host_hint", False, r".*(?:iommu=pt|NUMA balancing|numa_balancing|GDR Flush only supported).*"),
    ("version", False, r"(?P<library>NCCL|RCCL|nccl|rccl) version ?:? ?(?P<version>\d{1,15}\.\d{1,15}\.\d{1,15}\S*)(?:\+cuda(?P<cuda>\d{1,15}(?:\.\d{1,15})?))?.*"),
    ("driver", False, r"cudaDriverVersion (?P<version>\d{1,15})|cudaRuntimeVersion (?P<runtime>\d{1,15})|(?:HIP|ROCm|hip|rocm) ?version ?:? ?.*"),
    ("bootstrap", False, r"(?:Bootstrap|NCCL bootstrap|bootstrap)\s?: ?Using (?P<interface>[^:\s]+):?.*"),
    ("launch_mode", False, r"Launch mode .*"),
    ("error_trail", False, r"(?P<where>[\w./-]+\.(?:cc|h|cu|cpp)):\d{1,15} -> (?P<result>\d{1,15})(?: \[[^\]]*\])?(?: \(.*\))?"),
    ("init_call", True, r"(?P<function>nccl[A-Z]\w*) ?\(.*\)"),
    ("memory", False, r"(?:Allocated|Mem |MemManager|Alloc|cuMem|CuMem|register|Registered|comm 0x[0-9a-f]{1,16} (?:register|deregister)).*"),
    ("quiet", False, r"(?:Check P2P Type .*|CC (?:Off|On),? .*|RAS .*|ras: .*|New proxy|proxy\w* .*|Proxy .*|Latency/AlgBw.*|TUNER/.*|Plugin .*|Using .*|Comm config .*|comm 0x[0-9a-f]{1,16} (?:Destroy|Abort|commHash).*|group\.cc.*|Trying to bootstrap.*|Could not .*|Failed to .*|dlerror=.*|DMA-BUF is .*|No NUMA .*|Attribute .*|Topology .*|GPU/.*|symmetric .*|\[Proxy \w+\] .*|\[Service thread\] .*|NCCL_[A-Z0-9_]+ .*|NVLS .* buffer.*|Flush .*|Intel CPU.*|AMD CPU.*|MSCCL.*|Stack size .*)"),
)  # fmt: skip
