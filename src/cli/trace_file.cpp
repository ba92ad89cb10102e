#include "cli/trace_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/count.hpp"
#include "base/interface_versions.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "model/kernel_collective.hpp"
#include "model/operation.hpp"
#include "trace/import/input.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 16;  // traces in the cache; the ones that were used longest ago go first

/// Folders of SBT traces are for those commands that read several.
bool needsImport(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  Result<File> file = File::openRead(path);
  char first[64];
  size_t got = 0;
  if (!fs::is_regular_file(path, error) || !file || !file->readAt(0, first, sizeof first, got)) return false;
  const std::string_view begin(first, got);
  switch (trace::kindOf(begin)) {
    case trace::InputKind::kGzip:
    case trace::InputKind::kSbt0:
    case trace::InputKind::kSqlite:
    case trace::InputKind::kPickle:
    case trace::InputKind::kInspector:
      return true;
    case trace::InputKind::kText: {
      const size_t word = begin.find_first_not_of(" \t\r\n");
      return word != begin.npos && (begin[word] == '{' || begin[word] == '[');
    }
    default:
      return false;
  }
}

Result<std::string> cacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache && *cache)
    folder = cache;
  else if (home && *home)
    folder = fs::path(home) / ".cache";
  else
    return Status::notFound("neither XDG_CACHE_HOME nor HOME is set");
  folder /= "tracesmith/imports";
  if (Status s = makePrivateFolder(folder.string()); !s) return s;
  return folder.string();
}

/// Changes with the files that are imported, and with what a program of another build would make of them.
Result<std::string> nameOf(const std::string& path) {
  Result<std::vector<std::string>> inputs = trace::importInputs({path});
  if (!inputs) return inputs.status();
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  auto add = [&](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash = (hash ^ 0xff) * 1099511628211u;
  };
  add(kQueryInterface);
  for (const std::string& input : *inputs) {
    struct stat about {};
    if (::stat(input.c_str(), &about) != 0) return errnoStatus("read", input);
    std::error_code error;
    add(fs::canonical(input, error).string());
    for (const int64_t part : {static_cast<int64_t>(about.st_size), static_cast<int64_t>(about.st_mtim.tv_sec),
                               static_cast<int64_t>(about.st_mtim.tv_nsec), static_cast<int64_t>(about.st_ino)})
      add(std::to_string(part));
  }
  std::error_code error;
  std::string stem = fs::canonical(path, error).filename().string();
  stem = stem.substr(0, std::min<size_t>(stem.find('.', 1), 80));
  char text[24];
  std::snprintf(text, sizeof text, "-%016llx.sbt", static_cast<unsigned long long>(hash));
  return stem + text;
}

void removeOldest(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".sbt") found.emplace_back(entry.last_write_time(error), entry.path());
  std::sort(found.rbegin(), found.rend());
  for (size_t i = kKept; i < found.size(); ++i) fs::remove(found[i].second, error);
}

}  // namespace

Option addTraceFile(Command& command, const char* name, std::string& file, const char* purpose) {
  const std::string help =
      std::string(purpose) + "; JSON of PyTorch or Chrome, also .gz and in a folder, is imported first";
  return command.positional(name, file, help.c_str()).type("FILE.sbt");
}

Result<Imported> importInto(trace::ImportOptions options, const std::string& output) {
  const auto start = std::chrono::steady_clock::now();
  if (!options.collective_of) options.collective_of = model::collectiveOfEvent;
  if (!options.operation_of) options.operation_of = [](std::string_view name) { return model::opNameOf(name); };
  if (options.command.empty()) {
    options.command = "tracesmith import";
    for (const std::string& path : options.paths) options.command += " " + path;
    options.command += " -o " + output;
  }
  std::error_code ignored;
  const bool special = fs::exists(output, ignored) && !fs::is_regular_file(output, ignored);
  if (!special) options.spill_path = output;

  trace::WriterOptions written;
  written.whole_or_absent = true;
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(output, written);
  if (!writer) return writer.status();
  Result<trace::ImportReport> report = [&] {
    Progress bar("import");
    return trace::importTraces(options, **writer, [&](uint64_t done, uint64_t total) { bar.update(done, total); });
  }();
  if (!report) return report.status();
  if (Status closed = (*writer)->close(); !closed) return closed;
  for (const std::string& w : report->warnings) warn(w);
  return Imported{std::move(*report), (*writer)->bytesWritten(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

Result<std::string> traceFile(const std::string& path) {
  if (!needsImport(path)) return path;
  Result<std::string> name = nameOf(path);
  if (!name) return name.status();
  Result<std::string> folder = cacheFolder();
  if (!folder)
    return Status::invalid(path + " must be imported, and there is no folder for the trace (" +
                           folder.status().message() + "): tracesmith import " + path + " -o job.sbt");
  const std::string kept = *folder + "/" + *name;
  std::error_code error;
  if (fs::exists(kept, error)) {
    fs::last_write_time(kept, fs::file_time_type::clock::now(), error);
    return kept;
  }
  trace::ImportOptions options;
  options.paths = {path};
  Result<Imported> imported = importInto(std::move(options), kept);
  if (!imported) return imported.status();
  std::fprintf(stderr, "tracesmith: note: imported %s (%s, %s) into %s\n", path.c_str(),
               counted(imported->report.files, "file").c_str(), humanBytes(imported->report.input_bytes).c_str(),
               kept.c_str());
  removeOldest(*folder);
  return kept;
}

Result<std::unique_ptr<trace::Reader>> openTrace(const std::string& path) {
  Result<std::string> file = traceFile(path);
  if (!file) return file.status();
  return trace::Reader::open(*file);
}

}  // namespace tracesmith::cli
