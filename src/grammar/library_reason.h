// What the grammar library says, for people who know nothing of it.
#pragma once

#include <string>
#include <string_view>

namespace rose {

// One line of at most 300 bytes out of an error of the library, which may be a picture of many
// lines with the place under a caret. It reads on from "it cannot be enforced: ".
std::string LibraryReason(std::string_view error);

}  // namespace rose
