#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/process.hpp"

namespace tracesmith {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, IsPrivateAndGoesWithItsOwner) {
  test::TempDir dir;
  std::string path;
  {
    Result<TemporaryFolder> made = TemporaryFolder::create(dir.path());
    ASSERT_TRUE(made) << made.status().message();
    const TemporaryFolder moved = std::move(*made);
    path = moved.path();
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    test::writeFile(path + "/file", "x");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, RemovesWhatTheDeadLeftAndNothingElse) {
  test::TempDir dir;
  Result<TemporaryFolder> living = TemporaryFolder::create(dir.path());
  ASSERT_TRUE(living);
  const std::string dead = dir / "tracesmith-query-dead00", target = dir / "target",
                    link = dir / "tracesmith-query-link";
  for (const std::string& folder : {dead, target, std::string(dir / "other")}) fs::create_directory(folder);
  test::writeFile(dead + "/spilled", "x");
  test::writeFile(dir / "tracesmith-query-file", "x");
  fs::create_directory_symlink(target, link);
  Result<TemporaryFolder> next = TemporaryFolder::create(dir.path());
  ASSERT_TRUE(next);
  EXPECT_FALSE(fs::exists(dead));
  for (const std::string& path : {living->path(), next->path(), target, link, std::string(dir / "other"),
                                  std::string(dir / "tracesmith-query-file")})
    EXPECT_TRUE(fs::exists(path)) << path;
}

}  // namespace
}  // namespace tracesmith
