// Rings where there is little shared memory, as in a container.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"

namespace tracesmith {
namespace {

using test::Output;

/// A shell script under `run`, whose rings go to a file system of its own.
class SmallRoom : public ::testing::Test {
 protected:
  Output runIn(const std::string& size, const std::string& script) const {
    const std::string build = TRACESMITH_BUILD_DIR;
    std::filesystem::create_directory(dir_ / "rings");
    return test::runWith(
        {{"TRACESMITH_DIR", dir_ / "rings"},
         {"TRACESMITH_CUPTI", build + "/lib/tests/libcupti.so.13"},
         {"FAKE", build + "/bin/tests/fake_cuda"},
         {"D", dir_.path()}},
        {"unshare", "-rm", "sh", "-c",
         "mount -t tmpfs -o mode=700,size=" + size + " none \"$TRACESMITH_DIR\" || exit 77; exec \"$@\"", "sh",
         TRACESMITH_BIN, "run", "-o", dir_ / "t.sbt", "--", "sh", "-c", script});
  }
  size_t kernels() const { return test::rows(dir_ / "t.sbt", "events", "type", "kernel").size(); }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  test::TempDir dir_;
};

TEST_F(SmallRoom, RingsOfAllProcessesTogetherLeaveTheJobMostOfIt) {
  const Output o = runIn("64m", R"(
    for i in 1 2 3 4 5 6 7 8; do "$FAKE" "kernels 100" "touch $D/up$i" "file $D/end" & done
    while [ $(ls "$D" | grep -c up) -lt 8 ]; do sleep 0.01; done
    stat -f -c "%a %S" "$TRACESMITH_DIR"
    touch "$D/end"; wait)");
  if (o.rc == 77) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels(), 800u);
  EXPECT_TRUE(has(o.err, "little room for the ring")) << o.err;
  long blocks = 0, size = 0;
  ASSERT_EQ(std::sscanf(o.out.c_str(), "%ld %ld", &blocks, &size), 2) << o.out;
  EXPECT_GE(blocks * size, 47 << 20);
}

TEST_F(SmallRoom, WithoutRoomTheRingIsInAnotherFolder) {
  const Output o = runIn("256k", R"("$FAKE" "kernels 100")");
  if (o.rc == 77) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels(), 100u);
  EXPECT_TRUE(has(o.err, "it is in /tmp")) << o.err;
}

}  // namespace
}  // namespace tracesmith
