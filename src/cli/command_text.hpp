// A command as its documents describe it: plain data, taken from what the commands declare.
#pragma once

#include <string>
#include <vector>

namespace tracesmith::cli {

struct ArgumentText {
  std::vector<std::string> names;    ///< "-o", "--output"; of a positional argument its one name
  std::string value;                 ///< what it takes: "FILE.sbt"; empty: nothing
  std::vector<std::string> choices;  ///< the only values it takes; empty: any
  std::string text, default_value;
  bool required = false, repeated = false;
};

struct CommandText {
  std::vector<std::string> words;  ///< "tracesmith", "cluster", "agent"
  std::string text, notes;         ///< what it does; what --help says below the options
  std::vector<ArgumentText> options, positionals;
  std::vector<CommandText> commands;

  /// "tracesmith-cluster-agent"
  std::string joined(char separator) const {
    std::string all;
    for (const std::string& word : words) all += (all.empty() ? "" : std::string(1, separator)) + word;
    return all;
  }
};

}  // namespace tracesmith::cli
