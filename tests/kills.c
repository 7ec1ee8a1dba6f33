/* Loaded before the C library: at the n-th call that writes the process is ended as SIGKILL does, or the call fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* How: killed before the call; in its midst, half of its data written (of a call without: behind it); else the
   error that this call and all behind it fail with, as on a full disk, where what needs no room still works. */
enum { BEFORE = 0, MIDST = -1 };

static long left = -1, how = BEFORE, *seen = 0;

/* At the n-th call from now on (-1: at none); `counter` gets how many calls there were. */
void fault_at(long n, long kind, long *counter) {
    left = n;
    how = kind;
    seen = counter;
}

/* Whether this call fails, or is the last one. */
static int due(int needs_room) {
    if (seen) ++*seen;
    if (left > 0) --left;
    if (left != 0) return 0;
    if (how == BEFORE) kill(getpid(), SIGKILL);
    return how == MIDST || needs_room;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL(needs_room, does) \
    int ends = due(needs_room); \
    if (ends && how > 0) { errno = how; return -1; } \
    int done = does; \
    if (ends) kill(getpid(), SIGKILL); \
    return done

static int is_file(int handle) {
    struct stat found;
    return handle > 2 && !fstat(handle, &found) && S_ISREG(found.st_mode);
}

ssize_t write(int to, const void *data, size_t n) {
    if (is_file(to) && due(1)) {
        if (how > 0) { errno = how; return -1; }
        NEXT(write)(to, data, n / 2);
        kill(getpid(), SIGKILL);
    }
    return NEXT(write)(to, data, n);
}

size_t fwrite(const void *data, size_t size, size_t n, FILE *to) { /* NumPy's way to a file */
    if (is_file(fileno(to)) && due(1)) {
        if (how > 0) { errno = how; return 0; }
        NEXT(fwrite)(data, size, n / 2, to);
        fflush(to);
        kill(getpid(), SIGKILL);
    }
    return NEXT(fwrite)(data, size, n, to);
}

static int makes(int flags) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; }
static mode_t mode_of(va_list rest, int flags) { return makes(flags) ? va_arg(rest, mode_t) : 0; }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(rest, flags); \
        va_end(rest); \
        if (!makes(flags)) return NEXT(name)(path, flags, mode); \
        CALL(1, NEXT(name)(path, flags, mode)); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(rest, flags); \
        va_end(rest); \
        if (!makes(flags)) return NEXT(name)(at, path, flags, mode); \
        CALL(1, NEXT(name)(at, path, flags, mode)); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

int mkdir(const char *path, mode_t mode) { CALL(1, NEXT(mkdir)(path, mode)); }
int fsync(int of) { CALL(1, NEXT(fsync)(of)); }
int fdatasync(int of) { CALL(1, NEXT(fdatasync)(of)); }
int ftruncate64(int of, off64_t size) { CALL(1, NEXT(ftruncate64)(of, size)); }
int chmod(const char *path, mode_t mode) { CALL(0, NEXT(chmod)(path, mode)); }
int fchmodat(int at, const char *path, mode_t mode, int flags) { CALL(0, NEXT(fchmodat)(at, path, mode, flags)); }
int rename(const char *from, const char *to) { CALL(0, NEXT(rename)(from, to)); }
int renameat(int a, const char *from, int b, const char *to) { CALL(0, NEXT(renameat)(a, from, b, to)); }
int unlink(const char *path) { CALL(0, NEXT(unlink)(path)); }
int unlinkat(int at, const char *path, int flags) { CALL(0, NEXT(unlinkat)(at, path, flags)); }
