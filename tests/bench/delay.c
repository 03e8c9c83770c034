/* SPDX-License-Identifier: Apache-2.0 */
/* delay PORT MS [RATE]: a line of MS milliseconds to and fro, and of RATE bytes a second for all that
 * comes back, in front of 127.0.0.1:PORT.  Prints the port it listens on, and serves until its standard input ends.  Each connection costs one round trip more, as
 * TCP's handshake does, and carries at most WINDOW bytes that were not taken yet in each direction. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WINDOW (16u << 20)
#define PIECE (256u << 10)
#define PIECES (WINDOW / PIECE)

static long long half_ns;
static long long rate;      /* 0 = none */
static long long line_free; /* when the line has carried what it took */
static pthread_mutex_t line = PTHREAD_MUTEX_INITIALIZER;
static int port;

struct piece {
    long long due;
    size_t n;
    char *data; /* [PIECE], made at the first use */
};

/* One direction of a connection: a thread that reads, and one that sends what is due. */
struct way {
    int from, to;
    bool back;
    struct piece piece[PIECES];
    size_t head, n; /* the oldest one, and how many */
    bool over;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static long long now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void wait_until(long long ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (now() < ns)
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* When n more bytes have gone over the line. */
static long long turn(size_t n)
{
    const long long at = now();

    (void)pthread_mutex_lock(&line);
    line_free = (line_free > at ? line_free : at) + (long long)n * 1000000000 / rate;
    const long long done = line_free;
    (void)pthread_mutex_unlock(&line);
    return done;
}

static void *take(void *arg)
{
    struct way *w = arg;
    ssize_t got;

    do {
        (void)pthread_mutex_lock(&w->lock);
        while (w->n == PIECES)
            (void)pthread_cond_wait(&w->changed, &w->lock);
        struct piece *p = &w->piece[(w->head + w->n) % PIECES];
        (void)pthread_mutex_unlock(&w->lock);
        p->data = p->data ? p->data : malloc(PIECE);
        got = p->data ? recv(w->from, p->data, PIECE, 0) : -1;
        p->n = got > 0 ? (size_t)got : 0;
        p->due = half_ns + (w->back && rate ? turn(p->n) : now());
        (void)pthread_mutex_lock(&w->lock);
        w->n += got > 0;
        w->over = got <= 0;
        (void)pthread_cond_signal(&w->changed);
        (void)pthread_mutex_unlock(&w->lock);
    } while (got > 0);
    return NULL;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* What comes when nobody wants it any more is taken and dropped. */
static void *give(void *arg)
{
    struct way *w = arg;
    bool wanted = true;

    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->n && !w->over)
            (void)pthread_cond_wait(&w->changed, &w->lock);
        if (!w->n)
            break;
        struct piece *p = &w->piece[w->head];
        (void)pthread_mutex_unlock(&w->lock);
        wait_until(p->due);
        wanted = wanted && send_all(w->to, p->data, p->n);
        if (!wanted)
            (void)shutdown(w->from, SHUT_RD);
        (void)pthread_mutex_lock(&w->lock);
        w->head = (w->head + 1) % PIECES;
        w->n--;
        (void)pthread_cond_signal(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    (void)shutdown(w->to, SHUT_WR);
    return NULL;
}

static void way_free(struct way *w)
{
    for (size_t i = 0; i < PIECES; i++)
        free(w->piece[i].data);
    free(w);
}

static void *connection(void *arg)
{
    int near = (int)(intptr_t)arg, far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct way *w[2] = {calloc(1, sizeof **w), calloc(1, sizeof **w)};
    pthread_t t[4];

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    wait_until(now() + 2 * half_ns);
    if (far < 0 || !w[0] || !w[1] || connect(far, (struct sockaddr *)&at, sizeof at) != 0) {
        perror("delay");
        exit(1);
    }
    for (int i = 0; i < 2; i++) {
        w[i]->from = i ? far : near;
        w[i]->to = i ? near : far;
        w[i]->back = i;
        (void)pthread_mutex_init(&w[i]->lock, NULL);
        (void)pthread_cond_init(&w[i]->changed, NULL);
        if (pthread_create(&t[2 * i], NULL, take, w[i]) != 0 ||
            pthread_create(&t[2 * i + 1], NULL, give, w[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < 4; i++)
        (void)pthread_join(t[i], NULL);
    way_free(w[0]);
    way_free(w[1]);
    (void)close(near);
    (void)close(far);
    return NULL;
}

static void *end_with_stdin(void *arg)
{
    char c;

    (void)arg;
    while (read(0, &c, 1) > 0) {
    }
    exit(0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    pthread_t t;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc < 3 || argc > 4) {
        (void)fprintf(stderr, "usage: delay PORT MS [RATE]\n");
        return 2;
    }
    port = atoi(argv[1]);
    rate = argc > 3 ? atoll(argv[3]) : 0;
    half_ns = (long long)(atof(argv[2]) * 500000);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)signal(SIGPIPE, SIG_IGN);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 256) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        perror("delay");
        return 1;
    }
    (void)printf("%d\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    if (pthread_create(&t, NULL, end_with_stdin, NULL) != 0)
        return 1;
    for (;;) {
        int c = accept(fd, NULL, NULL);

        if (c >= 0 && pthread_create(&t, NULL, connection, (void *)(intptr_t)c) == 0)
            (void)pthread_detach(t);
    }
}
