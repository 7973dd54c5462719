// SPDX-License-Identifier: Apache-2.0
// Debian's static yaml-cpp was compiled for programs, which may have a copy of the C library's
// variables in themselves; a shared object may not, and the linker refuses it. This one tells
// std::shared_ptr whether atomics are needed. Ours says always, and nobody outside sees it.
extern "C" {
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}
