// What libtracesmith.so exports: TRACESMITH_API marks it, and everything else stays inside.
#pragma once

#define TRACESMITH_API __attribute__((visibility("default")))
/// For a member type of an exported class that is not part of the API.
#define TRACESMITH_LOCAL __attribute__((visibility("hidden")))
