// Makes the sources of this node.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hardware/inventory.hpp"
#include "hardware/source.hpp"

namespace tracesmith::hardware {

struct KeyedSource {
  std::string key;  ///< what it watches: the same key is the same thing
  std::unique_ptr<Source> source;
};

class SourceMaker {
 public:
  static std::unique_ptr<SourceMaker> create(const SamplerOptions& options);
  virtual ~SourceMaker() = default;
  /// discover().
  virtual Inventory look() = 0;
  /// True if look() may find other GPUs than last time; cheap.
  virtual bool changed() = 0;
  virtual std::vector<KeyedSource> hostSources() = 0;
  virtual std::vector<KeyedSource> gpuSources(const Inventory& inventory) = 0;
};

/// What tells GPUs apart, also after a driver was reloaded.
std::string gpuKey(const Gpu& gpu);
/// Gives GPUs seen before the index they had, and new ones an index nobody had.
void keepIndexes(Inventory& inventory, std::map<std::string, int32_t>& index_of);

}  // namespace tracesmith::hardware
