// Names that the Python hooks give to ranges, counters and metadata, beside the phases and pauses that everybody may
// mark.
#pragma once

#include <string_view>

namespace tracesmith::model {

/// The host waits for the GPU: "stall: Tensor.item at train.py:42", the call and the line of the program.
constexpr std::string_view kStall = "stall: ";
/// The model is evaluated between two steps.
constexpr std::string_view kEvaluation = "evaluation";
/// A table that the program made: of its row of `metadata`, whose value has its columns, and of its cells in
/// `counters`.
constexpr std::string_view kUserTable = "table: ";
/// Tables of the hooks themselves: what a rank had when its memory ran out, what was alive then, and what grows.
constexpr const char* kOutOfMemory = "out_of_memory";
constexpr const char* kMemoryHeld = "memory_held";
constexpr const char* kMemoryGrowth = "memory_growth";
/// A counter: what torch's allocator had given out when a step ended.
constexpr std::string_view kAllocated = "memory allocated";
/// torch.compile: "recompile at train.py:57 forward: the reason", "graph break at train.py:60: the reason".
constexpr std::string_view kRecompile = "recompile at ";
constexpr std::string_view kGraphBreak = "graph break at ";
/// A module runs: "module: blocks.7.attn (Attention)", its name and class.
constexpr std::string_view kModule = "module: ";
constexpr std::string_view kModuleBackward = "module backward: ";
/// Between the modules that a node of a CUDA graph was captured in, the outermost first, each with its class.
constexpr std::string_view kInside = " > ";

/// Counters, at the end of a step.
constexpr std::string_view kFlops = "flops";  ///< of the step
constexpr std::string_view kMfu = "mfu %";
constexpr std::string_view kSamples = "samples/s";
constexpr std::string_view kTokens = "tokens/s";
/// The same of one module, on steps that are counted: "module flops: blocks.7.attn (Attention)".
constexpr std::string_view kModuleFlops = "module flops: ";
/// Memory at the forward pass of one module, in bytes, on steps that are measured: "module memory: blocks.7.attn
/// (Attention)". Series: what was allocated before and after, kept by all its calls, at most; reserved, not in use
/// after.
constexpr std::string_view kModuleMemory = "module memory: ";
constexpr std::string_view kMemoryKept = "kept";
constexpr std::string_view kMemoryPeak = "peak";
/// Metadata: "FLOPs by torch's counter, peak 989 TFLOP/s bf16 by data sheet", or "… as measured by tracesmith bench".
constexpr std::string_view kHowMfu = "mfu";

/// Keys of metadata whose values say why hooks were turned off: they cost too much, or one failed.
constexpr std::string_view kHooksOff = "tracesmith: hooks off";
constexpr std::string_view kHookFailed = "tracesmith: hook failed";
/// The key of metadata that says what the process is for: trainer, rollout, reward, evaluator, data, or any other word.
constexpr const char* kRole = "role";
/// Those of the versions that the process uses.
constexpr const char* kTorchVersion = "torch";
constexpr const char* kCudaVersion = "cuda";
constexpr const char* kNcclVersion = "nccl";
/// That of a text that all ranks of a job share, and no others: where they meet.
constexpr const char* kJob = "tracesmith: job";

}  // namespace tracesmith::model
