"""The rule table: kernels of communication libraries by their real names, and names that only sound like them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netlab.align.classify import OPS, RULES, classify_names, operation_of_name
from netlab.errors import ConfigError
from tests.align.support import Trace, align_traces, codes

COMMUNICATION = {
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "all_reduce",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce_scatter",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send_recv",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)": "send_recv",
    "ncclDevKernel_Broadcast_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": "broadcast",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)": "unknown",
    "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)": "unknown",
    "void rcclGenericKernel<2, false>(ncclDevComm*)": "unknown",
    "mscclKernel_Sum_float_LL": "unknown",
    "nccldevkernel_allgather_ring_ll": "all_gather",
    "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE": "all_reduce",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "all_reduce",
    "ncclReduceScatterRingLLKernel_sum_f16(ncclColl)": "reduce_scatter",
    "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs)": "all_reduce",
    "gloo:all_reduce": "all_reduce",
    "oneccl_reduce_base<float, 2, 16, 1, 1, 2>": "reduce",
    "void oneccl_allreduce_large_tile<float>": "all_reduce",
    "hcom_allReduce__123_0": "all_reduce",
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)": "all_to_all",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8>(int4*)": "all_to_all",
    "void dpsk::ep::internode::cached_notify<false>(int, int)": "all_to_all",
    "nvshmemi_transfer_rma_p": "unknown",
    "nvshmemx_alltoall_kernel": "all_to_all",
    "void mscclpp::allreduce7<float>(float*)": "unknown",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(RankData*, RankSignals)": "all_reduce",
    "void sglang::cross_device_reduce_1stage<half, 4>(RankData*)": "all_reduce",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(AllReduceParams)": "all_reduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, half, 8>(P)": "all_reduce",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(char*)": "all_reduce",
    "void one_shot_all_reduce_kernel<float, 16, 8, false>(float**)": "all_reduce",
    "moefinalize_allreduce_fusion_kernel_oneshot_lamport<1, __nv_bfloat16, 8>(P)": "all_reduce",
    "void (anonymous namespace)::wait_signal_kernel(unsigned int**, int, unsigned int)": "unknown",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot>(half*)": "all_reduce",
}
COMPUTE = (
    "void softmax_blockAllReduce_kernel<float>(float*)",
    "triton_poi_fused_all_gather_into_tensor_wait_tensor_3",
    "triton_red_fused_reduce_scatter_tensor_sum_1",
    "triton_per_fused_nccl_all_reduce_0",
    "void reduce_scatter_rows_kernel<float>(float*)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
    "void cub::DeviceReduceKernel<cub::Policy>",
    "dpsk::grouped_gemm::cuda::fp8_dptp128c_acc",
    "void broadcast_kernel<float>(float*)",
    "DmaSyncKernel",
)


@pytest.mark.parametrize(("name", "op"), COMMUNICATION.items())
def test_kernels_of_communication_libraries_communicate(name: str, op: str) -> None:
    assert classify_names([name]).row(0) == (name, True, op)


@pytest.mark.parametrize("name", COMPUTE)
def test_collective_words_alone_prove_nothing(name: str) -> None:
    assert classify_names([name]).row(0) == (name, False, None)


def test_no_rule_is_covered_by_those_before_it() -> None:
    names = [
        *COMMUNICATION,
        *COMPUTE,
        "ncclLegacyPeerKernel",
        "hccl_reduce",
        "moeAlltoAllKernel",
        "userbuffers_fp16_sum",
        "exchangeSplitAndOffset",
    ]
    first = {next((rule.pattern for rule in RULES if re.search(rule.pattern, name, re.IGNORECASE)), None) for name in names}
    assert {rule.pattern for rule in RULES} <= first


def test_own_rules_come_first() -> None:
    frame = classify_names(["my_allreduce_v2", "ncclDevKernel_AllGather"], [("my_allreduce_.*", "all_reduce"), ("AllGather", "broadcast")])
    assert frame["kernel_op"].to_list() == ["all_reduce", "broadcast"]


@pytest.mark.parametrize("rule", [("x", "allreduce"), ("(", "all_reduce")])
def test_wrong_own_rules_are_refused(rule: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="classify"):
        classify_names(["x"], [rule])


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("allreduce_coalesced", "all_reduce"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("_broadcast_oop", "broadcast"),
        ("recvAnySource", "recv"),
        ("barrier", "barrier"),
        ("scatter", "scatter"),
        ("coalesced", "unknown"),
    ],
)
def test_names_of_operations_become_one_name_each(text: str, op: str) -> None:
    assert operation_of_name(text) == op
    assert op in OPS


def test_a_kernel_with_collective_metadata_communicates_whatever_its_name(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 10).collective(1, 2, 1, kernel="triton_mystery_kernel")
    activities = align_traces(tmp_path, trace).frames["activities"]
    assert activities.select("kind", "op").rows() == [("communication", "all_reduce")]


def test_copies_between_devices_are_transfer_and_others_memory(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 10).compute(1, 2)
    for number, name in enumerate(("Memcpy PtoP (Device -> Device)", "Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)")):
        trace.add("gpu_memcpy", name, 3 + number, 3.5 + number, 7, device=0, stream=7, bytes=1000)
    trace.add("gpu_memset", "Memset (Device)", 7, 8, 7, device=0, stream=7)
    result = align_traces(tmp_path, trace)
    rows = result.frames["activities"].filter(result.frames["activities"]["kind"] != "compute")
    assert rows["kind"].to_list() == ["communication", "memory", "memory", "memory"]
    assert rows.select("op", "layer", "split", "bytes").row(0) == ("send", "intra_node", "measured", 1000)
    assert rows["transfer_start_ns"][0] == rows["start_ns"][0]
    assert result.frames["collectives"].is_empty()


def test_a_peer_copy_is_told_by_its_host_call(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 10).compute(1, 2)
    trace.add("cuda_runtime", "hipMemcpyPeerAsync", 2.5, 2.6, correlation=7)
    trace.add("gpu_memcpy", "CopyDeviceToDevice", 3, 4, 7, device=0, stream=7, correlation=7)
    assert align_traces(tmp_path, trace).frames["activities"]["kind"].to_list() == ["compute", "communication"]


def test_a_long_kernel_alone_on_a_side_stream_is_doubted(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 30).compute(1, 2).compute(3, 4).kernel("my_exchange_kernel", 5, 9, stream=31)
    trace.kernel("sm90_gemm_side", 5, 9, stream=32)
    result = align_traces(tmp_path, trace)
    doubted = [issue.message for issue in result.issues if issue.code == "UNCLASSIFIED_KERNEL"]
    assert len(doubted) == 1
    assert "my_exchange_kernel" in doubted[0]
    told = align_traces(tmp_path, trace, classify=(("my_exchange", "all_to_all"),))
    assert "UNCLASSIFIED_KERNEL" not in codes(told)
    assert told.frames["activities"]["kind"].to_list().count("communication") == 1


def test_communication_on_the_stream_of_compute_is_told(tmp_path: Path) -> None:
    trace = Trace(world=1).step(1, 0, 30).compute(1, 2).collective(3, 4, 1, stream=7)
    assert "COMM_ON_COMPUTE_STREAM" in codes(align_traces(tmp_path, trace))
