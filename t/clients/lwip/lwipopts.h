/* SPDX-License-Identifier: BSD-3-Clause */
/* lwIP without threads, with the options of TCP that most of its users switch on. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

#define NO_SYS               1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET          0
#define LWIP_NETCONN         0
#define LWIP_UDP             0
#define LWIP_DHCP            0
#define MEM_LIBC_MALLOC      1
#define MEMP_MEM_MALLOC      1
#define MEM_ALIGNMENT        8

#define LWIP_TCP_TIMESTAMPS 1
#define LWIP_TCP_SACK_OUT   1
#define LWIP_WND_SCALE      1
#define TCP_RCV_SCALE       1
#define TCP_MSS             1460
#define TCP_WND             65535
#define TCP_SND_BUF         65535
#define TCP_SND_QUEUELEN    200

#endif
