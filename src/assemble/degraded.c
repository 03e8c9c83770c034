/* SPDX-License-Identifier: Apache-2.0 */
#include <zf/assemble/degraded.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <zf/assemble/names.h>

bool zf_note_failure(struct zf_build *b, enum zf_note_kind kind, const char *about,
                     struct zf_err *err, const char *fmt, ...)
{
    const struct zf_err why = *err;
    char before[200], text[800];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(before, sizeof before, fmt, ap);
    va_end(ap);
    zf_err_text(err, text, sizeof text);
    zf_err_clear(err);
    return zf_build_note_names(b, why.path, why.msg, err) &&
           zf_build_note_on(b, kind, about, err, "%s%s", before, text);
}

bool zf_forgive(struct zf_build *b, struct zf_err *err)
{
    return zf_build_degraded(b) && err->code != ZF_E_NOMEM && err->code != ZF_E_LIMIT &&
           zf_note_failure(b, ZF_NOTE_OTHER, NULL, err, "%s", "");
}

bool zf_read_each(struct zf_build *b, uint64_t n,
                  bool (*read)(void *ctx, uint64_t i, struct zf_err *err), void *ctx,
                  const char **why, struct zf_arena *a, struct zf_err *err)
{
    struct zf_err first = {.code = ZF_OK};
    uint64_t n_read = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (read(ctx, i, err)) {
            n_read++;
            continue;
        }
        first = first.code == ZF_OK ? *err : first;
        if (why)
            why[i] = zf_arena_str(a, err->msg, strlen(err->msg), &(struct zf_err){.code = ZF_OK});
        if ((why && !why[i]) || !zf_forgive(b, err))
            return false;
    }
    if (n > 0 && n_read == 0) {
        *err = first;
        return false;
    }
    return true;
}

bool zf_leave_out_at(struct zf_build *b, const char *file, struct zf_spot spot, struct zf_err *err)
{
    char name[512];

    (void)snprintf(name, sizeof name, "%s/%s", spot.set, spot.name);
    return zf_leave_out(b, file, zf_names_is_optim(spot) ? name : spot.name, err);
}

bool zf_leave_out_state(struct zf_build *b, const char *file, const char *state, struct zf_err *err)
{
    const struct zf_err why = *err;

    zf_err_clear(err);
    return zf_build_note_names(b, file, why.msg, err) &&
           zf_build_note_once(b, state, ZF_NOTE_LEFT_OUT, file, err,
                              "the optimizer state \"%.80s\" is left out: in \"%.160s\" it is not "
                              "a plain tensor: %s",
                              state, file, why.msg);
}

bool zf_leave_out(struct zf_build *b, const char *file, const char *name, struct zf_err *err)
{
    const struct zf_err why = *err;

    zf_err_clear(err);
    if (!zf_build_note_names(b, file, why.msg, err))
        return false;
    return name ? zf_build_note_on(b, ZF_NOTE_LEFT_OUT, file, err, "%s: \"%s\" is left out: %s",
                                   file, name, why.msg)
                : zf_build_note_on(b, ZF_NOTE_UNREADABLE, file, err, "%s is left out: %s", file,
                                   why.msg);
}
