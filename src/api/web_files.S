// SPDX-License-Identifier: Apache-2.0
// The files of web/ as bytes of this binary: see api/web_files.h.
    .macro web name, file
    .global tb_web_\name\()_begin
    .global tb_web_\name\()_end
tb_web_\name\()_begin:
    .incbin "\file"
tb_web_\name\()_end:
    .endm

    .section .rodata
    web openapi, openapi.json
    web docs, docs.html
    web redoc, redoc.html
    web shared_css, shared.css
    web shared_js, shared.js
    .section .note.GNU-stack,"",%progbits
