// How the process gives memory back.
#pragma once

namespace rose {

// From now on blocks of 1 MiB and more go back to the system when they are freed. Left alone, glibc
// keeps up to 64 MiB of them for each thread: large request bodies would be remembered for ever.
void ReturnLargeBlocks();

}  // namespace rose
