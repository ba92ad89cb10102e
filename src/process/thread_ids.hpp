// Which thread of the kernel a thread of Python is.
#pragma once

#include <optional>
#include <vector>

#include "process/memory.hpp"
#include "process/modules.hpp"
#include "process/python.hpp"

namespace tracesmith::process {

/// For each Python thread the place of its task, if it could be told. From 3.11 on Python keeps the id of the kernel.
/// Before, only the address of the C library's struct of the thread is known, which has the id somewhere: it is at the
/// place where all threads have the id of a task of their own.
std::vector<std::optional<size_t>> matchTasks(const std::vector<PythonThread>& threads, const std::vector<Task>& tasks,
                                              Memory& memory);

}  // namespace tracesmith::process
