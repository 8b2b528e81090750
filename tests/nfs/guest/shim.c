/* Stops its process exactly before or after a call on one of a queue's files: preloaded, and armed by the scenario.
 *
 * The process sends itself SIGSTOP, so it stays where it is, between two of SQLite's calls, until it gets SIGCONT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char call[16], suffix[16];
static int after, left;

/* call: lock, write, sync or truncate; suffix: how the file's name ends; count: 1 is the next such call. */
void shim_arm(const char *wanted_call, const char *wanted_suffix, int is_after, int count)
{
    snprintf(call, sizeof call, "%s", wanted_call);
    snprintf(suffix, sizeof suffix, "%s", wanted_suffix);
    after = is_after;
    left = count;
}

int shim_is_armed(void)
{
    return left > 0;
}

static void pass(const char *this_call, int is_after, int descriptor)
{
    char link[64], path[4096];
    if (left == 0 || is_after != after || strcmp(this_call, call))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    ssize_t tail = (ssize_t)strlen(suffix);
    if (length < tail || strncmp(path + length - tail, suffix, (size_t)tail))
        return;
    if (--left == 0)
        raise(SIGSTOP);
}

#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (!real)                                                                                                         \
    real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define AROUND(kind, descriptor, type, expression)                                                                     \
    pass(kind, 0, descriptor);                                                                                         \
    type result = expression;                                                                                          \
    pass(kind, 1, descriptor);                                                                                         \
    return result

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    AROUND("write", fd, ssize_t, real(fd, data, size, offset));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    AROUND("write", fd, ssize_t, real(fd, data, size, offset));
}

int fsync(int fd)
{
    REAL(int, fsync, int);
    AROUND("sync", fd, int, real(fd));
}

int fdatasync(int fd)
{
    REAL(int, fdatasync, int);
    AROUND("sync", fd, int, real(fd));
}

int ftruncate(int fd, off_t size)
{
    REAL(int, ftruncate, int, off_t);
    AROUND("truncate", fd, int, real(fd, size));
}

int ftruncate64(int fd, off64_t size)
{
    REAL(int, ftruncate64, int, off64_t);
    AROUND("truncate", fd, int, real(fd, size));
}

/* An exclusive lock that was got; what can't be got is asked for again and again. */
static int locked(int fd, int command, void *argument, int result)
{
    if (command == F_SETLK && result == 0 && ((struct flock *)argument)->l_type == F_WRLCK)
        pass("lock", 1, fd);
    return result;
}

#define ARGUMENT(last)                                                                                                 \
    va_list list;                                                                                                      \
    va_start(list, last);                                                                                              \
    void *argument = va_arg(list, void *);                                                                             \
    va_end(list)

int fcntl(int fd, int command, ...)
{
    REAL(int, fcntl, int, int, ...);
    ARGUMENT(command);
    return locked(fd, command, argument, real(fd, command, argument));
}

int fcntl64(int fd, int command, ...)
{
    REAL(int, fcntl64, int, int, ...);
    ARGUMENT(command);
    return locked(fd, command, argument, real(fd, command, argument));
}
