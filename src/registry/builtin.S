// SPDX-License-Identifier: Apache-2.0
// The files of registry/ as bytes of this binary, the policies excepted: see loader.cpp.
    .macro registry_file path
    .asciz "\path"
    .long 9f - 8f
8:
    .incbin "\path"
9:
    .endm

    .section .rodata
    .global tb_registry_begin
    .global tb_registry_end
tb_registry_begin:
    .include "registry_files.inc"
tb_registry_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
