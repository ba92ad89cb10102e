// Turns the events of one Chrome or Kineto JSON trace into rows.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "trace/import/event_args.hpp"
#include "trace/import/import.hpp"
#include "trace/import/json_stream.hpp"
#include "trace/import/kineto_metadata.hpp"
#include "trace/import/open_spans.hpp"
#include "trace/import/tracks.hpp"

namespace tracesmith::trace {

/// What the inputs of one import share.
struct ImportShared {
  TrackNames names;
  std::set<uint64_t> devices;   ///< hashes of those written already
  std::set<std::string> nodes;  ///< written already
  CollectiveOfEvent collective_of;
  TypeOfCategory type_of;
};

/// Rows of one input.
class ChromeImport : public JsonHandler {
 public:
  /// `rank` and `node` from the command line win over what the input says; kNull and "": not given.
  ChromeImport(Writer& writer, RowSink::Options sink, ImportShared& shared, int64_t rank, std::string node);

  /// The rank that the input's file name says: for an input that does not say its rank itself.
  void setNamedRank(int64_t rank) { named_rank_ = rank; }
  bool rankIsByName() const { return rank_is_by_name_; }

  Status event(const ChromeEvent& event) override;
  Status member(std::string_view key, std::string_view value) override;
  void loss(std::string_view cause, uint64_t count, std::string_view example) override {
    losses_.add(cause, count, example);
  }

  /// After the last event: writes everything.
  Status finish();

  const InputFacts& facts() const { return facts_; }
  /// One, or those whose processes a file of several ranks names; empty: unknown.
  std::set<int64_t> ranks() const;
  int64_t firstNs() const { return first_ns_; }  ///< when its events began, and ended; kNull: it has none
  int64_t lastNs() const { return last_ns_; }
  const Losses& losses() const { return losses_; }
  uint64_t elements() const { return elements_; }  ///< of traceEvents
  uint64_t events() const { return events_; }      ///< rows of events
  uint64_t collectives() const { return collectives_; }
  const std::set<int64_t>& steps() const { return step_numbers_; }

 private:
  void complete(const ChromeEvent& e);
  /// An event without an end of its own, and what it says of itself. False: it has no time.
  bool readSpan(const ChromeEvent& e, EventType type, OpenSpan& span);
  void instant(const ChromeEvent& e);
  void begin(const ChromeEvent& e, bool async);
  void end(const ChromeEvent& e, bool async);
  void counter(const ChromeEvent& e);
  void flow(const ChromeEvent& e, const char* phase);
  void metadata(const ChromeEvent& e);
  void owner(const ChromeEvent& e, int64_t number);

  /// Time, name, type and place; false (and counted) where there is no time.
  bool start(const ChromeEvent& e, EventType type, EventRow& row);
  /// Columns and text of args.
  void args(const ChromeEvent& e, EventType type, EventRow& row, LaunchShape& shape, ArgsText& text);
  /// Slot of the args that begin there in the sink's texts.
  int64_t finishedArgs(const ChromeEvent& e, size_t begin);
  void add(EventRow& row, int64_t step);
  void addSpan(OpenSpan& span);
  void reject(std::string_view cause, const ChromeEvent& e) { losses_.add(cause, 1, e.text); }
  bool time(const ChromeEvent& e, int64_t& ns);
  int64_t duration(const ChromeEvent& e);
  /// Text of the event's name, without escapes; valid until the next call.
  std::string_view name(const ChromeEvent& e);
  std::string asyncKey(const ChromeEvent& e) const;
  void seeProcess(EventType type, int64_t pid);
  EventType typeOf(const ChromeEvent& e) const;
  void addCollective(const ChromeEvent& e, EventType type, const EventRow& row, const LaunchShape& shape);

  Writer& writer_;
  ImportShared& shared_;
  std::string node_;
  InputFacts facts_;
  Losses losses_;
  RowSink sink_;
  KinetoMetadata metadata_;
  Tracks tracks_;
  LaunchIds launches_;
  OpenSpans threads_, asyncs_;
  StepsOfRanks steps_;
  std::set<int64_t> step_numbers_;
  std::string name_;
  int64_t named_rank_ = kNull;
  bool rank_is_by_name_ = false;
  // "Seq" of calls that communicate, by rank and external id.
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers_;
  // The process that launched device work: the one pid of all API calls, or else of all operators.
  int64_t api_pid_ = kNull, op_pid_ = kNull;
  bool api_pids_differ_ = false, op_pids_differ_ = false;
  uint64_t elements_ = 0, events_ = 0, collectives_ = 0;
  int64_t first_ns_ = kNull, last_ns_ = kNull;
};

}  // namespace tracesmith::trace
