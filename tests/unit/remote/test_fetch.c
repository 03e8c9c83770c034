/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for when blocks of an object are wanted: the client is the test itself, which sees each request and answers
 * it when it likes. */
#include "support/unit.h"

#include <stdlib.h>

#include "remote/object.h"

#define B ((uint64_t)BLOCK_SIZE)
#define MOST 64

struct request {
    struct http_ask ask; /* when it was made */
    struct http_turn *turn;
};

static struct zf_err err;
static struct place place;
static struct object_shared shared = {.place = &place};
static struct object o;
static struct http_object now; /* what the server has */
static uint8_t content;        /* every byte of it */
static bool hold;              /* requests are not made before `answer` */
static struct request asked[MOST];
static size_t n_asked;
static bool (*serve)(const struct http_ask *ask, struct zf_err *e);

/* ---- the client ------------------------------------------------------------------------------ */

static bool put_bytes(const struct http_ask *ask, uint64_t n, struct zf_err *e)
{
    uint8_t *bytes = malloc((size_t)n + 1);
    bool ok = ask->sink.begin(ask->sink.ctx, &now, true, e);

    assert_non_null(bytes);
    memset(bytes, content, (size_t)n);
    if (ok)
        ask->sink.put(ask->sink.ctx, 0, bytes, (size_t)n);
    free(bytes);
    return ok;
}

static bool serve_all(const struct http_ask *ask, struct zf_err *e)
{
    return put_bytes(ask, ask->len, e);
}

bool http_do(struct http *h, const struct http_ask *ask, struct http_reply *out, struct zf_err *e)
{
    (void)h;
    *out = (struct http_reply){.status = 206};
    for (size_t i = 0; i < n_asked; i++) {
        if (asked[i].turn == ask->turn) {
            asked[i].ask = *ask;
            asked[i].turn = NULL;
        }
    }
    return serve(ask, e);
}

static void answer(const struct request *r)
{
    r->turn->run(r->turn);
}

void http_later(struct http *h, struct http_turn *t)
{
    (void)h;
    assert_true(n_asked < MOST);
    asked[n_asked++].turn = t;
    if (!hold)
        t->run(t);
}

bool http_each(struct http *h, const struct http_many *m, size_t n, size_t *bad_out,
               struct zf_err *e)
{
    (void)h;
    (void)m;
    (void)n;
    (void)bad_out;
    return zf_fail(e, ZF_E_IO, ZF_OFF_NONE, "nothing is asked for here but blocks");
}

void http_reply_fini(struct http_reply *r)
{
    (void)r;
}

void http_count_hits(struct http_host *host, uint64_t hits)
{
    (void)host;
    (void)hits;
}

/* ---- an object ------------------------------------------------------------------------------- */

static const struct zf_source_ops ops = {.kind = "test", .fini = zf_source_fini};

static void open_object(uint64_t size, uint64_t cache_blocks)
{
    n_asked = 0;
    hold = false;
    serve = serve_all;
    content = 1;
    now = (struct http_object){.size = size, .etag = "\"a\""};
    o = (struct object){.shared = &shared, .was = now};
    atomic_init(&o.checked_at_count, OBJECT_UNCHECKED);
    shared.cache = blockcache_new(cache_blocks * B, &err);
    assert_ok(shared.cache, &err);
    assert_ok(zf_source_init(&o.src, &ops, "object", size, &err), &err);
    (void)pthread_mutex_init(&o.lock, NULL);
    o.owner = blockcache_owner(shared.cache);
}

static void close_object(void)
{
    struct zf_source *src = &o.src;

    zf_source_unref(&src);
    (void)pthread_mutex_destroy(&o.lock);
    blockcache_free(shared.cache);
}

static bool read_blocks(uint64_t k, uint64_t n, uint64_t beyond)
{
    uint8_t *bytes = malloc((size_t)(n * B));
    const struct iovec iov = {.iov_base = bytes, .iov_len = (size_t)(n * B)};

    assert_non_null(bytes);
    bool ok = fetch_read(&o, &iov, 1, k * B, (size_t)(n * B), beyond, &err);
    for (uint64_t i = 0; ok && i < n * B; i++)
        assert_int_equal(bytes[i], 1);
    free(bytes);
    return ok;
}

static void want(uint64_t k, uint64_t n, uint64_t k2, uint64_t n2)
{
    const struct fetch_range r[2] = {{.off = k * B, .len = n * B}, {.off = k2 * B, .len = n2 * B}};

    fetch_want(&o, r, 2);
}

static void assert_asked(size_t i, uint64_t k, uint64_t n)
{
    assert_true(i < n_asked);
    assert_int_equal(asked[i].ask.off, k * B);
    assert_int_equal(asked[i].ask.len, n * B);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void neighbours_come_in_one_request(void **state)
{
    (void)state;
    open_object(100 * B, 100);
    assert_ok(read_blocks(3, 10, 0), &err);
    assert_int_equal(n_asked, 1);
    assert_asked(0, 3, 10);
    assert_ok(read_blocks(5, 2, 0), &err);
    assert_int_equal(n_asked, 1); /* in memory */
    assert_ok(read_blocks(1, 14, 0), &err);
    assert_int_equal(n_asked, 3); /* what is missing at both sides */
    assert_asked(1, 1, 2);
    assert_asked(2, 13, 2);
    close_object();
}

static void a_gap_is_fetched_too_if_it_is_small(void **state)
{
    const uint64_t gap = FETCH_GAP / B;

    (void)state;
    open_object(100 * B, 100);
    want(0, 1, 1 + gap, 1);
    assert_int_equal(n_asked, 1);
    assert_asked(0, 0, gap + 2);
    want(50, 1, 52 + gap, 1);
    assert_int_equal(n_asked, 3);
    assert_asked(1, 50, 1);
    assert_asked(2, 52 + gap, 1);
    close_object();
}

static void what_is_on_its_way_is_not_asked_for_again(void **state)
{
    (void)state;
    open_object(100 * B, 100);
    hold = true;
    want(0, 4, 0, 0);
    want(2, 4, 0, 0);
    assert_int_equal(n_asked, 2);
    assert_true(asked[0].turn->ahead && asked[1].turn->ahead);
    assert_int_equal(asked[0].turn->lane, o.owner);
    answer(&asked[1]);
    answer(&asked[0]);
    assert_asked(1, 4, 2);
    assert_ok(read_blocks(0, 6, 0), &err);
    assert_int_equal(n_asked, 2);
    close_object();
}

static void long_stretches_are_split(void **state)
{
    uint64_t at = 0;

    (void)state;
    open_object(600 * B, 600);
    assert_ok(read_blocks(0, 400, 0), &err);
    for (size_t i = 0; i < n_asked; i++) {
        assert_int_equal(asked[i].ask.off, at);
        at += asked[i].ask.len;
    }
    assert_int_equal(at, 400 * B);
    assert_int_equal(n_asked, 16);
    close_object();
    /* Ahead of a reader in few long ones. */
    open_object(600 * B, 600);
    want(0, 256, 0, 0);
    assert_int_equal(n_asked, 4);
    close_object();
}

static void nothing_is_fetched_ahead_that_has_no_room(void **state)
{
    (void)state;
    open_object(100 * B, 8);
    want(0, 9, 0, 0);
    assert_int_equal(n_asked, 0);
    want(0, 8, 0, 0);
    assert_int_equal(n_asked, 1);
    assert_ok(read_blocks(20, 12, 0), &err); /* a reader gets what it asks for */
    close_object();
}

static void nothing_lies_beyond_the_end(void **state)
{
    (void)state;
    open_object(6 * B + 5, 100);
    assert_ok(read_blocks(0, 1, 50 * B), &err);
    assert_int_equal(n_asked, 2);
    assert_int_equal(asked[0].ask.off,
                     B); /* ahead, so that it is on its way while the reader waits */
    assert_int_equal(asked[0].ask.len, 5 * B + 5);
    assert_asked(1, 0, 1);
    close_object();
    open_object(20 * B, 100);
    assert_ok(read_blocks(0, 1, 4 * B), &err);
    assert_asked(0, 1, 4);
    close_object();
}

static void another_object_is_refused(void **state)
{
    (void)state;
    open_object(10 * B, 10);
    (void)strcpy(now.etag, "\"b\"");
    assert_false(read_blocks(0, 1, 0));
    assert_int_equal(err.code, ZF_E_STALE);
    assert_true(atomic_load(&o.stale));
    assert_true(atomic_load(&o.checked_at_count) == OBJECT_UNCHECKED);
    close_object();
}

/* A block that is ready is read by others by then. */
static bool serve_three_times(const struct http_ask *ask, struct zf_err *e)
{
    assert_true(put_bytes(ask, B + B / 2, e));
    content = 2;
    assert_true(put_bytes(ask, B, e));
    hold = true;
    assert_ok(read_blocks(0, 1, 0), e);
    content = 1;
    return put_bytes(ask, ask->len, e);
}

static void a_second_attempt_does_not_touch_what_is_ready(void **state)
{
    (void)state;
    open_object(10 * B, 10);
    serve = serve_three_times;
    want(0, 3, 0, 0);
    assert_ok(read_blocks(0, 3, 0), &err);
    assert_int_equal(n_asked, 1);
    close_object();
}

static bool sized;
static struct block *second;

/* Most of two blocks, and one behind a gap. */
static bool serve_a_part(const struct http_ask *ask, struct zf_err *e)
{
    uint8_t *bytes = malloc(2 * B);
    bool ready;

    assert_non_null(bytes);
    memset(bytes, content, 2 * B);
    assert_ok(ask->sink.begin(ask->sink.ctx, &now, sized, e), e);
    ask->sink.put(ask->sink.ctx, 0, bytes, 2 * B - 1);
    ask->sink.put(ask->sink.ctx, 3 * B, bytes, B);
    assert_int_equal(blockcache_claim(shared.cache, o.owner, 1, B, &second, &ready),
                     BLOCKCACHE_THERE);
    free(bytes);
    return true;
}

static bool serve_nothing(const struct http_ask *ask, struct zf_err *e)
{
    (void)ask;
    (void)e;
    return true;
}

/* A client that calls an answer whole which was not: what no byte came to is an error, not memory. */
static void what_no_byte_came_to_is_not_loaded(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        sized = i == 1;
        open_object(4 * B, 10);
        serve = serve_a_part;
        want(0, 4, 0, 0);
        assert_false(blockcache_wait(shared.cache, second, &err));
        assert_int_equal(err.code, ZF_E_IO);
        blockcache_unpin(shared.cache, second);
        serve = serve_all;
        assert_ok(read_blocks(0, 4, 0), &err); /* asked for again */
        assert_int_equal(n_asked, 2);
        assert_asked(1, 1, 3);
        close_object();
    }
    /* Nor when there was not even a beginning. */
    open_object(2 * B, 10);
    serve = serve_nothing;
    want(0, 2, 0, 0);
    serve = serve_all;
    assert_ok(read_blocks(0, 2, 0), &err);
    assert_int_equal(n_asked, 2);
    close_object();
}

static bool serve_and_meet(const struct http_ask *ask, struct zf_err *e)
{
    object_first_seen(&shared);
    return serve_all(ask, e);
}

/* Only a request that named the object, and was made when all had been met. */
static void what_a_request_proves(void **state)
{
    (void)state;
    open_object(10 * B, 10);
    o.was = (struct http_object){.size = now.size};
    const uint64_t met = atomic_load(&shared.first_seen_count);
    assert_ok(read_blocks(0, 1, 0), &err);
    assert_int_equal(atomic_load(&shared.first_seen_count), met + 1); /* its ETag was learnt */
    assert_true(atomic_load(&o.checked_at_count) == OBJECT_UNCHECKED);
    serve = serve_and_meet;
    assert_ok(read_blocks(1, 1, 0), &err);
    assert_int_equal(atomic_load(&o.checked_at_count),
                     met + 1); /* something was met while it was on its way */
    serve = serve_all;
    assert_ok(read_blocks(2, 1, 0), &err);
    assert_int_equal(atomic_load(&o.checked_at_count), atomic_load(&shared.first_seen_count));
    close_object();
    open_object(10 * B, 10);
    (void)strcpy(now.etag, "W/\"a\"");
    o.was = now;
    assert_ok(read_blocks(0, 1, 0), &err);
    assert_true(atomic_load(&o.checked_at_count) ==
                OBJECT_UNCHECKED); /* a weak one names nothing */
    close_object();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_come_in_one_request),
        cmocka_unit_test(a_gap_is_fetched_too_if_it_is_small),
        cmocka_unit_test(what_is_on_its_way_is_not_asked_for_again),
        cmocka_unit_test(long_stretches_are_split),
        cmocka_unit_test(nothing_is_fetched_ahead_that_has_no_room),
        cmocka_unit_test(nothing_lies_beyond_the_end),
        cmocka_unit_test(another_object_is_refused),
        cmocka_unit_test(a_second_attempt_does_not_touch_what_is_ready),
        cmocka_unit_test(what_no_byte_came_to_is_not_loaded),
        cmocka_unit_test(what_a_request_proves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
