/* SPDX-License-Identifier: Apache-2.0 */
/* The directory, read a second time.  Source: PKWARE APPNOTE 4.3.12, 4.5.3. */
#include "dir.h"

#include <string.h>

#include <zf/base/bytes.h>
#include <zf/base/num.h>

#include "local.h"

#define ENTRY_BYTES 46u
#define SIG_ENTRY 0x02014b50u
#define EXTRA_ZIP64 1u
#define IN_ZIP64 0xffffffffu

/* A number of 32 bits, or of 64 in the extra field. */
static uint64_t dir_number(uint32_t small, struct zf_bytes *zip64)
{
    return small == IN_ZIP64 ? zf_bytes_le64(zip64) : small;
}

/* The zip64 record among extra fields; empty where there is none. */
static struct zf_bytes dir_find_zip64(struct zf_bytes extra)
{
    while (zf_bytes_left(&extra)) {
        const uint16_t id = zf_bytes_le16(&extra), len = zf_bytes_le16(&extra);
        const uint8_t *p = zf_bytes_take(&extra, len);

        if (p && id == EXTRA_ZIP64) {
            return zf_bytes_of(p, len);
        }
    }
    return zf_bytes_of(NULL, 0);
}

/* One entry, which must describe m. */
static bool dir_entry(struct zf_bytes *in, const struct zf_zip_member *m, uint64_t *at_out)
{
    struct zf_bytes b = zf_bytes_of(zf_bytes_take(in, ENTRY_BYTES), in->bad ? 0 : ENTRY_BYTES);

    if (zf_bytes_le32(&b) != SIG_ENTRY) {
        return false;
    }
    b.at = 20;
    const uint32_t comp = zf_bytes_le32(&b), size = zf_bytes_le32(&b);
    const uint16_t name_len = zf_bytes_le16(&b), extra_len = zf_bytes_le16(&b),
                   comment_len = zf_bytes_le16(&b);
    b.at = 42;
    const uint32_t at = zf_bytes_le32(&b);
    const uint8_t *name = zf_bytes_take(in, name_len), *extra = zf_bytes_take(in, extra_len);

    if (!zf_bytes_take(in, comment_len) || !name || !extra) {
        return false;
    }
    struct zf_bytes zip64 = dir_find_zip64(zf_bytes_of(extra, extra_len));
    const uint64_t full_size = dir_number(size, &zip64), full_comp = dir_number(comp, &zip64);

    *at_out = dir_number(at, &zip64);
    return !zip64.bad && name_len == strlen(m->name) && memcmp(name, m->name, name_len) == 0 &&
           full_size == m->size && full_comp == m->comp_size;
}

static bool dir_entries(const uint8_t *p, uint64_t n_bytes, const struct zf_zip_member *member,
                        uint64_t n, struct zip_span *span)
{
    struct zf_bytes in = zf_bytes_of(p, n_bytes);

    for (uint64_t i = 0; i < n; i++) {
        if (!dir_entry(&in, &member[i], &span[i].at)) {
            return false;
        }
    }
    return zf_bytes_left(&in) == 0;
}

/* A member in the order of the archive. */
struct dir_place {
    uint64_t at, least, member; /* its header; where its data end at least */
};

static int dir_cmp(const void *a, const void *b)
{
    const struct dir_place *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Gives each span its end.  Members without bytes are nowhere. */
static bool dir_bound(struct zf_source *src, const struct zf_zip_member *member, uint64_t n,
                      uint64_t data_end, struct zip_span *span, struct zf_err *err)
{
    zf_auto(mem) struct dir_place *place = calloc(n ? (size_t)n : 1, sizeof *place);
    uint64_t k = 0;

    if (!place) {
        return zf_fail_sys(err, "allocate memory");
    }
    for (uint64_t i = 0; i < n; i++) {
        const struct zip_local l = {.name = member[i].name};
        struct dir_place *p = &place[k];

        if (member[i].comp_size == 0) {
            continue;
        }
        *p = (struct dir_place){.at = span[i].at, .member = i};
        if (!zf_add(p->at, zip_local_bytes(&l), &p->least) ||
            !zf_add(p->least, member[i].comp_size, &p->least) || p->least > data_end) {
            (void)zf_fail(err, ZF_E_FORMAT, p->at,
                          "member \"%s\" of %llu bytes should begin here, but the directory begins "
                          "at byte %llu",
                          l.name, (unsigned long long)member[i].comp_size,
                          (unsigned long long)data_end);
            return zf_err_in(err, "%s", src->name);
        }
        k++;
    }
    qsort(place, k, sizeof *place, dir_cmp);
    for (uint64_t i = 0; i < k; i++) {
        const uint64_t next = i + 1 < k ? place[i + 1].at : data_end;

        if (place[i].least > next) {
            (void)zf_fail(err, ZF_E_FORMAT, next,
                          "two members overlap: one starts here, the one before ends at byte %llu",
                          (unsigned long long)place[i].least);
            return zf_err_in(err, "%s", src->name);
        }
        span[place[i].member].end = next;
    }
    return true;
}

bool zip_dir_load(struct zf_source *src, const struct zip_end *end,
                  const struct zf_zip_member *member, uint64_t n, struct zip_span **out,
                  struct zf_err *err)
{
    *out = NULL;
    if (!end->exact || n != end->entries || end->dir_bytes > SIZE_MAX) {
        return true;
    }
    zf_auto(mem) uint8_t *p = malloc(end->dir_bytes ? (size_t)end->dir_bytes : 1);
    zf_auto(mem) struct zip_span *span = calloc(n ? (size_t)n : 1, sizeof *span);

    if (!p || !span) {
        return zf_fail_sys(err, "allocate memory");
    }
    if (!zf_source_pread(src, p, (size_t)end->dir_bytes, end->dir_off, err)) {
        return false;
    }
    if (!dir_entries(p, end->dir_bytes, member, n, span)) {
        return true;
    }
    if (!dir_bound(src, member, n, end->dir_off, span, err)) {
        return false;
    }
    *out = zf_give(span);
    return true;
}
