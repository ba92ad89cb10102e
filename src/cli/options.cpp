// The one file that knows CLI11.
#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

namespace tracesmith::cli {

Check::Check(const CLI::Validator& validator) : validator_(std::make_shared<CLI::Validator>(validator)) {}

Check range(int from, int to) { return Check(CLI::Range(from, to)); }
Check range(uint64_t from, uint64_t to) { return Check(CLI::Range(from, to)); }
Check range(double from, double to) { return Check(CLI::Range(from, to)); }
Check positive() { return Check(CLI::PositiveNumber); }
Check nonNegative() { return Check(CLI::NonNegativeNumber); }
Check oneOf(std::initializer_list<const char*> words) {
  return Check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
}

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
  return Command(app_->add_subcommand(name, summary), chosen_);
}
void Command::needsCommand() { app_->require_subcommand(1); }

template <class T>
Option Command::option(const char* names, T& value, const char* help) {
  return Option(app_->add_option(names, value, help));
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
  app_->set_version_flag("--version", std::string(name) + " " + version);
}
Program::~Program() = default;

int Program::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);
    std::fprintf(stderr, "tracesmith: %s (see tracesmith --help)\n", error.what());
    return 2;
  }
  return chosen_();
}

}  // namespace tracesmith::cli
