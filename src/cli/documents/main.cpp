// Writes manual pages and shell completion below a folder: `tracesmith_documents DIR` fills DIR/man,
// DIR/bash-completion and DIR/zsh. Part of the build, not installed.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/documents/documents.hpp"
#include "cli/tree.hpp"

namespace {

using tracesmith::cli::CommandText;

bool write(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "tracesmith_documents: cannot write %s\n", path.c_str());
  return !file.fail();
}

bool writePages(const std::filesystem::path& folder, const CommandText& command) {
  bool good = write(folder / (command.joined('-') + ".1"), manPage(command, TRACESMITH_VERSION));
  for (const CommandText& c : command.commands) good = writePages(folder, c) && good;
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tracesmith_documents DIR\n");
    return 2;
  }
  const std::filesystem::path share = argv[1];
  const CommandText program = tracesmith::cli::makeProgram()->describe();
  std::error_code error;
  std::filesystem::remove_all(share / "man", error);  // pages of commands that are no more
  bool good = writePages(share / "man" / "man1", program);
  good = write(share / "bash-completion/completions/tracesmith", bashCompletion(program)) && good;
  good = write(share / "zsh/site-functions/_tracesmith", zshCompletion(program)) && good;
  return good ? 0 : 1;
}
