// Completion for bash and zsh: one table of the command tree, read by a few lines of shell.
#include "cli/documents/documents.hpp"

namespace tracesmith::cli {
namespace {

template <typename Visit>
void everyCommand(const CommandText& command, const Visit& visit) {
  visit(command);
  for (const CommandText& c : command.commands) everyCommand(c, visit);
}

/// In single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string wordsOf(const CommandText& command, bool options) {
  std::string words;
  for (const CommandText& c : command.commands) words += (words.empty() ? "" : " ") + c.words.back();
  for (const ArgumentText& a : command.options)
    for (const std::string& name : a.names)
      if (options && name.starts_with("--")) words += (words.empty() ? "" : " ") + name;
  return words;
}

/// For _describe and _arguments: brackets and colons mean something there.
std::string zshText(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string zshValue(const ArgumentText& a) {
  if (a.value.empty()) return "";
  std::string action = "_files";
  if (!a.choices.empty()) {
    action = "(";
    for (const std::string& choice : a.choices) action += (action.size() > 1 ? " " : "") + choice;
    action += ")";
  }
  return ":" + zshText(a.value) + ":" + action;
}

void zshFunction(std::string& out, const CommandText& command) {
  for (const CommandText& c : command.commands) zshFunction(out, c);
  out += "_" + command.joined('_') + "() {\n";
  if (!command.commands.empty()) {
    out += "  local line state\n";
    out += "  _arguments -C";
  } else {
    out += "  _arguments";
  }
  for (const ArgumentText& a : command.options)
    for (const std::string& name : a.names)
      out += " \\\n    " + quoted((a.repeated ? "*" : "") + name + "[" + zshText(a.text) + "]" + zshValue(a));
  if (command.commands.empty()) {
    out += " \\\n    '*:file:_files'\n}\n";
    return;
  }
  out += " \\\n    '1:command:->command' '*::argument:->argument'\n";
  out += "  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandText& c : command.commands)
    out += "        " + quoted(zshText(c.words.back()) + ":" + c.text) + "\n";
  out += "      )\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const CommandText& c : command.commands) out += "        " + c.words.back() + ") _" + c.joined('_') + " ;;\n";
  out += "      esac ;;\n  esac\n}\n";
}

}  // namespace

std::string bashCompletion(const CommandText& program) {
  std::string out = "# bash completion for tracesmith; generated from its commands\n_tracesmith() {\n";
  out +=
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=tracesmith i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    [ \"${COMP_WORDS[i]}\" = -- ] && { COMPREPLY=($(compgen -c -- \"$word\")); return; }\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n";
  std::string paths, choices, words;
  everyCommand(program, [&](const CommandText& c) {
    if (c.words.size() > 1) paths += (paths.empty() ? "" : " | ") + quoted(c.joined(' '));
    words += "    " + quoted(c.joined(' ')) + ") words=" + quoted(wordsOf(c, true)) + " ;;\n";
    for (const ArgumentText& a : c.options)
      for (const std::string& name : a.names)
        if (!a.choices.empty()) {
          std::string list;
          for (const std::string& choice : a.choices) list += (list.empty() ? "" : " ") + choice;
          choices += "    " + quoted(c.joined(' ') + " " + name) + ") COMPREPLY=($(compgen -W " + quoted(list) +
                     " -- \"$word\")); return ;;\n";
        }
  });
  out += "      " + paths + ") path=\"$path ${COMP_WORDS[i]}\" ;;\n    esac\n  done\n";
  out += "  case \"$path $before\" in\n" + choices + "  esac\n";
  out += "  local words\n  case $path in\n" + words + "  esac\n";
  out +=
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  case $word in -*) ;; *) COMPREPLY+=($(compgen -f -- \"$word\")) ;; esac\n"
      "}\n"
      "complete -o filenames -F _tracesmith tracesmith\n";
  return out;
}

std::string zshCompletion(const CommandText& program) {
  std::string out = "#compdef tracesmith\n# generated from the commands of tracesmith\n";
  zshFunction(out, program);
  return out + "_tracesmith \"$@\"\n";
}

}  // namespace tracesmith::cli
