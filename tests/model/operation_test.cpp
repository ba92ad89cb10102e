// What an operation is: its names, who waits in it, its bandwidth; which kernels are communication.
#include "model/operation.hpp"

#include <gtest/gtest.h>

#include "model/communication.hpp"

namespace tracesmith::model {
namespace {

TEST(Operation, HasOneNameHoweverASourceSpellsIt) {
  const std::pair<const char*, const char*> names[] = {{"allreduce", "all_reduce"},
                                                       {"_allgather_base", "all_gather"},
                                                       {"_reduce_scatter_base", "reduce_scatter"},
                                                       {"ReduceScatter", "reduce_scatter"},
                                                       {"all_to_allv", "all_to_all"},
                                                       {"alltoall_base", "all_to_all"},
                                                       {"AlltoAll", "all_to_all"},
                                                       {"broadcast", "broadcast"},
                                                       {"Reduce", "reduce"},
                                                       {"send", "send"},
                                                       {"recv", "recv"},
                                                       {"SendRecv", "send_recv"},
                                                       {"barrier", "barrier"},
                                                       {"nccl:all_reduce", "all_reduce"},
                                                       {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                                                       {"gather", "gather"},
                                                       {"scatter", "scatter"},
                                                       {"PutSignal", "put_signal"},
                                                       {"_foo_bar", "foo_bar"},
                                                       {"", ""}};
  for (auto [spelling, name] : names) EXPECT_EQ(opNameOf(spelling), name) << spelling;
  for (int i = 0; i < static_cast<int>(OpKind::other); ++i) {
    const auto op = static_cast<OpKind>(i);
    EXPECT_EQ(opKind(opName(op)), op) << opName(op);
    EXPECT_EQ(opKindOf(opName(op)), op) << opName(op);
    EXPECT_EQ(opKindOf(ncclFunction(op)), op) << ncclFunction(op);
  }
  EXPECT_EQ(opKind("AllReduce"), OpKind::other) << "only the name itself";
}

TEST(Operation, OnlyTheRootsSideWaitsWhereThereIsARoot) {
  for (OpKind op :
       {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all, OpKind::barrier})
    EXPECT_TRUE(endsTogether(op)) << opName(op);
  for (OpKind op : {OpKind::broadcast, OpKind::scatter}) EXPECT_EQ(waitingIn(op), Waiting::for_root) << opName(op);
  for (OpKind op : {OpKind::reduce, OpKind::gather}) EXPECT_EQ(waitingIn(op), Waiting::by_root) << opName(op);
  for (OpKind op : {OpKind::send, OpKind::recv}) EXPECT_TRUE(isPair(op)) << opName(op);
  for (OpKind op : {OpKind::send_recv, OpKind::other}) EXPECT_FALSE(endsTogether(op)) << opName(op);
}

TEST(Operation, BandwidthIsThatOfNcclTests) {
  struct Case {
    OpKind op;
    double algorithm, bus;
  };
  // 8000 bytes a rank, 4 ranks, 1 µs.
  for (const Case& c : {Case{OpKind::all_reduce, 8, 12},
                        {OpKind::all_gather, 32, 24},
                        {OpKind::reduce_scatter, 32, 24},
                        {OpKind::all_to_all, 8, 6},
                        {OpKind::gather, 32, 24},
                        {OpKind::scatter, 32, 24},
                        {OpKind::broadcast, 8, 8},
                        {OpKind::reduce, 8, 8},
                        {OpKind::send, 8, 8}}) {
    const auto speed = bandwidthOf(c.op, 8000, 4, 1000);
    ASSERT_TRUE(speed) << opName(c.op);
    EXPECT_DOUBLE_EQ(speed->algorithm_gbps, c.algorithm) << opName(c.op);
    EXPECT_DOUBLE_EQ(speed->bus_gbps, c.bus) << opName(c.op);
  }
  constexpr int64_t kNull = INT64_MIN;
  EXPECT_FALSE(bandwidthOf(OpKind::barrier, 8, 4, 1000));
  EXPECT_FALSE(bandwidthOf(OpKind::other, 8, 4, 1000));
  EXPECT_FALSE(bandwidthOf(OpKind::all_reduce, 8000, 1, 1000)) << "nothing goes over a link";
  EXPECT_FALSE(bandwidthOf(OpKind::all_reduce, kNull, 4, 1000));
  EXPECT_FALSE(bandwidthOf(OpKind::all_reduce, 8000, kNull, 1000));
  EXPECT_FALSE(bandwidthOf(OpKind::all_reduce, 8000, 4, 0));
  EXPECT_TRUE(bandwidthOf(OpKind::recv, 8000, kNull, 1000)) << "a pair is always two";
  EXPECT_EQ(messageBytes(OpKind::all_to_all, 1000, 4), 4000) << "NCCL's argument is the part for one rank";
  EXPECT_EQ(messageBytes(OpKind::all_gather, 1000, 4), 1000);
}

TEST(Operation, KernelNamesTellWhatTheyRun) {
  const KernelWords words = kernelWords("_Z39ncclDevKernel_AllGather_NVLS_TREE_LL128(x)");
  EXPECT_EQ(words.function, "AllGather");
  EXPECT_EQ(words.algo, "nvls_tree");
  EXPECT_EQ(words.proto, "LL128");
  EXPECT_EQ(kernelWords("ncclDevKernel_Generic_4(x)").function, "");
  EXPECT_EQ(kernelWords("ncclDevKernel_Generic_4(x)").words, "Generic_4");
  EXPECT_EQ(kernelWords("gemm").words, "");
}

TEST(Communication, IsToldByTheKernelsName) {
  for (const char* kernel :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLx",
        "void deep_ep::intranode::dispatch<8>(int*)", "void ep::intranode::dispatch<8>(int*)",
        "ep::internode_ll::combine(void*)", "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)",
        "nvshmemi_transfer"}) {
    EXPECT_TRUE(isCommunication(kernel)) << kernel;
    EXPECT_TRUE(isCommunication(kernel)) << "asked again: " << kernel;
  }
  for (const char* kernel :
       {"void gemm<float>()", "void at::native::step::kernel", "void step::dispatch<4>(int*)", "prep::combine(float*)",
        "void deep::internode(int)", "void gemm<sleep::dispatch>(int)", "Memcpy HtoD", ""})
    EXPECT_FALSE(isCommunication(kernel)) << kernel;
  EXPECT_TRUE(isNcclKernel("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLx"));
  EXPECT_FALSE(isNcclKernel("void deep_ep::intranode::dispatch<8>(int*)"));
  EXPECT_NE(CommRules::builtIn().find("\n*deep_ep::*dispatch*           deepep    dispatch\n"), std::string::npos);
}

}  // namespace
}  // namespace tracesmith::model
