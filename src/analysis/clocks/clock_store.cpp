// Refined clocks, put into the trace they were found in.
#include <unistd.h>

#include <bit>

#include "analysis/clocks/clock_refine.hpp"
#include "analysis/collectives/rejoin.hpp"
#include "base/file.hpp"
#include "trace/batch.hpp"
#include "trace/block_bytes.hpp"
#include "trace/layout.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// The blocks of a trace that has the rows of the refined clocks, and nothing else.
Result<std::vector<std::string>> clockBlocks(const trace::Clocks& clocks, const std::string& reference) {
  std::vector<std::string> blocks;
  Result<std::unique_ptr<Writer>> writer = Writer::create([&](std::string_view bytes) {
    blocks.emplace_back(bytes);
    return Status();
  });
  if (!writer) return writer.status();
  auto out = (*writer)->appender();
  for (const auto& [node, clock] : clocks) {
    if (!clock.refined()) continue;
    const std::vector<trace::ClockModel>& models = clock.models();
    for (size_t i = 0; i < models.size(); ++i) {
      const trace::ClockModel& m = models[i];
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
  TS_TRY((*writer)->flushStrings());
  blocks.erase(blocks.begin());  // the header of the file
  return blocks;
}

/// Puts blocks before the end mark of a trace, as a stream of their own.
Status addBlocks(const std::string& path, std::vector<std::string> blocks, uint32_t stream) {
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
  for (std::string& block : blocks) {
    seal(block, sequence++, stream);
    TS_TRY(file->write(block));
  }
  TS_TRY(file->write(endBlock(sequence)));
  return file->close();
}

}  // namespace

Result<Refinement> storeRefinedClocks(const std::string& path) {
  Refinement refinement;
  trace::Clocks clocks;
  uint32_t stream = 0;
  {
    Result<std::unique_ptr<Reader>> reader = Reader::open(path);
    if (!reader) return reader.status();
    Result<trace::NameNumbers> names = trace::NameNumbers::load(**reader);
    if (!names) return names.status();
    Result<trace::Clocks> given = trace::readClocks(**reader);
    if (!given) return given.status();
    clocks = std::move(*given);
    if (clocks.size() < 2) return refinement;
    for (const auto& [node, clock] : clocks)
      if (clock.refined()) return refinement;  // done already
    Result<PartTable> table = loadParts(**reader, *names);
    if (!table) return table.status();
    if (Result<Rejoined> rejoined = rejoinKernels(**reader, *names, *table); !rejoined) return rejoined.status();
    mergeExchanges(*table);
    TS_TRY(match(**reader, *names, *table));
    findImpossible(*table);
    refinement = refineClocks(*table, clocks);
    for (const Block& b : (*reader)->blocks()) stream = std::max(stream, b.stream);
  }
  if (!refinement.used) return refinement;
  Result<std::vector<std::string>> blocks = clockBlocks(clocks, refinement.reference);
  if (!blocks) return blocks.status();
  TS_TRY(addBlocks(path, std::move(*blocks), stream + 1));
  return refinement;
}

}  // namespace tracesmith::analysis
