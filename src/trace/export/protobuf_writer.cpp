#include "trace/export/protobuf_writer.hpp"

namespace tracesmith::trace {

void ProtobufWriter::end(size_t message) {
  uint64_t length = out_.size() - message;
  char encoded[10];
  size_t n = 0;
  for (; length >= 0x80; length >>= 7) encoded[n++] = static_cast<char>(length | 0x80);
  encoded[n++] = static_cast<char>(length);
  out_.replace(message - 1, 1, encoded, n);
}

}  // namespace tracesmith::trace
