// The clocks of a trace are read where traces are read; whoever measures clocks speaks of them too.
#pragma once

#include "sync/clock_fit.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::sync {

using trace::clockOf;
using trace::Clocks;
using trace::ClockTable;
using trace::readClocks;
using trace::TraceClock;
using trace::worstBound;

}  // namespace tracesmith::sync
