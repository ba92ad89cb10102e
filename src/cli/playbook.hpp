// A playbook: a question, statements that answer it, and how to read their answers. A file of SQL:
//
//   -- Why is my job slow?                 the question
//   -- How to read what follows.
//
//   -- What costs most                     title of a finding
//   -- How to read it.
//   SELECT ...;
//
// A statement ends with a ; at the end of a line. $before and $after stand for the names of two traces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

struct Playbook {
  struct Part {
    std::string title, read, sql;
  };
  std::string question, read;
  std::vector<Part> parts;
  bool compares = false;  ///< it is about two traces

  /// `name`: what a failure calls it.
  static Result<Playbook> parse(std::string_view text, const std::string& name);
};

}  // namespace tracesmith::cli
