// NCCL's JSON. Some versions leave a comma out, so that no strict parser reads it: commas are blanks here.
#include <charconv>

#include "process/ras.hpp"

namespace tracesmith::process {
namespace {

constexpr int kMostDepth = 16;
constexpr size_t kMostRanks = 1 << 20;  // of all communicators

class Json {
 public:
  explicit Json(std::string_view text) : rest_(text) {}

  bool ok() const { return ok_; }

  /// Calls `member` with each name of an object; it reads the value, or nothing, which skips it.
  template <typename Member>
  void object(Member member) {
    if (!open('{')) return;
    while (ok_ && !close('}')) {
      const std::string name = string();
      if (!take(':')) return fail();
      const size_t before = rest_.size();
      member(name);
      if (rest_.size() == before) skip();
    }
    --depth_;
  }
  template <typename Element>
  void array(Element element) {
    if (!open('[')) return;
    while (ok_ && !close(']')) {
      const size_t before = rest_.size();
      element();
      if (rest_.size() == before) skip();
    }
    --depth_;
  }

  std::string string() {
    std::string out;
    if (!take('"')) return fail(), out;
    while (!rest_.empty() && rest_[0] != '"') {
      if (rest_[0] == '\\') rest_.remove_prefix(1);  // no name that matters has more than \" and \\ in it
      if (rest_.empty()) break;
      out += rest_[0];
      rest_.remove_prefix(1);
    }
    if (!take('"')) fail();
    return out;
  }
  template <typename Number>
  Number number(Number otherwise) {
    blanks();
    Number value = otherwise;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return skip(), otherwise;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    word();  // the rest of a number that is longer than it should be
    return value;
  }

 private:
  void fail() { ok_ = false; }
  void blanks() {
    const size_t n = rest_.find_first_not_of(" \t\r\n,");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }
  bool take(char c) {
    blanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool open(char c) {
    if (take(c) && ++depth_ <= kMostDepth) return true;
    fail();
    return false;
  }
  bool close(char c) {
    if (take(c)) return true;
    if (rest_.empty()) fail();  // it was cut off
    return !ok_;
  }
  std::string_view word() {
    const size_t n = std::min(rest_.find_first_of(" \t\r\n,:{}[]\""), rest_.size());
    const std::string_view found = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return found;
  }
  void skip() {
    blanks();
    if (rest_.empty()) return fail();
    if (rest_[0] == '{') return object([](const std::string&) {});
    if (rest_[0] == '[') return array([] {});
    if (rest_[0] == '"') return (void)string();
    if (word().empty()) fail();
  }

  std::string_view rest_;
  int depth_ = 0;
  bool ok_ = true;
};

RasRank rankOf(Json& json, bool missing) {
  RasRank rank;
  rank.missing = missing;
  json.object([&](const std::string& name) {
    if (name == "rank") rank.rank = json.number<int32_t>(-1);
    if (name == "host") rank.host = json.string();
    if (name == "pid") rank.pid = json.number<int64_t>(-1);
    if (name == "collective_counts")
      json.object([&](const std::string& function) {
        if (rank.launched.size() < 64) rank.launched.emplace_back(function, json.number<uint64_t>(0));
      });
  });
  return rank;
}

uint64_t hashOf(const std::string& text) {
  uint64_t hash = 0;
  const size_t skip = text.starts_with("0x") ? 2 : 0;
  std::from_chars(text.data() + skip, text.data() + text.size(), hash, 16);
  return hash;
}

}  // namespace

Result<RasAnswer> parseRas(std::string_view text) {
  const size_t begin = text.find('{');
  if (begin == std::string_view::npos) return Status::corrupt("NCCL's answer has no JSON: it is older than 2.28.7");
  Json json(text.substr(begin));
  RasAnswer answer;
  size_t ranks = 0;
  json.object([&](const std::string& name) {
    if (name == "nccl_version") answer.nccl = json.string();
    if (name != "communicators") return;
    json.array([&] {
      RasCommunicator comm;
      json.object([&](const std::string& member) {
        if (member == "hash") comm.hash = hashOf(json.string());
        if (member == "size") comm.size = json.number<int32_t>(-1);
        if (member != "ranks" && member != "missing_ranks") return;
        json.array([&] {
          RasRank rank = rankOf(json, member == "missing_ranks");
          if (++ranks <= kMostRanks) comm.ranks.push_back(std::move(rank));
        });
      });
      answer.communicators.push_back(std::move(comm));
    });
  });
  if (!json.ok()) return Status::corrupt("NCCL's answer is cut off, or no JSON");
  return answer;
}

}  // namespace tracesmith::process
