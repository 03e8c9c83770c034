/* SPDX-License-Identifier: Apache-2.0 */
/* Names are sorted, so that those with a common prefix are adjacent: each name continues the previous one's path. */
#include <zf/inspect/outline.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/hash.h>
#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/base/vec.h>

#define NONE UINT32_MAX
/* Most parts of a name; the last part of a longer name is the whole rest. */
#define MOST_PARTS 32

/* A part of a name. */
struct outline_node {
    const char *part; /* points into a tensor's name */
    uint32_t len;
    uint32_t parent, child, next; /* node numbers; NONE: there is none */
    uint32_t last;                /* last child */
    const struct zf_tensor *tensor;
    uint64_t tensors, elems, bytes;
    uint64_t shape; /* hash of everything below it: siblings with the same shape share a line */
};

struct outline {
    zf_vec(struct outline_node) node; /* 0 is the root */
    struct zf_out path;
};

/* ---- from names to nodes ----------------------------------------------------------------------- */

static uint32_t outline_add(struct outline *o, uint32_t parent, const char *part, size_t len,
                            struct zf_err *err)
{
    const uint32_t id = (uint32_t)o->node.n;
    struct outline_node *x = zf_vec_push(&o->node, err);

    if (!x)
        return NONE;
    *x = (struct outline_node){.part = part,
                               .len = (uint32_t)len,
                               .parent = parent,
                               .child = NONE,
                               .next = NONE,
                               .last = NONE};
    if (parent != NONE) {
        struct outline_node *up = &o->node.at[parent];

        if (up->last == NONE)
            up->child = id;
        else
            o->node.at[up->last].next = id;
        up->last = id;
    }
    return id;
}

/* Adds a leaf for the tensor, below the nodes for the parts of its name. */
static bool outline_add_tensor(struct outline *o, const struct zf_set *s, const struct zf_tensor *t,
                               struct zf_err *err)
{
    uint32_t at = 0;
    size_t from = 0;

    for (uint32_t parts = 1, more = 1; more; parts++) {
        const char *dot =
            parts < MOST_PARTS ? memchr(t->name + from, '.', t->name_len - from) : NULL;
        const size_t len = dot ? (size_t)(dot - t->name) - from : t->name_len - from;
        const uint32_t last = o->node.at[at].last;
        const struct outline_node *x = last == NONE ? NULL : &o->node.at[last];

        more = dot != NULL;
        if (more && x && !x->tensor && x->len == len && memcmp(x->part, t->name + from, len) == 0)
            at = last;
        else
            at = outline_add(o, at, t->name + from, len, err);
        if (at == NONE)
            return false;
        from += len + 1;
    }
    struct outline_node *leaf = &o->node.at[at];
    leaf->tensor = t;
    leaf->tensors = 1;
    if (t->alias_of == (uint32_t)(t - s->tensor) && zf_elems(t->ndim, t->shape, &leaf->elems))
        leaf->bytes = zf_map_size(t->data);
    leaf->shape = zf_hash((uint64_t)t->dtype, t->shape, t->ndim * sizeof *t->shape);
    return true;
}

/* Computes sums and shapes from the leaves up: a child's number is larger than its parent's. */
static void outline_sum(struct outline *o)
{
    for (size_t i = o->node.n; i-- > 1;) {
        const struct outline_node *x = &o->node.at[i];
        struct outline_node *up = &o->node.at[x->parent];
        const uint64_t own[] = {zf_hash(x->shape, x->part, x->len), up->shape};

        up->tensors += x->tensors;
        up->elems += x->elems;
        up->bytes += x->bytes;
        up->shape = zf_hash(1, own, sizeof own);
    }
}

/* ---- from nodes to lines ----------------------------------------------------------------------- */

/* Is the part a decimal number without leading zeros? */
static bool outline_number(const struct outline_node *x, uint64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < x->len; i++) {
        if (x->part[i] < '0' || x->part[i] > '9' || x->len > 18)
            return false;
        *out = *out * 10 + (uint64_t)(x->part[i] - '0');
    }
    return x->len == 1 || (x->len > 1 && x->part[0] != '0');
}

/* The number of siblings from `first` on that share a line with it; *next: the sibling after them. */
static uint64_t outline_group(const struct outline *o, uint32_t first, uint32_t *next)
{
    const struct outline_node *x = &o->node.at[first];
    uint64_t number, more, n = 1;

    *next = x->next;
    if (!outline_number(x, &number))
        return 1;
    while (*next != NONE) {
        const struct outline_node *y = &o->node.at[*next];

        if (y->shape != x->shape || (y->tensor == NULL) != (x->tensor == NULL) ||
            !outline_number(y, &more) || more != number + n)
            break;
        *next = y->next;
        n++;
    }
    return n;
}

static void outline_put_part(struct outline *o, const struct outline_node *x, uint64_t times)
{
    char text[64];
    uint64_t number;

    zf_out_str(&o->path, x->parent != 0 ? "." : "");
    if (times > 1 && outline_number(x, &number)) {
        (void)snprintf(text, sizeof text, "{%" PRIu64 "..%" PRIu64 "}", number, number + times - 1);
        zf_out_str(&o->path, text);
    } else {
        zf_out_add(&o->path, x->part, x->len);
    }
}

/* Position of the walk on one level: the children of a node, from `at` on. */
struct outline_level {
    uint32_t at;
    size_t path; /* length of the path of the levels above */
};

/* Makes the line of the group that starts at node `at`; it includes only children without siblings.  Returns the node
 * whose children are on the lines below. */
static uint32_t outline_line(struct outline *o, uint32_t at, uint64_t times,
                             struct zf_outline_line *out)
{
    uint32_t next;

    *out =
        (struct zf_outline_line){.label = o->path.n + (o->node.at[at].parent != 0), .times = times};
    outline_put_part(o, &o->node.at[at], times);
    for (uint32_t child = o->node.at[at].child; child != NONE; child = o->node.at[at].child) {
        const uint64_t n = outline_group(o, child, &next);

        if (next != NONE || (n > 1 && out->times > 1))
            break;
        outline_put_part(o, &o->node.at[child], n);
        out->times *= n;
        at = child;
    }
    const struct outline_node *x = &o->node.at[at];
    out->path = zf_out_text(&o->path);
    out->tensor = x->tensor;
    out->tensors = x->tensors;
    return at;
}

/* Sums over all members of a group: they have the same shape, but may have different ties. */
static void outline_line_sum(const struct outline *o, uint32_t at, uint32_t end,
                             struct zf_outline_line *out)
{
    for (uint32_t i = at; i != end; i = o->node.at[i].next) {
        out->elems += o->node.at[i].elems;
        out->bytes += o->node.at[i].bytes;
    }
}

typedef bool outline_fn(void *ctx, const struct zf_outline_line *line, struct zf_err *err);

static bool outline_walk(struct outline *o, outline_fn *fn, void *ctx, struct zf_err *err)
{
    zf_vec(struct outline_level) level = {0};
    struct outline_level *top = zf_vec_push(&level, err);
    bool ok = top != NULL;

    if (ok)
        top->at = o->node.at[0].child;
    while (ok && level.n > 0) {
        struct zf_outline_line line;
        uint32_t next;

        top = &level.at[level.n - 1];
        zf_out_cut(&o->path, top->path);
        if (top->at == NONE) {
            level.n--;
            continue;
        }
        const uint32_t at = top->at, depth = (uint32_t)level.n - 1;
        const uint64_t times = outline_group(o, at, &next);
        const uint32_t below = outline_line(o, at, times, &line);
        top->at = next;
        line.depth = depth;
        outline_line_sum(o, at, next, &line);
        ok = zf_out_ok(&o->path, err) && fn(ctx, &line, err);
        if (ok && o->node.at[below].child != NONE) {
            struct outline_level *inner = zf_vec_push(&level, err);

            ok = inner != NULL;
            if (ok)
                *inner = (struct outline_level){.at = o->node.at[below].child, .path = o->path.n};
        }
    }
    zf_vec_fini(&level);
    return ok;
}

bool zf_outline(const struct zf_set *s, outline_fn *fn, void *ctx, struct zf_err *err)
{
    struct outline o = {0};
    bool ok = outline_add(&o, NONE, "", 0, err) != NONE;

    for (uint32_t i = 0; ok && i < s->n; i++)
        ok = outline_add_tensor(&o, s, &s->tensor[i], err);
    if (ok) {
        outline_sum(&o);
        ok = outline_walk(&o, fn, ctx, err);
    }
    zf_vec_fini(&o.node);
    zf_auto_out(&o.path);
    return ok;
}
