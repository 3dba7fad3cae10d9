/* SPDX-License-Identifier: BSD-3-Clause */
/* license: the text of the file LICENSE, for -i. */
#ifndef LICENSE_H
#define LICENSE_H

#define LICENSE_TEXT                                                                               \
    "BSD 3-Clause License\n"                                                                       \
    "\n"                                                                                           \
    "Copyright (c) 2026, the MemcachedSR authors\n"                                                \
    "All rights reserved.\n"                                                                       \
    "\n"                                                                                           \
    "Redistribution and use in source and binary forms, with or without\n"                         \
    "modification, are permitted provided that the following conditions are met:\n"                \
    "\n"                                                                                           \
    "1. Redistributions of source code must retain the above copyright notice, this\n"             \
    "   list of conditions and the following disclaimer.\n"                                        \
    "\n"                                                                                           \
    "2. Redistributions in binary form must reproduce the above copyright notice,\n"               \
    "   this list of conditions and the following disclaimer in the documentation\n"               \
    "   and/or other materials provided with the distribution.\n"                                  \
    "\n"                                                                                           \
    "3. Neither the name of the copyright holder nor the names of its\n"                           \
    "   contributors may be used to endorse or promote products derived from\n"                    \
    "   this software without specific prior written permission.\n"                                \
    "\n"                                                                                           \
    "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS \"AS IS\"\n"              \
    "AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE\n"                  \
    "IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE\n"             \
    "DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE\n"               \
    "FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL\n"                 \
    "DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR\n"                 \
    "SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER\n"                 \
    "CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,\n"              \
    "OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE\n"              \
    "OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.\n"                       \
    "\n"                                                                                           \
    "The programs that run in the kernel (*.bpf.c and *.bpf.h in bpf/) and the header\n"           \
    "they share with the server (bpf/shared/layout.h) are licensed under this license or,\n"       \
    "at your option, under the GNU General Public License, version 2 only.\n"

#endif
