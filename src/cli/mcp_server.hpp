// A server of the Model Context Protocol on standard input and output: JSON-RPC 2.0, one message in a line.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cli/mcp_tools.hpp"
#include "cli/own_command.hpp"

namespace simdjson::dom {
class element;
}

namespace tracesmith::cli {

/// Answers that belong into one array: of requests that came in one.
struct Batch {
  std::vector<std::string> answers;
};
using BatchPtr = std::shared_ptr<Batch>;  // shared by its calls; the last one prints it

struct Call {
  std::string id;  // as JSON
  BatchPtr batch;
  Status refused;  // by the tool; the assistant reads why
  ToolPlan plan = {};
  size_t step = 0;
};

/// One call of a tool runs at a time; everything else is answered meanwhile.
class McpServer {
 public:
  McpServer(ToolPlaces places, double timeout_s) : places_(std::move(places)), timeout_s_(timeout_s) {}
  /// Until the client ends, or closes its side.
  int run();

 private:
  bool readInput();
  void take(const std::string& line);
  void takeOne(const simdjson::dom::element& message, const BatchPtr& batch);
  void callTool(const std::string& id, const simdjson::dom::element& params, const BatchPtr& batch);
  void cancel(const simdjson::dom::element& message);
  void proceed();
  void startStep();
  void answerCall(Status status, std::string text);  // by value: they may be of the call that ends
  void reply(const std::string& id, const BatchPtr& batch, const std::string& member, const std::string& json);
  void fail(const std::string& id, const BatchPtr& batch, int code, const std::string& message);
  void print(const std::string& line);
  void printBatch(const Batch& batch);
  std::string initialize(const simdjson::dom::element& params) const;
  std::string toolList() const;

  const ToolPlaces places_;
  const double timeout_s_;  // of a command that is no query
  std::string input_;
  bool too_long_ = false, ended_ = false, broken_ = false;
  std::deque<Call> calls_;  // the first one runs
  std::unique_ptr<OwnCommand> running_;
};

}  // namespace tracesmith::cli
