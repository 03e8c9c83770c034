/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every open file for changes; notes on files for another process. */
#include <fcntl.h>
#include <stddef.h>

#include "file_self.h"

static struct file *file_of(struct slot *s)
{
    return (struct file *)(void *)((char *)s - offsetof(struct file, slot));
}

/* False: its last reference is being dropped. */
static bool file_hold(struct slot *slot)
{
    atomic_uint *refs = &file_of(slot)->src.refs;
    unsigned n = atomic_load_explicit(refs, memory_order_relaxed);

    while (n && !atomic_compare_exchange_weak(refs, &n, n + 1)) {
    }
    return n != 0;
}

static void file_look(struct slot *slot)
{
    struct file *f = file_of(slot);
    struct same_how how = file_how(f);
    struct zf_source *held = &f->src;
    struct zf_err ignored; /* the next read reports it */
    int fd = slot_look(slot);

    how.sync = AT_STATX_DONT_SYNC;
    if (fd >= 0) {
        (void)!same_check(&f->same, fd, &how, &ignored);
        file_leave(f);
    }
    zf_source_unref(&held);
}

void zf_files_look(void (*say)(void *ctx, const struct zf_err *what), void *ctx)
{
    char first[384];
    struct zf_err what;

    pools_each(file_hold, file_look);
    const size_t n = same_moved(first, sizeof first);
    if (n) {
        (void)zf_fail(&what, ZF_E_IO, ZF_OFF_NONE,
                      "mode, owner or number of links changed after mounting, of %zu file%s; size, "
                      "modification time and inode are unchanged, so reads go on (-o "
                      "changed=strict refuses them)",
                      n, n == 1 ? "" : "s");
        (void)zf_err_in(&what, "%s", first);
        say(ctx, &what);
    }
}

void file_note(struct zf_source *s, struct zf_out *out)
{
    struct far *far = ((struct file *)s)->far;

    if (far)
        far_note(far, out);
}

bool file_claim(struct zf_source *s, struct zf_bytes note, struct zf_err *err)
{
    struct far *far = ((struct file *)s)->far;

    return !far || far_claim(far, note, s->size, err);
}
