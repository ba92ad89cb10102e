#include "trace/import/import.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/count.hpp"
#include "base/text.hpp"
#include "trace/import/chrome_import.hpp"
#include "trace/import/database_source.hpp"
#include "trace/import/flight_import.hpp"
#include "trace/import/input.hpp"
#include "trace/import/inspector_import.hpp"
#include "trace/import/sbt0_import.hpp"

namespace tracesmith::trace {
namespace {

namespace fs = std::filesystem;

/// In a folder, only what looks like a trace by its name; a file that is named is read whatever its name.
/// SBT traces may lie beside their sources: they need no import.
bool isInput(const std::string& path) {
  if (path.ends_with(".json") || path.ends_with(".json.gz")) return true;
  // Dumps of the flight recorder end in the rank: nccl_trace_rank_3.
  const bool dump = fs::path(path).extension().empty() || path.ends_with(".pkl") || path.ends_with(".pickle");
  if (path.ends_with(".sqlite") || path.ends_with(".jsonl")) return true;
  if (!dump && !path.ends_with(".sbt")) return false;
  Result<File> file = File::openRead(path);
  char first[8];
  size_t got = 0;
  if (!file || !file->readAt(0, first, sizeof first, got)) return false;
  return kindOf({first, got}) == (dump ? InputKind::kPickle : InputKind::kSbt0);
}

Status addFolder(const fs::path& folder, std::vector<std::string>& out) {
  std::error_code error;
  std::vector<std::string> found;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error))
    if (it->is_regular_file(error) && isInput(it->path().string())) found.push_back(it->path().string());
  if (error) return Status::io("cannot read the folder " + folder.string() + ": " + error.message());
  if (found.empty())
    return Status::notFound(
        folder.string() +
        " holds no traces (*.json, *.json.gz, *.jsonl, *.sqlite, *.sbt, dumps of torch's flight recorder)");
  std::sort(found.begin(), found.end());
  out.insert(out.end(), found.begin(), found.end());
  return {};
}

/// 3 of "rank3.json" and "step5_rank-3.json.gz"; kNull: the name says no rank, or several.
int64_t rankInName(const std::string& path) {
  constexpr std::string_view kWord = "rank";
  const std::string name = fs::path(path).filename().string();
  int64_t rank = kNull;
  for (size_t at = name.find(kWord); at != name.npos; at = name.find(kWord, at + 1)) {
    size_t digits = at + kWord.size();
    if (digits < name.size() && (name[digits] == '-' || name[digits] == '_' || name[digits] == '=')) ++digits;
    const size_t end = std::min(name.find_first_not_of("0123456789", digits), name.size());
    int64_t value;
    if (!parseInt(std::string_view(name).substr(digits, end - digits), value) || value > INT32_MAX) continue;
    if (rank != kNull && rank != value) return kNull;
    rank = value;
  }
  return rank;
}

/// Tells a caller how far the reading is, as JSON passes by.
class Reporting : public ByteSource {
 public:
  Reporting(std::unique_ptr<ByteSource> source, std::function<void(uint64_t)> tell)
      : source_(std::move(source)), tell_(std::move(tell)) {}
  Status read(char* buffer, size_t size, size_t& got) override {
    tell_(source_->consumed());
    return source_->read(buffer, size, got);
  }
  uint64_t consumed() const override { return source_->consumed(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::function<void(uint64_t)> tell_;
};

class Importer {
 public:
  Importer(const ImportOptions& options, Writer& writer, const std::function<void(uint64_t, uint64_t)>& progress)
      : options_(options), writer_(writer), progress_(progress) {
    shared_.collective_of = options.collective_of;
    shared_.type_of = options.type_of;
  }

  Result<ImportReport> run();

 private:
  Status input(const std::string& path, uint64_t size);
  Status json(File file, bool gzip, const std::string& path);
  Status database(const std::string& path, uint64_t size);
  Status stream(std::unique_ptr<ByteSource> source, const std::string& path, const Losses* more);
  Status flight(const File& file, uint64_t size);
  Status inspector(const File& file, uint64_t size);
  /// The rank of a file that does not say it.
  int64_t rankOf(const std::string& path);
  void tell(uint64_t done) {
    if (progress_) progress_(report_.input_bytes + done, total_);
  }
  void seeRank(int64_t rank, const std::string& path);
  /// What an input says of its job.
  struct Seen {
    std::string path;
    int64_t world_size, first_ns, last_ns;  // or kNull
  };
  void seeJob(Seen input);
  Status session(const std::vector<std::string>& paths);
  RowSink::Options sink() const;

  const ImportOptions& options_;
  Writer& writer_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  ImportShared shared_;
  ImportReport report_;
  std::map<int64_t, std::string> rank_paths_;
  std::optional<Seen> first_;
  bool other_job_ = false;                  // was said
  std::vector<std::string> ranks_by_name_;  // files whose name alone says the rank
  uint64_t total_ = 0;
};

RowSink::Options Importer::sink() const {
  RowSink::Options sink;
  sink.thread = options_.threads;
  sink.memory_bytes = options_.waiting_bytes;
  sink.spill_path = options_.spill_path;
  std::error_code ignored;
  if (sink.spill_path.empty()) sink.spill_path = (fs::temp_directory_path(ignored) / "tracesmith").string();
  return sink;
}

void Importer::seeRank(int64_t rank, const std::string& path) {
  if (rank == kNull) return;
  report_.ranks.insert(rank);
  auto [it, fresh] = rank_paths_.try_emplace(rank, path);
  if (!fresh) report_.warnings.push_back("rank " + std::to_string(rank) + " is in both " + it->second + " and " + path);
}

/// One trace of two jobs gives ranks that never meet, and wrong conclusions.
void Importer::seeJob(Seen input) {
  if (!first_) {
    first_ = std::move(input);
    return;
  }
  if (other_job_) return;
  std::string why;
  const int64_t apart = std::max(input.first_ns, first_->first_ns) - std::min(input.last_ns, first_->last_ns);
  if (input.world_size != kNull && first_->world_size != kNull && input.world_size != first_->world_size)
    why = "one is of a job of " + counted(static_cast<uint64_t>(first_->world_size), "rank") + ", the other of " +
          std::to_string(input.world_size);
  else if (input.first_ns != kNull && first_->first_ns != kNull && apart > 0)
    why = "one begins " + humanNs(static_cast<double>(apart)) + " after the other has ended";
  other_job_ = !why.empty();
  if (other_job_) report_.warnings.push_back(first_->path + " and " + input.path + " look like different jobs: " + why);
}

Status Importer::json(File file, bool gzip, const std::string& path) {
  std::unique_ptr<ByteSource> source = fileSource(std::move(file));
  if (gzip) {
    source = gzipSource(std::move(source), path);
    if (options_.threads) source = readAhead(std::move(source));
  }
  return stream(std::move(source), path, nullptr);
}

Status Importer::database(const std::string& path, uint64_t size) {
  Result<Database> database = Database::open(path);
  if (!database) return database.status();
  DatabaseNotes notes;
  Result<std::unique_ptr<ByteSource>> source = databaseSource(*database, size, notes);
  if (!source) return source.status();
  TS_TRY(stream(std::move(*source), path, &notes.losses));
  report_.warnings.insert(report_.warnings.end(), notes.warnings.begin(), notes.warnings.end());
  return {};
}

/// JSON of Kineto's kind. `more`: what its source has lost when it has ended.
Status Importer::stream(std::unique_ptr<ByteSource> source, const std::string& path, const Losses* more) {
  Reporting reporting(std::move(source), [this](uint64_t done) { tell(done); });
  ChromeImport rows(writer_, sink(), shared_, options_.rank, options_.node);
  rows.setNamedRank(rankInName(path));
  JsonStreamOptions stream_options;
  stream_options.window_bytes = options_.window_bytes;
  JsonStream stream(reporting, path, stream_options);
  TS_TRY(stream.run(rows));
  if (more)
    for (const auto& [cause, entry] : more->entries()) rows.loss(cause, entry.count, entry.example);
  if (Status s = rows.finish(); !s) return s.code() == Code::kCorrupt ? Status::corrupt(path + ": " + s.message()) : s;
  report_.json_bytes += stream.bytes();
  report_.events += rows.events();
  report_.collectives += rows.collectives();
  report_.steps.insert(rows.steps().begin(), rows.steps().end());
  report_.losses.add(rows.losses());
  for (const int64_t rank : rows.ranks()) seeRank(rank, path);
  seeJob({path, rows.facts().world_size, rows.firstNs(), rows.lastNs()});
  if (rows.rankIsByName()) ranks_by_name_.push_back(fs::path(path).filename().string());
  return {};
}

int64_t Importer::rankOf(const std::string& path) {
  if (options_.rank != kNull) return options_.rank;
  const int64_t named = rankInName(path);
  if (named != kNull) ranks_by_name_.push_back(fs::path(path).filename().string());
  return named;
}

Status Importer::flight(const File& file, uint64_t size) {
  const std::string& path = file.path();
  Result<FlightResult> result = importFlight(file, writer_, sink(), rankOf(path), options_.node, options_.operation_of);
  if (!result) return result.status();
  report_.json_bytes += size;
  report_.collectives += result->collectives;
  report_.losses.add(result->losses);
  seeRank(result->facts.rank, path);
  seeJob({path, result->facts.world_size, result->first_ns, result->last_ns});
  return {};
}

Status Importer::inspector(const File& file, uint64_t size) {
  Result<InspectorResult> result =
      importInspector(file, writer_, sink(), rankOf(file.path()), options_.node, options_.operation_of);
  if (!result) return result.status();
  report_.json_bytes += size;
  report_.collectives += result->collectives;
  report_.losses.add(result->losses);
  seeRank(result->facts.rank, file.path());
  return {};
}

Status Importer::input(const std::string& path, uint64_t size) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  char first[8];
  size_t got;
  TS_TRY(file->readAt(0, first, sizeof first, got));
  switch (kindOf(std::string_view(first, got))) {
    case InputKind::kEmpty:
      return Status::corrupt(path + " is empty");
    case InputKind::kSbt1:
      return Status::invalid(path + " is already an SBT trace: it needs no import");
    case InputKind::kSbt0: {
      Result<Sbt0Result> result = importSbt0(*file, writer_, sink(), options_.rank, options_.node);
      if (!result) return result.status();
      report_.json_bytes += size;
      report_.events += result->events;
      report_.losses.add(result->losses);
      seeRank(result->facts.rank, path);
      return {};
    }
    case InputKind::kPickle:
      return flight(*file, size);
    case InputKind::kSqlite:
      return database(path, size);
    case InputKind::kInspector:
      return inspector(*file, size);
    case InputKind::kGzip:
      return json(std::move(*file), true, path);
    case InputKind::kText:
      break;
  }
  return json(std::move(*file), false, path);
}

Status Importer::session(const std::vector<std::string>& paths) {
  auto appender = writer_.appender();
  SessionRow row;
  row.source = writer_.string("import");
  if (!options_.command.empty()) row.command = appender->text(options_.command);
  std::string args;
  JsonWriter json(args);
  json.beginObject().key("files").beginArray();
  for (size_t i = 0; i < paths.size() && args.size() < 1u << 20; ++i) json.value(paths[i]);
  json.endArray().endObject();
  row.args = appender->text(args);
  TS_TRY(appender->append(row));
  return appender->flush();
}

Result<ImportReport> Importer::run() {
  Result<std::vector<std::string>> paths = importInputs(options_.paths);
  if (!paths) return paths.status();
  if (options_.rank != kNull && paths->size() > 1)
    return Status::invalid("a rank can be given for one input only, not for " + std::to_string(paths->size()));
  std::vector<uint64_t> sizes;
  for (const std::string& path : *paths) {
    std::error_code error;
    uint64_t size = fs::file_size(path, error);
    sizes.push_back(error ? 0 : size);
    total_ += sizes.back();
  }
  for (size_t i = 0; i < paths->size(); ++i) {
    TS_TRY(input((*paths)[i], sizes[i]));
    report_.input_bytes += sizes[i];
    ++report_.files;
  }
  TS_TRY(session(*paths));
  if (!ranks_by_name_.empty())
    report_.warnings.push_back(
        "the rank of " + ranks_by_name_.front() +
        (ranks_by_name_.size() > 1
             ? " and of " + counted(ranks_by_name_.size() - 1, "other file") + " is taken from the file name"
             : " is taken from its name"));
  return std::move(report_);
}

}  // namespace

Result<std::vector<std::string>> importInputs(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error))
      TS_TRY(addFolder(path, out));
    else if (!fs::exists(path, error))
      return Status::notFound("cannot open " + path + ": No such file or directory");
    else
      out.push_back(path);
  }
  return out;
}

Result<ImportReport> importTraces(const ImportOptions& options, Writer& writer,
                                  const std::function<void(uint64_t, uint64_t)>& progress) {
  return Importer(options, writer, progress).run();
}

}  // namespace tracesmith::trace
