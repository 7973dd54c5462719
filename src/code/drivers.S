// SPDX-License-Identifier: Apache-2.0
// The drivers of code/drivers as bytes of this binary: see code/languages.cpp.
    .section .rodata
    .global tb_driver_python_begin
    .global tb_driver_python_end
    .global tb_driver_javascript_begin
    .global tb_driver_javascript_end
tb_driver_python_begin:
    .incbin "python_channel.py"
    .incbin "python_results.py"
    .incbin "python_run.py"
tb_driver_python_end:
tb_driver_javascript_begin:
    .incbin "javascript.js"
tb_driver_javascript_end:
    .section .note.GNU-stack,"",%progbits
