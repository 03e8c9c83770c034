/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/base/num.h>
#include <zf/base/search.h>

/* One entry of one file. */
struct join_piece {
    const char *name; /* of the tensor it belongs to */
    const struct zf_st_file *file;
    const struct zf_st_entry *entry;
    const struct zf_st_box *box; /* its place in the tensor, or NULL: the whole tensor */
};

struct st_join {
    const struct zf_st_files *files;
    const char *lacks; /* a file that cannot be read, so that boxes may be missing; or NULL */
    uint64_t n_lost;   /* number of tensors lost because of it */
    uint64_t n_taken;  /* number of tensors whose shape is known only from their boxes */
    struct join_piece *piece; /* sorted by name */
    size_t n;
    const struct zf_st_index *index, *number;
    const char *tied;
    const char *set;
    struct zf_names *names;
    struct zf_build *b;
};

static int join_by_name(const void *a, const void *b)
{
    const struct join_piece *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : strcmp(x->file->path, y->file->path);
}

static bool join_gather(const struct zf_st_files *f, struct join_piece **out, size_t *n_out,
                        struct zf_err *err)
{
    struct join_piece *p;
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        n += f->at[i].head.n;
    p = calloc(n + 1, sizeof *p);
    if (!p)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for %zu tensors", n);
    n = 0;
    for (size_t i = 0; i < f->n; i++) {
        for (uint64_t k = 0; k < f->at[i].head.n; k++) {
            const struct zf_st_entry *e = &f->at[i].head.entry[k];
            const struct zf_st_box *box = zf_st_boxes_find(&f->at[i].boxes, e->name);

            /* If a file holds several boxes of a tensor, their names differ from the tensor's. */
            p[n++] = (struct join_piece){.name = box && box->whole ? box->whole : e->name,
                                         .file = &f->at[i],
                                         .entry = e,
                                         .box = box && box->given ? box : NULL};
        }
    }
    qsort(p, n, sizeof *p, join_by_name);
    *out = p;
    *n_out = n;
    return true;
}

static size_t join_group_end(const struct join_piece *p, size_t n, size_t from)
{
    size_t to = from + 1;

    while (to < n && strcmp(p[to].name, p[from].name) == 0)
        to++;
    return to;
}

/* Starts the draft of the tensor in the set that the naming rules choose. */
static struct zf_draft *join_draft(const struct st_join *j, const struct join_piece *p,
                                   uint32_t ndim, const uint64_t *shape, struct zf_err *err)
{
    struct zf_step step = {.p = p->name, .n = strlen(p->name)};
    struct zf_spot spot = {.set = j->set, .name = p->name, .name_len = step.n};
    struct zf_draft *d;

    if (!j->set) {
        if (!zf_names_place_flat(j->names, p->name, step.n, &spot, err))
            return NULL;
        if (zf_build_find(j->b, spot) &&
            !zf_names_extra(j->names, (struct zf_path){.step = &step, .n = 1}, &spot, err))
            return NULL;
    }
    d = zf_build_tensor(j->b, spot, (struct zf_type){p->entry->dtype, ndim, shape}, err);
    return d && zf_draft_where(d, p->file->path, err) && zf_draft_noted(d, err) ? d : NULL;
}

/* Adds a whole tensor, which is contiguous; the part beyond the end of a truncated file is lost. */
static bool join_add_whole(const struct st_join *j, const struct join_piece *p, struct zf_err *err)
{
    const struct zf_st_entry *e = p->entry;
    struct zf_draft *d = join_draft(j, p, e->ndim, e->shape, err);
    uint64_t n = (e->end - e->begin) / zf_dtype_info(e->dtype)->bytes;
    struct zf_from from = {.src = p->file->src, .off = e->begin};

    return d && zf_draft_flat(d, 0, n, from, err);
}

/* Sets start[] to where a box begins.  Errors: ZF_E_FORMAT the header's position is invalid. */
static bool join_box_start(const struct join_piece *p, uint64_t *start, struct zf_err *err)
{
    for (uint32_t d = 0; d < p->entry->ndim; d++) {
        if (p->box && (p->box->n != p->entry->ndim || !p->box->sizes)) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "\"saved_offsets\" of tensor \"%.80s\" are not %" PRIu32 " sizes", p->name,
                    p->entry->ndim);
            return zf_err_in(err, "%s", p->file->path);
        }
        start[d] = p->box ? p->box->start[d] : 0;
    }
    return true;
}

/* The smallest shape that contains all boxes; the file format does not record the shape. */
static bool join_hull(const struct join_piece *p, size_t n, uint64_t *shape, uint64_t *start,
                      struct zf_err *err)
{
    const struct zf_st_entry *first = p[0].entry;

    for (size_t i = 0; i < n; i++) {
        const struct zf_st_entry *e = p[i].entry;

        if (e->ndim != first->ndim || e->dtype != first->dtype) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                    "tensor \"%.80s\" has %" PRIu32 " dimensions of %s here, but %" PRIu32
                    " of %s in %.80s",
                    p[i].name, e->ndim, zf_dtype_info(e->dtype)->suffix, first->ndim,
                    zf_dtype_info(first->dtype)->suffix, p[0].file->path);
            return zf_err_in(err, "%s", p[i].file->path);
        }
        if (!join_box_start(&p[i], start, err))
            return false;
        for (uint32_t d = 0; d < e->ndim; d++) {
            uint64_t end;
            if (!zf_add(start[d], e->shape[d], &end)) {
                return zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                               "tensor \"%.80s\" is larger than any file", p[i].name);
            }
            shape[d] = end > shape[d] ? end : shape[d];
        }
    }
    return true;
}

/* Adds a tensor as missing: only a minimum of its shape is known, with which it would look complete. */
static bool join_add_unproven(struct st_join *j, const char *name, struct zf_err *err)
{
    const struct zf_lost how = {
        .file = j->lacks,
        .why = "is missing or unreadable, and no other file records the size of the tensor"};

    j->n_lost++;
    return zf_build_missing(j->b, name, strlen(name), &how, err);
}

/* An optimizer state of the tensor's shape, or NULL. */
static struct zf_draft *join_moments(const struct st_join *j, const char *name)
{
    static const char *const set[] = {"optim/exp_avg", "optim/exp_avg_sq", "optim/momentum_buffer"};
    struct zf_draft *d = NULL;

    for (size_t i = 0; !j->set && !d && i < sizeof set / sizeof *set; i++)
        d = zf_build_find(j->b, zf_spot_of(set[i], name));
    return d;
}

/* Compares shape[ndim], from the boxes, with the optimizer's shape.  If that is larger, ranks are missing, and it is
 * taken (degraded).  A difference that a missing rank cannot explain (transposed, fewer dimensions) is ignored.
 * *proved: shape is now the optimizer's.  Errors: ZF_E_FORMAT the boxes do not fill the optimizer's shape. */
static bool join_prove_shape(const struct st_join *j, const char *name, uint32_t ndim,
                             uint64_t *shape, bool *proved, struct zf_err *err)
{
    struct zf_draft *d = join_moments(j, name);
    struct zf_type whole = d ? zf_draft_type(d) : (struct zf_type){.ndim = ndim + 1};
    bool less = false, more = whole.ndim != ndim;

    for (uint32_t i = 0; !more && i < ndim; i++) {
        less = less || shape[i] < whole.shape[i];
        more = shape[i] > whole.shape[i];
    }
    *proved = !more;
    if (more || !less)
        return true;
    for (uint32_t i = 0; i < ndim; i++) {
        if (shape[i] < whole.shape[i]) {
            (void)zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "tensor \"%.80s\": the boxes found cover %" PRIu64 " of the %" PRIu64
                          " elements of dimension %" PRIu32
                          " that %.40s/%.80s has: the files of a rank are missing, or the "
                          "optimizer belongs to another save",
                          name, shape[i], whole.shape[i], i, zf_draft_spot(d).set, name);
            break;
        }
    }
    memcpy(shape, whole.shape, ndim * sizeof *shape);
    return zf_forgive(j->b, err);
}

static bool join_add_boxes(struct st_join *j, const struct join_piece *p, size_t n,
                           struct zf_err *err)
{
    uint32_t ndim = p[0].entry->ndim;
    zf_auto(mem) uint64_t *shape = calloc(2 * (size_t)ndim + 1, sizeof *shape);
    uint64_t *start = shape + ndim;
    struct zf_draft *d;

    if (!shape)
        return zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a shape");
    bool proved;
    if (!join_hull(p, n, shape, start, err) ||
        !join_prove_shape(j, p->name, ndim, shape, &proved, err))
        return false;
    if (j->lacks && !proved)
        return join_add_unproven(j, p->name, err);
    j->n_taken += !proved;
    d = join_draft(j, p, ndim, shape, err);
    if (!d)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct zf_st_entry *e = p[i].entry;
        struct zf_from from = {.src = p[i].file->src, .off = e->begin};

        if (!join_box_start(&p[i], start, err))
            return false;
        if (!zf_draft_box(d, start, e->shape, from, err))
            return false;
    }
    return true;
}

/* The piece from the file that the index names, or the first one. */
static const struct join_piece *join_indexed(const struct st_join *j, const struct join_piece *p,
                                             size_t n)
{
    const char *file = j->index ? zf_st_index_file(j->index, p->name) : NULL;

    for (size_t i = 0; file && i < n; i++)
        if (strcmp(p[i].file->path, file) == 0)
            return &p[i];
    return p;
}

/* Checks that the piece comes from the file whose number is recorded for its tensor. */
static bool join_check_number(const struct st_join *j, const struct join_piece *p,
                              struct zf_err *err)
{
    const char *said = j->number ? zf_st_index_file(j->number, p->name) : NULL;
    const char *slash = strrchr(p->file->path, '/'), *file = slash ? slash + 1 : p->file->path;

    if (!j->number || (said && (!zf_st_file_rank(file) || fnmatch(said, file, 0) == 0)))
        return true;
    (void)(said ? zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "holds tensor \"%.80s\", which belongs in %.80s by %.160s", p->name, said,
                          j->number->path)
                : zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
                          "holds tensor \"%.80s\", which %.160s does not list", p->name,
                          j->number->path));
    return zf_err_in(err, "%s", p->file->path) || zf_forgive(j->b, err);
}

static bool join_add_group(struct st_join *j, const struct join_piece *p, size_t n,
                           struct zf_err *err)
{
    const char *file = j->index ? zf_st_index_file(j->index, p->name) : NULL;
    const struct join_piece *one = join_indexed(j, p, n);
    bool boxes = false, inner = false;

    for (size_t i = 0; i < n; i++) {
        boxes = boxes || p[i].box;
        inner = inner || (p[i].box && p[i].box->inner);
        if (!join_check_number(j, &p[i], err))
            return false;
    }
    if (inner || (boxes && (n > 1 || p->entry->ndim > 0) && !file))
        return join_add_boxes(j, p, n, err);
    if (n > 1 && !file) {
        return zf_fail(
            err, ZF_E_FORMAT, ZF_OFF_NONE,
            "tensor \"%.80s\" is in both %.80s and %.80s, and there is no index that selects one",
            p->name, p[0].file->path, p[1].file->path);
    }
    if (file && strcmp(one->file->path, file) != 0 &&
        !zf_build_note(j->b, err, "by %s tensor %s is in %s, but it is in %s", j->index->path,
                       p->name, file, one->file->path))
        return false;
    return join_add_whole(j, one, err);
}

/* NULL if the tensor's name is among the sorted pieces, else why it is not. */
static const char *join_lacks(void *ctx, const char *tensor, const char *file)
{
    const struct st_join *j = ctx;
    size_t at;

    ZF_SEARCH(at, j->n, strcmp(j->piece[at].name, tensor) >= 0);
    if (at < j->n && strcmp(j->piece[at].name, tensor) == 0)
        return NULL;
    for (size_t i = 0; i < j->files->n; i++)
        if (strcmp(j->files->at[i].path, file) == 0)
            return "does not hold it";
    return zf_store_has(zf_build_store(j->b), file, ZF_ENTRY_FILE) ? "cannot be read"
                                                                   : "is missing";
}

/* The same for a list that has only the numbers of files. */
static const char *join_lacks_number(void *ctx, const char *tensor, const char *file)
{
    const struct st_join *j = ctx;
    bool tied = j->tied && strcmp(tensor, j->tied) == 0;

    return !tied && join_lacks(ctx, tensor, file) ? "do not hold it" : NULL;
}

static bool join_all(struct st_join *j, struct zf_err *err)
{
    struct zf_st_index_reader reader = {.ctx = j, .lacks = join_lacks};
    struct zf_st_index_reader by_number = {.ctx = j, .lacks = join_lacks_number};

    if ((j->index && !zf_st_index_check(j->index, &reader, j->b, err)) ||
        (j->number && !zf_st_index_check(j->number, &by_number, j->b, err)))
        return false;
    for (size_t i = 0, end; i < j->n; i = end) {
        end = join_group_end(j->piece, j->n, i);
        if (!join_add_group(j, &j->piece[i], end - i, err))
            return false;
    }
    return true;
}

/* Notes the assumptions that were made. */
static bool join_note(const struct st_join *j, struct zf_err *err)
{
    if (j->n_lost) {
        return zf_build_note(
            j->b, err, "%" PRIu64 " tensors are lost: %s may hold more of them, but cannot be read",
            j->n_lost, j->lacks);
    }
    return !j->n_taken || !j->files->n_ranks ||
           zf_build_note(j->b, err,
                         "there is no index that records the number of ranks; %lu have files",
                         j->files->n_ranks);
}

bool st_join_add_names(const struct zf_st_files *f, struct zf_names *names, struct zf_err *err)
{
    zf_auto(mem) struct join_piece *p = NULL;
    size_t n;

    if (!join_gather(f, &p, &n, err))
        return false;
    for (size_t i = 0; i < n; i = join_group_end(p, n, i))
        if (!zf_names_add_flat(names, p[i].name, strlen(p[i].name), err))
            return false;
    return true;
}

bool st_join(const struct zf_st_files *f, const struct st_join_how *how, struct zf_build *b,
             struct zf_err *err)
{
    struct st_join j = {.files = f,
                        .lacks = f->lacks,
                        .index = how->index,
                        .number = how->number,
                        .tied = how->tied,
                        .set = how->set,
                        .names = how->names,
                        .b = b};
    zf_auto(mem) struct join_piece *piece = NULL;
    zf_auto(names) struct zf_names *own = NULL;

    if (!how->set && !how->names) {
        own = zf_names_new(err);
        if (!own || !st_join_add_names(f, own, err))
            return false;
        j.names = own;
    }
    if (!join_gather(f, &piece, &j.n, err))
        return false;
    j.piece = piece;
    return join_all(&j, err) && join_note(&j, err);
}

bool st_join_collides(const struct zf_st_files *f, bool *out, struct zf_err *err)
{
    zf_auto(mem) struct join_piece *p = NULL;
    size_t n = 0;

    *out = false;
    if (!join_gather(f, &p, &n, err))
        return false;
    for (size_t i = 1; i < n; i++)
        *out = *out || (strcmp(p[i].name, p[i - 1].name) == 0 && !p[i].box && !p[i - 1].box);
    return true;
}
