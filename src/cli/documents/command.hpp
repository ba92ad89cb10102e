// A command as its documents describe it: plain data, taken from the command line's own declarations.
#pragma once

#include <string>
#include <vector>

namespace tracesmith::cli {

struct Argument {
  std::vector<std::string> names;    ///< "-o", "--output"; of a positional argument its one name
  std::string value;                 ///< what it takes: "FILE.sbt"; empty: nothing
  std::vector<std::string> choices;  ///< the only values it takes; empty: any
  std::string text, default_value;
  bool required = false, repeated = false;
};

struct Command {
  std::vector<std::string> words;  ///< "tracesmith", "cluster", "agent"
  std::string text, notes;         ///< what it does; what --help says below the options
  std::vector<Argument> options, positionals;
  std::vector<Command> commands;

  /// "tracesmith-cluster-agent"
  std::string joined(char separator) const;
};

/// Of this build's `tracesmith`.
Command describeCommands();

/// A page for man(1), in section 1.
std::string manPage(const Command& command, const std::string& version);
std::string bashCompletion(const Command& program);
std::string zshCompletion(const Command& program);

}  // namespace tracesmith::cli
