/* SPDX-License-Identifier: Apache-2.0 */
/* Lost bytes, tensor by tensor, for `zerofs info`. */
#include "info.h"

#include <inttypes.h>

#include "print.h"

/* Tensors that are listed; --json has all. */
#define MOST_LINES 200

static void lost_print_reason(FILE *to, const struct zf_lost *how)
{
    if (how->file[0]) {
        print_name(to, how->file);
        (void)fputc(' ', to);
    }
    print_name(to, how->why);
}

static void lost_print_lost(FILE *to, const struct zf_set *s, const struct zf_tensor *t)
{
    struct zf_loss loss, next;

    print_name(to, s->path);
    (void)fputs(*s->path ? "/" : "", to);
    print_name(to, t->name);
    if (!zf_map_loss(t->data, 0, &loss)) {
        return;
    }
    (void)fprintf(to, ": bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 ": ", loss.first,
                  loss.end - 1, zf_map_size(t->data));
    lost_print_reason(to, &loss.how);
    if (zf_map_loss(t->data, loss.end, &next)) {
        (void)fprintf(to, "; more from byte %" PRIu64 " on", next.first);
    }
}

static void lost_begin_line(FILE *to, uint64_t n)
{
    (void)fputs(n ? "         " : "lost     ", to);
}

void lost_print(FILE *to, const struct zf_checkpoint *c)
{
    uint64_t n = 0;

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            if (c->set[s].tensor[i].lost && n++ < MOST_LINES) {
                lost_begin_line(to, n - 1);
                lost_print_lost(to, &c->set[s], &c->set[s].tensor[i]);
                (void)fputc('\n', to);
            }
        }
    }
    for (uint32_t i = 0; i < c->n_missing; i++) {
        if (n++ < MOST_LINES) {
            lost_begin_line(to, n - 1);
            print_name(to, c->missing[i].name);
            (void)fputs(": all of it: ", to);
            lost_print_reason(to, &c->missing[i].how);
            (void)fputc('\n', to);
        }
    }
    if (n > MOST_LINES) {
        (void)fprintf(to, "         and %" PRIu64 " more tensors (--json lists all)\n",
                      n - MOST_LINES);
    }
}
