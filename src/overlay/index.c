/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/overlay/index.h>

#include <config.h>
#include <stdio.h>
#include <string.h>

#include <zf/base/name.h>
#include <zf/codec/json.h>
#include <zf/overlay/lost.h>

json_t *zf_index_shape(const struct zf_tensor *t)
{
    json_t *shape = json_array();

    for (uint32_t d = 0; shape && d < t->ndim; d++)
        (void)json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    return shape;
}

json_t *zf_index_tensor(const struct zf_set *s, const struct zf_tensor *t)
{
    char file[ZF_NAME_MAX + 1], suffix[32];
    const char *dtype = zf_dtype_info(t->dtype)->suffix;
    const struct zf_tensor *same = &s->tensor[t->alias_of];

    (void)snprintf(suffix, sizeof suffix, ".%s", dtype);
    size_t len = zf_name_encode(file, t->name, t->name_len, suffix);
    json_t *j =
        json_pack("{s:s, s:o, s:o, s:s, s:o, s:I}", "set", s->path, "name",
                  zf_json_string(t->name, t->name_len), "file", zf_json_string(file, len), "dtype",
                  dtype, "shape", zf_index_shape(t), "bytes", (json_int_t)zf_map_size(t->data));
    if (j && same != t)
        (void)json_object_set_new(j, "alias_of", zf_json_string(same->name, same->name_len));
    if (j && t->lost) {
        (void)json_object_set_new(j, "lost", json_true());
        (void)json_object_set_new(j, "lost_bytes", zf_lost_ranges(t));
    }
    return j;
}

void zf_index_add_host(void *hosts, const struct zf_host_stats *s)
{
    (void)json_array_append_new(
        hosts, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "host", zf_json_text(s->host),
                         "requests", (json_int_t)s->requests, "retries", (json_int_t)s->retries,
                         "bytes", (json_int_t)s->bytes, "cache_hits", (json_int_t)s->hits, "errors",
                         (json_int_t)s->errors));
}

json_t *zf_index_notes(const struct zf_checkpoint *c)
{
    json_t *notes = json_array();

    for (uint32_t i = 0; notes && i < c->n_notes; i++)
        (void)json_array_append_new(notes, zf_json_text(c->note[i].text));
    return notes;
}

static json_t *index_head_of(const struct zf_checkpoint *c)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o?, s:I, s:o}", "schema", "zerofs.index/1",
                     "zerofs", PACKAGE_VERSION, "format", c->format, "why", zf_json_text(c->why),
                     "tag", zf_json_text(c->tag), "step",
                     c->has_step ? json_integer(c->step) : NULL, "pieces", (json_int_t)c->n_pieces,
                     "notes", zf_index_notes(c));
}

/* Prints the object without its closing brace, so that the long list can follow in pieces. */
static bool index_print_open(FILE *f, json_t *j)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

    json_decref(j);
    if (text)
        (void)fprintf(f, "%.*s", (int)strlen(text) - 1, text);
    free(text);
    return text != NULL;
}

/* One element of a list, on a line of its own.  Takes j. */
static bool index_print_item(FILE *f, const char **sep, json_t *j)
{
    bool ok = j && fputs(*sep, f) >= 0 && json_dumpf(j, f, JSON_COMPACT) == 0;

    *sep = ",\n";
    json_decref(j);
    return ok;
}

static bool index_print_tensors(FILE *f, const struct zf_checkpoint *c)
{
    const char *sep = "\n";

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++)
            if (!index_print_item(f, &sep, zf_index_tensor(&c->set[s], &c->set[s].tensor[i])))
                return false;
    }
    return true;
}

static bool index_print_files(FILE *f, const struct zf_checkpoint *c)
{
    const char *sep = "\n";

    for (uint32_t i = 0; i < c->n_blobs; i++) {
        const struct zf_blob *b = &c->blob[i];
        json_t *path = zf_json_text(b->path);

        if (!index_print_item(
                f, &sep,
                json_pack("{s:o, s:I}", "path", path, "bytes", (json_int_t)zf_map_size(b->data))))
            return false;
    }
    return true;
}

char *zf_index_text(const struct zf_checkpoint *c, size_t *n_out, struct zf_err *err)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n_out);

    if (!f)
        return zf_null(zf_fail_sys(err, "write the index"));
    bool ok = index_print_open(f, index_head_of(c)) && fputs(",\"tensors\":[", f) >= 0 &&
              index_print_tensors(f, c) && fputs("],\"files\":[", f) >= 0 &&
              index_print_files(f, c) && fputs("]}\n", f) >= 0;
    if (fclose(f) != 0 || !ok) {
        free(text);
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for the index"));
    }
    return text;
}

char *zf_index_dump(json_t *j, size_t *n_out, struct zf_err *err)
{
    char *text = j ? json_dumps(j, JSON_INDENT(1)) : NULL;

    json_decref(j);
    if (!text)
        return zf_null(zf_fail(err, ZF_E_NOMEM, ZF_OFF_NONE, "out of memory for a JSON file"));
    if (n_out)
        *n_out = strlen(text);
    return text;
}
