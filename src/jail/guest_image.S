// SPDX-License-Identifier: Apache-2.0
// The guest program as bytes of this binary: see jail/guest_image.h.
    .section .rodata
    .global tb_guest_begin
    .global tb_guest_end
    .balign 16
tb_guest_begin:
    .incbin GUEST_FILE
tb_guest_end:
    .section .note.GNU-stack,"",%progbits
