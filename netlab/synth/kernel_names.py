"""Device function names as current PyTorch, cuBLAS, FlashAttention and NCCL builds print them in a trace."""
# ruff: noqa: E501 - names are as long as the profiler prints them

from __future__ import annotations

__all__ = [
    "ADAM",
    "FLASH",
    "FLASH_BACKWARD",
    "GELU",
    "GELU_BACKWARD",
    "GEMM",
    "GEMM_DATA",
    "GEMM_WEIGHT",
    "LAYER_NORM",
    "LAYER_NORM_BACKWARD",
    "NORM",
    "SOFTMAX",
    "SOFTMAX_BACKWARD",
    "all_reduce",
]

LAYER_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
LAYER_NORM_BACKWARD = "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)"
FLASH_BACKWARD = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_bwd_params)"
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}>(int, at::detail::Array<char*, 2>)"
GELU_BACKWARD = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}>(int, at::detail::Array<char*, 3>)"
GEMM = "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT"
GEMM_DATA = "nvjet_tst_256x128_64x4_1x2_h_bz_coopB_NNT"
GEMM_WEIGHT = "nvjet_tst_128x256_64x4_1x2_h_bz_coopB_NTT"
SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, float, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, c10::BFloat16 const*, int)"
SOFTMAX_BACKWARD = "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, float, float, c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(c10::BFloat16*, float const*, float const*, long)"
NORM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*, int>(at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*, int)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float const*, float const*>(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)"

_TYPES = {"Float": "f32", "BFloat16": "bf16"}
_OLD_TYPES = {"Float": "float", "BFloat16": "__nv_bfloat16"}


def all_reduce(dtype: str, nccl_version: str) -> str:
    """Kernel of an all-reduce: NCCL renamed its kernels with 2.19.

    >>> all_reduce("Float", "2.17.1")
    'ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)'
    """
    if tuple(int(part) for part in nccl_version.split(".")[:2]) < (2, 19):
        return f"ncclKernel_AllReduce_RING_LL_Sum_{_OLD_TYPES[dtype]}(ncclDevComm*, unsigned long, ncclWork*)"
    return f"ncclDevKernel_AllReduce_Sum_{_TYPES[dtype]}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
