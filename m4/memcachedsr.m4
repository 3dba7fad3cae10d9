dnl SPDX-License-Identifier: BSD-3-Clause

dnl The compiler of the machine that it is built on, for what the build itself runs.
AC_DEFUN([MC_CC_FOR_BUILD], [
    AC_ARG_VAR([CC_FOR_BUILD], [the C compiler for programs that the build runs])
    AS_IF([test "x$cross_compiling" != xyes],
        [CC_FOR_BUILD=${CC_FOR_BUILD:-$CC}],
        [AC_CHECK_PROGS([CC_FOR_BUILD], [gcc cc clang])
         AS_IF([test -z "$CC_FOR_BUILD"],
            [AC_MSG_ERROR([there is no compiler for programs that run here: set CC_FOR_BUILD])])])
])

dnl Threads: glibc needs only -pthread.
AC_DEFUN([MC_PTHREAD], [
    AC_SUBST([PTHREAD_CFLAGS], [-pthread])
    AC_CHECK_HEADER([pthread.h], [], [AC_MSG_ERROR([no POSIX threads])])
])

dnl MC_SANITIZE(KIND): SANITIZE_CFLAGS goes to every compilation and link but the kernel's.
AC_DEFUN([MC_SANITIZE], [
    AS_CASE([$1],
        [no], [sanitize_flags=],
        [yes|address], [sanitize_flags="-fsanitize=address,undefined dnl
-fno-sanitize-recover=undefined -fno-omit-frame-pointer"],
        [thread], [sanitize_flags="-fsanitize=thread -Wno-tsan -fno-omit-frame-pointer"],
        [AC_MSG_ERROR([--enable-sanitize takes address or thread, not $1])])
    AS_IF([test -n "$sanitize_flags"], [
        save_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS $sanitize_flags"
        AC_MSG_CHECKING([whether $CC links with $sanitize_flags])
        AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([the compiler has no such sanitizer])])
        CFLAGS=$save_CFLAGS
    ])
    AC_SUBST([SANITIZE_CFLAGS], [$sanitize_flags])
])

dnl MC_WARNINGS(WERROR)
AC_DEFUN([MC_WARNINGS], [
    warn_flags="-Wall -Wextra -Wshadow -Wstrict-prototypes dnl
-Wmissing-prototypes -Wvla -Wswitch-enum -Wsign-compare -Wdeclaration-after-statement"
    AS_IF([test "x$1" = xyes], [warn_flags="$warn_flags -Werror"])
    AC_SUBST([WARN_CFLAGS], [$warn_flags])
])

dnl MC_SASL(WANTED): libsasl2 (Cyrus SASL), for -S.
AC_DEFUN([MC_SASL], [
    sasl_enabled=0
    AS_IF([test "x$1" != xno], [
        PKG_CHECK_MODULES([SASL], [libsasl2 >= 2.1.26], [],
            [AC_MSG_ERROR([libsasl2 is missing: apt-get install libsasl2-dev, dnl
or configure with --disable-sasl])])
        sasl_enabled=1
    ])
    AC_DEFINE_UNQUOTED([ENABLE_SASL], [$sasl_enabled], [1: SASL authentication is built in.])
    AM_CONDITIONAL([ENABLE_SASL], [test "x$1" != xno])
])

dnl MC_BMC(WANTED): what compiles, embeds and loads the kernel programs.
AC_DEFUN([MC_BMC], [
    AC_ARG_VAR([CLANG], [the clang that compiles the kernel programs])
    AC_ARG_VAR([BPFTOOL], [the bpftool that makes their skeletons])
    BPF_CPPFLAGS=
    AS_IF([test "x$1" != xno], [
        hint="or configure with --disable-bmc"
        PKG_CHECK_MODULES([LIBBPF], [libbpf >= 1.1], [],
            [AC_MSG_ERROR([libbpf 1.1 is missing: apt-get install libbpf-dev, $hint])])
        AC_PATH_PROGS([CLANG], [${CLANG:-clang clang-19 clang-16 clang-14}])
        AS_IF([test -z "$CLANG"],
            [AC_MSG_ERROR([clang is missing: apt-get install clang, $hint])])
        AC_PATH_PROGS([BPFTOOL], [${BPFTOOL:-bpftool}], [], [$PATH:/usr/local/sbin:/usr/sbin:/sbin])
        AS_IF([test -z "$BPFTOOL"],
            [AC_MSG_ERROR([bpftool is missing: apt-get install bpftool, $hint])])
        AC_MSG_CHECKING([whether $CLANG compiles for the kernel])
        sysroot=`$CC -print-sysroot 2>/dev/null | sed 's,/$,,'`
        multiarch=`$CC -print-multiarch 2>/dev/null`
        AS_IF([test -n "$sysroot"], [BPF_CPPFLAGS="--sysroot=$sysroot"])
        AS_IF([test -n "$multiarch"],
            [BPF_CPPFLAGS="$BPF_CPPFLAGS -idirafter $sysroot/usr/include/$multiarch"])
        cat > conftest.bpf.c <<_MCEOF
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
int conftest(struct xdp_md *ctx) { return ctx->data ? XDP_PASS : XDP_DROP; }
_MCEOF
        AS_IF([$CLANG -target bpf -mcpu=v3 -O2 $BPF_CPPFLAGS -c conftest.bpf.c -o conftest.bpf.o \
                >&AS_MESSAGE_LOG_FD 2>&1],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([$CLANG cannot compile BPF (see config.log), $hint])])
        rm -f conftest.bpf.c conftest.bpf.o
        AC_DEFINE([ENABLE_BMC], [1], [The kernel path is built in.])
    ])
    AC_SUBST([BPF_CPPFLAGS])
    AM_CONDITIONAL([ENABLE_BMC], [test "x$1" != xno])
])

dnl MC_LIBXDP(WANTED, BMC): libxdp, to share an interface with other XDP programs.
AC_DEFUN([MC_LIBXDP], [
    AS_IF([test "x$2" = xno], [enable_libxdp=no])
    AS_IF([test "x$enable_libxdp" != xno], [
        PKG_CHECK_MODULES([LIBXDP], [libxdp >= 1.3], [],
            [AC_MSG_ERROR([libxdp 1.3 is missing: apt-get install libxdp-dev, dnl
or configure with --disable-libxdp])])
    ])
    AM_CONDITIONAL([ENABLE_LIBXDP], [test "x$enable_libxdp" != xno])
])

dnl MC_TLS(WANTED): ENABLE_TLS is 0 or 1, for the rows of the option table.
AC_DEFUN([MC_TLS], [
    AS_IF([test "x$1" != xno], [
        PKG_CHECK_MODULES([OPENSSL], [openssl >= 1.1.1], [],
            [AC_MSG_ERROR([OpenSSL is missing: apt-get install libssl-dev, dnl
or configure with --disable-tls])])
        AC_DEFINE([ENABLE_TLS], [1], [TLS is built in.])
    ], [
        AC_DEFINE([ENABLE_TLS], [0], [TLS is built in.])
    ])
    AM_CONDITIONAL([ENABLE_TLS], [test "x$1" != xno])
])

dnl MC_SECCOMP(WANTED, SANITIZER): the filter of system calls. A sanitizer needs far more of them.
AC_DEFUN([MC_SECCOMP], [
    AS_IF([test "x$2" != xno], [enable_seccomp=no])
    AS_IF([test "x$enable_seccomp" != xno], [
        PKG_CHECK_MODULES([SECCOMP], [libseccomp >= 2.4], [],
            [AC_MSG_ERROR([libseccomp is missing: apt-get install libseccomp-dev, dnl
or configure with --disable-seccomp])])
        AC_DEFINE([ENABLE_SECCOMP], [1], [1: -o drop_privileges is built in. Else 0.])
    ], [AC_DEFINE([ENABLE_SECCOMP], [0])])
    AM_CONDITIONAL([ENABLE_SECCOMP], [test "x$enable_seccomp" != xno])
])

dnl MC_EXTSTORE(WANTED): flash storage needs nothing; ENABLE_EXTSTORE is 0 or 1.
AC_DEFUN([MC_EXTSTORE], [
    AS_IF([test "x$1" != xno],
        [AC_DEFINE([ENABLE_EXTSTORE], [1], [1: flash storage is built in. Else 0.])],
        [AC_DEFINE([ENABLE_EXTSTORE], [0])])
    AM_CONDITIONAL([ENABLE_EXTSTORE], [test "x$1" != xno])
])
