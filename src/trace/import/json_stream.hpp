// Reads a trace in Chrome's JSON form through a window: an array of events, or an object with traceEvents and more.
// Memory is the window, and what one event needs beyond it, up to a limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/chrome_event.hpp"
#include "trace/import/input.hpp"

namespace tracesmith::trace {

/// Takes what a JsonStream finds. Views are valid during the call.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual Status event(const ChromeEvent& event) = 0;
  /// A member of the outermost object other than traceEvents; `value` as written.
  virtual Status member(std::string_view key, std::string_view value) = 0;
  /// Something that is not as it should be, but does not stop the reading: a cause and an example.
  virtual void loss(std::string_view cause, uint64_t count, std::string_view example) = 0;
};

struct JsonStreamOptions {
  size_t window_bytes = 2u << 20;
  size_t max_value_bytes = 8u << 20;  ///< a larger event or member is passed over and counted
};

class JsonStream {
 public:
  /// `name` is used in messages.
  JsonStream(ByteSource& source, std::string name, const JsonStreamOptions& options = {});

  Status run(JsonHandler& handler);
  /// Bytes of JSON read so far.
  uint64_t bytes() const { return base_ + (end_ - buffer_.data()); }

 private:
  Status refill();
  /// Moves p_ to the next byte that is not white space; *p_ is 0 at the end of the input.
  Status space();
  Status array(JsonHandler& handler, bool may_end);
  Status element(JsonHandler& handler);
  Status object(JsonHandler& handler);
  Status member(JsonHandler& handler, bool& found_events);
  /// After a cursor stopped in a value that begins at p_: reads on, or says what is wrong.
  Status more(const JsonCursor& cursor, bool& too_large);
  /// Passes over a value at p_ without keeping it.
  Status passOver();
  Status malformed(const char* at, std::string_view why) const;
  void exposeClean();

  ByteSource& source_;
  std::string name_;
  JsonStreamOptions options_;
  std::vector<char> buffer_;
  uint64_t base_ = 0;      // offset of the buffer's first byte in the input
  const char* p_;          // next byte to look at
  char* end_;              // end of the bytes that may be looked at; there stands a NUL
  char* filled_;           // end of the bytes read: a character cut by the window is between end_ and here
  char cut_ = 0;           // the byte the NUL stands on
  bool at_end_ = false;    // the source has no more
  uint64_t bad_utf8_ = 0;  // bytes replaced
  ChromeEvent event_;
};

}  // namespace tracesmith::trace
