/* SPDX-License-Identifier: Apache-2.0 */
/* integrity.json: {"algorithm": "sha256", "files": {name: 64 digits}} for every file of the folder, without subfolders.
 * Megatron writes it only on request.  Files that are read whole anyway are verified; shards are not, and a note says
 * so.  The file is shown in state/, where an export finds the checksums of the files it reads.
 * Source: files of core 0.18.2 and 0.19.2. */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include <zf/assemble/degraded.h>
#include <zf/codec/json.h>

#define INTEGRITY "integrity.json"

/* Files that opening a save reads from end to end. */
static const char *const integrity_read_whole[] = {".metadata", "metadata.json", MG_COMMON_FILE};

static bool integrity_compare(struct zf_store *st, const char *name, const char *want,
                              struct zf_build *b, struct zf_err *err)
{
    char is[ZF_SHA256_HEX];
    zf_auto(source) struct zf_source *src = zf_store_open(st, name, err);

    if (!src)
        return zf_forgive(b, err); /* listed in integrity.json, but missing or unreadable */
    if (!zf_source_sha256(src, is, err))
        return false;
    if (strcasecmp(is, want) == 0)
        return true;
    zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE,
            "its SHA-256 is %.16s…, in " INTEGRITY " %.16s…: the file was changed or damaged after "
            "it was saved",
            is, want);
    return zf_err_in(err, "%s", name) || zf_forgive(b, err);
}

/* Notes how many of the files were not verified. */
static bool integrity_note(struct zf_build *b, const json_t *files, size_t n_compared,
                           struct zf_err *err)
{
    const char *first = NULL, *name;
    json_t *sums = (json_t *)(uintptr_t)files, *v;
    size_t n = json_object_size(files) - n_compared;

    json_object_foreach(sums, name, v)
    {
        bool compared = false;

        for (size_t i = 0; i < sizeof integrity_read_whole / sizeof *integrity_read_whole; i++)
            compared = compared || strcmp(name, integrity_read_whole[i]) == 0;
        first = first || compared ? first : name;
    }
    return n == 0 ||
           zf_build_note_on(b, ZF_NOTE_UNCOMPARED, NULL, err,
                            INTEGRITY " has SHA-256 sums of %zu files: %zu are compared, %zu "
                                      "are not (%.60s%s)",
                            json_object_size(files), n_compared, n, first ? first : "",
                            n > 1 ? ", …" : "");
}

static bool integrity_check_all(struct zf_store *st, const json_t *files, struct zf_build *b,
                                struct zf_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof integrity_read_whole / sizeof *integrity_read_whole; i++) {
        const json_t *sum = json_object_get(files, integrity_read_whole[i]);
        const char *want = json_string_value(sum);

        if (!sum)
            continue;
        if (!want || strlen(want) != ZF_SHA256_HEX - 1) {
            zf_fail(err, ZF_E_FORMAT, ZF_OFF_NONE, "its entry for \"%s\" is not a SHA-256 sum",
                    integrity_read_whole[i]);
            if (zf_err_in(err, INTEGRITY) || !zf_forgive(b, err))
                return false;
            continue;
        }
        n++;
        if (!integrity_compare(st, integrity_read_whole[i], want, b, err))
            return false;
    }
    return integrity_note(b, files, n, err);
}

bool mg_integrity_check(struct zf_store *st, const struct zf_limits *lim, struct zf_build *b,
                        struct zf_err *err)
{
    zf_auto(mem) char *text = NULL;
    zf_auto(json) json_t *j = NULL;
    zf_auto(source) struct zf_source *src = NULL;
    uint64_t n = 0;

    if (!zf_store_find(st, INTEGRITY))
        return true;
    text = zf_store_slurp(st, INTEGRITY, lim->json_bytes, &n, err);
    j = text ? zf_json_load(text, n, lim, err) : NULL;
    if (!j)
        return zf_err_in(err, INTEGRITY) || zf_forgive(b, err);
    const char *algorithm = json_string_value(json_object_get(j, "algorithm"));
    const json_t *files = json_object_get(j, "files");
    if (!algorithm || strcmp(algorithm, "sha256") != 0 || !json_is_object(files)) {
        return zf_build_note(
            b, err,
            INTEGRITY " has checksums that zerofs does not compare: its algorithm is %.40s%s",
            algorithm ? algorithm : "not given",
            json_is_object(files) ? "" : ", and it has no \"files\"");
    }
    src = zf_store_open(st, INTEGRITY, err);
    return src && zf_build_blob(b, "state/" INTEGRITY, src, 0, src->size, err) &&
           integrity_check_all(st, files, b, err);
}
