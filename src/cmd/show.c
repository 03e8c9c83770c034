/* SPDX-License-Identifier: Apache-2.0 */
/* zerofs show: prints the elements of a tensor, or of a slice of it, in numpy's layout.  Reads only what it prints. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zf/base/num.h>
#include <zf/base/out.h>
#include <zf/each.h>
#include <zf/inspect/number.h>
#include <zf/inspect/slice.h>
#include <zf/view.h>

#include "open.h"
#include "param.h"
#include "print.h"

/* An axis of up to this many elements is printed in full; of a longer one, half as many at each end. */
#define SHOW_AXIS 6
/* The most elements that are printed, and the number read at a time. */
#define SHOW_MOST 100000
#define SHOW_READ 4096
/* Columns of a line, as in numpy. */
#define SHOW_LINE 79

/* ZF_SLICE_DIMS brackets each. */
static const char show_open[] = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";
static const char show_close[] = "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]";

struct show {
    struct zf_tree *tree;
    const char *given;
    char *path;       /* of the tensor, normalized */
    const char *text; /* the slice that follows the path in `given`, or "" */
    struct param at;
    struct zf_slice slice;
    uint64_t stride[ZF_SLICE_DIMS]; /* of the tensor's axes, in elements */
    uint32_t axis[ZF_SLICE_DIMS];   /* the tensor's axes that the result keeps */
    uint32_t n_axes;
    void (*write)(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p);
};

/* ---- the requested slice ----------------------------------------------------------------------- */

/* Finds the tensor of "PATH" or "PATH[SLICE]"; ends s->path before the '['. */
static bool show_split(struct show *s, struct zf_err *err)
{
    const size_t n = strlen(s->path);
    const struct zf_each none = {.tree = s->tree};
    char *open = n > 0 && s->path[n - 1] == ']' ? strrchr(s->path, '[') : NULL;

    if (param_walk(s->tree, s->path, &s->at))
        return true;
    if (open) {
        s->text = strrchr(s->given, '[');
        *open = '\0';
    }
    return (open && param_walk(s->tree, s->path, &s->at)) ||
           param_match(s->tree, s->path, &none, err);
}

static bool show_find(struct show *s, struct zf_err *err)
{
    if (!show_split(s, err))
        return false;
    const struct zf_tensor *t = s->at.x.tensor;
    if (t->ndim > ZF_SLICE_DIMS)
        return zf_fail(err, ZF_E_LIMIT, ZF_OFF_NONE, "the tensor has %" PRIu32 " axes", t->ndim);
    zf_slice_all(&s->slice, t->ndim, t->shape);
    if (*s->text && !zf_slice_parse(&s->slice, s->text, t->ndim, t->shape, err))
        return zf_err_in(err, "%s", s->path);
    zf_packed_strides(t->ndim, t->shape, s->stride);
    for (uint32_t d = 0; d < t->ndim; d++)
        if (!s->slice.axis[d].single)
            s->axis[s->n_axes++] = d;
    return true;
}

static const struct zf_slice_axis *show_axis(const struct show *s, uint32_t k)
{
    return &s->slice.axis[s->axis[k]];
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* The position in the tensor (in elements) of the element at index [n_axes] of the result. */
static uint64_t show_place(const struct show *s, const uint64_t *index)
{
    uint64_t at = 0;

    for (uint32_t d = 0, k = 0; d < s->slice.ndim; d++) {
        const struct zf_slice_axis *a = &s->slice.axis[d];
        const int64_t i = a->single ? 0 : (int64_t)index[k++];

        at += (uint64_t)((int64_t)a->first + i * a->step) * s->stride[d];
    }
    return at;
}

/* Reads n elements along the result's last axis, from `index` on, into out. */
static bool show_read(const struct show *s, const uint64_t *index, uint64_t n, uint8_t *out,
                      struct zf_err *err)
{
    const uint32_t each = zf_dtype_info(s->at.x.dtype)->bytes;
    const bool packed = s->n_axes > 0 && s->axis[s->n_axes - 1] + 1 == s->slice.ndim &&
                        show_axis(s, s->n_axes - 1)->step == 1;
    const int64_t step = s->n_axes == 0 ? 0
                                        : show_axis(s, s->n_axes - 1)->step *
                                              (int64_t)s->stride[s->axis[s->n_axes - 1]];
    const uint64_t runs = packed ? 1 : n, run = packed ? n * each : each;
    uint64_t at = show_place(s, index);

    for (uint64_t i = 0; i < runs; i++, at += (uint64_t)step) {
        size_t got;

        if (!s->tree->ops->read(s->tree, s->at.ino, out + i * each, run, at * each, &got, err))
            return zf_err_in(err, "%s", s->path);
        if (got != run) {
            (void)zf_fail(err, ZF_E_STALE, at * each, "the file ends here");
            return zf_err_in(err, "%s", s->path);
        }
    }
    return true;
}

/* ---- numpy's layout ---------------------------------------------------------------------------- */

/* The number of printed elements (slots) of an axis with n elements. */
static uint64_t show_slots(uint64_t n)
{
    return n > SHOW_AXIS ? SHOW_AXIS : n;
}

/* The index of the element printed in slot i of an axis with n elements. */
static uint64_t show_slot(uint64_t n, uint64_t i)
{
    return n > SHOW_AXIS && i >= SHOW_AXIS / 2 ? n - SHOW_AXIS + i : i;
}

typedef char show_text[ZF_NUMBER_MAX];

/* Formats a row of the layout: the printed elements of the last axis. */
static bool show_load_row(const struct show *s, uint64_t *index, show_text *out, struct zf_err *err)
{
    const uint32_t last = s->n_axes - 1, each = zf_dtype_info(s->at.x.dtype)->bytes;
    const uint64_t n = show_axis(s, last)->n, slots = show_slots(n);
    const uint64_t half = n > SHOW_AXIS ? SHOW_AXIS / 2 : slots;
    uint8_t element[SHOW_AXIS * 16];

    for (uint64_t i = 0; i < slots; i += half) {
        index[last] = show_slot(n, i);
        if (!show_read(s, index, half, element, err))
            return false;
        for (uint64_t k = 0; k < half; k++)
            s->write(out[i + k], s->at.x.dtype, element + k * each);
    }
    return true;
}

/* Advances slot [n_axes - 1] to the next row; returns how many axes wrapped around to 0: n_axes - 1 after the last
 * row. */
static uint32_t show_next_row(const struct show *s, uint64_t *slot)
{
    uint32_t turned = 0;

    for (uint32_t k = s->n_axes - 1; k-- > 0; turned++) {
        if (++slot[k] < show_slots(show_axis(s, k)->n))
            return turned;
        slot[k] = 0;
    }
    return turned;
}

static void show_print_row(const struct show *s, show_text *text, int width, uint32_t open)
{
    const uint64_t n = show_axis(s, s->n_axes - 1)->n, slots = show_slots(n);
    int column = (int)s->n_axes;

    (void)printf("%*s%.*s", (int)(s->n_axes - open), "", (int)open, show_open);
    for (uint64_t i = 0; i < slots; i++) {
        const bool dots = n > SHOW_AXIS && i == SHOW_AXIS / 2;

        column += width + (dots ? 4 : 0) + (i > 0);
        if (column > SHOW_LINE && i > 0) {
            (void)printf("\n%*s", (int)s->n_axes, "");
            column = (int)s->n_axes + width + (dots ? 4 : 0);
        } else if (i > 0) {
            (void)putchar(' ');
        }
        (void)printf("%s%*s", dots ? "... " : "", width, text[i]);
    }
}

/* Prints the text between two rows: `turned` axes ended, and the next one advanced to its value in slot. */
static void show_print_end(const struct show *s, uint32_t turned, const uint64_t *slot)
{
    const uint32_t moved = s->n_axes - 2 - turned;

    (void)printf("%.*s", (int)turned + 1, show_close);
    for (int twice = 0; twice < 2; twice++) {
        for (uint32_t i = 0; i <= turned; i++)
            (void)putchar('\n');
        if (twice || show_axis(s, moved)->n <= SHOW_AXIS || slot[moved] != SHOW_AXIS / 2)
            return;
        (void)printf("%*s...", (int)moved + 1, "");
    }
}

/* Formats all rows and sets *width to that of the longest element; NULL on error. */
static show_text *show_load_rows(const struct show *s, uint64_t rows, int *width,
                                 struct zf_err *err)
{
    const uint64_t slots = show_slots(show_axis(s, s->n_axes - 1)->n);
    zf_auto(mem) show_text *text = calloc(rows * slots, sizeof *text);
    uint64_t slot[ZF_SLICE_DIMS] = {0}, index[ZF_SLICE_DIMS];

    if (!text)
        return zf_null(zf_fail_sys(err, "show"));
    for (uint64_t r = 0; r < rows; r++, (void)show_next_row(s, slot)) {
        for (uint32_t k = 0; k + 1 < s->n_axes; k++)
            index[k] = show_slot(show_axis(s, k)->n, slot[k]);
        if (!show_load_row(s, index, text + r * slots, err))
            return NULL;
    }
    *width = 0;
    for (uint64_t i = 0; i < rows * slots; i++) {
        const int n = (int)strlen(text[i]);

        *width = n > *width ? n : *width;
    }
    return zf_give(text);
}

static bool show_load_scalar(const struct show *s, show_text out, struct zf_err *err)
{
    uint8_t element[16];

    if (!show_read(s, NULL, 1, element, err))
        return false;
    s->write(out, s->at.x.dtype, element);
    return true;
}

/* Prints the heading; called after everything was read. */
static void show_head(const struct show *s)
{
    print_name(stdout, s->path);
    print_name(stdout, s->text);
    (void)printf("  %s ", zf_dtype_info(s->at.x.dtype)->suffix);
    (void)print_shape(stdout, s->at.x.tensor);
    (void)putchar('\n');
}

/* The number of rows in the layout; 0: an axis is empty; more than SHOW_MOST: too many. */
static uint64_t show_rows(const struct show *s)
{
    uint64_t rows = 1;

    for (uint32_t k = 0; k < s->n_axes; k++) {
        const uint64_t slots = show_slots(show_axis(s, k)->n);

        if (slots == 0)
            return 0;
        rows = k + 1 < s->n_axes && rows <= SHOW_MOST ? rows * slots : rows;
    }
    return rows;
}

static bool show_matrix(const struct show *s, uint64_t rows, struct zf_err *err)
{
    const uint64_t slots = show_slots(show_axis(s, s->n_axes - 1)->n);
    uint64_t slot[ZF_SLICE_DIMS] = {0};
    uint32_t turned, open = s->n_axes;
    int width;
    zf_auto(mem) show_text *text = show_load_rows(s, rows, &width, err);

    if (!text)
        return false;
    show_head(s);
    for (uint64_t r = 0; r < rows; r++, open = turned + 1) {
        show_print_row(s, text + r * slots, width, open);
        turned = show_next_row(s, slot);
        if (r + 1 < rows)
            show_print_end(s, turned, slot);
    }
    (void)printf("%.*s\n", (int)s->n_axes, show_close);
    return true;
}

static bool show_layout(const struct show *s, struct zf_err *err)
{
    const uint64_t rows = show_rows(s);
    show_text text = "[]";

    if (rows > SHOW_MOST) {
        (void)zf_fail(err, ZF_E_USAGE, ZF_OFF_NONE,
                      "%" PRIu32 " axes are too many to print; give a slice: '%s[0, ...]'",
                      s->n_axes, s->path);
        return false;
    }
    if (s->n_axes > 0 && rows > 0)
        return show_matrix(s, rows, err);
    if (s->n_axes == 0 && !show_load_scalar(s, text, err))
        return false;
    show_head(s);
    (void)puts(text);
    return true;
}

/* ---- JSON -------------------------------------------------------------------------------------- */

/* Prints the elements of a row, separated by commas. */
static bool show_json_row(const struct show *s, uint64_t *index, struct zf_err *err)
{
    const uint32_t last = s->n_axes - 1, each = zf_dtype_info(s->at.x.dtype)->bytes;
    const uint64_t n = show_axis(s, last)->n;
    static uint8_t element[SHOW_READ * 16];
    show_text text;

    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < SHOW_READ ? n - at : SHOW_READ;
        index[last] = at;
        if (!show_read(s, index, some, element, err))
            return false;
        for (uint64_t i = 0; i < some; i++) {
            s->write(text, s->at.x.dtype, element + i * each);
            (void)printf("%s%s", at + i > 0 ? "," : "", text);
        }
    }
    return true;
}

/* Prints nested lists like numpy's tolist(): an empty axis has nothing inside. */
static bool show_json_values(struct show *s, struct zf_err *err)
{
    uint64_t index[ZF_SLICE_DIMS] = {0};

    for (uint32_t k = 0; k + 1 < s->n_axes; k++)
        s->n_axes = show_axis(s, k)->n == 0 ? k + 1 : s->n_axes;
    for (uint32_t k = 0, from = 0;; from = k) {
        (void)printf("%.*s", (int)(s->n_axes - from), show_open);
        if (!show_json_row(s, index, err))
            return false;
        (void)putchar(']');
        for (k = s->n_axes - 1; k > 0 && ++index[k - 1] == show_axis(s, k - 1)->n; k--) {
            index[k - 1] = 0;
            (void)putchar(']');
        }
        if (k == 0)
            return true;
        (void)putchar(',');
    }
}

static void show_json_shape(const char *key, const uint64_t *extent, uint32_t n)
{
    (void)printf("\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++)
        (void)printf("%s%" PRIu64, i ? "," : "", extent[i]);
    (void)fputs("],", stdout);
}

static bool show_json(struct show *s, struct zf_err *err)
{
    const struct zf_tensor *t = s->at.x.tensor;
    zf_auto(out) struct zf_out text = {0};
    uint64_t extent[ZF_SLICE_DIMS];
    show_text scalar;

    if (s->n_axes == 0 && !show_load_scalar(s, scalar, err))
        return false;
    zf_out_str(&text, "{\"path\":");
    zf_out_json(&text, s->path, strlen(s->path));
    zf_out_str(&text, ",\"slice\":");
    zf_out_json(&text, s->text, strlen(s->text));
    if (!zf_out_ok(&text, err))
        return false;
    for (uint32_t k = 0; k < s->n_axes; k++)
        extent[k] = show_axis(s, k)->n;
    (void)printf("%s,\"dtype\":\"%s\",", zf_out_text(&text), zf_dtype_info(s->at.x.dtype)->suffix);
    show_json_shape("shape", t->shape, t->ndim);
    show_json_shape("slice_shape", extent, s->n_axes);
    (void)fputs("\"values\":", stdout);
    if (s->n_axes > 0 && !show_json_values(s, err))
        return false;
    (void)printf("%s}\n", s->n_axes == 0 ? scalar : "");
    return true;
}

static void show_write_hex_json(char out[ZF_NUMBER_MAX], enum zf_dtype t, const void *p)
{
    show_text text;

    zf_number_hex(text, t, p);
    (void)snprintf(out, ZF_NUMBER_MAX, "\"%.60s\"", text);
}

int cmd_show(const struct opts *o, int n, char **word)
{
    struct zf_err err;
    zf_auto(tree) struct zf_tree *tree = open_asked(word[0], o, &err);
    zf_auto(mem) char *path = zf_each_normal(word[1]);

    (void)n;
    if (!tree)
        return cmd_fail(&err);
    if (!path) {
        (void)zf_fail_sys(&err, "show");
        return cmd_fail(&err);
    }
    struct show s = {.tree = tree,
                     .given = word[1],
                     .path = path,
                     .text = "",
                     .write = o->hex    ? (o->json ? show_write_hex_json : zf_number_hex)
                              : o->json ? zf_number_json
                                        : zf_number_text};
    const bool ok = show_find(&s, &err) && (o->json ? show_json(&s, &err) : show_layout(&s, &err));
    return cmd_finish(ok ? EXIT_OK : cmd_negative(&err));
}
