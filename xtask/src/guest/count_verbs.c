/* Counts what a program asks of its RDMA devices. Preloaded, it puts functions of its own into the
 * table of operations of every device that the program opens, and reads what is written to the
 * device: the soft-RoCE driver rings the device by writing a command to it. At the end it writes
 * the counts to the file that COUNT_VERBS names, a word and a number in each line.
 *
 * Programs that are linked with libibverbs are caught at `ibv_open_device`; those that load it
 * themselves, at the `dlsym` that asks for that.
 *
 * What is counted are the calls of the program's first thread, which makes the operations in both
 * programs; one thread, so plain numbers will do. Bowline has another one, which agrees on
 * connections by datagrams of its own: how many depends on how long the other side takes to answer.
 * Its requests are told as one number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

static struct ibv_context_ops real;
static struct ibv_context *opened;

static struct {
    unsigned long post_send_calls, work_requests, empty_requests, doorbells;
    unsigned long post_recv_calls, receive_requests;
    unsigned long polls_with_result, empty_polls, completions;
} count;

/* Requests of other threads. */
static atomic_ulong other_requests;

static int is_first_thread(void)
{
    static __thread int known = -1;
    if (known < 0)
        known = syscall(SYS_gettid) == getpid();
    return known;
}

static void *find(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    /* By version, since asking for `dlsym` by `dlsym` finds the one below. */
    if (!next)
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!next)
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!next) {
        fputs("count_verbs: this C library has no dlsym\n", stderr);
        abort();
    }
    return next(handle, name);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (!is_first_thread()) {
        for (struct ibv_send_wr *each = wr; each; each = each->next)
            other_requests++;
        return real.post_send(qp, wr, bad);
    }
    count.post_send_calls++;
    for (struct ibv_send_wr *each = wr; each; each = each->next) {
        size_t bytes = 0;
        for (int piece = 0; piece < each->num_sge; piece++)
            bytes += each->sg_list[piece].length;
        count.work_requests++;
        count.empty_requests += bytes == 0;
    }
    return real.post_send(qp, wr, bad);
}

static void count_receives(struct ibv_recv_wr *wr)
{
    if (!is_first_thread())
        return;
    count.post_recv_calls++;
    for (; wr; wr = wr->next)
        count.receive_requests++;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    count_receives(wr);
    return real.post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    count_receives(wr);
    return real.post_srq_recv(srq, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *out)
{
    int found = real.poll_cq(cq, most, out);
    if (!is_first_thread())
        return found;
    if (found > 0) {
        count.polls_with_result++;
        count.completions += found;
    } else {
        count.empty_polls++;
    }
    return found;
}

static struct ibv_context *wrapped(struct ibv_context *context)
{
    if (!context)
        return NULL;
    if (opened && real.post_send != context->ops.post_send) {
        fputs("count_verbs: devices of two drivers\n", stderr);
        abort();
    }
    real = context->ops;
    opened = context;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    context->ops.post_srq_recv = post_srq_recv;
    context->ops.poll_cq = poll_cq;
    return context;
}

static struct ibv_context *(*open_device)(struct ibv_device *);

static struct ibv_context *open_and_wrap(struct ibv_device *device)
{
    return wrapped(open_device(device));
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (!open_device)
        open_device = find(RTLD_NEXT, "ibv_open_device");
    return open_and_wrap(device);
}

void *dlsym(void *restrict handle, const char *restrict name)
{
    void *found = find(handle, name);
    if (!found || strcmp(name, "ibv_open_device"))
        return found;
    open_device = found;
    return open_and_wrap;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        next = find(RTLD_NEXT, "write");
    if (opened && is_first_thread() && fd == opened->cmd_fd && length >= sizeof(struct ib_uverbs_cmd_hdr)) {
        const struct ib_uverbs_cmd_hdr *command = bytes;
        if (command->command == IB_USER_VERBS_CMD_POST_SEND)
            count.doorbells++;
    }
    return next(fd, bytes, length);
}

__attribute__((destructor)) static void tell(void)
{
    const char *name = getenv("COUNT_VERBS");
    FILE *file = name && opened ? fopen(name, "w") : NULL;
    if (!file)
        return;
    fprintf(file,
            "post_send_calls %lu\nwork_requests %lu\nempty_requests %lu\ndoorbells %lu\n"
            "post_recv_calls %lu\nreceive_requests %lu\npolls_with_result %lu\nempty_polls %lu\ncompletions %lu\n"
            "other_requests %lu\n",
            count.post_send_calls, count.work_requests, count.empty_requests, count.doorbells,
            count.post_recv_calls, count.receive_requests, count.polls_with_result,
            count.empty_polls, count.completions, atomic_load(&other_requests));
    fclose(file);
}
