// Rows of `collectives` from imported kernels: what a kernel's name and Kineto's args say about the operation.
#pragma once

#include <optional>
#include <string_view>

#include "trace/import/import.hpp"

namespace tracesmith::model {

/// For ImportOptions::collective_of.
std::optional<trace::CollectiveRow> collectiveOfKernel(const trace::ImportedKernel& kernel);

/// Bytes of an element, by PyTorch's name of the type; 0: not known.
int64_t elementBytes(std::string_view dtype);

}  // namespace tracesmith::model
