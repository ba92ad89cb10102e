# find_package(TraceSmith) gives the target TraceSmith::tracesmith.
include(${CMAKE_CURRENT_LIST_DIR}/TraceSmithTargets.cmake)
