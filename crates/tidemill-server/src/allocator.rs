//! Where memory comes from: mimalloc, asked by its shortest way.
//!
//! The crate `mimalloc` asks for an alignment even where every block has it, which takes twice the instructions; a row of
//! an INSERT takes thirty blocks. It is in this crate because the binary's own is not optimised.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// Every block of mimalloc is a multiple of words, and starts at one.
const ALIGNMENT: usize = align_of::<usize>();

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

// SAFETY: mimalloc's functions keep the contract of malloc, calloc, realloc and free, and those with an alignment give it;
// a block of either kind may be given to `mi_free` and to either `mi_realloc`.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size will do, and the alignment of a layout is a power of two.
        let block = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi_malloc(layout.size()),
                align => mi_malloc_aligned(layout.size(), align),
            }
        };
        block.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi_zalloc(layout.size()),
                align => mi_zalloc_aligned(layout.size(), align),
            }
        };
        block.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller got the block from here.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller got the block from here, with this layout.
        let block = unsafe {
            match layout.align() {
                ..=ALIGNMENT => mi_realloc(block.cast(), bytes),
                align => mi_realloc_aligned(block.cast(), bytes, align),
            }
        };
        block.cast()
    }
}
