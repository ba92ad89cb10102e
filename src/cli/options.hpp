// How a command of `tracesmith` declares its options. What reads the command line is behind it (options.cpp): its
// headers cost seconds in every file that includes them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace tracesmith::cli {

struct CommandText;

/// What a value must be.
class Check {
 public:
  explicit Check(const CLI::Validator& validator);

 private:
  friend class Option;
  std::shared_ptr<const CLI::Validator> validator_;  // shared, so that a Check can be copied
};

Check range(int from, int to);
Check range(uint64_t from, uint64_t to);
Check range(double from, double to);
Check positive();
Check nonNegative();
Check oneOf(const std::vector<std::string>& words);

/// An option that was declared. A handle: copies mean the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option type(const char* name);  ///< what the help calls its value: FILE, SECONDS, …
  Option required();
  Option showDefault();  ///< the value the variable has now
  Option check(const Check& check);
  Option commas();   ///< several values in one word: 0,3,7
  Option oneWord();  ///< of several values: all in one word
  Option words(int count);
  Option needs(Option other);
  Option excludes(Option other);
  bool given() const;  ///< once the command line was read

 private:
  CLI::Option* option_;
};

/// A command that was declared. A handle: copies mean the same command, which lives as long as its Program.
class Command {
 public:
  Command(CLI::App* app, std::function<int()>* chosen) : app_(app), chosen_(chosen) {}

  Command command(const char* name, const char* summary);
  void needsCommand();  ///< one of its commands must follow

  /// Values go into `value`, which lives until the command has run. Names: "-o,--output".
  /// Takes strings, bools, numbers, and vectors of strings and numbers.
  template <class T>
  Option option(const char* names, T& value, const char* help);
  template <class T>
  Option positional(const char* name, T& value, const char* help) {
    return option(name, value, help);
  }
  Option flag(const char* names, bool& value, const char* help);
  void positionalsLast();  ///< what follows the first positional belongs to it, dashes or not

  void footer(const char* text);  ///< what the help says after the options: details, examples

  /// What the command does; returns the exit code.
  void run(std::function<int()> run);
  /// The same, where the options need a look first: a failure is wrong usage.
  void run(std::function<Status()> check, std::function<int()> run);

 private:
  CLI::App* app_;
  std::function<int()>* chosen_;  // of the Program: what the command that was named does
};

class Program {
 public:
  Program(const char* name, const char* summary, const char* version);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command& root() { return root_; }
  /// Reads the command line and runs what it names. Wrong usage is one line and exit code 2.
  int run(int argc, char** argv);
  /// For manual pages and completion.
  CommandText describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<int()> chosen_;
  Command root_;
};

}  // namespace tracesmith::cli
