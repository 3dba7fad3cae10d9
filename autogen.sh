#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes ./configure.
cd "$(dirname "$0")" && exec autoreconf -fi
