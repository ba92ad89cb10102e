// A program with NVTX annotations: NVTX's handshake with an injected library, and its function slots, as far as a
// program sees them. Real NVTX is a header that does the same.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

struct Attributes {
  uint16_t version = 3, size = 48;
  uint32_t category = 0;
  int32_t color_type = 0;
  uint32_t color = 0;
  int32_t payload_type = 0, reserved = 0;
  uint64_t payload = 0;
  int32_t message_type = 0;
  const void* message = nullptr;
};
static_assert(sizeof(Attributes) == 48);

using Function = void (*)();

/// One library's copy of NVTX: its function slots, and the tables that point to them.
struct Nvtx {
  Function core[16] = {}, core2[17] = {};
  Function* core_table[17] = {};
  Function* core2_table[17] = {};

  Nvtx() {
    for (int i = 1; i < 16; ++i) core_table[i] = &core[i];
    for (int i = 1; i < 16; ++i) core2_table[i] = &core2[i];
  }
  template <typename F>
  F* at(Function f) const {
    return reinterpret_cast<F*>(f);
  }
};

Nvtx* g_filling;

int getTable(uint32_t module, Function*** table, unsigned* size) {
  if (module == 1)
    *table = g_filling->core_table;
  else if (module == 5)
    *table = g_filling->core2_table;
  else
    return 0;
  *size = 16;
  return 1;
}

const void* exportTable(uint32_t id) {
  static const struct {
    size_t size;
    int (*get)(uint32_t, Function***, unsigned*);
  } callbacks = {sizeof callbacks, getTable};
  return id == 1 ? &callbacks : nullptr;
}

bool initialize(Nvtx& nvtx) {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path ? ::dlopen(path, RTLD_LAZY) : nullptr;
  void* entry = library ? ::dlsym(library, "InitializeInjectionNvtx2") : nullptr;
  g_filling = &nvtx;
  return entry && reinterpret_cast<int (*)(const void* (*)(uint32_t))>(entry)(exportTable) == 1;
}

Attributes message(const char* text) {
  Attributes a;
  a.message_type = 1;
  a.message = text;
  return a;
}

}  // namespace

int main() {
  Nvtx first, second;  // two libraries, each with its copy
  std::printf("nvtx %d %d\n", initialize(first), initialize(second));
  if (!first.core[9]) return 0;
  const Nvtx& n = first;
  auto pushA = n.at<int(const char*)>(n.core[9]);
  auto pushEx = n.at<int(const Attributes*)>(n.core[8]);
  auto pop = n.at<int()>(n.core[11]);
  auto startA = n.at<uint64_t(const char*)>(n.core[5]);
  auto startEx = n.at<uint64_t(const Attributes*)>(n.core[4]);
  auto end = n.at<void(uint64_t)>(n.core[7]);
  auto markA = n.at<void(const char*)>(n.core[2]);
  auto markEx = n.at<void(const Attributes*)>(n.core[1]);
  auto domainMark = n.at<void(void*, const Attributes*)>(n.core2[1]);
  auto domainStart = n.at<uint64_t(void*, const Attributes*)>(n.core2[2]);
  auto domainEnd = n.at<void(void*, uint64_t)>(n.core2[3]);
  auto domainPush = n.at<int(void*, const Attributes*)>(n.core2[4]);
  auto domainPop = n.at<int(void*)>(n.core2[5]);
  auto registerString = n.at<void*(void*, const char*)>(n.core2[10]);
  auto createDomain = n.at<void*(const char*)>(n.core2[12]);

  pushA("forward");
  Attributes layer = message("layer");
  pushEx(&layer);
  markA("inside");
  pop();
  pop();
  std::printf("pop of nothing %d\n", pop());
  Attributes step = message("Step 8");
  pushA("iteration_7");
  pushA("in a step");
  pop();
  pop();
  pushA("step by step");  // is none
  pop();
  pushEx(&step);
  pop();

  const uint64_t across = startA("across threads");
  std::thread([&] { end(across); }).join();
  end(across);  // twice
  end(0);       // what a tool that records nothing gives
  end(12345);
  const uint64_t named = startEx(&layer);
  end(named);

  void* a = createDomain("alpha");
  void* b = createDomain("beta");
  Attributes in_a = message("in alpha"), in_b = message("in beta"), registered;
  registered.message_type = 3;
  registered.message = registerString(a, "registered");
  domainPush(a, &in_a);  // domains nest each for itself
  domainPush(b, &in_b);
  domainPop(a);
  domainPop(b);
  domainPush(a, &registered);
  domainPop(a);
  domainMark(b, &in_b);
  domainEnd(b, domainStart(b, &in_b));
  markEx(nullptr);
  Attributes wide;
  wide.message_type = 2;
  wide.message = L"wide";
  markEx(&wide);

  auto push2 = second.at<int(const char*)>(second.core[9]);
  auto pop2 = second.at<int()>(second.core[11]);
  push2("of the second library");
  pop2();
}
