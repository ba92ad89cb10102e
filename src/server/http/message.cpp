#include "server/http/message.hpp"

#include <iterator>

#include "base/text.hpp"

namespace tracesmith::server {
namespace {

const char* codeOf(int status) {
  switch (status) {
    case 400:
      return "bad_request";
    case 401:
      return "unauthenticated";
    case 403:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 413:
    case 414:
      return "too_large";
    case 429:
      return "too_many";
    case 503:
      return "unavailable";
    case 504:
      return "timeout";
    default:
      return status < 500 ? "bad_request" : "internal";
  }
}

}  // namespace

Answer Answer::error(int status, std::string_view message) {
  Answer a;
  a.status = status;
  JsonWriter w(a.body);
  w.beginObject().key("error").beginObject().field("code", codeOf(status)).field("message", message);
  w.endObject().endObject();
  return a;
}

int httpStatus(Code code) {
  static constexpr std::pair<Code, int> kTable[] = {
      {Code::kOk, 200},        {Code::kInvalid, 400},     {Code::kNotFound, 404},    {Code::kCorrupt, 500},
      {Code::kIo, 500},        {Code::kUnsupported, 503}, {Code::kExhausted, 503},   {Code::kBusy, 429},
      {Code::kTimeout, 504},   {Code::kCancelled, 503},   {Code::kUnavailable, 503}, {Code::kUnauthenticated, 401},
      {Code::kForbidden, 403},
  };
  static_assert(std::size(kTable) == kCodes);
  for (const auto& [ours, theirs] : kTable)
    if (ours == code) return theirs;
  return 500;
}

Answer Answer::error(const Status& status) { return error(httpStatus(status.code()), status.message()); }

bool parseRange(std::string_view text, int64_t low, int64_t high, int64_t& value) {
  int64_t v;
  if (!parseInt(text, v) || v < low || v > high) return false;
  value = v;
  return true;
}

}  // namespace tracesmith::server
