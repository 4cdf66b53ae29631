// A schema of a few kilobytes that stands for more than any reader can write out.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"

namespace rose {

// 40 definitions, each of which names the next one ten times; the last is `leaf`.
inline std::string ReferenceBomb(std::string_view leaf) {
  std::string bomb = StrCat(R"({"$ref":"#/$defs/d0","$defs":{"d40":)", leaf);
  for (int i = 0; i < 40; ++i) {
    bomb += StrCat(",\"d", i, "\":{\"allOf\":[");
    for (int j = 0; j < 10; ++j)
      bomb += StrCat(j == 0 ? "" : ",", "{\"$ref\":\"#/$defs/d", i + 1, "\"}");
    bomb += "]}";
  }
  return bomb + "}}";
}

}  // namespace rose
