/* Ends a process before a chosen one of the calls by which it changes files below a directory, whatever language made it.
 *
 *     DIE_BELOW=/tmp/warehouse DIE_AT=7 STEPS=/tmp/steps LD_PRELOAD=.../die_at_step.so program
 *
 * With DIE_AT=0 it lives on. The names of the calls go to the file STEPS, one a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_below(const char *path)
{
    const char *below = getenv("DIE_BELOW");
    return below && path && strncmp(path, below, strlen(below)) == 0;
}

static void step(const char *name, const char *path)
{
    static int count;
    const char *file = getenv("STEPS"), *base;
    int fd, number;
    char line[PATH_MAX + 64];

    if (!is_below(path))
        return;
    number = __sync_add_and_fetch(&count, 1);
    base = strrchr(path, '/');
    fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd >= 0) {
        int length = snprintf(line, sizeof line, "%s %s\n", name, base ? base + 1 : path);
        if (syscall(SYS_write, fd, line, (size_t)length) < 0)
            abort();
        syscall(SYS_close, fd);
    }
    if (number == atoi(getenv("DIE_AT") ? getenv("DIE_AT") : "0"))
        syscall(SYS_kill, getpid(), SIGKILL);
}

static void step_fd(const char *name, int fd)
{
    char link[64], path[PATH_MAX];
    ssize_t length;

    if (!getenv("DIE_BELOW"))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        step(name, path);
    }
}

static void step_at(const char *name, int directory, const char *relative)
{
    char link[64], path[PATH_MAX];
    ssize_t length;

    if (!getenv("DIE_BELOW"))
        return;
    if (relative[0] == '/' || directory == AT_FDCWD) {
        step(name, relative);
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        snprintf(path + length, sizeof path - length, "/%s", relative);
        step(name, path);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define PATH_CALL(type, name, params, path, args) \
    type name params { step(#name, path); return REAL(name) args; }
#define FD_CALL(type, name, params, fd, args) \
    type name params { step_fd(#name, fd); return REAL(name) args; }
#define AT_CALL(type, name, params, fd, path, args) \
    type name params { step_at(#name, fd, path); return REAL(name) args; }
#define OPEN_CALL(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list rest; \
        mode_t mode; \
        va_start(rest, flags); \
        mode = va_arg(rest, int); \
        va_end(rest); \
        if (flags & O_CREAT) \
            step(#name, path); \
        return REAL(name)(path, flags, mode); \
    }

OPEN_CALL(open)
OPEN_CALL(open64)
PATH_CALL(int, mkdir, (const char *path, mode_t mode), path, (path, mode))
PATH_CALL(int, link, (const char *from, const char *to), to, (from, to))
AT_CALL(int, linkat, (int a, const char *from, int b, const char *to, int flags), b, to, (a, from, b, to, flags))
PATH_CALL(int, rename, (const char *from, const char *to), to, (from, to))
AT_CALL(int, renameat, (int a, const char *from, int b, const char *to), b, to, (a, from, b, to))
AT_CALL(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), b, to, (a, from, b, to, flags))
PATH_CALL(int, unlink, (const char *path), path, (path))
PATH_CALL(int, rmdir, (const char *path), path, (path))
FD_CALL(ssize_t, write, (int fd, const void *data, size_t size), fd, (fd, data, size))
FD_CALL(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, (fd, parts, count))
FD_CALL(int, fsync, (int fd), fd, (fd))
FD_CALL(int, fdatasync, (int fd), fd, (fd))
