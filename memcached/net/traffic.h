/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic: what -vv logs of requests and replies, in memcached's form: "<FD request", ">FD reply",
 * and for each value of a get ">FD sending key KEY". The caller has looked at the level.
 */
#ifndef NET_TRAFFIC_H
#define NET_TRAFFIC_H

#include "proto/proto.h"

void traffic_request(int fd, bool binary, struct slice request);
/* Logs the reply from byte `from` on: in binary its first piece. */
void traffic_reply(int fd, bool binary, const struct reply *reply, size_t from);

#endif
