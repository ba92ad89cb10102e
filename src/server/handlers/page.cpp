// The page itself, as it was built into the library.
#include "server/handlers/page.hpp"

#include <string_view>

#include "server/handlers/handlers.hpp"

namespace tracesmith::server {
namespace {

/// Scripts, styles and data from here alone; nobody frames the page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src "
    "'self'; "
    "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

const char* typeOf(std::string_view path) {
  static constexpr std::pair<const char*, const char*> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                   {".js", "text/javascript; charset=utf-8"},
                                                                   {".css", "text/css; charset=utf-8"},
                                                                   {".svg", "image/svg+xml"},
                                                                   {".png", "image/png"},
                                                                   {".ico", "image/x-icon"},
                                                                   {".json", "application/json"},
                                                                   {".woff2", "font/woff2"},
                                                                   {".map", "application/json"},
                                                                   {".webmanifest", "application/manifest+json"}};
  for (auto [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

}  // namespace

Answer pageFile(const Request& r) {
  Answer answer;
  const std::string_view path = r.path == "/" ? "/index.html" : std::string_view(r.path);
  for (const PageFile& file : pageFiles()) {
    if (file.path != path) continue;
    answer.type = typeOf(path);
    answer.body = r.gzip ? file.gzip : file.bytes;
    if (r.gzip) answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.headers.emplace_back("Vary", "Accept-Encoding");
    answer.headers.emplace_back("Content-Security-Policy", kPolicy);
    answer.headers.emplace_back("X-Frame-Options", "DENY");
    answer.headers.emplace_back("Referrer-Policy", "no-referrer");
    // Names under /assets have a hash of their content.
    answer.headers.emplace_back("Cache-Control",
                                path.starts_with("/assets/") ? "public, max-age=31536000, immutable" : "no-cache");
    return answer;
  }
  if (path != "/index.html" && r.accept.find("text/html") != std::string::npos) {
    answer.status = 404;
    answer.type = "text/html; charset=utf-8";
    answer.headers.emplace_back("Content-Security-Policy", kPolicy);
    answer.body =
        "<!doctype html><html lang=\"en\"><title>Not found - TraceSmith</title><h1>There is no page here</h1>"
        "<p>The address may be misspelled. <a href=\"/\">Open TraceSmith</a>, or see what "
        "<a href=\"/api/v1/openapi.json\">the API</a> answers.</p></html>\n";
    return answer;
  }
  if (path != "/index.html") return Answer::error(404, "there is no " + r.path.substr(0, 256) + " here");
  answer.type = "text/plain; charset=utf-8";
  answer.body = std::string("The page was not built into this program: ") + kNoPage +
                ". The API is at /api/v1/info, its description at /api/v1/openapi.json.\n";
  return answer;
}

}  // namespace tracesmith::server
