// Damage in a segment, found where blocks are read again: by an agent that sends them, by a master that stores them, by
// whoever merges them. Nothing is cut because of it. Reading goes on with the next sound block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/wire/checkpoint.hpp"
#include "trace/block_bytes.hpp"

namespace tracesmith::cluster {

/// What is at the front of some bytes of a segment: a sound block, or a stretch of damage up to the next sound block.
struct Stretch {
  trace::BlockBytes block;  ///< if it is sound
  size_t size = 0;          ///< of the block or the stretch; 0: there are no bytes
  uint64_t rows = 0;        ///< of a block of which only columns are damaged; 0: not known
  uint64_t sequence = 0;    ///< of a block whose header is sound
  bool sound = false;
  bool empty = false;  ///< it is damaged, but has no rows of a trace: a checkpoint
  bool open = false;   ///< damage up to the end of the bytes: more bytes may show that it is a block
};
/// `bytes` begins where a block should, `deep`: columns are checked too.
Stretch stretchAt(std::string_view bytes, bool deep);

/// A block that takes the place of damaged bytes and holds what is left of them: of a table no trace has. A stretch
/// begins and ends with a block, so it is never smaller than a block's header.
std::string damagedBlock(std::string_view bytes, uint64_t rows);
bool isDamaged(const trace::BlockBytes& block);

/// What damage took from a segment, which is read from its beginning. Checkpoints have the number of rows before them:
/// what was not read up to there is lost, exactly.
class DamageCount {
 public:
  struct Lost {
    std::optional<uint64_t> rows;  ///< none: not known
    std::string detail;
  };
  void damaged(size_t offset, size_t bytes, uint64_t rows);
  /// A checkpoint of which only the columns are damaged: no rows are lost with it.
  void damagedCheckpoint(uint64_t sequence);
  /// What is lost before this block, if it is a checkpoint and there was damage.
  std::vector<Lost> sound(const trace::BlockBytes& block);
  /// No checkpoint follows: what is known of the rest.
  std::vector<Lost> end();

 private:
  struct Place {
    size_t offset, bytes;
    uint64_t rows;
  };
  std::vector<Place> places_;  // since the last checkpoint
  RowCounts read_;
  std::optional<uint64_t> last_;  // number of the last checkpoint
  size_t before_ = 0;             // places in front of it, which it did not count because it is damaged
};

}  // namespace tracesmith::cluster
