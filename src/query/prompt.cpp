#include "query/prompt.hpp"

#include <histedit.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/text.hpp"

namespace tracesmith::query {
namespace {

constexpr int kHistoryLines = 1000;

constexpr const char* kHelp =
    "Statements end with ';' and may span lines.\n  .tables      the tables, with row counts\n  .schema T    the "
    "columns of table T\n  .help        this text\n  .quit        leave (or exit, Ctrl-D)\nTab completes names, the "
    "arrow "
    "keys bring back earlier statements, Ctrl-C cancels a running query.\n";

std::string historyFile() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state && *state)
    folder = state;
  else if (home && *home)
    folder = std::filesystem::path(home) / ".local/state";
  else
    return {};
  folder /= "tracesmith";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? std::string() : (folder / "history").string();
}

/// What other prompts leave by, or help with: none of it is SQL.
bool isWordOfPrompt(const std::string& line) {
  const std::string word = line.substr(0, line.find(';'));
  return word == "exit" || word == "quit" || word == "help";
}

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class Prompt {
 public:
  explicit Prompt(TraceSet& traces) : traces_(traces), history_file_(historyFile()) {
    for (const trace::TableInfo& table : trace::tables()) {
      words_.insert(table.name);
      for (const SqlColumn& c : traces.columns(table)) words_.insert(c.name);
    }
    for (const char* word :
         {"SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "HAVING", "DISTINCT", "BETWEEN",
          "DESCRIBE", "SHOW TABLES", "SUMMARIZE", "EXPLAIN ANALYZE", ".tables", ".schema", ".help", ".quit"})
      words_.insert(word);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
    line_ = el_init("tracesmith", stdin, stdout, stderr);
    el_set(line_, EL_CLIENTDATA, this);
    el_set(line_, EL_EDITOR, "emacs");
    el_set(line_, EL_SIGNAL, 1);
    el_set(line_, EL_PROMPT, promptText);
    el_set(line_, EL_HIST, history, history_);
    el_set(line_, EL_ADDFN, "ts-complete", "Complete a name", completeKey);
    el_set(line_, EL_ADDFN, "ts-cancel", "Discard the statement", cancelKey);
    el_set(line_, EL_BIND, "^I", "ts-complete", nullptr);
    el_set(line_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // While a line is edited Ctrl-C is a key like any other; while a query runs it is a signal.
    el_set(line_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(line_, EL_BIND, "^C", "ts-cancel", nullptr);
  }
  ~Prompt() {
    if (!history_file_.empty()) {
      HistEvent event;
      history(history_, &event, H_SAVE, history_file_.c_str());
    }
    el_end(line_);
    history_end(history_);
  }

  void loop(const std::function<void(const std::string&)>& statement) {
    for (;;) {
      int count = 0;
      cancelled_ = false;
      const char* text = el_gets(line_, &count);
      if (cancelled_) {
        std::fputs("^C\n", stdout);
        pending_.clear();
        continue;
      }
      if (!text || count <= 0) {
        std::fputs("\n", stdout);
        return;
      }
      std::string line(text, static_cast<size_t>(count));
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
      if (pending_.empty() && (line.empty() || line[0] == '.' || isWordOfPrompt(line))) {
        if (!line.empty()) remember(line);
        if (!line.empty() && !command(line[0] == '.' ? line : "." + line.substr(0, line.find(';')))) return;
        continue;
      }
      pending_ += (pending_.empty() ? "" : "\n") + line;
      if (!isComplete(pending_)) continue;
      std::string sql = std::exchange(pending_, {});
      remember(sql);
      std::fflush(stdout);
      statement(sql);
    }
  }

 private:
  static Prompt& of(EditLine* line) {
    void* data = nullptr;
    el_get(line, EL_CLIENTDATA, &data);
    return *static_cast<Prompt*>(data);
  }
  static char* promptText(EditLine* line) {
    static char first[] = "tracesmith> ", more[] = "        ...> ";
    return of(line).pending_.empty() ? first : more;
  }
  static unsigned char cancelKey(EditLine* line, int) {
    of(line).cancelled_ = true;
    const LineInfo* info = el_line(line);
    el_cursor(line, static_cast<int>(info->lastchar - info->cursor));
    el_deletestr(line, static_cast<int>(info->lastchar - info->buffer));
    return CC_EOF;
  }

  static unsigned char completeKey(EditLine* line, int) {
    const LineInfo* info = el_line(line);
    const char* start = info->cursor;
    while (start > info->buffer && isWord(start[-1])) --start;
    std::string word(start, info->cursor);
    // "events.na": the table is not part of the name.
    if (size_t dot = word.rfind('.'); dot != std::string::npos && dot > 0) word = word.substr(dot + 1);
    std::vector<std::string> found;
    for (const std::string& w : of(line).words_)
      if (w.size() >= word.size() && duckdb::StringUtil::CIEquals(w.substr(0, word.size()), word)) found.push_back(w);
    if (found.empty() || (word.empty() && found.size() > 200)) return CC_REFRESH_BEEP;
    std::string common = found[0];
    for (const std::string& w : found) {
      size_t n = 0;
      while (n < common.size() && n < w.size() && common[n] == w[n]) ++n;
      common.resize(n);
    }
    if (found.size() == 1) common += ' ';
    if (common.size() > word.size()) {
      el_deletestr(line, static_cast<int>(word.size()));
      el_insertstr(line, common.c_str());
      return CC_REFRESH;
    }
    std::string list = "\n";
    for (const std::string& w : found) list += w + "  ";
    std::printf("%s\n", list.c_str());
    return CC_REDISPLAY;
  }

  void remember(std::string text) {
    for (char& c : text)
      if (c == '\n') c = ' ';
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
  }

  /// False: leave.
  bool command(const std::string& line) {
    std::string name = line.substr(0, line.find(' '));
    std::string rest = line.find(' ') == std::string::npos ? "" : line.substr(line.find(' ') + 1);
    if (!rest.empty() && rest.back() == ';') rest.pop_back();
    if (name == ".quit" || name == ".exit") return false;
    if (name == ".tables") {
      std::vector<std::vector<std::string>> rows = {{"table", "rows", "a row is"}};
      for (const trace::TableInfo& table : trace::tables()) {
        uint64_t count = 0;
        for (const auto& source : traces_.sources()) count += source.reader->rows(table);
        rows.push_back({table.name, humanCount(count), table.doc});
      }
      std::fputs(alignTable(rows).c_str(), stdout);
    } else if (name == ".schema") {
      const trace::TableInfo* table = trace::findTable(rest);
      if (!table) {
        std::printf("No table '%s'. Try .tables\n", rest.c_str());
        return true;
      }
      std::vector<std::vector<std::string>> rows = {{"column", "type", "meaning"}};
      for (const SqlColumn& c : traces_.columns(*table))
        rows.push_back({c.name, c.kind == trace::Kind::Type ? "ENUM" : c.type.ToString(),
                        c.column < 0 ? "file the row comes from" : table->columns[static_cast<size_t>(c.column)].doc});
      std::fputs(alignTable(rows).c_str(), stdout);
    } else {
      if (name != ".help") std::printf("No command '%s'. Try .help\n", name.c_str());
      std::fputs(kHelp, stdout);
    }
    return true;
  }

  TraceSet& traces_;
  std::string history_file_;
  std::set<std::string> words_;
  History* history_;
  EditLine* line_;
  std::string pending_;
  bool cancelled_ = false;
};

}  // namespace

bool isComplete(std::string_view sql) {
  bool complete = false;
  for (size_t i = 0; i < sql.size(); ++i) {
    char c = sql[i];
    if (c == '\'' || c == '"') {
      size_t end = sql.find(c, i + 1);  // a doubled quote opens the next piece at once
      if (end == std::string_view::npos) return false;
      i = end;
      complete = false;
    } else if (c == '-' && i + 1 < sql.size() && sql[i + 1] == '-') {
      i = sql.find('\n', i);
      if (i == std::string_view::npos) return complete;
    } else if (c == '/' && i + 1 < sql.size() && sql[i + 1] == '*') {
      size_t end = sql.find("*/", i + 2);
      if (end == std::string_view::npos) return false;
      i = end + 1;
    } else if (c == ';') {
      complete = true;
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      complete = false;
    }
  }
  return complete;
}

void runPrompt(TraceSet& traces, const std::function<void(const std::string&)>& statement) {
  std::puts("Type SQL, or .help for help.");
  Prompt(traces).loop(statement);
}

}  // namespace tracesmith::query
