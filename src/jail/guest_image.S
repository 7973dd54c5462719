// SPDX-License-Identifier: Apache-2.0
// Files as bytes of this binary: see jail/guest_image.h.
    .macro file name, path
    .global tb_\name\()_begin
    .global tb_\name\()_end
    .balign 16
tb_\name\()_begin:
    .incbin "\path"
tb_\name\()_end:
    .endm

    .section .rodata
    file guest, GUEST_FILE
    file waiter, WAITER_FILE
    file opening, OPENING_FILE
    .section .note.GNU-stack,"",%progbits
