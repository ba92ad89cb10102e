// tracesmith playbook: questions that people have about a job, answered from a trace.
#include "cli/playbook.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <simdjson.h>

#include "base/file.hpp"
#include "base/library.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/libraries.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_file.hpp"
#include "query/engine.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "playbooks";
constexpr uint64_t kRows = 30, kJsonRows = 1000;  // of a finding

struct Options {
  std::string name;
  std::vector<std::string> traces;
  bool json = false, show = false;
};

Result<std::string> readFile(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  std::string text;
  char buffer[1 << 16];
  for (size_t got = 1; got > 0;) {
    TS_TRY(file->readNext(buffer, sizeof buffer, got));
    text.append(buffer, got);
  }
  return text;
}

struct Named {
  std::string name;
  Playbook book;
};

Result<Named> readPlaybook(const std::string& path) {
  const Result<std::string> text = readFile(path);
  if (!text) return text.status();
  Result<Playbook> book = Playbook::parse(*text, path);
  if (!book) return book.status();
  return Named{fs::path(path).stem().string(), std::move(*book)};
}

/// Those that are installed, by name.
Result<std::vector<Named>> installed() {
  const Result<std::string> folder = installedFile(kFolder);
  if (!folder) return Status::notFound("the list needs " + folder.status().message());
  std::vector<Named> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(*folder, error)) {
    if (entry.path().extension() != ".sql") continue;
    Result<Named> one = readPlaybook(entry.path().string());
    if (!one) return one.status();
    all.push_back(std::move(*one));
  }
  if (error) return Status::io("cannot read " + *folder + ": " + error.message());
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return all;
}

/// A file of somebody's own, or one that is installed.
Result<Named> find(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".sql")) return readPlaybook(name);
  const Result<std::string> file = installedFile(std::string(kFolder) + "/" + name + ".sql");
  if (!file) return Status::notFound("there is no playbook '" + name + "': `tracesmith playbook` lists them");
  return readPlaybook(*file);
}

int list(bool json) {
  const Result<std::vector<Named>> all = installed();
  if (!all) return fail(all.status());
  if (json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().key("playbooks").beginArray();
    for (const Named& n : *all)
      w.beginObject()
          .field("name", n.name)
          .field("question", n.book.question)
          .field("read", n.book.read)
          .field("traces", n.book.compares ? 2 : 1)
          .endObject();
    w.endArray().endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"playbook", "question"}};
  for (const Named& n : *all) rows.push_back({n.name, n.book.question + (n.book.compares ? " (two traces)" : "")});
  std::printf("%s", alignTable(rows).c_str());
  return 0;
}

/// `name` replaced by the value as SQL has it.
void fill(std::string& sql, std::string_view name, const std::string& value) {
  std::string quoted = "'";
  for (char c : value) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  quoted += "'";
  for (size_t at = 0; (at = sql.find(name, at)) != std::string::npos; at += quoted.size())
    sql.replace(at, name.size(), quoted);
}

/// An answer as text: sentences where it is a finding, else a table.
std::string textOf(const std::string& json) {
  simdjson::dom::parser parser;
  simdjson::dom::element answer;
  simdjson::dom::array columns, rows;
  if (parser.parse(json).get(answer) || answer["columns"].get(columns) || answer["rows"].get(rows)) return "";
  std::vector<std::vector<std::string>> table(1);
  for (const auto column : columns) {
    std::string_view name;
    if (!column["name"].get(name)) table[0].emplace_back(name);
  }
  const bool finding = table[0] == std::vector<std::string>{"finding"};
  for (const simdjson::dom::element row : rows) {
    simdjson::dom::array cells;
    if (row.get(cells)) continue;
    std::vector<std::string>& line = table.emplace_back();
    for (const simdjson::dom::element cell : cells) {
      std::string_view text;
      line.push_back(cell.is_null() ? "-" : cell.get(text) ? simdjson::minify(cell) : std::string(text));
      line.back() = printable(line.back());
    }
  }
  if (!finding) return table.size() > 1 ? alignTable(table, "  ") : "  nothing\n";
  std::string out;
  for (size_t i = 1; i < table.size(); ++i) out += "  " + table[i][0] + ".\n";
  return out.empty() ? "  nothing\n" : out;
}

int runBook(const Options& o) {
  const Result<Named> named = find(o.name);
  if (!named) return fail(named.status());
  const Playbook& book = named->book;
  if (o.show) {
    std::printf("-- %s\n-- %s\n\n", book.question.c_str(), book.read.c_str());
    for (const Playbook::Part& part : book.parts)
      std::printf("-- %s\n-- %s\n%s;\n\n", part.title.c_str(), part.read.c_str(), part.sql.c_str());
    return 0;
  }
  const size_t wanted = book.compares ? 2 : 1;
  if (o.traces.size() != wanted)
    return usage("playbook",
                 named->name + (wanted == 2 ? " takes two traces, the older one first" : " takes one trace"));
  std::vector<std::string> files, names;
  for (const std::string& trace : o.traces) {
    Result<std::string> file = traceFile(trace);
    if (!file) return fail(file.status());
    files.push_back(*file);
    names.push_back(fs::path(*file).filename().string());
  }
  if (wanted == 2 && names[0] == names[1])
    return fail(Status::invalid("both traces are called " + names[0] + ": give one of them another name"));
  Result<TemporaryFolder> spill = TemporaryFolder::create();
  if (!spill) return fail(spill.status());
  query::EngineOptions options;
  options.spill = spill->path();
  Result<std::unique_ptr<query::Engine>> engine = loadQueryEngine();
  if (!engine) return fail(engine.status());
  if (Status s = (*engine)->open(files, options); !s) return fail(s);

  std::string out;
  JsonWriter w(out);
  if (o.json) {
    w.beginObject().field("playbook", named->name).field("question", book.question).field("read", book.read);
    w.key("findings").beginArray();
  } else {
    out = book.question + "\n" + book.read + "\n";
  }
  for (const Playbook::Part& part : book.parts) {
    std::string sql = part.sql, answer = "{";
    if (wanted == 2) {
      fill(sql, "$before", names[0]);
      fill(sql, "$after", names[1]);
    }
    query::RunOptions run;
    run.format = query::Format::kRows;
    run.limit = o.json ? kJsonRows : kRows;
    run.write = [&](std::string_view bytes) {
      answer += bytes;
      return Status();
    };
    query::RunReport report;
    if (Status s = (*engine)->run(sql, run, report); !s)
      return fail(Status(s.code(), "'" + part.title + "': " + s.message()));
    answer += "}";
    if (o.json) {
      w.beginObject().field("title", part.title).field("read", part.read).field("sql", sql);
      w.field("truncated", report.truncated).key("answer").raw(answer).endObject();
    } else {
      out += "\n" + part.title + "\n" + (part.read.empty() ? "" : part.read + "\n") + textOf(answer);
      if (report.truncated) out += "  (the first " + std::to_string(kRows) + " rows; --json has more)\n";
    }
  }
  if (o.json) {
    w.endArray().endObject();
    out += "\n";
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  for (const std::string& note : (*engine)->notes()) std::fprintf(stderr, "tracesmith: note: %s\n", note.c_str());
  for (const std::string& damage : (*engine)->damage()) warn(damage);
  return 0;
}

}  // namespace

void addPlaybook(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("playbook", "Answer a question about a job from its trace, or list the questions");
  command.positional("NAME", o->name, "A playbook of the list, or a file of your own (docs/playbooks.md)")
      .type("NAME|FILE.sql");
  command.positional("TRACE", o->traces, "Trace that it is about; of two, the older one first").type("FILE...");
  command.flag("--show", o->show, "Print its SQL instead");
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "Examples:  tracesmith playbook\n"
      "           tracesmith playbook slow-job job.sbt\n"
      "           tracesmith playbook slower-since yesterday.sbt today.sbt");
  command.run([o] { return o->name.empty() ? list(o->json) : runBook(*o); });
}

}  // namespace tracesmith::cli
