/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests run at the same time.  The server is the test's own: it keeps every answer until it may go, and nothing
 * waits for a time. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "remote/http.h"

#define HANGS 60 /* seconds after which the test is killed */
#define MOST 64

/* ---- the server ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int listener, port;
/* Under the lock. */
static char seen[MOST][32]; /* paths in the order in which they came */
static size_t n_seen;
static unsigned busy, most_busy,
    may_go; /* answers that are kept, were at most, and that may be given to /slow */
static unsigned done, failed; /* requests that are over */

/* The path of the next request; false at the end of the connection. */
static bool take_request(FILE *f, char path[32])
{
    char line[1024];

    if (!fgets(line, sizeof line, f) || sscanf(line, "%*s %31s", path) != 1)
        return false;
    while (fgets(line, sizeof line, f))
        if (strcmp(line, "\r\n") == 0)
            return true;
    return false;
}

static void *serve_one(void *arg)
{
    FILE *in = arg;
    char path[32];
    const char said[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    while (take_request(in, path)) {
        (void)pthread_mutex_lock(&lock);
        (void)snprintf(seen[n_seen % MOST], sizeof seen[0], "%s", path);
        n_seen++;
        most_busy = ++busy > most_busy ? busy : most_busy;
        (void)pthread_cond_broadcast(&moved);
        const bool slow = strcmp(path, "/slow") == 0;
        while (slow && !may_go)
            (void)pthread_cond_wait(&moved, &lock);
        may_go -= slow;
        busy--;
        (void)pthread_cond_broadcast(&moved);
        (void)pthread_mutex_unlock(&lock);
        if (send(fileno(in), said, sizeof said - 1, MSG_NOSIGNAL) < 0)
            break;
    }
    (void)fclose(in);
    return NULL;
}

static void *serve(void *arg)
{
    (void)arg;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t t;
        FILE *in = fdopen(fd, "r");

        if (in && pthread_create(&t, NULL, serve_one, in) == 0)
            (void)pthread_detach(t);
    }
    return NULL;
}

static int setup_all(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    pthread_t t;

    (void)state;
    (void)alarm(HANGS);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0 && bind(listener, (struct sockaddr *)&at, n) == 0 &&
                listen(listener, MOST) == 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    port = ntohs(at.sin_port);
    return pthread_create(&t, NULL, serve, NULL);
}

/* ---- the client ------------------------------------------------------------------------------ */

static struct zf_err err;
static struct http *h;

static void begin(uint32_t connections)
{
    const struct zf_remote_opts opts = {.connections = connections};

    (void)pthread_mutex_lock(&lock);
    n_seen = most_busy = may_go = done = failed = 0;
    (void)pthread_mutex_unlock(&lock);
    h = http_new(&opts, &err);
    assert_ok(h, &err);
}

/* Lets all go, so that nothing of this test is left for the next. */
static void end(void)
{
    http_free(h);
    (void)pthread_mutex_lock(&lock);
    may_go = busy;
    (void)pthread_cond_broadcast(&moved);
    while (busy) {
        (void)pthread_cond_wait(&moved, &lock);
        may_go = busy;
    }
    (void)pthread_mutex_unlock(&lock);
}

struct request {
    struct http_turn turn; /* the first member */
    char url[64];
    bool over, ok;
};

static void address(char url[64], const char *path)
{
    (void)snprintf(url, 64, "http://127.0.0.1:%d%s", port, path);
}

static void run(struct http_turn *t)
{
    struct request *r = (struct request *)t;
    zf_auto(http_reply) struct http_reply reply = {.status = 0};
    struct zf_err why;
    const bool ok = http_do(h, &(const struct http_ask){.url = r->url, .turn = t}, &reply, &why) &&
                    reply.status == 200;

    (void)pthread_mutex_lock(&lock);
    r->over = true;
    r->ok = ok;
    done++;
    failed += !ok;
    (void)pthread_cond_broadcast(&moved);
    (void)pthread_mutex_unlock(&lock);
}

/* Freed by wait_for, or at the end of the program. */
static struct request *ask(const char *path, uint64_t lane, bool ahead)
{
    struct request *r = calloc(1, sizeof *r);

    assert_non_null(r);
    address(r->url, path);
    r->turn = (struct http_turn){
        .host = http_host_for(h, r->url), .lane = lane, .ahead = ahead, .run = run};
    assert_non_null(r->turn.host);
    http_later(h, &r->turn);
    return r;
}

static void wait_for(struct request *r)
{
    (void)pthread_mutex_lock(&lock);
    while (!r->over)
        (void)pthread_cond_wait(&moved, &lock);
    (void)pthread_mutex_unlock(&lock);
    assert_true(r->ok);
    free(r);
}

/* In this thread. */
static bool ask_now(const char *path, double timeout)
{
    zf_auto(http_reply) struct http_reply reply = {.status = 0};
    char url[64];

    address(url, path);
    return http_do(h, &(const struct http_ask){.url = url, .timeout = timeout}, &reply, &err);
}

/* Waits until *what is n. */
static void wait_until(const unsigned *what, unsigned n)
{
    (void)pthread_mutex_lock(&lock);
    while (*what != n)
        (void)pthread_cond_wait(&moved, &lock);
    (void)pthread_mutex_unlock(&lock);
}

static void let_go(unsigned n)
{
    (void)pthread_mutex_lock(&lock);
    may_go += n;
    (void)pthread_cond_broadcast(&moved);
    (void)pthread_mutex_unlock(&lock);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void no_more_connections_than_allowed(void **state)
{
    struct request *c[24];

    (void)state;
    begin(5);
    for (size_t i = 0; i < 24; i++)
        c[i] = ask("/slow", 0, false);
    wait_until(&busy, 5); /* and not fewer */
    let_go(24);
    for (size_t i = 0; i < 24; i++)
        wait_for(c[i]);
    assert_int_equal(most_busy, 5);
    assert_int_equal(n_seen, 24);
    end();
}

static void a_slow_object_stops_nobody(void **state)
{
    struct request *slow[60];

    (void)state;
    begin(16);
    for (size_t i = 0; i < 40; i++)
        slow[i] = ask("/slow", 1, false);
    /* Twelve, a quarter being left to others; of which another hanging object takes three. */
    wait_until(&busy, 12);
    for (size_t i = 0; i < 5; i++)
        wait_for(ask("/other", 2, false));
    for (size_t i = 40; i < 60; i++)
        slow[i] = ask("/slow", 3, false);
    wait_until(&busy, 15);
    wait_for(ask("/other", 4, false));
    assert_ok(ask_now("/other", 0), &err);
    end();
    assert_int_equal(failed, 60);
    for (size_t i = 0; i < 60; i++)
        free(slow[i]);
}

static void who_is_waited_for_goes_first(void **state)
{
    (void)state;
    begin(1);
    struct request *first = ask("/slow", 0, false);
    wait_until(&busy, 1);
    struct request *ahead = ask("/ahead", 0, true), *wanted = ask("/wanted", 0, false);
    let_go(1);
    wait_for(first);
    wait_for(ahead);
    wait_for(wanted);
    assert_string_equal(seen[1], "/wanted");
    assert_string_equal(seen[2], "/ahead");
    end();
}

/* One that runs, and one that waits for a connection. */
static void the_end_of_the_client_ends_all(void **state)
{
    (void)state;
    begin(1);
    struct request *running = ask("/slow", 0, false);
    wait_until(&busy, 1);
    struct request *queued = ask("/queued", 0, true);
    end();
    assert_int_equal(done, 2);
    assert_int_equal(failed, 2);
    assert_int_equal(n_seen, 1); /* the queued one never came */
    free(running);
    free(queued);
}

static void who_waits_for_a_connection_waits_no_longer_than_allowed(void **state)
{
    (void)state;
    begin(1);
    struct request *running = ask("/slow", 0, false);
    wait_until(&busy, 1);
    assert_false(ask_now("/late", .05));
    assert_non_null(strstr(err.msg, "there was no answer within"));
    let_go(1);
    wait_for(running);
    assert_ok(ask_now("/next", 0), &err);
    assert_string_equal(seen[1], "/next");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_connections_than_allowed),
        cmocka_unit_test(a_slow_object_stops_nobody),
        cmocka_unit_test(who_is_waited_for_goes_first),
        cmocka_unit_test(the_end_of_the_client_ends_all),
        cmocka_unit_test(who_waits_for_a_connection_waits_no_longer_than_allowed),
    };

    return cmocka_run_group_tests(tests, setup_all, NULL);
}
