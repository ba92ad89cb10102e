#include "support/perfetto_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/process.hpp"

namespace tracesmith::test {
namespace {

/// A message in protobuf's text form.
struct Message {
  std::multimap<std::string, std::string> fields;  // strings without quotes, escapes resolved
  std::multimap<std::string, Message> messages;

  std::string at(const std::string& key) const {
    auto it = fields.find(key);
    return it == fields.end() ? "" : it->second;
  }
  uint64_t number(const std::string& key) const { return at(key).empty() ? 0 : std::stoull(at(key)); }
  const Message* find(const std::string& key) const {
    auto it = messages.find(key);
    return it == messages.end() ? nullptr : &it->second;
  }
};

std::string unquote(const std::string& s) {
  if (s.size() < 2 || s.front() != '"') return s;
  std::string out;
  for (size_t i = 1; i + 1 < s.size(); ++i) {
    if (s[i] != '\\') {
      out += s[i];
    } else if (char c = s[++i]; c >= '0' && c <= '7') {
      out += static_cast<char>(std::stoi(s.substr(i, 3), nullptr, 8));
      i += 2;
    } else {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  return out;
}

void read(std::istream& in, Message& message) {
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line == "}") return;
    if (line.ends_with(" {")) {
      read(in, message.messages.emplace(line.substr(0, line.size() - 2), Message())->second);
      continue;
    }
    size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << line;
    std::string key = line.substr(0, colon);
    EXPECT_FALSE(key[0] >= '0' && key[0] <= '9') << "field " << key << " is not in perfetto_subset.proto";
    message.fields.emplace(key, unquote(line.substr(colon + 2)));
  }
}

/// Names of one sequence by their number.
using Interned = std::map<std::string, std::map<uint64_t, std::string>>;

std::string resolve(const Interned& interned, const std::string& kind, uint64_t iid) {
  auto names = interned.find(kind);
  bool known = names != interned.end() && names->second.contains(iid);
  EXPECT_TRUE(known) << kind << " " << iid << " was not interned";
  return known ? names->second.at(iid) : "";
}

PerfettoEvent eventOf(const Message& e, uint64_t ts, const Interned& interned) {
  PerfettoEvent out;
  out.type = e.at("type").substr(e.at("type").rfind('_') + 1);
  out.ts = ts;
  out.track = e.number("track_uuid");
  if (!e.at("name_iid").empty()) out.name = resolve(interned, "event_names", e.number("name_iid"));
  if (!e.at("category_iids").empty()) out.category = resolve(interned, "event_categories", e.number("category_iids"));
  if (!e.at("double_counter_value").empty()) out.value = std::stod(e.at("double_counter_value"));
  auto all = [&](const char* key) {
    std::vector<std::string> values;
    auto [from, to] = e.fields.equal_range(key);
    for (auto it = from; it != to; ++it) values.push_back(it->second);
    return values;
  };
  out.flows = all("flow_ids");
  out.last_flows = all("terminating_flow_ids");
  auto [from, to] = e.messages.equal_range("debug_annotations");
  for (auto it = from; it != to; ++it) {
    std::string key = resolve(interned, "debug_annotation_names", it->second.number("name_iid"));
    for (const char* field : {"int_value", "double_value", "string_value"})
      if (it->second.fields.contains(field)) out.args[key] = it->second.at(field);
  }
  return out;
}

}  // namespace

std::string PerfettoTrace::path(uint64_t track) const {
  auto it = tracks.find(track);
  if (it == tracks.end()) return "?";
  return (it->second.parent ? path(it->second.parent) + "/" : "") + it->second.name;
}

PerfettoTrace decodePerfetto(const std::string& path) {
  const std::string protos = std::string(TRACESMITH_SOURCE_DIR) + "/tests/data";
  Output decoded = run({"protoc", "--proto_path=" + protos, "--decode=perfetto.protos.Trace", "perfetto_subset.proto"},
                       readFile(path));
  EXPECT_EQ(decoded.rc, 0) << decoded.err;
  EXPECT_EQ(decoded.err, "");
  std::istringstream text(decoded.out);
  Message root;
  read(text, root);
  PerfettoTrace trace;
  std::map<uint64_t, Interned> sequences;
  auto [from, to] = root.messages.equal_range("packet");
  for (auto it = from; it != to; ++it) {
    const Message& packet = it->second;
    uint64_t sequence = packet.number("trusted_packet_sequence_id");
    EXPECT_NE(sequence, 0u);
    bool cleared = packet.number("sequence_flags") & 1;
    EXPECT_EQ(cleared, !sequences.contains(sequence)) << "only the first packet of a sequence clears its state";
    Interned& interned = sequences[sequence];
    if (const Message* data = packet.find("interned_data"))
      for (const auto& [kind, entry] : data->messages) interned[kind][entry.number("iid")] = entry.at("name");
    if (const Message* t = packet.find("track_descriptor")) {
      const Message* counter = t->find("counter");
      uint64_t parent = t->number("parent_uuid");
      EXPECT_TRUE(parent == 0 || trace.tracks.contains(parent));
      bool added =
          trace.tracks
              .try_emplace(t->number("uuid"), PerfettoTrack{t->at("name"), counter ? counter->at("unit_name") : "",
                                                            parent, counter != nullptr})
              .second;
      EXPECT_TRUE(added) << "two tracks have one number";
    }
    if (const Message* e = packet.find("track_event")) {
      trace.events.push_back(eventOf(*e, packet.number("timestamp"), interned));
      EXPECT_TRUE(trace.tracks.contains(trace.events.back().track)) << "an event comes before its track";
    }
  }
  return trace;
}

std::vector<PerfettoSlice> slicesOf(const PerfettoTrace& trace) {
  std::map<uint64_t, std::vector<const PerfettoEvent*>> by_track;
  for (const PerfettoEvent& e : trace.events)
    if (e.type == "BEGIN" || e.type == "END") by_track[e.track].push_back(&e);
  std::vector<PerfettoSlice> slices;
  for (auto& [track, events] : by_track) {
    std::stable_sort(events.begin(), events.end(), [](const auto* a, const auto* b) { return a->ts < b->ts; });
    std::vector<const PerfettoEvent*> open;
    for (const PerfettoEvent* e : events) {
      if (e->type == "BEGIN") {
        open.push_back(e);
      } else if (open.empty()) {
        ADD_FAILURE() << "an end without begin on " << trace.path(track);
      } else {
        slices.push_back({open.back(), e->ts});
        open.pop_back();
      }
    }
    EXPECT_TRUE(open.empty()) << open.size() << " slices without end on " << trace.path(track);
  }
  return slices;
}

}  // namespace tracesmith::test
