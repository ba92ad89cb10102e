#include "server/http/message.hpp"

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

Answer Answer::error(const Status& status) {
  switch (status.code()) {
    case Code::kInvalid:
      return error(400, status.message());
    case Code::kNotFound:
      return error(404, status.message());
    case Code::kUnsupported:
      return error(503, status.message());
    case Code::kExhausted:
      return error(504, status.message());
    default:
      return error(500, status.message());
  }
}

bool parseRange(std::string_view text, int64_t low, int64_t high, int64_t& value) {
  int64_t v;
  if (!parseInt(text, v) || v < low || v > high) return false;
  value = v;
  return true;
}

}  // namespace tracesmith::server
