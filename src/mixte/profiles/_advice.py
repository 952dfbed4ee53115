"""What to say about each reason for which matrix work misses the Tensor Cores, or reaches them slowly.

Every text keeps to what the profile shows. Sources are given in docs/how-it-works/verify.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Texts for one code of finding.

    Attributes:
        what: What the profile shows, continuing "12.3 % of the time ...". May use ``{gpu}`` and ``{detail}``.
        advice: What to do about it.
    """

    what: str
    advice: str


_MIXED = "Train in mixed precision: `mixte run --policy mixed_float16 SCRIPT`, or autocast around these layers."
_TF32 = (
    "Use a 16-bit policy, or allow TF32: torch.set_float32_matmul_precision('high'), "
    "jax.config.update('jax_default_matmul_precision', 'tensorfloat32'), "
    "tf.config.experimental.enable_tensor_float_32_execution(True)."
)

ADVICE: dict[str, Advice] = {
    "no-tensor-cores": Advice(
        what="is matrix work on a GPU that has no Tensor Cores ({gpu})",
        advice="Half precision saves memory there, but no kernel can use Tensor Cores: choose another GPU.",
    ),
    "float32-without-tf32": Advice(
        what="is float32 matrix work on CUDA cores, although {gpu} multiplies TF32 and bfloat16 on Tensor Cores"
        "{detail}",
        advice=_TF32,
    ),
    "float32-before-ampere": Advice(
        what="is float32 matrix work; {gpu} has no TF32, its Tensor Cores need float16",
        advice=_MIXED,
    ),
    "float32": Advice(
        what="is float32 matrix work on CUDA cores (the file does not tell the GPU){detail}",
        advice=f"Volta and Turing need float16; Ampere and later also take TF32 and bfloat16. {_MIXED}",
    ),
    "float64": Advice(
        what="is float64 matrix work on CUDA cores",
        advice="Only GPUs of the A100 and H100 class have float64 Tensor Cores. Cast to float32 or 16 bit "
        "where the result allows it.",
    ),
    "bfloat16-before-ampere": Advice(
        what="is bfloat16 matrix work, which {gpu} cannot do on Tensor Cores (from compute capability 8.0 on)",
        advice="Use float16 with loss scaling on this GPU: `mixte run --policy mixed_float16 SCRIPT`.",
    ),
    "half-on-cuda-cores": Advice(
        what="is 16-bit data multiplied on CUDA cores by a kernel that computes in float32{detail}",
        advice="Typical of grouped or depthwise convolutions, of NCHW layout, of an old cuDNN, or of algorithm "
        "search switched off: use channels last, and torch.backends.cudnn.benchmark = True.",
    ),
    "memory-bound": Advice(
        what="is a product with one dimension of 1 or a few (matrix-vector, dot): bound by memory",
        advice="Tensor Cores would not make it faster. A larger batch turns it into a matrix product.",
    ),
    "algorithm": Advice(
        what="is convolution by Winograd or FFT, algorithms without Tensor Cores",
        advice="In 16-bit and channels last, cuDNN chooses Tensor Core algorithms; let it search "
        "(torch.backends.cudnn.benchmark = True).",
    ),
    "vector-alu": Advice(
        what="is matrix work on the vector ALU of an AMD GPU instead of its matrix cores",
        advice="Usually a shape or type for which the library has no MFMA kernel: let it search "
        "(hipBLASLt tuning, MIOpen find mode), or pad small dimensions.",
    ),
    "cuda-cores": Advice(
        what="is matrix work on CUDA cores, for a reason that the file does not show",
        advice="Record operator shapes and types (record_shapes=True in torch.profiler) to see why.",
    ),
    "unaligned": Advice(
        what="does run on Tensor Cores, but on the slow path for unaligned data (align1, align2){detail}",
        advice="Make inner dimensions and strides multiples of 8 elements in 16 bit (4 in TF32, 16 in int8).",
    ),
    "int8-old-path": Advice(
        what="is int8 on an Ampere-style kernel of a Blackwell GPU: Tensor Cores, but several times slower "
        "than they could be (pytorch/pytorch#187094)",
        advice="Use float8, which has kernels for this GPU.",
    ),
    "layout": Advice(
        what="only changes tensors between NCHW and NHWC",
        advice="Keep the model in channels last (x.to(memory_format=torch.channels_last); Keras "
        "data_format='channels_last').",
    ),
    "undecided": Advice(
        what="may be matrix work, and its names do not tell on what it ran{detail}",
        advice="Only hardware counters settle it: ncu --metrics regex:pipe_tensor_op --page raw --csv COMMAND; "
        "on AMD rocprofv3 --pmc SQ_INSTS_VALU_MFMA_F16 SQ_INSTS_VALU_MFMA_BF16 -- COMMAND.",
    ),
    "unrecognised": Advice(
        what="is in kernels whose names no rule recognises",
        advice="`mixte verify --kernels FILE` lists them; hardware counters settle it.",
    ),
    "cut-names": Advice(
        what="cannot be decided because the profiler cut the names short",
        advice="Export whole names: nsys to sqlite or CSV, torch.profiler with export_chrome_trace or "
        "table(max_name_column_width=200).",
    ),
    "no-matrix-work": Advice(
        what="is elementwise, reduction, layout or communication: there is no matrix work in this profile",
        advice="Nothing here could use Tensor Cores. Profile a step that trains.",
    ),
    "contradiction": Advice(
        what="contradicts itself: {detail}",
        advice="Check that the profile comes from the GPU that it names.",
    ),
}
