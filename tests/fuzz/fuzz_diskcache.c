/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a file of the cache on disk: the first says which (blocks, about, the count).  A block
 * is believed only if its entry is the one that its bytes have; listing, counting and evicting go on
 * whatever is there. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zf/remote.h>

#include "fuzz.h"
#include "remote/diskcache.h"

static char dir[] = "/tmp/zerofs-fuzz.XXXXXX";

static void clean(void)
{
    char command[64];

    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    (void)!system(command);
}

static void put_file(const char *name, const uint8_t *data, size_t size)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)close(fd);
}

static void note(void *ctx, const struct zf_cached *c)
{
    for (const char *p = c->url; *p; p++)
        if ((unsigned char)*p < ' ')
            abort(); /* a terminal would obey */
    *(uint64_t *)ctx += c->bytes;
}

static void try_blocks(struct diskcache *c, const struct diskcache_key *key, const uint8_t *data,
                       size_t size)
{
    static uint8_t buf[DISKCACHE_BLOCK];
    uint8_t entry[DISKCACHE_ENTRY];

    for (uint64_t k = 0; k < DISKCACHE_SLOTS; k++) {
        size_t n = k % 2 ? 5 : DISKCACHE_BLOCK;

        if (!diskcache_get(c, key, k, buf, n))
            continue;
        diskcache_entry(key, k, buf, n, entry);
        if (size < (k + 1) * DISKCACHE_ENTRY ||
            memcmp(entry, data + k * DISKCACHE_ENTRY, sizeof entry) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct diskcache_about about = {
        .url = "http://h/x", .etag = "\"1\"", .version = ""};
    static const char *const file[] = {"0", "about", "used"};
    const struct diskcache_key key = diskcache_key_of(&about);
    static bool made;
    struct zf_err err;
    char path[160];
    uint64_t bytes = 0;

    if (!made && !mkdtemp(dir))
        return 0;
    if (!made) {
        made = true;
        (void)atexit(clean);
    }
    struct diskcache *c = diskcache_new(dir, 1u << 20, &err);
    if (!c || size == 0) {
        diskcache_free(c);
        return 0;
    }
    unsigned which = data[0] % 3;
    (void)snprintf(path, sizeof path, "%s/o/%s", dir, key.hex);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, which == 2 ? "%.0s%s" : "o/%s/%s", key.hex, file[which]);
    put_file(path, data + 1, size - 1);
    if (which == 0)
        try_blocks(c, &key, data + 1, size - 1);
    if (!zf_remote_cache_each(dir, note, &bytes, &err))
        abort();
    diskcache_put(c, &key, &about, 3, "bytes", 5);
    diskcache_free(c);
    if (!zf_remote_cache_clear(dir, &bytes, &err))
        abort();
    return 0;
}
