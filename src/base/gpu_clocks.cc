#include "base/gpu_clocks.h"

#include <dlfcn.h>

namespace rose {
namespace {

// As nvml.h declares them. 0 is success of every function.
using Device = void*;
using Init = int (*)();
using DeviceByPci = int (*)(const char* pci_address, Device* device);
using ClockInfo = int (*)(Device device, unsigned clock, unsigned* mhz);
constexpr unsigned kSmClock = 1;
constexpr unsigned kMemoryClock = 2;

struct Nvml {
  DeviceByPci device_by_pci = nullptr;
  ClockInfo clock_info = nullptr;
};

// Null functions where there is none. Stays open: the driver is used until the end anyway.
Nvml Open() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<Init>(::dlsym(library, "nvmlInit_v2"));
  const Nvml nvml{
      reinterpret_cast<DeviceByPci>(::dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2")),
      reinterpret_cast<ClockInfo>(::dlsym(library, "nvmlDeviceGetClockInfo"))};
  if (init == nullptr || nvml.device_by_pci == nullptr || nvml.clock_info == nullptr) return {};
  return init() == 0 ? nvml : Nvml();
}

}  // namespace

std::optional<GpuClocks> ReadGpuClocks(const std::string& pci_address) {
  static const Nvml nvml = Open();
  Device device = nullptr;
  unsigned sm = 0, memory = 0;
  if (nvml.clock_info == nullptr || nvml.device_by_pci(pci_address.c_str(), &device) != 0 ||
      nvml.clock_info(device, kSmClock, &sm) != 0 ||
      nvml.clock_info(device, kMemoryClock, &memory) != 0) {
    return std::nullopt;
  }
  return GpuClocks{static_cast<int>(sm), static_cast<int>(memory)};
}

}  // namespace rose
