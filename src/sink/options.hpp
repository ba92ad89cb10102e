// Where metrics and spans are to be sent.
#pragma once

#include <cstdint>
#include <string>

namespace tracesmith::sink {

struct Options {
  std::string remote_write;  ///< http(s)://…; empty: not there. So are the others.
  std::string otlp;
  std::string influx;
  std::string clickhouse;             ///< one server or several, with commas between
  std::string statsd;                 ///< HOST:PORT
  std::string spans = "all";          ///< to OTLP: all (steps and collectives), steps, none
  double interval_s = 10;             ///< between two readings of the metrics
  uint64_t queue_bytes = 256u << 20;  ///< of each receiver, on disk
  std::string auth_file;              ///< lines `SINK Header: value`; empty: none
  std::string folder;                 ///< for the queues
  std::string instance;               ///< which master this is; empty: the host name

  bool any() const { return !remote_write.empty() || !otlp.empty() || !influx.empty() || !statsd.empty(); }
};

}  // namespace tracesmith::sink
