#include "base/library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tracesmith {
namespace {

TEST(SharedLibrary, TakesTheFirstOfSeveralThatIsThere) {
  Result<SharedLibrary> library = SharedLibrary::load({"libno_such_thing.so.1", "libc.so.6"});
  ASSERT_TRUE(library) << library.status().message();
  pid_t (*own)() = nullptr;
  ASSERT_TRUE(library->find(own, "getpid"));
  EXPECT_EQ(own(), ::getpid());
  EXPECT_FALSE(library->find(own, "no_such_function"));
  EXPECT_EQ(own, nullptr);
}

TEST(SharedLibrary, SaysWhatTheLoaderSaid) {
  Result<SharedLibrary> library = SharedLibrary::load({"libno_such_thing.so.1"});
  ASSERT_FALSE(library);
  EXPECT_NE(library.status().message().find("libno_such_thing.so.1"), std::string::npos) << library.status().message();
}

TEST(InstalledFile, IsFoundBesideTheCodeItself) {
  Result<std::string> program = installedFile("test_base");
  ASSERT_TRUE(program) << program.status().message();
  EXPECT_TRUE(program->starts_with("/"));
  EXPECT_EQ(::access(program->c_str(), X_OK), 0);
}

TEST(InstalledFile, ThatIsMissingIsSaidToBe) {
  Result<int*> made = loadInterface<int>({"Everything", "libtracesmith_none.so", "entry", "1"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.status().message().find("Everything needs libtracesmith_none.so, which is neither in /"), 0u)
      << made.status().message();
}

}  // namespace
}  // namespace tracesmith
