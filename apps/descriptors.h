// File descriptors: every connection is one.
#pragma once

namespace rose {

// The usual soft limit is 1024; up to the hard one.
void RaiseDescriptorLimit();

}  // namespace rose
