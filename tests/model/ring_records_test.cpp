// What is encoded into a record of the ring comes back from it.
#include <gtest/gtest.h>

#include "model/ring/nccl_names.hpp"
#include "model/ring/nccl_records.hpp"

namespace tracesmith::ring {
namespace {

TEST(RingRecords, AKernelComesBack) {
  constexpr KernelRecord k{.name = 8,
                           .launch = 16,
                           .start = 1ull << 60,
                           .end = (1ull << 60) + 5,
                           .device = 65535,
                           .stream = 7,
                           .correlation = 9,
                           .context = 3,
                           .graph = 11,
                           .graph_node = 1ull << 63};
  constexpr KernelRecord back = kernelOf(encode(k));
  static_assert(back.name == k.name && back.launch == k.launch && back.start == k.start && back.end == k.end);
  static_assert(back.device == k.device && back.stream == k.stream && back.correlation == k.correlation);
  static_assert(back.context == k.context && back.graph == k.graph && back.graph_node == k.graph_node);
  static_assert(encode(k).kind == Kind::kernel);
}

TEST(RingRecords, ACopyBetweenGpusSaysWhichAndAnotherDoesNot) {
  constexpr CopyRecord plain = copyOf(encode(CopyRecord{.bytes = 5, .graph = 2, .graph_node = 6}));
  static_assert(plain.from == kNoDevice && plain.to == kNoDevice && plain.bytes == 5 && plain.graph == 2 && !plain.set);
  constexpr CopyRecord between = copyOf(encode(CopyRecord{.set = true, .context = 4, .from = 0, .to = 3}));
  static_assert(between.from == 0 && between.to == 3 && between.context == 4 && between.set);
}

TEST(RingRecords, ANameKeepsItsNumbers) {
  const RangeRecord r = rangeOf(encode(RangeRecord{.mark = true,
                                                   .nested = false,
                                                   .name = {8, true, {1, UINT32_MAX, 3, 4}},
                                                   .start = 5,
                                                   .domain = 24,
                                                   .thread = 77}));
  EXPECT_TRUE(r.mark && !r.nested && r.name.numbered);
  EXPECT_EQ(r.name.id, 8u);
  EXPECT_EQ(r.name.numbers[1], UINT32_MAX);
  EXPECT_EQ(r.name.numbers[3], 4u);
  EXPECT_EQ(r.domain, 24u);
  EXPECT_EQ(r.thread, 77u);
}

TEST(RingRecords, WhatIsNotKnownOfAnOperationStaysUnknown) {
  constexpr OperationRecord none = operationOf(encode(OperationRecord{}));
  static_assert(none.rank == -1 && none.ranks == 0 && none.peer == -1 && none.root == -1);
  static_assert(none.sequence == kUnknown && none.nccl_sequence == kUnknown && none.comm == 0 && !none.pair);
  static_assert(!none.captured);
  constexpr OperationRecord o{.pair = true,
                              .function = 8,
                              .start = 1,
                              .comm = UINT64_MAX,
                              .sequence = 0,
                              .elements = 1000,
                              .rank = 0,
                              .ranks = 65535,
                              .peer = 65534,
                              .datatype = 8,
                              .algo = 7,
                              .proto = 3,
                              .channels = 64,
                              .root = 40000};
  constexpr OperationRecord back = operationOf(encode(o));
  static_assert(back.pair && back.function == 8 && back.comm == UINT64_MAX && back.sequence == 0 && back.rank == 0);
  static_assert(back.ranks == 65535 && back.peer == 65534 && back.datatype == 8 && back.algo == 7 && back.proto == 3);
  static_assert(back.channels == 64 && back.root == 40000);
  static_assert(nccl::bytesOf(back) == 4000);
  constexpr uint64_t kLarge = 0xfedcba987654;
  constexpr OperationRecord numbers = operationOf(encode(
      OperationRecord{.sequence = kLarge - 1, .elements = kLarge, .nccl_sequence = kLarge + 1, .captured = true}));
  static_assert(numbers.sequence == kLarge - 1 && numbers.elements == kLarge && numbers.nccl_sequence == kLarge + 1);
  static_assert(numbers.captured && back.nccl_sequence == kUnknown);
}

TEST(RingRecords, AProxyOperationTellsWhatWasMeasured) {
  constexpr ProxyRecord none = proxyOf(encode(ProxyRecord{}));
  static_assert(none.bytes == kUnknown && none.gpu_wait == kUnknown && none.net_wait == kUnknown && none.peer == -1);
  constexpr uint64_t kDay = 86'400'000'000'000;
  constexpr ProxyRecord p{.comm = 7,
                          .start = 1,
                          .end = 2,
                          .send = true,
                          .channel = 63,
                          .peer = 100'000,
                          .steps = 1u << 20,
                          .bytes = 1ull << 40,
                          .net_wait = kDay,
                          .peer_wait = 0,
                          .gpu_wait = kDay + 1};
  constexpr ProxyRecord back = proxyOf(encode(p));
  static_assert(back.comm == 7 && back.send && back.channel == 63 && back.peer == 100'000 && back.steps == 1u << 20);
  static_assert(back.bytes == 1ull << 40 && back.net_wait == kDay && back.peer_wait == 0 && back.gpu_wait == kDay + 1);
  constexpr ProxyRecord huge = proxyOf(encode(ProxyRecord{.bytes = 1ull << 60}));
  static_assert(huge.bytes == (1ull << 48) - 2, "as much as there is room for, and not unknown");
}

TEST(RingRecords, TheOthersComeBack) {
  static_assert(callOf(encode(CallRecord{.driver = true, .thread = 9})).driver);
  static_assert(callOf(encode(CallRecord{.thread = 9})).thread == 9);
  static_assert(syncOf(encode(SyncRecord{.context = 2})).stream == kNoStream);
  static_assert(overheadOf(encode(OverheadRecord{.thread = 4})).thread == 4);
  static_assert(graphOf(encode(GraphRecord{.context = 1, .graph = 5})).graph == 5);
  static_assert(stepOf(encode(StepRecord{.step = -3})).step == -3);
  static_assert(counterOf(encode(CounterRecord{.value = -0.5})).value == -0.5);
  static_assert(counterOf(encode(CounterRecord{.series = 7})).series == 7);
  static_assert(counterOf(encode(CounterRecord{})).step == -1 && counterOf(encode(CounterRecord{.step = 3})).step == 3);
  static_assert(metadataOf(encode(MetadataRecord{.key = 8, .value = 16})).value == 16);
  static_assert(commOf(encode(CommRecord{.hash = 1, .rank = 2, .ranks = 3, .nodes = 4})).nodes == 4);
  static_assert(launchOf(encode(LaunchRecord{.start = 1, .end = 2, .stream = 3})).stream == 3);
  static_assert(threadOf(encode(ThreadRecord{.thread = 1 << 22})).thread == 1 << 22);
  static_assert(encode(GpuOnRecord{.start = 6}).start == 6);
}

}  // namespace
}  // namespace tracesmith::ring
