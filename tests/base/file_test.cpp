// What is on the disk, and who may read it.
#include "base/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/process.hpp"

namespace tracesmith {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override { umask_ = ::umask(0); }
  void TearDown() override { ::umask(umask_); }
  static int mode(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 ? static_cast<int>(st.st_mode & 0777) : -1;
  }
  size_t entries() const {
    size_t n = 0;
    for (const auto& entry : fs::directory_iterator(dir_.path())) n += entry.exists();
    return n;
  }
  test::TempDir dir_;
  mode_t umask_ = 0;
};

TEST_F(Files, WhatIsMadeIsItsOwnersAlone) {
  ASSERT_TRUE(File::create(dir_ / "created"));
  ASSERT_TRUE(File::openAppend(dir_ / "appended"));
  Result<OutputFile> out = OutputFile::create(dir_ / "output");
  ASSERT_TRUE(out && out->write("x") && out->commit());
  for (const char* name : {"created", "appended", "output"}) EXPECT_EQ(mode(dir_ / name), 0600) << name;
  ASSERT_TRUE(makePrivateFolder(dir_ / "a/b/c"));
  for (const char* name : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode(dir_ / name), 0700) << name;
  ::chmod((dir_ / "a").c_str(), 0755);
  ASSERT_TRUE(makePrivateFolder(dir_ / "a"));
  EXPECT_EQ(mode(dir_ / "a"), 0700);
  EXPECT_FALSE(makePrivateFolder(dir_ / "output/below"));
}

TEST_F(Files, WhatIsReplacedPassesOnItsMode) {
  test::writeFile(dir_ / "shared", "old");
  ::chmod((dir_ / "shared").c_str(), 0644);
  Result<OutputFile> out = OutputFile::create(dir_ / "shared");
  ASSERT_TRUE(out && out->write("new") && out->commit());
  EXPECT_EQ(mode(dir_ / "shared"), 0644);
  EXPECT_EQ(test::readFile(dir_ / "shared"), "new");
}

TEST_F(Files, AnOutputIsNotThereBeforeItIsWhole) {
  Result<OutputFile> out = OutputFile::create(dir_ / "output");
  ASSERT_TRUE(out && out->write("half"));
  EXPECT_EQ(entries(), 0u);  // so a process that is killed now leaves nothing
  EXPECT_EQ(test::readFile(out->workPath()), "half");
  ASSERT_TRUE(out->commit());
  EXPECT_EQ(entries(), 1u);
  { Result<OutputFile> given_up = OutputFile::create(dir_ / "other"); }
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace tracesmith
