// SPDX-License-Identifier: Apache-2.0
// The policies of registry/policies as bytes of this binary: see policies_yaml.cpp.
    .macro policy name, file
    .global tb_policy_\name\()_begin
    .global tb_policy_\name\()_end
tb_policy_\name\()_begin:
    .incbin "\file"
tb_policy_\name\()_end:
    .byte 0
    .endm

    .section .rodata
    policy strict, strict.yaml
    policy wide, wide.yaml
    policy open, open.yaml
    .section .note.GNU-stack,"",%progbits
