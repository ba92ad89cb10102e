// Rows of `collectives` from imported kernels, and from host ranges of libraries that use no device: what names and
// Kineto's args say about the operation.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "model/communication.hpp"
#include "trace/import/import.hpp"

namespace tracesmith::model {

/// For ImportOptions::collective_of: by the built-in rules, and by others.
std::optional<trace::CollectiveRow> collectiveOfEvent(const trace::ImportedEvent& event);
trace::CollectiveOfEvent collectivesBy(std::shared_ptr<const CommRules> rules);

/// Bytes of an element, by PyTorch's name of the type; 0: not known.
int64_t elementBytes(std::string_view dtype);

}  // namespace tracesmith::model
