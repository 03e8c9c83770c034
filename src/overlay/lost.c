/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/overlay/lost.h>

#include <inttypes.h>
#include <string.h>

#include <zf/codec/json.h>

/* At most this many different files are counted; if there are more, "at least" this many are reported. */
#define MOST_FILES 64
/* At most this many ranges of a tensor are listed: a box of columns has one per row. */
#define MOST_RANGES 32
/* Bytes of a file's path in a mount's line; a longer path keeps its end, which is more useful. */
#define PATH_ROOM 160

struct causes {
    struct zf_lost first;
    const char *seen[MOST_FILES];
    uint32_t n;
};

/* Counts a cause of loss; false, to stop, when there are enough. */
static bool lost_note_cause(void *ctx, const struct zf_lost *how)
{
    struct causes *c = ctx;
    const char *what = how->file[0] ? how->file : how->why;

    for (uint32_t i = c->n; i-- > 0;)
        if (c->seen[i] == what || strcmp(c->seen[i], what) == 0)
            return true;
    if (c->n == 0)
        c->first = *how;
    c->seen[c->n++] = what;
    return c->n < MOST_FILES;
}

/* Counts lost bytes, and collects the causes. */
static void lost_survey(const struct zf_checkpoint *c, uint64_t *lost_out, uint64_t *all_out,
                        struct causes *causes)
{
    bool more = true;

    *lost_out = *all_out = c->n_missing;
    for (uint32_t s = 0; s < c->n_sets; s++) {
        *all_out += c->set[s].n;
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_tensor *t = &c->set[s].tensor[i];

            *lost_out += t->lost;
            if (t->lost && t->alias_of == i && more)
                more = zf_map_each_loss(t->data, lost_note_cause, causes);
        }
    }
    for (uint32_t i = 0; i < c->n_missing && more; i++)
        more = lost_note_cause(causes, &c->missing[i].how);
}

void zf_lost_say(const struct zf_checkpoint *c, struct zf_log *log)
{
    struct causes causes = {.first = {.file = "", .why = "pieces of them are missing"}};
    uint64_t lost, all;
    char others[48] = "";
    struct zf_err err;

    lost_survey(c, &lost, &all, &causes);
    if (!lost)
        return;
    if (causes.n > 1) {
        (void)snprintf(others, sizeof others, ", and %s%" PRIu32 " more file%s",
                       causes.n == MOST_FILES ? "at least " : "", causes.n - 1,
                       causes.n == 2 ? "" : "s");
    }
    const char *file = causes.first.file;
    size_t len = strlen(file);
    (void)zf_fail(&err, ZF_E_IO, ZF_OFF_NONE,
                  "%" PRIu64 " of %" PRIu64 " tensors have lost bytes: %s%s%s%.200s%s "
                  "(zerofs info -v lists them)",
                  lost, all, len > PATH_ROOM ? "..." : "",
                  file + (len > PATH_ROOM ? len - PATH_ROOM : 0), len ? " " : "", causes.first.why,
                  others);
    zf_log_say(log, &err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *zf_lost_ranges(const struct zf_tensor *t)
{
    json_t *list = json_array();
    struct zf_loss loss = {.end = 0};
    uint32_t n = 0;

    while (list && zf_map_loss(t->data, loss.end, &loss)) {
        if (n++ == MOST_RANGES) {
            (void)json_array_append_new(list, json_pack("{s:b}", "more", 1));
            break;
        }
        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:o, s:o}", "first", (json_int_t)loss.first, "end",
                            (json_int_t)loss.end, "file", zf_json_text(loss.how.file), "why",
                            zf_json_text(loss.how.why)));
    }
    return list;
}

json_t *zf_lost_json(const struct zf_checkpoint *c)
{
    json_t *list = json_array();

    for (uint32_t s = 0; s < c->n_sets; s++) {
        for (uint32_t i = 0; i < c->set[s].n; i++) {
            const struct zf_tensor *t = &c->set[s].tensor[i];

            if (t->lost) {
                (void)json_array_append_new(
                    list,
                    json_pack("{s:o, s:o, s:I, s:o}", "set", zf_json_text(c->set[s].path), "name",
                              zf_json_string(t->name, t->name_len), "bytes",
                              (json_int_t)zf_map_size(t->data), "lost_bytes", zf_lost_ranges(t)));
            }
        }
    }
    for (uint32_t i = 0; i < c->n_missing; i++) {
        (void)json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "set", "", "name",
                                                    zf_json_text(c->missing[i].name), "file",
                                                    zf_json_text(c->missing[i].how.file), "why",
                                                    zf_json_text(c->missing[i].how.why)));
    }
    return list;
}
