/* SPDX-License-Identifier: Apache-2.0 */
/* unanswered COMMAND...: runs a FUSE daemon, stops it at the write of its second answer to the kernel
 * (the first answers INIT), so that whoever asked waits in the kernel with a request that was read and
 * not answered, and kills the process that serves.  Exit codes: 0 it is gone; 1 it is not after ten
 * seconds; 77 there is nothing to trace with here. */
#include <linux/ptrace.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The C libraries name the structures of <sys/ptrace.h> differently. */
static long trace(long request, pid_t tid, uintptr_t addr, void *data)
{
    return syscall(SYS_ptrace, request, (long)tid, addr, data);
}

#define ANSWERS 2
#define SECONDS 10

static void give_up(int sig)
{
    static const char text[] = "the killed process is still there\n";

    (void)sig;
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* Is `tid` about to write to a FUSE device? */
static bool is_answer(pid_t tid)
{
    struct ptrace_syscall_info info;
    char link[64], to[16] = "";

    if (trace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY)
        return false;
    uint64_t nr = info.entry.nr;
    if (nr != SYS_write && nr != SYS_writev && nr != SYS_splice)
        return false;
    (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", tid,
                   (int)info.entry.args[nr == SYS_splice ? 2 : 0]);
    return readlink(link, to, sizeof to - 1) > 0 && strcmp(to, "/dev/fuse") == 0;
}

static pid_t process_of(pid_t tid)
{
    char path[64], line[128];
    pid_t pid = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/status", tid);
    FILE *f = fopen(path, "re");
    while (f && pid == 0 && fgets(line, sizeof line, f))
        (void)sscanf(line, "Tgid: %d", &pid);
    if (f)
        (void)fclose(f);
    return pid;
}

/* Follows the command until the process `killed` is gone. */
static int follow(void)
{
    int status, answers = 0;
    pid_t killed = 0, tid;

    while ((tid = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (killed && tid == killed)
                return 0;
            continue;
        }
        int sig = WSTOPSIG(status);
        if (sig == (SIGTRAP | 0x80) && !killed && is_answer(tid) && ++answers == ANSWERS) {
            killed = process_of(tid);
            (void)kill(killed, SIGKILL);
            (void)alarm(SECONDS);
            continue;
        }
        bool ours = sig == (SIGTRAP | 0x80) || sig == SIGTRAP || sig == SIGSTOP;
        (void)trace(PTRACE_SYSCALL, tid, 0, (void *)(intptr_t)(ours ? 0 : sig));
    }
    (void)fprintf(stderr, "the command ended before its second answer\n");
    return 2;
}

int main(int argc, char **argv)
{
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    int status;
    pid_t child = argc > 1 ? fork() : -1;

    if (child == 0) {
        if (trace(PTRACE_TRACEME, 0, 0, NULL) != 0)
            _exit(77);
        (void)raise(SIGSTOP);
        (void)execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        trace(PTRACE_SETOPTIONS, child, 0, (void *)options) != 0)
        return 77;
    (void)signal(SIGALRM, give_up);
    (void)trace(PTRACE_SYSCALL, child, 0, NULL);
    return follow();
}
