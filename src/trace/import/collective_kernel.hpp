// Communication kernels: what their name and Kineto's args say about the collective they are part of.
#pragma once

#include <string>
#include <string_view>

#include "trace/import/chrome_event.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {

/// One word for an operation however its source spells it: "_allgather_base" and "AllGather" are all_gather.
std::string normalCollective(std::string_view name);
/// Bytes of an element, by PyTorch's name of the type; 0: not known.
int64_t elementBytes(std::string_view dtype);

/// True if the kernel is one of NCCL or RCCL, by its name or its args.
bool isCollectiveKernel(const ChromeEvent& event, std::string_view name);
/// The row for it. `event_row` is the kernel's own, `rank` kNull where it is not known (yet).
CollectiveRow collectiveRow(const ChromeEvent& event, std::string_view name, const EventRow& event_row,
                            const LaunchShape& shape, int64_t rank, Writer& writer);

}  // namespace tracesmith::trace
