// The clocks that a GPU runs at, by the driver's management library (NVML), found at run time.
#pragma once

#include <optional>
#include <string>

namespace rose {

struct GpuClocks {
  int sm_mhz = 0;
  int memory_mhz = 0;
};

// Right now, of the GPU with this PCI address ("0000:1b:00.0"); nullopt where the library, the GPU
// or the answer is missing. Takes some microseconds after the first call.
std::optional<GpuClocks> ReadGpuClocks(const std::string& pci_address);

}  // namespace rose
