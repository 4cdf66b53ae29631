// The library is what llguidance exports to C. Of our own there is one thing, which it does not
// tell: how much memory a grammar takes.
pub use llguidance::ffi::*;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

// The system's allocator, which counts for each thread what it took less what it gave back.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// With what glibc's malloc adds to it.
fn cost(size: usize) -> i64 {
    ((size + 8 + 15) & !15) as i64
}

fn add(bytes: i64) {
    // A thread that is ending may have no counter any more.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let p = System.alloc(layout);
        if !p.is_null() {
            add(cost(layout.size()));
        }
        p
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let p = System.alloc_zeroed(layout);
        if !p.is_null() {
            add(cost(layout.size()));
        }
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        System.dealloc(p, layout);
        add(-cost(layout.size()));
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let q = System.realloc(p, layout, size);
        if !q.is_null() {
            add(cost(size) - cost(layout.size()));
        }
        q
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that the calling thread has taken from the library's heap, less those that it gave back.
#[no_mangle]
pub extern "C" fn rose_llg_held_bytes() -> i64 {
    HELD.try_with(Cell::get).unwrap_or(0)
}
