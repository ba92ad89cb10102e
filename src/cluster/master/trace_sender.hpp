// Sends a trace, its outline or pieces of it to a client, in messages of some size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "cluster/rpc/rpc.hpp"
#include "cluster/wire/segment.hpp"

namespace tracesmith::cluster {

/// Of one call, by its thread.
class TraceSender {
 public:
  explicit TraceSender(grpc::ServerWriter<pb::TraceChunk>& writer) : writer_(writer) {}

  Status take(std::string_view bytes, uint64_t events) {
    at_ += bytes.size();
    chunk_.mutable_compressed_data()->append(bytes);
    chunk_.set_event_count(chunk_.event_count() + events);
    return sendIfFull();
  }
  /// A block without its columns.
  Status leaveOut(std::string_view head, const SegmentInfo& segment, uint64_t offset, uint64_t size) {
    at_ += head.size();
    chunk_.mutable_compressed_data()->append(head);
    const auto [it, fresh] = segments_.try_emplace({segment.path, segment.number}, segments_.size());
    if (fresh) {
      pb::SegmentRef& ref = *chunk_.add_segments();
      ref.set_node(segment.node);
      ref.set_epoch(segment.epoch);
      ref.set_number(segment.number);
    }
    pb::TraceGap& gap = *chunk_.add_gaps();
    gap.set_at(at_);
    gap.set_segment(it->second);
    gap.set_offset(offset);
    gap.set_size(size);
    at_ += size;
    return sendIfFull();
  }
  /// A part of a file.
  Status copy(const File& file, uint64_t offset, uint64_t size) {
    while (size > 0) {
      std::string& data = *chunk_.mutable_compressed_data();
      const size_t had = data.size(), wanted = std::min<uint64_t>(size, kBytes);
      data.resize(had + wanted);
      size_t got = 0;
      TS_TRY(file.readAt(offset, data.data() + had, wanted, got));
      if (got < wanted) return Status::io(file.path() + " ends early");
      offset += wanted;
      size -= wanted;
      TS_TRY(sendIfFull());
    }
    return {};
  }
  Status send(bool last) {
    chunk_.set_chunk_id(next_++);
    chunk_.set_is_last(last);
    if (!writer_.Write(chunk_)) return Status::io("the client disconnected");
    chunk_.Clear();
    return {};
  }

 private:
  static constexpr size_t kBytes = 1u << 20;
  Status sendIfFull() { return chunk_.compressed_data().size() >= kBytes ? send(false) : Status(); }

  grpc::ServerWriter<pb::TraceChunk>& writer_;
  pb::TraceChunk chunk_;
  uint64_t next_ = 0, at_ = 0;
  std::map<std::pair<std::string, uint32_t>, uint32_t> segments_;
};

}  // namespace tracesmith::cluster
