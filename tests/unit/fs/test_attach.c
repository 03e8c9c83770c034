/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting by fusermount3: what it is started with, the descriptor that it sends, and what is said when it sends none.  The
 * kernel's part is ours here; fusermount3 is this program again, by another name. */
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/attach.h"
#include "support/next.h"

#define FIRST "-o\nro,nosuid,nodev,noexec,default_permissions"

static struct zf_err err;
static char bin[64]; /* where fusermount3 is found */

/* ---- the kernel ------------------------------------------------------------------------------- */

static struct {
    int device, mount; /* errno of either, 0 = it goes well */
    int pipe;          /* errno */
    bool no_new_privs;
    unsigned interrupts; /* so many receptions end by a signal first */
    unsigned mounts;     /* calls */
    char data[300], type[100];
} kernel;

int open(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (strcmp(path, "/dev/fuse") == 0) {
        errno = kernel.device;
        return kernel.device ? -1 : NEXT(open)("/dev/null", O_RDWR | O_CLOEXEC);
    }
    return NEXT(open)(path, flags, mode);
}

int mount(const char *from, const char *at, const char *type, unsigned long flags, const void *data)
{
    assert_string_equal(from, "a,\\b");
    assert_string_equal(at, "/mnt/at");
    assert_int_equal(flags, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
    (void)snprintf(kernel.type, sizeof kernel.type, "%s", type);
    (void)snprintf(kernel.data, sizeof kernel.data, "%s", (const char *)data);
    kernel.mounts++;
    errno = kernel.mount;
    return kernel.mount ? -1 : 0;
}

/* prctl(2): the other arguments must be zero. */
int prctl(int option, ...)
{
    va_list rest;
    bool any = false;

    assert_int_equal(option, PR_GET_NO_NEW_PRIVS);
    va_start(rest, option);
    for (int i = 0; i < 4; i++)
        any = va_arg(rest, int) != 0 || any;
    va_end(rest);
    errno = EINVAL;
    return any ? -1 : kernel.no_new_privs;
}

int pipe2(int fd[2], int flags)
{
    errno = kernel.pipe;
    return kernel.pipe ? -1 : NEXT(pipe2)(fd, flags);
}

ssize_t recvmsg(int sock, struct msghdr *m, int flags)
{
    if (kernel.interrupts) {
        kernel.interrupts--;
        errno = EINTR;
        return -1;
    }
    return NEXT(recvmsg)(sock, m, flags);
}

/* ---- fusermount3 ------------------------------------------------------------------------------ */

/* Sends a descriptor of a file with its own words in it; or, as HELPER says, another text, or writes one to stderr. */
static int helper_main(int argc, char **argv)
{
    const char *sock = getenv("_FUSE_COMMFD"), *how = getenv("HELPER");
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.space = {0}};
    char byte = 0;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    FILE *f = tmpfile();
    int fd = f ? fileno(f) : -1;

    if (how && strncmp(how, "says ", 5) == 0) {
        (void)fputs(how + 5, stderr);
        return 1;
    }
    for (int i = 1; f && i < argc; i++)
        (void)fprintf(f, "%s\n", argv[i]);
    if (!f || !sock || fflush(f) != 0)
        return 1;
    if (!how) {
        m.msg_control = control.space;
        m.msg_controllen = sizeof control.space;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(atoi(sock), &m, 0) == 1 ? 0 : 1; /* to a file it is said in vain */
}

/* ---- the tests -------------------------------------------------------------------------------- */

static const char *const others[] = {"allow_other"};
static struct zf_fs_opts opts(void)
{
    return (struct zf_fs_opts){.mountpoint = "/mnt/at", .fsname = "a,\\b", .subtype = "zerofs"};
}

static int setup(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    kernel.mount = EPERM;
    (void)setenv("PATH", bin, 1);
    (void)setenv("_FUSE_COMMFD", "0", 1); /* of somebody else */
    (void)unsetenv("HELPER");
    return 0;
}

static unsigned open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

/* What the helper that sent it was started with. */
static void expect_words(const struct zf_fs_opts *o, const char *want)
{
    const unsigned before = open_files();
    char text[400];
    int fd = -1;

    assert_ok(fs_attach(o, &fd, &err), &err);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, want);
    assert_int_equal(close(fd), 0);
    assert_int_equal(open_files(), before);
}

static void expect_failure(const char *part)
{
    const unsigned before = open_files();
    struct zf_fs_opts o = opts();
    int fd = -1;

    zf_err_clear(&err);
    assert_false(fs_attach(&o, &fd, &err));
    assert_int_equal(fd, -1);
    assert_string_equal(err.path, "/mnt/at");
    assert_err(&err, ZF_E_IO, ZF_OFF_NONE, part);
    assert_int_equal(open_files(), before);
}

static void who_may_mounts(void **state)
{
    struct zf_fs_opts o = opts();
    char want[100];
    int fd = -1;

    (void)state;
    kernel.mount = 0;
    o.fuse_opt = others, o.n_fuse_opt = 1;
    o.max_read = 4096;
    assert_ok(fs_attach(&o, &fd, &err), &err);
    (void)snprintf(
        want, sizeof want,
        "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,allow_other,max_read=4096",
        fd, (unsigned)getuid(), (unsigned)getgid());
    assert_string_equal(kernel.data, want);
    assert_string_equal(kernel.type, "fuse.zerofs");
    assert_int_equal(close(fd), 0);
}

static void a_helper_mounts(void **state)
{
    static const char *const root[] = {"debug", "allow_root"};
    struct zf_fs_opts o = opts();

    (void)state;
    expect_words(&o, FIRST ",fsname=a\\,\\\\b,subtype=zerofs\n--\n/mnt/at\n");
    assert_int_equal(kernel.mounts, 1);
    kernel.device = EACCES;
    kernel.interrupts = 2;
    o.max_read = 131072;
    o.fuse_opt = root, o.n_fuse_opt = 2;
    expect_words(&o, FIRST
                 ",allow_other,max_read=131072,fsname=a\\,\\\\b,subtype=zerofs\n--\n/mnt/at\n");
    assert_int_equal(kernel.mounts, 1);
    assert_int_equal(kernel.interrupts, 0);
}

static void a_helper_says_why_not(void **state)
{
    (void)state;
    (void)setenv("HELPER", "says fusermount3: user has no write access\nand more", 1);
    kernel.interrupts = 1;
    expect_failure("cannot mount: Operation not permitted; fusermount3: user has no write access; "
                   "ls, cat and export");
    (void)setenv("HELPER",
                 "says fusermount3: option allow_other only allowed if 'user_allow_other' is set",
                 1);
    expect_failure(" is set (let root add that line, or leave out allow_other); ls, cat");
    (void)setenv("HELPER", "sends no descriptor", 1);
    kernel.device = ENOENT;
    expect_failure("cannot open /dev/fuse: No such file or directory (no module fuse, or a "
                   "container without the "
                   "device); fusermount3; ls, cat");
    kernel.device = EPERM;
    expect_failure("cannot open /dev/fuse: Operation not permitted (its mode, or the container's "
                   "device rules)");
    kernel.device = EIO;
    expect_failure("cannot open /dev/fuse: Input/output error; fusermount3; ls");
    kernel.no_new_privs = true;
    expect_failure("; fusermount3 (no_new_privs is set, by a container or a service: setuid "
                   "programs get no rights); ls");
}

static void no_helper(void **state)
{
    (void)state;
    (void)setenv("PATH", "/nowhere", 1);
    expect_failure("; fusermount3 is not in PATH (package fuse3); ls");
    (void)setenv("PATH", bin, 1);
    kernel.pipe = EMFILE;
    expect_failure("cannot mount: Operation not permitted; fusermount3; ls");
}

/* What the kernel refuses to somebody who may, it refuses the helper too. */
static void the_kernel_refuses(void **state)
{
    (void)state;
    kernel.mount = ENODEV;
    expect_failure("No such device");
    assert_null(strstr(err.msg, "fusermount3"));
    kernel.mount = 0;
    struct zf_fs_opts o = opts();
    int fd = -1;
    char longest[200];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    o.subtype = longest;
    assert_false(fs_attach(&o, &fd, &err));
    assert_int_equal(kernel.mounts, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_may_mounts, setup),
        cmocka_unit_test_setup(a_helper_mounts, setup),
        cmocka_unit_test_setup(a_helper_says_why_not, setup),
        cmocka_unit_test_setup(no_helper, setup),
        cmocka_unit_test_setup(the_kernel_refuses, setup),
    };
    const char *name = strrchr(argv[0], '/');
    char self[4096], link[80];

    if (strcmp(name ? name + 1 : argv[0], "fusermount3") == 0)
        return helper_main(argc, argv);
    strcpy(bin, "/tmp/zf-attach-XXXXXX");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !mkdtemp(bin))
        return 1;
    self[n] = '\0';
    (void)snprintf(link, sizeof link, "%s/fusermount3", bin);
    int failed = symlink(self, link) != 0 || cmocka_run_group_tests(tests, NULL, NULL) != 0;
    return unlink(link) != 0 || rmdir(bin) != 0 || failed;
}
