// The GPUs the stand-in claims to have, from the file TRACESMITH_FAKE_NVML names. It is read again when it changes, so
// that a test can take a GPU away and bring it back. Lines are `key = value`; # begins a comment.
//
//   driver = 580.95.05        cuda = 13000       state = ok | reloading (the driver is away)
//   gpus = 8                                     what follows is about all of them, until a section
//   [gpu 3]  or  [gpu 0-3]                       about these
//   name, uuid, memory (bytes), used, cc = 9.0, sms, clock, memory_clock, bus_bits, power (mW), power_limit (mW),
//   temperature, utilization, memory_utilization, throttle, energy (mJ), pcie = 5 x16, cpus = 0-47, numa = 0,
//   pci = 0000:18:00.0
//   state = ok | lost | reset      hang = power 10000   that call takes so many ms
//   unsupported = energy fan …     calls that are not supported
//   forbidden = processes          calls that are not permitted
//   link 0-17 = switch 0000:05:00.0 version 4 speed 26562
//   link 0-3 = gpu 1 version 3 speed 25000
//   ancestor 4-7 = 50              PCIe level with those GPUs, as NVML numbers it
//   field 197 = 4294960000 u32 step 5000      its value, type, and by how much each reading grows
//   gpm = 2:87.5 3:31              metrics and their values; none: no GPM
//   process = 1234 1073741824      pid and bytes; several lines
//   xid = 79                       one event, as soon as somebody waits for it
//   mig = 1g.10gb 1 0 16 10737418240   name, GPU instance, compute instance, multiprocessors, bytes; several lines
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake_nvml {

struct Link {
  bool to_switch = false;
  std::string remote_pci;
  int remote_gpu = -1;
  uint32_t version = 4, speed = 25000;
};

struct Field {
  uint64_t value = 0, step = 0;
  bool is_u32 = false;
};

struct Mig {
  std::string name;
  uint32_t gi = 0, ci = 0, sms = 0;
  uint64_t memory = 0;
};

struct Gpu {
  std::map<std::string, std::string> values;
  std::map<uint32_t, Link> links;
  std::map<int, uint32_t> ancestors;
  std::map<std::pair<uint32_t, uint32_t>, Field> fields;  // id, scope (~0: any)
  std::map<uint32_t, double> gpm;
  std::vector<std::pair<uint32_t, uint64_t>> processes;
  std::vector<Mig> migs;
  std::set<std::string> unsupported, forbidden;
  std::string hang_call;
  int hang_ms = 0;
  std::string text(const std::string& key, const std::string& otherwise) const;
  uint64_t number(const std::string& key, uint64_t otherwise) const;
};

struct Description {
  std::string driver = "580.95.05", state = "ok";
  int cuda = 13000;
  std::vector<Gpu> gpus;
};

Description parse(const std::string& path);
/// "0000:18:00.0" → domain, bus, device.
void parsePci(const std::string& text, uint32_t& domain, uint32_t& bus, uint32_t& device);

}  // namespace fake_nvml
