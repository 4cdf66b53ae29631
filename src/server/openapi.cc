#include "server/openapi.h"

#include "base/embed.h"

ROSE_EMBED(openapi, ROSE_OPENAPI);

namespace rose {

std::string_view OpenApiText() {
  return ROSE_EMBEDDED(openapi);
}

}  // namespace rose
