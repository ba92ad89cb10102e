#include "description.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace fake_nvml {
namespace {

/// "0-3" → 0, 3; "5" → 5, 5.
std::pair<int, int> range(const std::string& text) {
  const size_t dash = text.find('-');
  const int first = std::atoi(text.c_str());
  return {first, dash == std::string::npos ? first : std::atoi(text.c_str() + dash + 1)};
}

std::string trimmed(const std::string& s) {
  const size_t begin = s.find_first_not_of(" \t\r"), end = s.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : s.substr(begin, end - begin + 1);
}

std::vector<std::string> words(const std::string& s) {
  std::istringstream in(s);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

void setLink(Gpu& gpu, const std::string& which, const std::vector<std::string>& w) {
  const auto [first, last] = range(which);
  for (int l = first; l <= last; ++l) {
    Link link;
    link.to_switch = w.size() > 1 && w[0] == "switch";
    if (link.to_switch)
      link.remote_pci = w[1];
    else if (w.size() > 1)
      link.remote_gpu = std::atoi(w[1].c_str());
    for (size_t i = 2; i + 1 < w.size(); i += 2) {
      if (w[i] == "version") link.version = static_cast<uint32_t>(std::atoi(w[i + 1].c_str()));
      if (w[i] == "speed") link.speed = static_cast<uint32_t>(std::atoi(w[i + 1].c_str()));
    }
    gpu.links[static_cast<uint32_t>(l)] = link;
  }
}

void set(Gpu& gpu, const std::string& key, const std::string& value) {
  const std::vector<std::string> k = words(key), w = words(value);
  if (k[0] == "link" && k.size() > 1) {
    setLink(gpu, k[1], w);
  } else if (k[0] == "ancestor" && k.size() > 1) {
    const auto [first, last] = range(k[1]);
    for (int g = first; g <= last; ++g) gpu.ancestors[g] = static_cast<uint32_t>(std::atoi(value.c_str()));
  } else if (k[0] == "field" && k.size() > 1) {
    Field f;
    f.value = std::strtoull(value.c_str(), nullptr, 0);
    for (size_t i = 1; i < w.size(); ++i) {
      if (w[i] == "u32") f.is_u32 = true;
      if (w[i] == "step" && i + 1 < w.size()) f.step = std::strtoull(w[i + 1].c_str(), nullptr, 0);
    }
    const size_t colon = k[1].find(':');
    const auto scope = colon == std::string::npos ? ~0u : static_cast<uint32_t>(std::atoi(k[1].c_str() + colon + 1));
    gpu.fields[{static_cast<uint32_t>(std::atoi(k[1].c_str())), scope}] = f;
  } else if (key == "gpm") {
    for (const std::string& m : w)
      gpu.gpm[static_cast<uint32_t>(std::atoi(m.c_str()))] = std::atof(m.c_str() + m.find(':') + 1);
  } else if (key == "process" && w.size() == 2) {
    gpu.processes.push_back({static_cast<uint32_t>(std::atoi(w[0].c_str())), std::strtoull(w[1].c_str(), nullptr, 0)});
  } else if (key == "mig" && w.size() == 5) {
    gpu.migs.push_back({w[0], static_cast<uint32_t>(std::atoi(w[1].c_str())),
                        static_cast<uint32_t>(std::atoi(w[2].c_str())), static_cast<uint32_t>(std::atoi(w[3].c_str())),
                        std::strtoull(w[4].c_str(), nullptr, 0)});
  } else if (key == "unsupported") {
    gpu.unsupported.insert(w.begin(), w.end());
  } else if (key == "forbidden") {
    gpu.forbidden.insert(w.begin(), w.end());
  } else if (key == "hang" && w.size() == 2) {
    gpu.hang_call = w[0];
    gpu.hang_ms = std::atoi(w[1].c_str());
  } else {
    gpu.values[key] = value;
  }
}

}  // namespace

std::string Gpu::text(const std::string& key, const std::string& otherwise) const {
  auto i = values.find(key);
  return i == values.end() ? otherwise : i->second;
}

uint64_t Gpu::number(const std::string& key, uint64_t otherwise) const {
  auto i = values.find(key);
  return i == values.end() ? otherwise : std::strtoull(i->second.c_str(), nullptr, 0);
}

void parsePci(const std::string& text, uint32_t& domain, uint32_t& bus, uint32_t& device) {
  domain = bus = device = 0;
  std::sscanf(text.c_str(), "%x:%x:%x", &domain, &bus, &device);
}

Description parse(const std::string& path) {
  Description d;
  std::ifstream in(path);
  int first = 0, last = -1;
  bool section = false;
  for (std::string line; std::getline(in, line);) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.starts_with("[gpu ")) {
      std::tie(first, last) = range(line.substr(5));
      section = true;
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    if (key == "gpus") {
      d.gpus.resize(static_cast<size_t>(std::atoi(value.c_str())));
      last = static_cast<int>(d.gpus.size()) - 1;
    } else if (!section && key == "driver") {
      d.driver = value;
    } else if (!section && key == "cuda") {
      d.cuda = std::atoi(value.c_str());
    } else if (!section && key == "state") {
      d.state = value;
    } else {
      for (int g = first; g <= last && g < static_cast<int>(d.gpus.size()); ++g)
        set(d.gpus[static_cast<size_t>(g)], key, value);
    }
  }
  for (size_t i = 0; i < d.gpus.size(); ++i) {
    char text[64];
    std::snprintf(text, sizeof text, "0000:%02zx:00.0", 0x18 + 0x11 * i);
    d.gpus[i].values.try_emplace("pci", text);
    std::snprintf(text, sizeof text, "GPU-%08zx-0000-0000-0000-000000000000", 0xfa0 + i);
    d.gpus[i].values.try_emplace("uuid", text);
  }
  return d;
}

}  // namespace fake_nvml
