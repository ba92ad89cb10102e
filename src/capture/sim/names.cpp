#include "capture/sim/names.hpp"

#include <cmath>

namespace tracesmith::sim {
namespace {

const char* const kFunctors[] = {"add",         "mul",  "div",  "sub",   "neg",   "exp",    "rsqrt",
                                 "sigmoid",     "tanh", "gelu", "silu",  "where", "fill",   "compare",
                                 "masked_fill", "pow",  "sqrt", "clamp", "copy",  "dropout"};
const char* const kTypes[] = {"float", "c10::BFloat16", "c10::Half", "long", "int", "bool"};
const char* const kReductions[] = {"sum_functor", "MeanOps", "NormTwoOps", "MaxOps", "WelfordOps"};

std::string number(uint64_t n) { return std::to_string(n); }

std::string kernelName(size_t i, Random& random) {
  const uint64_t r = random.next();
  const std::string type = kTypes[r % 6], functor = kFunctors[(r >> 8) % 20];
  switch (i % 5) {
    case 0:
      return "void at::native::vectorized_elementwise_kernel<" + number(1u << (r >> 16) % 4) +
             ", at::native::" + functor + "_functor_" + number(i) + "<" + type + ">, std::array<char*, " +
             number(2 + (r >> 20) % 2) + "ul> >(int, at::native::" + functor + "_functor_" + number(i) + "<" + type +
             ">)";
    case 1:
      return "sm90_xmma_gemm_bf16bf16_bf16f32_f32_" + std::string((r >> 16) % 2 ? "tn" : "nt") + "_n_tilesize" +
             number(64u << (r >> 18) % 3) + "x" + number(64u << (r >> 20) % 3) + "x64_warpgroupsize" +
             number(1 + (r >> 22) % 2) + "x1x1_execute_segment_k_off_kernel__" + number(i) + "_cublas";
    case 2:
      return "void at::native::reduce_kernel<512, " + number(1 + (r >> 16) % 4) + ", at::native::ReduceOp<" + type +
             ", at::native::" + kReductions[(r >> 20) % 5] + "<" + type + ", " + type + ">, unsigned int, " + type +
             ", " + number(i) + "> >(at::native::ReduceOp<" + type + ">)";
    case 3:
      return "triton_poi_fused_" + functor + "_" + kFunctors[(r >> 24) % 20] + "_" + kFunctors[(r >> 32) % 20] + "_" +
             number(i);
    default:
      return "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttn" +
             std::string((r >> 16) % 2 ? "Fwd" : "Bwd") + "Sm90<cute::tuple<cute::C<" + number(64u << (r >> 18) % 2) +
             ">, cute::C<128>, cute::C<" + number(i) + "> >, cutlass::bfloat16_t> > >(Params)";
  }
}

}  // namespace

std::vector<KernelModel> kernelModels(Random& random) {
  std::vector<KernelModel> kernels;
  for (size_t i = 0; i < 3000; ++i) {
    KernelModel k;
    k.name = kernelName(i, random);
    k.base_ns = static_cast<int64_t>(1500 * std::exp(random.uniform() * 5));
    const uint64_t r = random.next();
    k.shape.grid_x = static_cast<int32_t>(1 + r % 4096);
    k.shape.grid_y = r >> 12 & 3 ? 1 : static_cast<int32_t>(1 + (r >> 14) % 64);
    k.shape.grid_z = 1;
    k.shape.block_x = 64 << (r >> 20 & 3);
    k.shape.block_y = k.shape.block_z = 1;
    k.shape.registers = static_cast<int32_t>(16 + 8 * ((r >> 24) % 28));
    k.shape.shared_static = static_cast<int32_t>(1024 * ((r >> 32) % 48));
    k.shape.shared_dynamic = r >> 40 & 1 ? 0 : static_cast<int32_t>(1024 * ((r >> 41) % 160));
    kernels.push_back(k);
  }
  return kernels;
}

std::vector<std::string> cpuOpNames() {
  static const char* const kOps[] = {"linear",
                                     "mm",
                                     "addmm",
                                     "matmul",
                                     "bmm",
                                     "add",
                                     "mul",
                                     "sub",
                                     "div",
                                     "gelu",
                                     "silu",
                                     "softmax",
                                     "copy_",
                                     "to",
                                     "view",
                                     "t",
                                     "transpose",
                                     "cat",
                                     "empty",
                                     "zero_",
                                     "dropout",
                                     "embedding",
                                     "sum",
                                     "mean",
                                     "pow",
                                     "rsqrt",
                                     "masked_fill_",
                                     "where",
                                     "layer_norm",
                                     "rms_norm",
                                     "split",
                                     "index",
                                     "slice",
                                     "select",
                                     "reshape",
                                     "clone",
                                     "fill_",
                                     "sqrt",
                                     "scaled_dot_product_attention",
                                     "cross_entropy_loss"};
  std::vector<std::string> names;
  for (const char* op : kOps) {
    names.push_back("aten::" + std::string(op));
    std::string backward(op);
    backward[0] = static_cast<char>(backward[0] - 'a' + 'A');
    names.push_back("autograd::engine::evaluate_function: " + backward + "Backward0");
    names.push_back(backward + "Backward0");
  }
  return names;
}

std::vector<std::string> collectiveKernelNames() {
  return {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
          "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
          "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
}

}  // namespace tracesmith::sim
