// No output destroys a file, and none that could not be written is called a success.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith {
namespace {

using test::Output;

class OutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(test::tracesmith({"synth", "-o", sim_, "--events", "1000", "--ranks", "2"}).rc, 0);
    test::writeFile(json_, R"({"traceEvents":[{"ph":"X","name":"k","cat":"kernel","ts":1,"dur":2,"pid":0,"tid":7}]})");
    ASSERT_EQ(test::tracesmith({"import", json_, "-o", trace_}).rc, 0);
    bytes_ = test::readFile(trace_);
  }
  /// The command fails with this sentence, and the trace is what it was.
  void refused(const std::vector<std::string>& arguments, const std::string& why) {
    const Output o = test::tracesmith(arguments);
    EXPECT_NE(o.rc, 0) << arguments[0];
    EXPECT_NE(o.err.find(why), std::string::npos) << arguments[0] << ": " << o.err;
    EXPECT_EQ(test::readFile(trace_), bytes_) << arguments[0];
  }
  Output inFolder(const std::string& script) {
    return test::run({"sh", "-c", "cd '" + dir_.path() + "' && " + script});
  }

  test::TempDir dir_;
  const std::string sim_ = dir_ / "sim.sbt", trace_ = dir_ / "t.sbt", json_ = dir_ / "t.json";
  std::string bytes_;
};

TEST_F(OutputTest, NoCommandWritesOverItsInput) {
  const std::string why = "would overwrite " + trace_, link = dir_ / "link.sbt";
  ASSERT_EQ(::symlink(trace_.c_str(), link.c_str()), 0);
  for (const std::string& out : {trace_, link}) {
    refused({"export", trace_, "-o", out, "--format", "csv", "--force"}, why);
    refused({"export", trace_, "-o", out, "--keep", "summary", "--force"}, why);
    refused({"import", trace_, "-o", out, "--force"}, why);
    refused({"report", trace_, "-o", out}, why);
    refused({"query", trace_, "SELECT 1", "-o", out}, why);
  }
  const std::string json = test::readFile(json_);
  refused({"import", dir_.path(), "-o", json_, "--force"}, "which is in the input folder");
  EXPECT_EQ(test::readFile(json_), json);
}

TEST_F(OutputTest, ARecordingIsReplacedOnlyByForce) {
  const std::string why = trace_ + " is a recording that is already there";
  refused({"run", "-o", trace_, "--", "true"}, why);
  refused({"record", "--all", "--last", "1", "-o", trace_}, why);
  refused({"import", json_, "-o", trace_}, why);
  refused({"synth", "-o", trace_, "--events", "10"}, why);
  refused({"export", sim_, "-o", trace_, "--format", "json"}, why);
  refused({"report", sim_, "-o", trace_}, why);
  refused({"query", sim_, "SELECT 1", "-o", trace_}, why);
  refused({"topo", "-o", trace_}, why);
  refused({"cluster", "record", "-d", "1", "-o", trace_}, why);
  refused({"cluster", "stop", "-o", trace_}, why);
  refused({"cluster", "recover", "--name", "x", "--export", trace_}, why);
  EXPECT_EQ(test::tracesmith({"import", json_, "-o", trace_, "--force"}).rc, 0);
  EXPECT_EQ(test::tracesmith({"synth", "-o", sim_, "--events", "10"}).rc, 0) << "simulated again";
}

TEST_F(OutputTest, RunWritesOnlyOnceTheCommandRuns) {
  const std::string bin = TRACESMITH_BIN;
  EXPECT_EQ(inFolder(bin + " run -o new.sbt -- ./no-such-command").rc, 127);
  EXPECT_EQ(inFolder(bin + " run -o t.sbt --force -- ./no-such-command").rc, 127);
  test::writeFile(dir_ / "plain", "no program");
  EXPECT_EQ(inFolder(bin + " run -o t.sbt --force -- ./plain").rc, 126);
  EXPECT_FALSE(test::exists(dir_ / "new.sbt"));
  EXPECT_EQ(test::readFile(trace_), bytes_);
  for (const char* name : {"true.sbt", "true-2.sbt", "true-3.sbt"}) {
    EXPECT_EQ(inFolder(bin + " run --no-telemetry -- true").rc, 0);
    EXPECT_TRUE(test::exists(dir_ / name)) << name;
  }
}

TEST_F(OutputTest, AKilledImportLeavesNothing) {
  const std::string pipe = dir_ / "in.json", folder = dir_ / "out";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  test::Child import({TRACESMITH_BIN, "import", pipe, "-o", folder + "/x.sbt"});
  const int fd = ::open(pipe.c_str(), O_WRONLY);  // returns when the other side reads
  ASSERT_GE(fd, 0);
  import.signal(SIGKILL);
  import.wait();
  ::close(fd);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(OutputTest, WhatCannotBePrintedIsAFailure) {
  const std::string bin = TRACESMITH_BIN;
  for (const char* command : {" info t.sbt", " --help", " query t.sbt 'SELECT 1'", " export t.sbt -o - --format csv",
                              " view t.sbt", " info --schema", " analyze sim.sbt --json"})
    for (const char* target : {" >/dev/full", " >&-"}) {
      const Output o = inFolder(bin + command + target);
      EXPECT_EQ(o.rc, 1) << command << target << o.err;
      EXPECT_NE(o.err.find("standard output"), std::string::npos) << command << target << o.err;
    }
  // What is printed does not end up in the first file that is opened.
  EXPECT_EQ(inFolder(bin + " export t.sbt -o whole.csv").rc, 0);
  EXPECT_EQ(inFolder(bin + " export t.sbt -o closed.csv >&- 2>&-").rc, 1);
  EXPECT_EQ(test::readFile(dir_ / "closed.csv"), test::readFile(dir_ / "whole.csv"));
}

}  // namespace
}  // namespace tracesmith
