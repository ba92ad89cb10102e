#include "cli/documents/command.hpp"

#include "base/text.hpp"
#include "cli/tree.hpp"

namespace tracesmith::cli {
namespace {

/// CLI11 writes the type of an option as "FORMAT:{csv,json}", "N:INT in [1 - 1024]", "TEXT".
void readType(const std::string& type, Argument& argument) {
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

Argument describe(const CLI::Option& option) {
  Argument a;
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

Command describe(const CLI::App& app, std::vector<std::string> words) {
  Command c;
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

std::string Command::joined(char separator) const {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(1, separator)) + word;
  return text;
}

Command describeCommands() {
  Run run;
  return describe(*makeCommands(run), {});
}

}  // namespace tracesmith::cli
