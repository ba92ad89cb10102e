#include "trace/import/pickle.hpp"

#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>

namespace tracesmith::trace {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::get(std::string_view key) const {
  if (kind != Kind::dictionary) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->isText() && items[i]->text == key) return items[i + 1];
  return nullptr;
}

class PickleParser {
 public:
  PickleParser(std::string_view bytes, Pickle& out) : bytes_(bytes), out_(out) {}
  Status run();

 private:
  bool step(unsigned char code);
  bool number(size_t size, uint64_t& value);
  bool take(uint64_t size, std::string_view& part);
  bool line(std::string_view& text);
  bool pushText(size_t size_bytes);
  bool pushInteger(size_t size, bool is_signed);
  bool pushLong();
  bool tuple(size_t count);
  bool toMark(std::vector<PickleValue*>& items);
  bool extend(Kind kind, bool many);
  bool remember(uint64_t index);
  bool recall(uint64_t index);
  bool call();
  PickleValue& push(Kind kind) {
    stack_.push_back(&out_.values_.emplace_back());
    stack_.back()->kind = kind;
    return *stack_.back();
  }
  bool refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

  std::string_view bytes_;
  Pickle& out_;
  size_t at_ = 0;
  std::vector<PickleValue*> stack_;  // null: a mark
  std::unordered_map<uint64_t, PickleValue*> memo_;
  std::string why_;
  bool stopped_ = false;
};

bool PickleParser::take(uint64_t size, std::string_view& part) {
  if (size > bytes_.size() - at_) return refuse("it ends too early");
  part = bytes_.substr(at_, size);
  at_ += size;
  return true;
}

/// Little-endian.
bool PickleParser::number(size_t size, uint64_t& value) {
  std::string_view part;
  if (!take(size, part)) return false;
  value = 0;
  for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(part[i])) << (8 * i);
  return true;
}

bool PickleParser::line(std::string_view& text) {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) return refuse("it ends too early");
  text = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return true;
}

bool PickleParser::pushText(size_t size_bytes) {
  uint64_t size = 0;
  std::string_view text;
  if (!number(size_bytes, size) || !take(size, text)) return false;
  push(Kind::text).text = text;
  return true;
}

bool PickleParser::pushInteger(size_t size, bool is_signed) {
  uint64_t value = 0;
  if (!number(size, value)) return false;
  push(Kind::integer).integer =
      is_signed ? static_cast<int64_t>(static_cast<int32_t>(value)) : static_cast<int64_t>(value);
  return true;
}

/// A number of up to eight bytes, with a sign.
bool PickleParser::pushLong() {
  uint64_t size = 0, value = 0;
  if (!number(1, size)) return false;
  if (size > 8) return refuse("it has a number of more than 64 bits");
  if (!number(size, value)) return false;
  if (size > 0 && size < 8 && (value >> (8 * size - 1)) & 1) value |= ~uint64_t{0} << (8 * size);
  push(Kind::integer).integer = static_cast<int64_t>(value);
  return true;
}

bool PickleParser::toMark(std::vector<PickleValue*>& items) {
  size_t from = stack_.size();
  while (from > 0 && stack_[from - 1]) --from;
  if (from == 0) return refuse("its parts do not fit together");
  items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
  stack_.resize(from - 1);
  return true;
}

bool PickleParser::tuple(size_t count) {
  if (stack_.size() < count) return refuse("its parts do not fit together");
  std::vector<PickleValue*> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  for (const PickleValue* item : items)
    if (!item) return refuse("its parts do not fit together");
  stack_.resize(stack_.size() - count);
  push(Kind::list).items = std::move(items);
  return true;
}

/// Adds what is on the stack to the list or dictionary below it.
bool PickleParser::extend(Kind kind, bool many) {
  std::vector<PickleValue*> items;
  if (many) {
    if (!toMark(items)) return false;
  } else {
    const size_t count = kind == Kind::list ? 1 : 2;
    if (!tuple(count)) return false;
    items = stack_.back()->items;
    stack_.pop_back();
  }
  if (stack_.empty() || !stack_.back() || stack_.back()->kind != kind ||
      (kind == Kind::dictionary && items.size() % 2 != 0))
    return refuse("its parts do not fit together");
  std::vector<PickleValue*>& all = stack_.back()->items;
  all.insert(all.end(), items.begin(), items.end());
  return true;
}

bool PickleParser::remember(uint64_t index) {
  if (stack_.empty() || !stack_.back()) return refuse("its parts do not fit together");
  memo_[index] = stack_.back();
  return true;
}

bool PickleParser::recall(uint64_t index) {
  const auto it = memo_.find(index);
  if (it == memo_.end()) return refuse("its parts do not fit together");
  stack_.push_back(it->second);
  return true;
}

/// Torch writes typed lists as calls of functions that return what they are given. No other call is understood.
bool PickleParser::call() {
  if (stack_.size() < 2 || !stack_.back() || !stack_[stack_.size() - 2] || stack_.back()->kind != Kind::list ||
      stack_[stack_.size() - 2]->kind != Kind::function)
    return refuse("its parts do not fit together");
  const PickleValue& arguments = *stack_.back();
  const std::string name(stack_[stack_.size() - 2]->text.substr(0, 100));
  if (!name.starts_with("torch.jit._pickle\nbuild_") || arguments.items.size() != 1)
    return refuse("it asks to run code (" + name.substr(0, name.find('\n')) + "), which is never done");
  PickleValue* argument = arguments.items[0];
  stack_.resize(stack_.size() - 2);
  stack_.push_back(argument);
  return true;
}

bool PickleParser::step(unsigned char code) {
  uint64_t value = 0;
  std::string_view first, second;
  switch (code) {
    case 0x80:  // version
      return number(1, value) && (value <= 5 || refuse("it is of a newer version of pickle"));
    case 0x95:  // frame
      return number(8, value);
    case '.':
      stopped_ = true;
      return true;
    case '(':
      stack_.push_back(nullptr);
      return true;
    case '}':
      push(Kind::dictionary);
      return true;
    case ']':
    case ')':
      push(Kind::list);
      return true;
    case 't': {
      std::vector<PickleValue*> items;
      if (!toMark(items)) return false;
      push(Kind::list).items = std::move(items);
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      return tuple(code - 0x84u);
    case 'N':
      push(Kind::none);
      return true;
    case 0x88:
    case 0x89:
      push(Kind::flag).integer = code == 0x88;
      return true;
    case 'J':
      return pushInteger(4, true);
    case 'K':
      return pushInteger(1, false);
    case 'M':
      return pushInteger(2, false);
    case 0x8a:
      return pushLong();
    case 'G': {
      if (!number(8, value)) return false;
      push(Kind::real).real = std::bit_cast<double>(__builtin_bswap64(value));
      return true;
    }
    case 'X':
    case 'T':
    case 'B':
      return pushText(4);
    case 0x8c:
    case 'U':
    case 'C':
      return pushText(1);
    case 0x8d:
    case 0x8e:
      return pushText(8);
    case 'q':
      return number(1, value) && remember(value);
    case 'r':
      return number(4, value) && remember(value);
    case 0x94:
      return remember(memo_.size());
    case 'h':
      return number(1, value) && recall(value);
    case 'j':
      return number(4, value) && recall(value);
    case 'a':
    case 'e':
      return extend(Kind::list, code == 'e');
    case 's':
    case 'u':
      return extend(Kind::dictionary, code == 'u');
    case 'c': {
      const size_t begin = at_;
      if (!line(first) || !line(second)) return false;
      push(Kind::function).text = bytes_.substr(begin, at_ - begin - 1);
      return true;
    }
    case 'R':
      return call();
    default:
      return refuse("it has objects that are no plain data (opcode " + std::to_string(code) + ")");
  }
}

Status PickleParser::run() {
  while (!stopped_ && at_ < bytes_.size()) {
    const auto code = static_cast<unsigned char>(bytes_[at_++]);
    if (!step(code)) return Status::corrupt(why_ + " (byte " + std::to_string(at_) + ")");
  }
  if (!stopped_ || stack_.size() != 1 || !stack_[0])
    return Status::corrupt("it ends too early (byte " + std::to_string(at_) + ")");
  out_.root_ = stack_[0];
  return {};
}

Result<Pickle> Pickle::parse(std::string_view bytes) {
  Pickle pickle;
  TS_TRY(PickleParser(bytes, pickle).run());
  return pickle;
}

}  // namespace tracesmith::trace
