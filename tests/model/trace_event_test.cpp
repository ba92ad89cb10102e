// Launch shapes as programs see them: what is not known is not there.
#include "model/event/trace_event.hpp"

#include <gtest/gtest.h>

namespace tracesmith::model {
namespace {

TEST(TraceEventMapping, ALaunchShapeThatIsNotKnownIsNone) {
  EXPECT_FALSE(kernelParams(""));
  EXPECT_FALSE(kernelParams(",,,,,,32,0,0")) << "registers without a grid";
  EXPECT_FALSE(kernelParams("1,1,1,128,1,,,,"));
  ASSERT_TRUE(kernelParams("4,2,1,128,1,1,,,"));
  EXPECT_EQ(kernelParams("4,2,1,128,1,1,,,")->grid_y, 2u);
  EXPECT_FALSE(kernelParams("4,2,1,128,1,1,,,")->registers_per_thread);
  EXPECT_FALSE(kernelParams("4,2,1,128,1,1,,,")->shared_mem_bytes);
}

TEST(TraceEventMapping, SharedMemoryIsTheSumOfWhatIsKnownAsOne) {
  EXPECT_EQ(kernelParams("1,1,1,1,1,1,32,100,28")->shared_mem_bytes, 128u);
  EXPECT_EQ(kernelParams("1,1,1,1,1,1,32,100,")->shared_mem_bytes, 100u) << "Kineto tells the sum alone";
  EXPECT_FALSE(kernelParams("1,1,1,1,1,1,32,,28")->shared_mem_bytes);
}

TEST(TraceEventMapping, CallsCopiesAndWaitsAreToldApartByTheirNames) {
  using Public = tracesmith::EventType;
  using trace::EventType;
  EXPECT_EQ(publicType(EventType::memcpy, "Memcpy HtoD (Pinned -> Device)"), Public::MemcpyH2D);
  EXPECT_EQ(publicType(EventType::driver, "cuLaunchKernelEx"), Public::KernelLaunch);
  EXPECT_EQ(publicType(EventType::sync, "Context Sync"), Public::DeviceSync);
  EXPECT_EQ(publicType(EventType::sync, "Stream Sync"), Public::StreamSync);
  EXPECT_EQ(publicType(EventType::graph, "CUDA graph"), Public::KernelComplete);
}

}  // namespace
}  // namespace tracesmith::model
