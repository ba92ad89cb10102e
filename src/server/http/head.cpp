#include "server/http/head.hpp"

#include <strings.h>

#include <algorithm>

namespace tracesmith::server {
namespace {

bool isTokenChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool isToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), isTokenChar); }

bool sameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// One line without its end; false: it has none.
bool nextLine(std::string_view& rest, std::string_view& line) {
  const size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) return false;
  line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  // A tab is the one control character that may stand in a value.
  return std::all_of(line.begin(), line.end(),
                     [](char c) { return c == '\t' || (c != '\x7f' && (c < 0 || c >= ' ')); });
}

}  // namespace

HeadProblem checkHead(std::string_view head) {
  constexpr HeadProblem kNoRequest = {400, "this is not an HTTP request"};
  std::string_view line;
  if (!nextLine(head, line)) return kNoRequest;
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return kNoRequest;
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  if (!isToken(method) || (version != "HTTP/1.1" && version != "HTTP/1.0")) return kNoRequest;

  int hosts = 0, lengths = 0;
  bool body = false;
  for (;;) {
    if (!nextLine(head, line)) return {400, "a header line is not well formed"};
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !isToken(line.substr(0, colon)))
      return {400, "a header line is not well formed"};
    const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
    if (sameName(name, "Host") && ++hosts > 1) return {400, "there is more than one Host header"};
    if (sameName(name, "Transfer-Encoding")) return {411, "send the body with a Content-Length, not in chunks"};
    if (sameName(name, "Content-Encoding") && !sameName(value, "identity"))
      return {415, "bodies must not be compressed"};
    if (!sameName(name, "Content-Length")) continue;
    const bool number =
        !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (++lengths > 1 || !number || value.size() > 18) return {400, "the Content-Length is not one number"};
    body = value.find_first_not_of('0') != std::string_view::npos;
  }
  if (body && method != "POST") return {400, "only a POST has a body"};
  return {};
}

}  // namespace tracesmith::server
