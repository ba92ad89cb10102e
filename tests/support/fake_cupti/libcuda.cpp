// A stand-in for libcuda.so.1 with two GPUs: as much of it as asks about devices.
#include <cstddef>
#include <cstdio>
#include <cstring>

#pragma GCC visibility push(default)
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? 0 : 101;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute;
  return attribute == 37 ? 1 : 0;  // the bus width is not to be had
}
}
