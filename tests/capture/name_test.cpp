// Names with numbers in them: one string for all of them, and the same text again when read.
#include <gtest/gtest.h>

#include "capture/ring/reader.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"

namespace tracesmith::ring {
namespace {

class NameTest : public ::testing::Test {
 protected:
  NameTest() {
    const RingOptions small{.lane0_records = 1024, .lane_records = 1024, .lanes = 2, .strings_bytes = 4096};
    writer_ = RingWriter::create((dir_ / "1.ring").c_str(), small, memory_);
    reader_ = std::move(*RingReader::open(dir_ / "1.ring"));
  }
  ~NameTest() override { writer_->unmap(); }
  std::string back(const std::string& text) {
    const Record r = encode(RangeRecord{.name = writer_->name(text.c_str())});
    return reader_->text(rangeOf(r).name);
  }

  test::TempDir dir_;
  alignas(RingWriter) char memory_[sizeof(RingWriter)];
  RingWriter* writer_ = nullptr;
  std::unique_ptr<RingReader> reader_;
};

TEST_F(NameTest, TheTextIsTheSameAgain) {
  for (const std::string text :
       {"step 12", "ProfilerStep#0", "7", "aten::mm, op_id = 123456, seq = 77", "no number", "", "007", "a00b0c",
        "id 4294967296 of 4294967295", "999999999", "1234567890123456789012", "1.2.3.4.5.6",
        "sizes = [[3, 40], [40, 5]]", "what looks like \1 one", "9 and \1"})
    EXPECT_EQ(back(text), text);
  for (size_t length : {255, 256, 257, 1000}) {
    const std::string text = "3 " + std::string(length - 2, 'x');
    EXPECT_EQ(back(text), text);
    EXPECT_EQ(back(std::string(length - 2, 'x') + " 3"), std::string(length - 2, 'x') + " 3");
  }
  EXPECT_EQ(writer_->name(nullptr).id, 0u);
}

TEST_F(NameTest, AJobThatCountsForWeeksFillsNothing) {
  for (int i = 0; i < 300'000; ++i) {
    const std::string text = "epoch 3, iteration " + std::to_string(i);
    ASSERT_EQ(back(text), text);
  }
  EXPECT_EQ(writer_->header().losses[kNoStringRoom].load(), 0u);
}

}  // namespace
}  // namespace tracesmith::ring
