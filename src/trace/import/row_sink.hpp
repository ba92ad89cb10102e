// Rows of one input on their way into the trace. Rank, node and step are often known only when all of the input was
// read, so encoded blocks wait (in memory, beyond a limit in a file without a name) until finish() completes them.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "trace/batch.hpp"
#include "trace/import/step_index.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {

/// What holds for all rows of one input; kNull: not known.
struct InputFacts {
  int64_t rank = kNull;
  int64_t world_size = kNull;
  int64_t node = kNull;  ///< string id
  int64_t pid = kNull;   ///< of the process that used the device
  int64_t epoch_ns = 0;  ///< what all times count from
};

/// Steps of a rank; kNull: of all rows that say no rank themselves.
using StepsOfRanks = std::map<int64_t, StepIndex>;

/// Methods are for one thread; encoding is done by another, where asked for.
class RowSink {
 public:
  struct Options {
    bool thread = true;               ///< encode in a thread of its own
    size_t memory_bytes = 24u << 20;  ///< encoded blocks kept in memory
    std::string spill_path;           ///< further blocks go to a file beside this one
  };
  RowSink(Writer& writer, Options options);
  ~RowSink();
  RowSink(const RowSink&) = delete;
  RowSink& operator=(const RowSink&) = delete;

  /// Texts of the row added next: append to it, then use textFrom(where it was before).
  std::string& texts() { return chunk_->texts; }
  int64_t textFrom(size_t begin) const { return textSlot(begin, chunk_->texts.size() - begin); }
  int64_t text(std::string_view s) {
    size_t begin = texts().size();
    texts().append(s);
    return textFrom(begin);
  }

  template <typename Row>
  void add(const Row& row) {
    const TableInfo& table = tableOf<Row>();
    chunk_->tables.push_back(&table);
    auto* slots = reinterpret_cast<const int64_t*>(&row);
    chunk_->slots.insert(chunk_->slots.end(), slots, slots + table.columns.size());
    if (chunk_->slots.size() >= kChunkSlots || chunk_->texts.size() >= kChunkTexts) submit();
  }

  /// Error of the encoding side so far.
  Status state();

  /// Completes all blocks and writes them. Nothing may be added afterwards.
  Status finish(const InputFacts& facts, StepsOfRanks& steps);

 private:
  static constexpr size_t kChunkSlots = 1 << 16;
  static constexpr size_t kChunkTexts = 1 << 20;
  static constexpr size_t kQueue = 4;

  struct Chunk {
    std::vector<const TableInfo*> tables;
    std::vector<int64_t> slots;
    std::string texts;
  };
  /// An encoded block that waits.
  struct Waiting {
    const TableInfo* table;
    bool device;        // device rows of events
    std::string bytes;  // empty: in the file
    uint64_t offset;
    size_t size;
  };

  void submit();
  void work();
  Status encode(const Chunk& chunk);
  Status keep(Batch& batch, bool device);
  Status load(Waiting& block, std::string& bytes) const;
  Status complete(Waiting& block, const InputFacts& facts, StepsOfRanks& steps);
  void addSteps(class BlockEditor& editor, const Waiting& block, StepsOfRanks& steps);

  Writer& writer_;
  Options options_;
  std::unique_ptr<Chunk> chunk_;  // being filled

  // Of the encoding side until it has stopped:
  Encoder encoder_;
  std::vector<std::unique_ptr<Batch>> batches_;  // two a table: device rows of events apart
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  File spill_, spill_reader_;
  uint64_t spilled_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Chunk>> queue_, free_;
  Status state_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::trace
