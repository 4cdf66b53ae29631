#include "checkpoint/safetensors.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <tuple>

#include "checkpoint/safetensors_json.h"
#include "tensor/tensor.h"

namespace rose {
namespace {

constexpr int64_t kLengthBytes = 8;

// Bytes of a tensor, or an error if the product of its axes overflows.
Result<int64_t> CheckedBytes(const StoredTensor& tensor) {
  int64_t bytes = ElementBytes(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return InvalidArgument("tensor '", tensor.name, "': the shape ", ShapeToString(tensor.shape),
                             " is too large");
  }
  return bytes;
}

// The entry of a tensor whose data lies in [data_begin, file_bytes).
Result<SafetensorsEntry> CheckedEntry(const std::string& name, const HeaderJsonEntry& json,
                                      int64_t data_begin, int64_t file_bytes) {
  const std::optional<DType> dtype = DTypeFromName(json.dtype);
  if (!dtype)
    return InvalidArgument("tensor '", name, "' has the element type '", json.dtype,
                           "'; rose reads BF16, F32, U8, F8_E4M3, I32 and I64");
  if (json.shape.size() > Tensor::kMaxRank)
    return InvalidArgument("tensor '", name, "' has ", json.shape.size(),
                           " axes; rose reads at most ", Tensor::kMaxRank);
  if (json.offsets.size() != 2)
    return InvalidArgument("tensor '", name, "': data_offsets has ", json.offsets.size(),
                           " numbers, expected 2");
  SafetensorsEntry entry;
  entry.tensor = {name, *dtype, json.shape};
  ROSE_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(entry.tensor));
  const int64_t begin = json.offsets[0], end = json.offsets[1];
  if (begin > end)
    return InvalidArgument("tensor '", name, "': data_offsets [", begin, ", ", end,
                           "] end before they begin");
  if (end > file_bytes - data_begin)
    return InvalidArgument("tensor '", name, "': data_offsets [", begin, ", ", end,
                           "] reach beyond the file, which has ", file_bytes - data_begin,
                           " bytes of data; is it cut short?");
  if (end - begin != bytes)
    return InvalidArgument("tensor '", name, "': data_offsets [", begin, ", ", end, "] are ",
                           end - begin, " bytes, but ", DTypeName(*dtype), " ",
                           ShapeToString(json.shape), " takes ", bytes);
  entry.begin = data_begin + begin;
  entry.end = data_begin + end;
  return entry;
}

// The format allows neither overlap nor gaps; `entries` are sorted by begin.
Status CheckTiling(const std::vector<SafetensorsEntry>& entries, int64_t data_begin,
                   int64_t file_bytes) {
  int64_t position = data_begin;
  std::string before = "the header";
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin < position)
      return InvalidArgument("the data of tensor '", entry.tensor.name, "' overlaps that of ",
                             before);
    if (entry.begin > position)
      return InvalidArgument("there is a gap of ", entry.begin - position, " bytes between ",
                             before, " and the data of tensor '", entry.tensor.name, "'");
    position = entry.end;
    before = StrCat("tensor '", entry.tensor.name, "'");
  }
  if (position != file_bytes)
    return InvalidArgument("the file has ", file_bytes - position,
                           " bytes that belong to no tensor after ", before);
  return Status();
}

}  // namespace

int64_t StoredBytes(const StoredTensor& tensor) {
  return CheckedBytes(tensor).value();
}

Result<SafetensorsHeader> ParseSafetensors(std::span<const uint8_t> file) {
  const int64_t file_bytes = static_cast<int64_t>(file.size());
  if (file_bytes < kLengthBytes)
    return InvalidArgument("the file is cut short: it has ", file_bytes,
                           " bytes, and a safetensors file begins with 8 bytes of header length");
  uint64_t length = 0;
  for (int64_t byte = 0; byte < kLengthBytes; ++byte) length |= uint64_t{file[byte]} << (8 * byte);
  if (length > static_cast<uint64_t>(SafetensorsHeader::kMaxHeaderBytes))
    return InvalidArgument("the header claims ", length, " bytes, more than the limit of ",
                           SafetensorsHeader::kMaxHeaderBytes, "; is this a safetensors file?");
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(length);
  if (data_begin > file_bytes)
    return InvalidArgument("the file is cut short: the header claims ", length,
                           " bytes, the file has ", file_bytes - kLengthBytes, " after its length");
  const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  ROSE_ASSIGN_OR_RETURN(HeaderJson json, ParseHeaderJson({text, static_cast<size_t>(length)}));

  SafetensorsHeader header;
  header.metadata = std::move(json.metadata);
  for (const auto& [name, fields] : json.tensors) {
    ROSE_ASSIGN_OR_RETURN(SafetensorsEntry entry,
                          CheckedEntry(name, fields, data_begin, file_bytes));
    header.entries.push_back(std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  ROSE_RETURN_IF_ERROR(CheckTiling(header.entries, data_begin, file_bytes));
  return header;
}

std::string SafetensorsHeaderBytes(const std::vector<StoredTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  int64_t position = 0;
  for (const StoredTensor& tensor : tensors) {
    const int64_t end = position + StoredBytes(tensor);
    json += StrCat(",", boost::json::serialize(boost::json::string(tensor.name)), ":{\"dtype\":\"",
                   DTypeName(tensor.dtype), "\",\"shape\":[");
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      json += StrCat(axis > 0 ? "," : "", tensor.shape[axis]);
    json += StrCat("],\"data_offsets\":[", position, ",", end, "]}");
    position = end;
  }
  json += "}";
  constexpr int64_t kAlign = 64;
  while ((kLengthBytes + json.size()) % kAlign != 0) json += ' ';
  std::string bytes(kLengthBytes, '\0');
  for (int64_t byte = 0; byte < kLengthBytes; ++byte)
    bytes[byte] = static_cast<char>(uint64_t{json.size()} >> (8 * byte));
  return bytes + json;
}

}  // namespace rose
