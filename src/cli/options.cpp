// The one file that knows CLI11.
#include "cli/options.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "cli/command_text.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

template <class T>
Check between(T from, T to, const std::string& text) {
  CLI::Range range(from, to);
  range.description(text);
  return Check(range);
}

/// CLI11's own checks name the largest double there is when a number is too small.
Check above(double limit, bool limit_too, const char* wrong) {
  return Check(CLI::Validator(
      [=](std::string& word) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(word, value) && (limit_too ? value >= limit : value > limit);
        return fine ? std::string() : word + wrong;
      },
      ""));
}

/// How many letters must be changed, added, left out or swapped with their neighbour to get from `a` to `b`.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before, row(b.size() + 1), next(b.size() + 1);
  for (size_t k = 0; k <= b.size(); ++k) row[k] = k;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      next[k] = std::min({row[k] + 1, next[k - 1] + 1, row[k - 1] + (a[i - 1] != b[k - 1])});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        next[k] = std::min(next[k], before[k - 2] + 1);
    }
    before = std::exchange(row, next);
  }
  return row[b.size()];
}

/// " Did you mean 'record'?", or nothing if no word is close.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& k : known)
    if (const size_t d = distance(word, k); d < least) {
      least = d;
      best = &k;
    } else if (word.size() >= 3 && !best && k.starts_with(word)) {
      best = &k;
    }
  return best ? ". Did you mean '" + *best + "'?" : "";
}

std::vector<std::string> commandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> optionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// What went wrong, in our words where CLI11 speaks of subcommands, and with the word that was probably meant.
std::string messageOf(const CLI::ParseError& error, const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  const bool by_words =
      dynamic_cast<const CLI::ExtrasError*>(&error) || dynamic_cast<const CLI::RequiredError*>(&error);
  if (words.empty() || words[0] == "--" || !by_words) return error.what();
  const std::string word = words[0].substr(0, words[0].find('='));
  if (word.starts_with("-"))
    return "there is no option '" + word + "'" + (word.starts_with("--") ? suggestion(word, optionsOf(command)) : "");
  if (command.get_require_subcommand_min() > 0 && command.get_subcommands().empty())
    return "there is no command '" + word + "'" + suggestion(word, commandsOf(command));
  return dynamic_cast<const CLI::ExtrasError*>(&error) ? "unexpected argument '" + words[0] + "'" : error.what();
}

}  // namespace

Check::Check(const CLI::Validator& validator) : validator_(std::make_shared<CLI::Validator>(validator)) {}

Check range(int from, int to) { return between(from, to, std::to_string(from) + ".." + std::to_string(to)); }
Check range(uint64_t from, uint64_t to) { return between(from, to, std::to_string(from) + ".." + std::to_string(to)); }
Check range(double from, double to) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10g..%.10g", from, to);
  return between(from, to, text);
}
Check positive() { return above(0, false, " is not a number above 0"); }
Check nonNegative() { return above(0, true, " is not a number from 0"); }
Check oneOf(const std::vector<std::string>& words) { return Check(CLI::IsMember(words)); }

Option Option::type(const char* name) { return Option(option_->type_name(name)); }
Option Option::required() { return Option(option_->required()); }
Option Option::showDefault() { return Option(option_->capture_default_str()); }
Option Option::check(const Check& check) { return Option(option_->check(*check.validator_)); }
Option Option::commas() { return Option(option_->delimiter(',')); }
Option Option::oneWord() { return Option(option_->allow_extra_args(false)); }
Option Option::words(int count) { return Option(option_->expected(count)); }
Option Option::needs(Option other) { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) { return Option(option_->excludes(other.option_)); }
bool Option::given() const { return option_->count() > 0; }

Command Command::command(const char* name, const char* summary) {
  CLI::App* command = app_->add_subcommand(name, summary);
  command->group("Commands");
  command->footer("");  // not its parent's
  return Command(command, chosen_);
}
void Command::needsCommand() { app_->require_subcommand(1); }

template <class T>
Option Command::option(const char* names, T& value, const char* help) {
  CLI::Option* option = app_->add_option(names, value, help);
  if constexpr (std::is_arithmetic_v<T>) option->type_name("N");
  return Option(option);
}
template Option Command::option(const char*, std::string&, const char*);
template Option Command::option(const char*, bool&, const char*);
template Option Command::option(const char*, uint16_t&, const char*);
template Option Command::option(const char*, int32_t&, const char*);
template Option Command::option(const char*, uint32_t&, const char*);
template Option Command::option(const char*, int64_t&, const char*);
template Option Command::option(const char*, uint64_t&, const char*);
template Option Command::option(const char*, double&, const char*);
template Option Command::option(const char*, std::vector<std::string>&, const char*);
template Option Command::option(const char*, std::vector<uint32_t>&, const char*);
template Option Command::option(const char*, std::vector<int64_t>&, const char*);

Option Command::flag(const char* names, bool& value, const char* help) {
  return Option(app_->add_flag(names, value, help));
}
void Command::positionalsLast() { app_->positionals_at_end(); }
void Command::footer(const char* text) { app_->footer(text); }

void Command::run(std::function<int()> run) {
  app_->callback([run = std::move(run), chosen = chosen_] { *chosen = run; });
}

void Command::run(std::function<Status()> check, std::function<int()> run) {
  app_->callback([check = std::move(check), run = std::move(run), chosen = chosen_] {
    if (Status s = check(); !s) throw CLI::ParseError(s.message(), CLI::ExitCodes::ValidationError);
    *chosen = run;
  });
}

Program::Program(const char* name, const char* summary, const char* version)
    : app_(std::make_unique<CLI::App>(summary, name)), root_(app_.get(), &chosen_) {
  app_->set_help_flag("-h,--help", "Print this help and exit");
  app_->set_version_flag("--version", std::string(name) + " " + version, "Print the version and exit");
  app_->get_formatter()->label("SUBCOMMAND", "COMMAND");
}
Program::~Program() = default;

namespace {

/// A file that is opened while 0, 1 or 2 is closed would get that number, and with it what is printed.
void keepStandardNumbers() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

/// What could not be printed (a full disk, a pipe nobody reads) is a failure.
int checkPrinted(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "tracesmith: cannot write to standard output%s%s\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return code == 0 ? 1 : code;
}

}  // namespace

int Program::run(int argc, char** argv) {
  keepStandardNumbers();
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "help") {  // help cluster record: cluster record --help
    words.erase(words.begin());
    const CLI::App* command = app_.get();
    std::string path = app_->get_name();
    for (const std::string& word : words) {
      const std::vector<std::string> known = commandsOf(*command);
      if (known.empty() || word.starts_with("-")) break;
      if (std::find(known.begin(), known.end(), word) == known.end()) {
        std::fprintf(stderr, "tracesmith: there is no command '%s'%s (see %s --help)\n", word.c_str(),
                     suggestion(word, known).c_str(), path.c_str());
        return 2;
      }
      command = command->get_subcommand(word);
      path += " " + word;
    }
    words.emplace_back("--help");
  }
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::CallForHelp*>(&error)) {
      std::fputs(wrapped(app_->help(), textWidth()).c_str(), stdout);
      return checkPrinted(0);
    }
    if (error.get_exit_code() == 0) return checkPrinted(app_->exit(error));
    const CLI::App* command = app_.get();
    std::string path = app_->get_name(), before;
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().back();
      before = std::exchange(path, path + " " + command->get_name());
    }
    if (command->get_require_subcommand_min() > 0 && (words.empty() || words.back() == command->get_name())) {
      std::fputs(wrapped(command->help(before), textWidth()).c_str(),
                 stdout);  // tracesmith, tracesmith cluster: what is there?
      return checkPrinted(0);
    }
    const std::string message = messageOf(error, *command);
    std::fprintf(stderr, "tracesmith: %s (see %s --help)\n", message.c_str(), path.c_str());
    return 2;
  }
  return checkPrinted(chosen_());
}

namespace {

/// CLI11 writes the type of an option as "FORMAT:{csv,json}", "N:INT in [1 - 1024]", "TEXT".
void readType(const std::string& type, ArgumentText& argument) {
  argument.value = type.substr(0, type.find(':'));
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  std::string word;
  for (char c : type.substr(open + 1, close - open - 1) + ",") {
    if (c != ',') {
      word += c;
      continue;
    }
    argument.choices.push_back(word);
    word.clear();
  }
  if (open == 0) argument.value = "VALUE";
}

ArgumentText describe(const CLI::Option& option) {
  ArgumentText a;
  if (option.get_positional()) {
    a.names = {option.get_single_name()};
  } else {
    for (const std::string& name : option.get_snames()) a.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) a.names.push_back("--" + name);
  }
  a.text = option.get_description();
  a.default_value = option.get_default_str();
  a.required = option.get_required();
  a.repeated = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() > 0) readType(option.get_type_name(), a);
  return a;
}

CommandText describe(const CLI::App& app, std::vector<std::string> words) {
  CommandText c;
  words.push_back(app.get_name());
  c.words = std::move(words);
  c.text = app.get_description();
  c.notes = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      (option->get_positional() ? c.positionals : c.options).push_back(describe(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    c.commands.push_back(describe(*sub, c.words));
  return c;
}

}  // namespace

CommandText Program::describe() const { return cli::describe(*app_, {}); }

}  // namespace tracesmith::cli
