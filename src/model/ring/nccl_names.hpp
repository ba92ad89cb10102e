// Names of NCCL whose indexes go into a ring's records; index 0: not known.
#pragma once

#include <cstdint>
#include <iterator>

#include "model/ring/nccl_records.hpp"

namespace tracesmith::nccl {

constexpr const char* kDatatypes[] = {"unknown",      "ncclInt8",       "ncclUint8",     "ncclInt32",   "ncclUint32",
                                      "ncclInt64",    "ncclUint64",     "ncclFloat16",   "ncclFloat32", "ncclFloat64",
                                      "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr int kDatatypeBytes[] = {1, 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr const char* kAlgos[] = {"", "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr const char* kProtos[] = {"", "LL", "LL128", "SIMPLE"};

/// Bytes of an operation. NCCL has no name for some types of one byte.
constexpr int64_t bytesOf(const ring::OperationRecord& o) {
  return static_cast<int64_t>(o.elements) * (o.datatype < std::size(kDatatypeBytes) ? kDatatypeBytes[o.datatype] : 1);
}

}  // namespace tracesmith::nccl
