// The help of every command: what a user reads first, and what manual pages and completion are made from.
#include <algorithm>
#include <sstream>

#include "support/process.hpp"

#include <gtest/gtest.h>

namespace tracesmith::test {
namespace {

Output help(const std::vector<std::string>& command) {
  std::vector<std::string> words = {TRACESMITH_BIN};
  words.insert(words.end(), command.begin(), command.end());
  words.emplace_back("--help");
  return run(words);
}

/// The commands a help lists.
std::vector<std::string> commandsIn(const std::string& text) {
  std::vector<std::string> names;
  bool inside = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "Commands:")
      inside = true;
    else if (inside && !line.starts_with("  "))
      break;
    else if (inside && line.size() > 2 && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

TEST(Help, EveryCommandHasAnExampleOfItself) {
  const std::vector<std::string> commands = commandsIn(help({}).out);
  ASSERT_GT(commands.size(), 10u);
  std::vector<std::vector<std::string>> all;
  for (const std::string& command : commands) {
    all.push_back({command});
    if (command == "cluster" || command == "bench")
      for (const std::string& sub : commandsIn(help({command}).out)) all.push_back({command, sub});
  }
  for (const std::vector<std::string>& words : all) {
    const Output o = help(words);
    std::string name = "tracesmith";
    for (const std::string& word : words) name += " " + word;
    EXPECT_EQ(o.rc, 0) << name;
    const size_t examples = o.out.find("Example");
    ASSERT_NE(examples, std::string::npos) << name;
    EXPECT_NE(o.out.find(name, examples), std::string::npos) << o.out.substr(examples);
  }
}

TEST(Help, IsWhatACommandWithoutMorePrints) {
  const Output list = run({TRACESMITH_BIN});
  EXPECT_EQ(list.rc, 0) << list.err;
  EXPECT_EQ(list.out, help({}).out);
  EXPECT_EQ(run({TRACESMITH_BIN, "cluster"}).out, help({"cluster"}).out);
  EXPECT_EQ(run({TRACESMITH_BIN, "help", "cluster", "record"}).out, help({"cluster", "record"}).out);
  EXPECT_EQ(run({TRACESMITH_BIN, "help"}).out, list.out);
}

/// Lines that are wider than `width` and have a blank at which they could be broken.
std::vector<std::string> widerLines(const std::string& text, size_t width) {
  std::vector<std::string> wide;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const size_t word = line.find_first_not_of(' ');
    if (static_cast<size_t>(characters) > width && line.find(' ', word) != std::string::npos) wide.push_back(line);
  }
  return wide;
}

TEST(Help, FitsATerminalOf60Columns) {
  std::vector<std::vector<std::string>> all = {{}, {"cluster"}, {"bench"}};
  for (const std::string parent : {"", "cluster"})
    for (const std::string& command :
         commandsIn(help(parent.empty() ? std::vector<std::string>{} : std::vector{parent}).out))
      all.push_back(parent.empty() ? std::vector{command} : std::vector{parent, command});
  for (const std::vector<std::string>& words : all) {
    std::vector<std::string> line = {"env", "COLUMNS=60", TRACESMITH_BIN};
    line.insert(line.end(), words.begin(), words.end());
    line.emplace_back("--help");
    const Output o = run(line);
    EXPECT_EQ(o.rc, 0);
    for (const std::string& wide : widerLines(o.out, 60))
      ADD_FAILURE() << (words.empty() ? "" : words.back()) << ": " << wide;
  }
  // An example that goes on in the next line does so as a shell reads it.
  EXPECT_NE(run({"env", "COLUMNS=60", TRACESMITH_BIN, "--help"}).out.find(" \\\n"), std::string::npos);
}

TEST(Help, NamesTheWordThatWasMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"anaylze"}, "there is no command 'anaylze'. Did you mean 'analyze'? (see tracesmith --help)"},
      {{"cluster", "recrod"}, "there is no command 'recrod'. Did you mean 'record'? (see tracesmith cluster --help)"},
      {{"analyze", "--jsno", "x.sbt"},
       "there is no option '--jsno'. Did you mean '--json'? (see tracesmith analyze --help)"},
      {{"query", "--out=x", "y.sbt"},
       "there is no option '--out'. Did you mean '--output'? (see tracesmith query --help)"},
      {{"blub"}, "there is no command 'blub' (see tracesmith --help)"},
      {{"help", "anlyze"}, "there is no command 'anlyze'. Did you mean 'analyze'? (see tracesmith --help)"},
      {{"help", "cluster", "recrod"},
       "there is no command 'recrod'. Did you mean 'record'? (see tracesmith cluster --help)"},
      {{"info", "a.sbt", "b.sbt"}, "unexpected argument 'b.sbt' (see tracesmith info --help)"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all = {TRACESMITH_BIN};
    all.insert(all.end(), words.begin(), words.end());
    const Output o = run(all);
    EXPECT_EQ(o.rc, 2) << words[0];
    EXPECT_EQ(o.err, "tracesmith: " + message + "\n");
    EXPECT_EQ(o.out, "");
  }
}

}  // namespace
}  // namespace tracesmith::test
