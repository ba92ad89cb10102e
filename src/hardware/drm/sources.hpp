// Telemetry of GPUs whose drivers tell it in files: sensors in sysfs, and what each process did in fdinfo.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "hardware/drm/card.hpp"
#include "hardware/drm/clients.hpp"
#include "hardware/source.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {

/// One file with one number.
struct Sensor {
  std::string path;
  Metric metric;
  double scale = 1;
  std::string part = {};
};

/// What a vendor's driver offers for one card.
struct Sensors {
  std::vector<Sensor> files;
  std::string energy_uj;           ///< power is what its growth says, where there is no sensor
  bool busy_from_engines = false;  ///< utilisation is that of the busiest engine, for want of a sensor
};

/// Null where the vendor is not known.
std::unique_ptr<Source> drmSource(const std::string& root, const Gpu& gpu);
std::unique_ptr<Source> sensorSource(const std::string& root, const Gpu& gpu, const Card& card, Sensors sensors);

}  // namespace tracesmith::hardware
