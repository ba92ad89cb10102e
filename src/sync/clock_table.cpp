#include "sync/clock_table.hpp"

#include <algorithm>

#include "tracesmith/trace/scan.hpp"

namespace tracesmith::sync {

void ClockTable::add(const ClockModel& model) {
  auto at = std::upper_bound(models_.begin(), models_.end(), model.at_ns,
                             [](int64_t t, const ClockModel& m) { return t < m.at_ns; });
  models_.insert(at, model);
}

const ClockModel* ClockTable::inForce(int64_t raw) const {
  if (models_.empty()) return nullptr;
  auto after =
      std::upper_bound(models_.begin(), models_.end(), raw, [](int64_t t, const ClockModel& m) { return t < m.at_ns; });
  return after == models_.begin() ? &*after : &*std::prev(after);
}

int64_t ClockTable::toReference(int64_t raw) const {
  const ClockModel* m = inForce(raw);
  return m ? m->toReference(raw) : raw;
}

int64_t ClockTable::toRaw(int64_t reference) const {
  // Models differ by microseconds from their neighbours: the first one that takes the time into its own reach.
  for (size_t i = models_.size(); i-- > 0;)
    if (const int64_t raw = models_[i].toRaw(reference); raw >= models_[i].at_ns || i == 0) return raw;
  return reference;
}

int64_t ClockTable::boundAt(int64_t raw) const {
  const ClockModel* m = inForce(raw);
  return m ? m->bound_ns : INT64_MAX;
}

Result<std::map<std::string, ClockTable>> readClocks(const trace::Reader& reader) {
  using namespace trace;
  std::map<std::string, ClockTable> tables;
  Scan scan(reader, tableOf<ClockRow>(), {},
            {clocks::node, clocks::ts_from, clocks::offset_ns, clocks::drift_ppm, clocks::bound_ns});
  while (scan.next()) {
    Result<const Strings*> strings = reader.strings(scan.block().stream);
    if (!strings) return strings.status();
    for (uint32_t r : scan.rows()) {
      auto value = [&](int c) {
        return slotAt(scan.column(c), tableOf<ClockRow>().columns[static_cast<size_t>(c)].kind, r);
      };
      ClockModel model;
      model.at_ns = value(clocks::ts_from);
      model.offset_ns = value(clocks::offset_ns);
      if (model.at_ns == kNull || model.offset_ns == kNull) continue;
      if (scan.column(clocks::drift_ppm).valid(r)) model.drift_ppm = scan.column(clocks::drift_ppm).realAt(r);
      if (value(clocks::bound_ns) != kNull) model.bound_ns = value(clocks::bound_ns);
      tables[std::string((*strings)->at(value(clocks::node)))].add(model);
    }
  }
  return tables;
}

}  // namespace tracesmith::sync
