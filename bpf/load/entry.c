/* SPDX-License-Identifier: BSD-3-Clause */
#include "bpf/load/entry.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <bpf/bpf.h>

/* One end of a connection, as a flow has it: two words, and the port. */
static void fill_end(const struct sockaddr_storage *name, __u64 words[2], uint16_t *port)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)name;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)name;
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    memcpy(mapped.s6_addr + 12, &in->sin_addr, 4);
    memcpy(words, name->ss_family == AF_INET ? &mapped : &in6->sin6_addr, sizeof(mapped));
    *port = in->sin_port; /* at the same place in both */
}

int entry_flow(int socket, struct mc_tcp_flow *flow)
{
    struct sockaddr_storage names[2];
    socklen_t n = sizeof(names[0]), m = sizeof(names[1]);

    if (getpeername(socket, (struct sockaddr *)&names[0], &n) ||
        getsockname(socket, (struct sockaddr *)&names[1], &m))
        return -errno;
    memset(flow, 0, sizeof(*flow));
    fill_end(&names[0], flow->client, &flow->client_port);
    fill_end(&names[1], flow->server, &flow->server_port);
    return 0;
}

int entry_order(int program, const struct mc_tcp_flow *flow, const struct mc_tcp_tag *tag,
                uint32_t what)
{
    struct mc_tcp_order order = {.flow = *flow, .tag = *tag, .what = what};
    LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &order, .data_size_in = sizeof(order));
    int rc = bpf_prog_test_run_opts(program, &opts);

    return rc ? rc : opts.retval ? 0 : -ENOENT;
}

int entry_read(const struct entry_access *access, const struct mc_tcp_flow *flow,
               struct mc_tcp_conn *conn)
{
    uint64_t key = mc_tcp_key(flow, access->seeds);
    int rc = bpf_map_lookup_elem(access->conns, &key, conn);

    if (rc)
        return rc;
    return mc_tcp_is_flow(&conn->flow, flow) ? 0 : -ENOENT;
}

int entry_read_kept(const struct entry_access *access, const struct mc_tcp_conn *conn,
                    char text[MC_TCP_RTX_BYTES])
{
    struct mc_tcp_rtx rtx;
    uint32_t at = conn->rtx, acked;
    int rc = bpf_map_lookup_elem(access->kept, &at, &rtx);

    if (rc)
        return rc;
    acked = conn->delta.reply - rtx.start;
    if (rtx.owner != mc_tcp_rtx_owner(conn->last, conn->slot, conn->generation) ||
        rtx.n > MC_TCP_RTX_BYTES || acked > rtx.n || rtx.n - acked != conn->delta.nreply)
        return -EBADMSG;
    memcpy(text, rtx.text + acked, rtx.n - acked);
    return 0;
}

int entry_read_numbers(const struct entry_access *access, const struct mc_tcp_conn *conn,
                       struct entry_numbers *out)
{
    struct mc_tcp_slot slot;
    uint32_t at = conn->slot;
    int rc = bpf_map_lookup_elem(access->slots, &at, &slot);

    if (rc)
        return rc;
    out->seq[0] = slot.last_ack_seen;
    out->seq[1] = conn->snd_una + conn->delta.tx;
    out->seq[2] = out->seq[1] - conn->delta.nreply;
    out->seq[3] = conn->snd_nxt + conn->delta.tx;
    out->ack = conn->rcv_nxt + conn->delta.rx;
    return 0;
}

void entry_unguard(const struct entry_access *access, int socket)
{
    bpf_map_delete_elem(access->guarded, &socket);
}

int entry_attach_guard(const struct entry_access *access, int cgroup)
{
    return bpf_link_create(access->guard, cgroup, BPF_CGROUP_INET_EGRESS, NULL);
}

bool entry_guard_is_attached(int link)
{
    struct bpf_link_info info = {0};
    __u32 n = sizeof(info);

    return !bpf_obj_get_info_by_fd(link, &info, &n) && info.cgroup.cgroup_id;
}
