// SBT v0.1: files built here byte by byte, whole and cut; and one that the old system wrote.
#include <gtest/gtest.h>

#include "support/imported.hpp"

namespace tracesmith::trace {
namespace {

using test::at;
using test::Imported;
using test::only;

std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  return out + static_cast<char>(v);
}
template <typename... V>
std::string varints(V... v) {
  return (varint(static_cast<uint64_t>(v)) + ...);
}
std::string str(const std::string& s) { return varint(s.size()) + s; }
std::string fixed(uint64_t v, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
  return out;
}

/// A v0.1 file: sections in the old writer's order, the header as it stands after close().
struct Old {
  std::string metadata = "\x01" + str("app") + str("app -x \"y\"") + varints(1000, 2000) + str("host1") + varint(42);
  std::string devices =
      "\x03" + varint(1) + varint(0) + str("G") + str("NVIDIA") + varints(9, 0, 80, 7, 512, 132, 2048, 1980, 32);
  std::string events = "\x04" + varint(1'000'000);
  std::string strings = "\x02" + varint(3) + str("k<\"a\">") + str("c") + str("file.cpp");
  std::string end = "\xff";
  uint64_t count = 0;

  void add(uint8_t type, uint8_t flags, uint64_t delta, const std::string& rest) {
    events += static_cast<char>(type);
    events += static_cast<char>(flags);
    events += varint(delta) + rest;
    ++count;
  }
  Old() {
    add(1, 1 | 2, 0, varints(50'000, 0, 3, 7, 0, 128, 1, 1, 256, 1, 1, 4096, 32));
    add(3, 4, 100'000, varints(0, 3, 8, 1, 11, 12, 1024));
    add(17, 0, static_cast<uint64_t>(-200'000), varints(0, 0, 0, 0));
    add(2, 8, 1, varints(0, 3, 7, 0, 777, 2, 4096, 0, 2, 15, 8192, 1, 99, 16));
  }
  std::string header(bool closed) const {
    uint64_t at = 72, devices_at = at + metadata.size(), events_at = devices_at + devices.size(),
             strings_at = events_at + events.size();
    std::string h = std::string("SBT\0", 4) + fixed(0, 2) + fixed(1, 2) + fixed(0, 4) + fixed(72, 4);
    for (uint64_t offset : {at, strings_at, devices_at, events_at, uint64_t(0), count})
      h += fixed(closed ? offset : 0, 8);
    return h + std::string(8, '\0');
  }
  std::string bytes(bool closed = true) const { return header(closed) + metadata + devices + events + strings + end; }
};

void expectAll(const Imported& t) {
  ASSERT_TRUE(t.report) << t.error();
  auto rows = t.rows("events");
  ASSERT_EQ(rows.size(), 4u);
  auto kernel = only(rows, "ts", "1000000");
  EXPECT_EQ(at(kernel, "type"), "kernel");
  EXPECT_EQ(at(kernel, "name"), "k<\"a\">");
  EXPECT_EQ(at(kernel, "dur"), "50000");
  EXPECT_EQ(at(kernel, "stream"), "3");
  EXPECT_EQ(at(kernel, "correlation"), "7");
  EXPECT_EQ(at(kernel, "launch"), "128,1,1,256,1,1,32,4096,");
  EXPECT_EQ(at(kernel, "node"), "host1");
  EXPECT_EQ(at(kernel, "pid"), "42");
  auto copy = only(rows, "ts", "1100000");
  EXPECT_EQ(at(copy, "type"), "memcpy");
  EXPECT_EQ(at(copy, "name"), "c");
  EXPECT_EQ(at(copy, "bytes"), "1024");
  EXPECT_EQ(at(copy, "dur"), "NULL");
  EXPECT_EQ(at(copy, "args"), R"({"type":"MemcpyH2D","source":11,"destination":12})");
  EXPECT_EQ(at(only(rows, "ts", "900000"), "type"), "marker");
  auto stack = only(rows, "ts", "900001");
  EXPECT_EQ(at(stack, "tid"), "777");
  EXPECT_EQ(
      at(stack, "args"),
      R"({"type":"KernelComplete","stack":[{"address":4096,"function":"k<\"a\">","file":"file.cpp","line":15},{"address":8192,"function":"c","line":16}]})");
  auto process = t.rows("processes").at(0);
  EXPECT_EQ(at(process, "name"), "app");
  EXPECT_EQ(at(process, "command"), "app -x \"y\"");
  EXPECT_EQ(at(process, "ts_start"), "1000");
  EXPECT_EQ(at(process, "ts_end"), "2000");
  auto device = t.rows("devices").at(0);
  EXPECT_EQ(at(device, "name"), "G");
  EXPECT_EQ(at(device, "cc_major"), "9");
  EXPECT_EQ(at(device, "memory_clock_khz"), "7");
  EXPECT_EQ(at(device, "bus_bits"), "512");
  EXPECT_EQ(at(device, "sms"), "132");
  EXPECT_EQ(at(device, "clock_khz"), "1980");
  EXPECT_EQ(at(device, "warp"), "32");
}

TEST(ImportSbt0, ReadsEverything) {
  Imported t(Old().bytes());
  expectAll(t);
  EXPECT_EQ(t.report->losses.total(), 0u);
}

TEST(ImportSbt0, AKilledWritersFileWithAllItsBytes) {
  Imported t(Old().bytes(false));
  expectAll(t);
  EXPECT_EQ(t.lost("not closed"), 1u);
}

TEST(ImportSbt0, CutAnywhereItGivesWhatIsThere) {
  Old old;
  for (bool closed : {true, false}) {
    std::string bytes = old.bytes(closed);
    const size_t events_at = 72 + old.metadata.size() + old.devices.size();
    uint64_t last = 0;
    for (size_t cut = 72; cut < bytes.size(); ++cut) {
      Imported t(bytes.substr(0, cut));
      ASSERT_TRUE(t.report) << cut << ": " << t.error();
      EXPECT_GT(t.report->losses.total(), 0u) << cut;
      EXPECT_GE(t.report->events, last) << cut;
      last = t.report->events;
      if (cut >= events_at + old.events.size()) {
        EXPECT_EQ(t.report->events, 4u) << cut;
      }
      if (closed && cut > events_at) {
        EXPECT_EQ(t.report->events + t.lost("missing events"), 4u) << cut;
      }
    }
  }
}

TEST(ImportSbt0, BrokenHeaders) {
  std::string bytes = Old().bytes();
  EXPECT_NE(Imported(bytes.substr(0, 71)).error().find("ends inside its header (byte 71)"), std::string::npos);
  std::string compressed = bytes;
  compressed[64] = 3;
  EXPECT_NE(Imported(compressed).error().find("compression 3"), std::string::npos);
  for (int field = 16; field < 64; field += 8) {
    std::string odd = bytes;
    odd.replace(static_cast<size_t>(field), 8, fixed(UINT64_MAX - 5, 8));
    Imported t(odd);
    EXPECT_TRUE(t.report) << field << " " << t.error();
  }
}

TEST(ImportSbt0, DamagedEventsStopTheReadingAndAreCounted) {
  Old old;
  old.events[old.events.size() - 14] = static_cast<char>(0xf0);  // flags of the last event
  Imported t(old.bytes());
  ASSERT_TRUE(t.report);
  EXPECT_EQ(t.report->events + t.lost("missing events"), 4u);
}

TEST(ImportSbt0, TheFileTheOldSystemWrote) {
  std::string shared = test::sharedDir();
  if (shared.empty()) return;
  Imported t(test::readFile(shared + "/facts/golden.sbt"));
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->losses.total(), 0u);
  auto rows = t.rows("events");
  ASSERT_EQ(rows.size(), 3u);
  auto kernel = only(rows, "type", "kernel");
  EXPECT_EQ(at(kernel, "name"), "k");
  EXPECT_EQ(at(kernel, "ts"), "1000000");
  EXPECT_EQ(at(kernel, "dur"), "50000");
  EXPECT_EQ(at(kernel, "stream"), "3");
  EXPECT_EQ(at(kernel, "correlation"), "7");
  EXPECT_EQ(at(kernel, "launch").substr(0, 4), "128,");
  EXPECT_NE(at(kernel, "launch").find(",256,"), std::string::npos);
  auto copy = only(rows, "name", "c");
  EXPECT_EQ(at(copy, "ts"), "1100000");
  EXPECT_EQ(at(copy, "bytes"), "1024");
  EXPECT_EQ(at(only(rows, "type", "marker"), "ts"), "900000");
  auto process = t.rows("processes").at(0);
  EXPECT_EQ(at(process, "command"), "app -x");
  EXPECT_EQ(at(process, "pid"), "42");
  EXPECT_EQ(at(process, "node"), "h");
  auto device = t.rows("devices").at(0);
  EXPECT_EQ(at(device, "vendor"), "NVIDIA");
  EXPECT_EQ(at(device, "warp"), "32");
}

}  // namespace
}  // namespace tracesmith::trace
