// Programs that run already, and what is brought into them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "process/attach.hpp"
#include "process/borrowed_thread.hpp"
#include "process/unwind.hpp"
#include "pythons.hpp"

namespace tracesmith::test {

inline const std::string kWork = std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/checked_work";

inline bool sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Attaching : public testing::Test {
 protected:
  void SetUp() override {
    if (!process::canBorrowThreads()) GTEST_SKIP() << process::canBorrowThreads().message();
    if (!process::Unwinder::create(::getpid(), *process::modules(::getpid()))) GTEST_SKIP() << "no libdw here";
    if (sanitized()) GTEST_SKIP() << "the probe of this build needs the sanitizer's library in the program";
  }
  Output tool(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> argv = {TRACESMITH_BIN, command};
    argv.insert(argv.end(), more.begin(), more.end());
    return runWith({{"TRACESMITH_DIR", rings_.path()}}, argv);
  }
  Output attach(const Child& child, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {std::to_string(child.pid()), "--timeout", "60"});  // the machine may be busy
    return tool("attach", more);
  }
  std::unique_ptr<Child> work(const std::string& kind) const {
    auto child = std::make_unique<Child>(std::vector<std::string>{kWork, kind});
    EXPECT_TRUE(eventually([&] { return has(child->out(), "ready"); }));
    return child;
  }
  /// It has done its work to the end, and found nothing wrong.
  static void expectGood(Child& child) {
    child.signal(SIGTERM);
    const Output o = child.wait();
    EXPECT_EQ(o.rc, 0) << o.out << o.err;
    EXPECT_TRUE(has(o.out, ": good")) << o.out;
  }
  static std::string mappings(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/maps");
    return {std::istreambuf_iterator<char>(in), {}};
  }
  TempDir rings_;
};

}  // namespace tracesmith::test
