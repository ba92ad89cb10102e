// Call stacks that the probe recorded in this process, with names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::capture {

using CallStack = std::shared_ptr<const std::vector<std::string>>;  // all operations called from there share it

/// Names the frames of a stack: "name (library+0x1234)", the innermost first, without those of the probe. A library
/// that was unloaded since, or does not export the function, leaves out the name. Not thread safe.
class CallStacks {
 public:
  /// `addresses`: as the probe writes them. nullptr for none.
  CallStack find(std::string_view addresses);

 private:
  std::map<std::string, CallStack, std::less<>> known_;
};

}  // namespace tracesmith::capture
