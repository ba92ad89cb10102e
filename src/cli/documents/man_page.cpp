#include "cli/documents/documents.hpp"

namespace tracesmith::cli {
namespace {

/// Text that troff takes for text: no commands, and hyphens that can be copied.
std::string plain(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string nameOf(const ArgumentText& a) {
  std::string text;
  for (const std::string& name : a.names) text += (text.empty() ? "\\fB" : ", \\fB") + plain(name) + "\\fR";
  if (!a.value.empty()) text += " \\fI" + plain(a.value) + "\\fR";
  return text;
}

std::string explanation(const ArgumentText& a) {
  std::string text = plain(a.text);
  if (!a.choices.empty()) {
    std::string list;
    for (const std::string& choice : a.choices) list += (list.empty() ? "" : ", ") + choice;
    if (a.text.find(a.choices.front()) == std::string::npos) text += " (one of " + plain(list) + ")";
  }
  if (!a.default_value.empty()) text += " (default " + plain(a.default_value) + ")";
  return text;
}

void writeList(std::string& out, const char* title, const std::vector<ArgumentText>& arguments, bool positional) {
  if (arguments.empty()) return;
  out += std::string(".SH ") + title + "\n";
  for (const ArgumentText& a : arguments)
    out += ".TP\n" + (positional ? "\\fI" + plain(a.names.front()) + "\\fR" : nameOf(a)) + "\n" + explanation(a) + "\n";
}

std::string synopsis(const CommandText& c) {
  std::string text = "\\fB" + plain(c.joined(' ')) + "\\fR";
  if (!c.options.empty()) text += " [\\fIOPTIONS\\fR]";
  if (!c.commands.empty()) text += " \\fICOMMAND\\fR ...";
  for (const ArgumentText& a : c.positionals) {
    const std::string name = "\\fI" + plain(a.names.front()) + "\\fR" + (a.repeated ? "..." : "");
    text += a.required ? " " + name : " [" + name + "]";
  }
  return text;
}

}  // namespace

std::string manPage(const CommandText& command, const std::string& version) {
  const std::string title = command.joined('-');
  std::string upper = title;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  std::string out = ".TH \"" + plain(upper) + "\" 1 \"\" \"TraceSmith " + plain(version) + "\" \"TraceSmith\"\n";
  std::string text = command.text;
  if (!text.empty() && text.back() == '.') text.pop_back();
  out += ".SH NAME\n" + plain(title) + " \\- " + plain(text) + "\n";
  out += ".SH SYNOPSIS\n" + synopsis(command) + "\n";
  out += ".SH DESCRIPTION\n" + plain(command.text) + (command.text.ends_with('.') ? "\n" : ".\n");
  if (!command.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandText& c : command.commands)
      out += ".TP\n\\fB" + plain(c.words.back()) + "\\fR\n" + plain(c.text) + ": see \\fB" + plain(c.joined('-')) +
             "\\fR(1).\n";
  }
  writeList(out, "ARGUMENTS", command.positionals, true);
  writeList(out, "OPTIONS", command.options, false);
  if (!command.notes.empty()) out += ".SH NOTES\n.nf\n" + plain(command.notes) + "\n.fi\n";
  out += ".SH EXIT STATUS\n0 if it succeeded, 1 if it failed, 2 if the command line is wrong.\n";
  if (command.words.size() > 1) {
    const std::vector<std::string> above(command.words.begin(), command.words.end() - 1);
    out += ".SH SEE ALSO\n\\fB" + plain(CommandText{above, {}, {}, {}, {}, {}}.joined('-')) + "\\fR(1)\n";
  }
  return out;
}

}  // namespace tracesmith::cli
