#include "trace/import/json_stream.hpp"

#include <algorithm>
#include <cstring>

#include "trace/import/utf8.hpp"

namespace tracesmith::trace {
namespace {

constexpr size_t kPadding = 64;  // what JsonCursor may read beyond the end

/// "…some text…" of at most 80 bytes for messages.
std::string shortText(std::string_view s) { return std::string(utf8Prefix(s, 80)); }

}  // namespace

JsonStream::JsonStream(ByteSource& source, std::string name, const JsonStreamOptions& options)
    : source_(source), name_(std::move(name)), options_(options), buffer_(options.window_bytes + kPadding) {
  p_ = end_ = filled_ = buffer_.data();
  options_.window_bytes = std::max<size_t>(1, options_.window_bytes);
}

Status JsonStream::refill() {
  *end_ = cut_;
  auto used = static_cast<size_t>(p_ - buffer_.data());
  auto kept = static_cast<size_t>(filled_ - p_);
  auto known = static_cast<size_t>(end_ - p_);
  std::memmove(buffer_.data(), p_, kept);
  base_ += used;
  if (buffer_.size() < kept + options_.window_bytes + kPadding) {
    // Doubles, so that a long value is not looked at again for every window.
    buffer_.resize(std::max(2 * kept, kept + options_.window_bytes) + kPadding);
  }
  p_ = buffer_.data();
  end_ = buffer_.data() + known;
  filled_ = buffer_.data() + kept;
  size_t room = buffer_.size() - kPadding - kept;
  if (options_.window_bytes < 4096) room = std::min(room, options_.window_bytes);
  size_t got;
  TS_TRY(source_.read(filled_, room, got));
  filled_ += got;
  if (got == 0) at_end_ = true;
  exposeClean();
  return {};
}

void JsonStream::exposeClean() {
  char* clean = at_end_ ? filled_ : cutCharacter(end_, filled_);
  bad_utf8_ += repairUtf8(end_, clean);
  end_ = clean;
  cut_ = *end_;
  *end_ = '\0';
}

Status JsonStream::space() {
  for (;;) {
    JsonCursor c{p_, end_};
    c.space();
    p_ = c.p;
    if (p_ < end_ || at_end_) return {};
    TS_TRY(refill());
  }
}

Status JsonStream::malformed(const char* at, std::string_view why) const {
  uint64_t offset = base_ + static_cast<uint64_t>(at - buffer_.data());
  return Status::corrupt(name_ + ": malformed JSON at byte " + std::to_string(offset) + ": " +
                         std::string(at >= end_ && at_end_ ? "the file ends here" : why));
}

Status JsonStream::more(const JsonCursor& cursor, bool& too_large) {
  too_large = false;
  if (cursor.error) return malformed(cursor.p, cursor.error);
  if (at_end_) return malformed(end_, "");
  too_large = static_cast<size_t>(filled_ - p_) > options_.max_value_bytes;
  return too_large ? Status() : refill();
}

Status JsonStream::passOver() {
  // Only brackets and strings count here: a value this large is not worth more.
  std::string open;
  bool quoted = false, escaped = false;
  for (;;) {
    for (; p_ < end_; ++p_) {
      if (quoted && !escaped) p_ = findSpecial(p_);
      if (p_ == end_) break;
      const char c = *p_;
      if (quoted) {
        if (escaped) {
          escaped = false;
        } else if (c == '\\') {
          escaped = true;
        } else if (c == '"') {
          quoted = false;
          if (open.empty()) {
            ++p_;
            return {};
          }
        }
        continue;
      }
      if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        if (open.size() == JsonCursor::kMaxDepth) return malformed(p_, "nested too deeply");
        open += c == '{' ? '}' : ']';
      } else if (c == '}' || c == ']') {
        if (open.empty() || open.back() != c) return malformed(p_, "a bracket closes that was not opened");
        open.pop_back();
        if (open.empty()) {
          ++p_;
          return {};
        }
      } else if (open.empty() && c == ',') {
        return {};  // a number longer than the limit
      }
    }
    if (at_end_) return malformed(p_, "");
    TS_TRY(refill());
  }
}

Status JsonStream::element(JsonHandler& handler) {
  for (;;) {
    JsonCursor c{p_, end_};
    bool good = *p_ == '{' ? readEvent(c, event_) : c.value();
    if (good) {
      Status taken;
      if (*p_ == '{') {
        taken = handler.event(event_);
      } else {
        handler.loss("not an object", 1, shortText(std::string_view(p_, static_cast<size_t>(c.p - p_))));
      }
      p_ = c.p;
      return taken;
    }
    bool too_large;
    TS_TRY(more(c, too_large));
    if (too_large) {
      handler.loss("too large", 1,
                   "the event at byte " + std::to_string(base_) + " is larger than " +
                       std::to_string(options_.max_value_bytes) +
                       " bytes: " + shortText(std::string_view(p_, static_cast<size_t>(end_ - p_))));
      return passOver();
    }
  }
}

Status JsonStream::array(JsonHandler& handler, bool may_end) {
  ++p_;  // [
  TS_TRY(space());
  if (p_ < end_ && *p_ == ']') {
    ++p_;
    return {};
  }
  // Chrome's array form may lack its end: a program that was killed between two events left a good trace.
  auto unclosed = [&] {
    handler.loss("array not closed", 1, "the file ends after a whole event, without ']'");
    return Status();
  };
  for (;;) {
    TS_TRY(space());
    if (p_ == end_) return may_end ? unclosed() : malformed(p_, "");
    TS_TRY(element(handler));
    TS_TRY(space());
    if (p_ == end_) return may_end ? unclosed() : malformed(p_, "");
    if (*p_ == ']') {
      ++p_;
      return {};
    }
    if (*p_ != ',') return malformed(p_, "expected ',' or ']' after an event");
    ++p_;
  }
}

Status JsonStream::member(JsonHandler& handler, bool& found_events) {
  for (;;) {
    JsonCursor c{p_, end_};
    std::string_view key;
    bool escaped, too_large;
    if (*c.p != '"') c.fail("expected a key");
    if (!c.error && c.string(key, escaped) && c.colon() && c.p < end_) {
      if (key == "traceEvents") {
        p_ = c.p;
        if (*p_ != '[') return malformed(p_, "traceEvents is not an array");
        found_events = true;
        return array(handler, false);
      }
      const char* value = c.p;
      if (c.value()) {
        Status taken = handler.member(key, std::string_view(value, static_cast<size_t>(c.p - value)));
        p_ = c.p;
        return taken;
      }
    }
    TS_TRY(more(c, too_large));
    if (!too_large) continue;
    JsonCursor again{p_, end_};
    handler.loss("too large", 1,
                 "the member at byte " + std::to_string(base_) +
                     " is too large to keep: " + shortText(std::string_view(p_, static_cast<size_t>(end_ - p_))));
    if (!again.string(key, escaped) || !again.colon()) return malformed(p_, "a key that is too large");
    p_ = again.p;
    return passOver();
  }
}

Status JsonStream::object(JsonHandler& handler) {
  ++p_;  // {
  bool found_events = false;
  TS_TRY(space());
  if (*p_ == '}' && p_ < end_) {
    ++p_;
  } else {
    for (;;) {
      TS_TRY(space());
      if (p_ == end_) return malformed(p_, "");
      TS_TRY(member(handler, found_events));
      TS_TRY(space());
      if (p_ == end_) return malformed(p_, "");
      if (*p_ == '}') {
        ++p_;
        break;
      }
      if (*p_ != ',') return malformed(p_, "expected ',' or '}'");
      ++p_;
    }
  }
  if (!found_events) return Status::corrupt(name_ + " is JSON but not a trace: it has no traceEvents");
  return {};
}

Status JsonStream::run(JsonHandler& handler) {
  TS_TRY(refill());
  while (filled_ - p_ < 3 && !at_end_) TS_TRY(refill());
  if (filled_ == p_) return Status::corrupt(name_ + " is empty");
  if (std::string_view(p_, static_cast<size_t>(end_ - p_)).substr(0, 3) == "\xef\xbb\xbf") p_ += 3;  // byte order mark
  TS_TRY(space());
  if (p_ == end_) return Status::corrupt(name_ + " is empty: only white space");
  if (*p_ == '[') {
    TS_TRY(array(handler, true));
  } else if (*p_ == '{') {
    TS_TRY(object(handler));
  } else {
    return Status::corrupt(name_ + " is not a trace: neither JSON, nor gzip, nor SBT (byte " +
                           std::to_string(base_ + static_cast<uint64_t>(p_ - buffer_.data())) + ")");
  }
  TS_TRY(space());
  if (p_ < end_) return malformed(p_, "something follows the end of the trace");
  if (bad_utf8_ > 0) handler.loss("not UTF-8", bad_utf8_, "bytes that are not UTF-8 were replaced by '?'");
  return {};
}

}  // namespace tracesmith::trace
