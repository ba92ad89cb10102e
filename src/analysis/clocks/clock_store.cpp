// Refined clocks, put into the trace they were found in.
#include <unistd.h>

#include <bit>

#include "analysis/clocks/clock_refine.hpp"
#include "base/file.hpp"
#include "trace/batch.hpp"
#include "trace/block_bytes.hpp"
#include "trace/layout.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// Writes a trace of its own at `path`, with the rows of the refined clocks.
Status writeRows(const std::string& path, const sync::Clocks& clocks, const std::string& reference) {
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, {});
  if (!writer) return writer.status();
  auto out = (*writer)->appender();
  for (const auto& [node, clock] : clocks) {
    if (!clock.refined()) continue;
    const std::vector<sync::ClockModel>& models = clock.models();
    for (size_t i = 0; i < models.size(); ++i) {
      const sync::ClockModel& m = models[i];
      ClockRow row;
      row.node = (*writer)->string(node);
      row.ts_from = m.at_ns;
      if (i + 1 < models.size()) row.ts_to = models[i + 1].at_ns;
      row.offset_ns = m.offset_ns;
      row.drift_ppm = real(m.drift_ppm);
      if (m.valid()) row.bound_ns = m.bound_ns;
      row.method = (*writer)->string(m.method);
      row.reference = (*writer)->string(reference);
      TS_TRY(out->append(row));
    }
  }
  TS_TRY(out->flush());
  return (*writer)->flushStrings();
}

Result<std::string> wholeFile(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  Result<uint64_t> size = file->size();
  if (!size) return size.status();
  std::string bytes(*size, '\0');
  size_t got;
  TS_TRY(file->readAt(0, bytes.data(), bytes.size(), got));
  return bytes;
}

/// Puts the blocks of one trace before the end mark of another, as a stream of its own.
Status addBlocks(const std::string& path, std::string_view blocks, uint32_t stream) {
  const size_t end_size = endBlock(0).size();
  Result<File> file = File::openAppend(path);
  if (!file) return file.status();
  Result<uint64_t> size = file->size();
  if (!size) return size.status();
  std::string last(end_size, '\0');
  size_t got = 0;
  if (*size < end_size) return Status::invalid(path + " is not closed");
  {
    Result<File> in = File::openRead(path);
    if (!in) return in.status();
    TS_TRY(in->readAt(*size - end_size, last.data(), last.size(), got));
  }
  Result<BlockBytes> end = blockAt(last);
  if (!end || end->header.table != kEndTable) return Status::invalid(path + " is not closed");
  uint64_t sequence = end->header.sequence;
  if (::ftruncate(file->fd(), static_cast<off_t>(*size - end_size)) != 0) return errnoStatus("change", path);
  while (!blocks.empty()) {
    Result<BlockBytes> block = blockAt(blocks);
    if (!block) return block.status();
    std::string bytes(block->bytes);
    seal(bytes, sequence++, stream);
    TS_TRY(file->write(bytes));
    blocks.remove_prefix(block->bytes.size());
  }
  TS_TRY(file->write(endBlock(sequence)));
  return file->close();
}

}  // namespace

Result<Refinement> storeRefinedClocks(const std::string& path) {
  Refinement refinement;
  sync::Clocks clocks;
  uint32_t stream = 0;
  {
    Result<std::unique_ptr<Reader>> reader = Reader::open(path);
    if (!reader) return reader.status();
    Result<Names> names = Names::load(**reader);
    if (!names) return names.status();
    Result<sync::Clocks> given = sync::readClocks(**reader);
    if (!given) return given.status();
    clocks = std::move(*given);
    if (clocks.size() < 2) return refinement;
    for (const auto& [node, clock] : clocks)
      if (clock.refined()) return refinement;  // done already
    Result<PartTable> table = loadParts(**reader, *names);
    if (!table) return table.status();
    TS_TRY(match(**reader, *names, *table));
    refinement = refineClocks(*table, clocks);
    for (const Block& b : (*reader)->blocks()) stream = std::max(stream, b.stream);
  }
  if (!refinement.used) return refinement;
  const std::string part = path + ".clocks.part" + std::to_string(::getpid());
  Status status = writeRows(part, clocks, refinement.reference);
  Result<std::string> bytes = status ? wholeFile(part) : Result<std::string>(status);
  ::unlink(part.c_str());
  if (!bytes) return bytes.status();
  TS_TRY(addBlocks(path, std::string_view(*bytes).substr(sizeof(FileHeader)), stream + 1));
  return refinement;
}

}  // namespace tracesmith::analysis
