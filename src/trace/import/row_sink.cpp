#include "trace/import/row_sink.hpp"

#include <unistd.h>

#include <algorithm>

#include "trace/import/block_editor.hpp"

namespace tracesmith::trace {
namespace {
constexpr size_t kFullTextBytes = 4u << 20;  // of one block; a value may add 8 MiB, and 16 MiB is the format's limit
}

RowSink::RowSink(Writer& writer, Options options)
    : writer_(writer),
      options_(std::move(options)),
      chunk_(std::make_unique<Chunk>()),
      encoder_(writer.options().zstd_level),
      batches_(tables().size() * 2) {
  if (options_.thread) thread_ = std::thread([this] { work(); });
}

RowSink::~RowSink() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

Status RowSink::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

void RowSink::submit() {
  std::unique_ptr<Chunk> next;
  if (options_.thread) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.size() < kQueue; });
    queue_.push_back(std::move(chunk_));
    changed_.notify_all();
    if (!free_.empty()) {
      next = std::move(free_.front());
      free_.pop_front();
    }
  } else {
    if (state_.ok()) state_ = encode(*chunk_);
    next = std::move(chunk_);
  }
  chunk_ = next ? std::move(next) : std::make_unique<Chunk>();
  chunk_->tables.clear();
  chunk_->slots.clear();
  chunk_->texts.clear();
}

void RowSink::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
    if (queue_.empty()) return;
    std::unique_ptr<Chunk> chunk = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    if (!state_.ok()) continue;
    lock.unlock();
    Status status = encode(*chunk);
    lock.lock();
    free_.push_back(std::move(chunk));
    state_ = status;
  }
}

Status RowSink::encode(const Chunk& chunk) {
  const int64_t* slots = chunk.slots.data();
  for (const TableInfo* table : chunk.tables) {
    bool device = table == &tableOf<EventRow>() && isDeviceType(static_cast<EventType>(slots[events::type]));
    std::unique_ptr<Batch>& batch = batches_[static_cast<size_t>(table - tables().data()) * 2 + device];
    if (!batch) batch = std::make_unique<Batch>(*table);
    batch->append(slots, chunk.texts);
    slots += table->columns.size();
    if (batch->rows() >= writer_.options().block_rows || batch->textBytes() >= kFullTextBytes)
      TS_TRY(keep(*batch, device));
  }
  return {};
}

Status RowSink::keep(Batch& batch, bool device) {
  if (batch.rows() == 0) return {};
  Waiting block{&batch.table(), device, batch.encode(encoder_), 0, 0};
  batch.clear();
  block.size = block.bytes.size();
  if (waiting_bytes_ + block.size <= options_.memory_bytes) {
    waiting_bytes_ += block.size;
  } else {
    if (!spill_.isOpen()) {
      std::string path = options_.spill_path + ".waiting-" + std::to_string(::getpid());
      Result<File> file = File::create(path);
      if (!file) return file.status();
      spill_ = std::move(*file);
      // Read through a descriptor of its own; without a name it is gone with the process.
      Result<File> reader = File::openRead(path);
      ::unlink(path.c_str());
      if (!reader) return reader.status();
      spill_reader_ = std::move(*reader);
    }
    block.offset = spilled_;
    TS_TRY(spill_.write(block.bytes));
    spilled_ += block.size;
    std::string().swap(block.bytes);
  }
  waiting_.push_back(std::move(block));
  return {};
}

Status RowSink::load(Waiting& block, std::string& bytes) const {
  if (!block.bytes.empty()) {
    bytes = std::move(block.bytes);
    return {};
  }
  bytes.resize(block.size);
  size_t got;
  TS_TRY(spill_reader_.readAt(block.offset, bytes.data(), bytes.size(), got));
  return got == bytes.size() ? Status() : Status::io(spill_reader_.path() + " shrank while it was in use");
}

void RowSink::addSteps(BlockEditor& editor, const Waiting& block, StepsOfRanks& steps) {
  const bool collective = block.table == &tableOf<CollectiveRow>();
  Decoder decoder;
  auto read = [&](int in_collectives, int in_events) {
    return editor.read(decoder, collective ? in_collectives : in_events);
  };
  const std::vector<int64_t> correlation = read(collectives::correlation, events::correlation),
                             rank = read(collectives::rank, events::rank), ts = read(collectives::ts, events::ts);
  // A collective without a device ran on the host.
  const std::vector<int64_t> device = collective ? editor.read(decoder, collectives::device) : std::vector<int64_t>();
  const std::vector<int64_t> type = collective ? std::vector<int64_t>() : editor.read(decoder, events::type);
  std::vector<int64_t> step(editor.rows(), kNull);
  for (size_t i = 0; i < step.size(); ++i) {
    auto of_rank = steps.find(rank[i]);
    if (of_rank == steps.end()) continue;
    StepIndex& index = of_rank->second;
    if (block.device || (collective && correlation[i] != kNull)) {
      if (correlation[i] != kNull) step[i] = index.ofLaunch(correlation[i]);
      continue;
    }
    if (ts[i] == kNull || (collective && device[i] != kNull)) continue;
    step[i] = index.at(ts[i]);
    if (collective) continue;
    const bool api =
        type[i] == static_cast<int64_t>(EventType::runtime) || type[i] == static_cast<int64_t>(EventType::driver);
    if (api && correlation[i] != kNull) index.launch(correlation[i], step[i]);
  }
  editor.add(encoder_, collective ? static_cast<int>(collectives::step) : events::step, step);
}

Status RowSink::complete(Waiting& block, const InputFacts& facts, StepsOfRanks& steps) {
  std::string bytes;
  TS_TRY(load(block, bytes));
  BlockEditor editor(*block.table, std::move(bytes));
  const bool collective = block.table == &tableOf<CollectiveRow>();
  if (!steps.empty() && (block.table == &tableOf<EventRow>() || collective)) addSteps(editor, block, steps);
  auto constant = [&](const char* column, int64_t value) {
    if (int index = block.table->find(column); index >= 0) editor.addConstant(index, value);
  };
  constant("rank", facts.rank);
  constant("node", facts.node);
  if (block.device || collective) constant("pid", facts.pid);
  for (const char* column : {"ts", "ts_end", "ts_start", "ts_enqueue"})
    if (int index = block.table->find(column);
        index >= 0 && facts.epoch_ns != 0 && !editor.shift(index, facts.epoch_ns))
      return Status::corrupt("its times are too large for its baseTimeNanoseconds");
  return writer_.commit(editor.take());
}

Status RowSink::finish(const InputFacts& facts, StepsOfRanks& steps) {
  if (!chunk_->tables.empty()) submit();
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  TS_TRY(state_);
  for (size_t i = 0; i < batches_.size(); ++i)
    if (batches_[i]) TS_TRY(keep(*batches_[i], i % 2 == 1));
  for (auto& [rank, index] : steps) index.seal();
  // Host rows first: they tell in which step a launch was.
  auto later = std::stable_partition(waiting_.begin(), waiting_.end(),
                                     [](const Waiting& b) { return b.table == &tableOf<EventRow>() && !b.device; });
  for (auto it = waiting_.begin(); it != later; ++it) TS_TRY(complete(*it, facts, steps));
  for (auto it = later; it != waiting_.end(); ++it) TS_TRY(complete(*it, facts, steps));
  return {};
}

}  // namespace tracesmith::trace
