#include "cli/playbook.hpp"

namespace tracesmith::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r").find(text.back()) != text.npos) text.remove_suffix(1);
  return text;
}

void join(std::string& text, std::string_view line) {
  if (!text.empty() && !line.empty()) text += ' ';
  text += line;
}

}  // namespace

Result<Playbook> Playbook::parse(std::string_view text, const std::string& name) {
  Playbook book;
  Part part;
  bool head = true;  // the first lines are about the whole
  const auto bad = [&](const std::string& why) { return Status::invalid(name + " is not a playbook: " + why); };
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string_view line = trimmed(text.substr(from, end - from));
    from = end + 1;
    if (part.sql.empty() && line.starts_with("--")) {
      const std::string_view words = trimmed(line.substr(2));
      std::string& title = head ? book.question : part.title;
      if (title.empty())
        title = words;
      else
        join(head ? book.read : part.read, words);
      continue;
    }
    if (line.empty() && part.sql.empty()) {
      head = head && book.question.empty();
      continue;
    }
    if (head) return bad("it begins with a statement, not with `-- QUESTION`");
    if (part.title.empty()) return bad("a statement has no title: put `-- TITLE` before it");
    part.sql +=
        (part.sql.empty() ? "" : "\n") + std::string(line.ends_with(';') ? line.substr(0, line.size() - 1) : line);
    if (!line.ends_with(';')) continue;
    book.compares = book.compares || part.sql.find("$before") != std::string::npos;
    book.parts.push_back(std::move(part));
    part = {};
  }
  if (!part.sql.empty()) return bad("its last statement does not end with `;`");
  if (book.parts.empty()) return bad("it has no statement");
  return book;
}

}  // namespace tracesmith::cli
