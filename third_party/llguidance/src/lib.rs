// Nothing of our own: the library is what llguidance exports to C.
pub use llguidance::ffi::*;
