/* A disk that forgets: LD_PRELOAD for a server, so that a test can cut its power.
 *
 * DISK is a folder with what the disk really holds of the store's files: what was written reaches it with a sync. FAULT is
 * a file; what it says happens while it is there:
 *   "sync log", "sync base"  the next sync of the log, or of the database, fails once, and what was written and not synced is
 *                            forgotten: as on Linux it is still read, and no later sync brings it to the disk
 *   "full"                   there is no room for anything new
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096
/* Something that was written and is not synced: a length of -1 cuts the file at `at`. */
struct pending { int log; off_t at; ssize_t length; char *bytes; struct pending *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* By descriptor: 0 is not ours, 1 the database, 2 the log. */
static char kinds[FILES];
static struct pending *first, **last = &first;

static int kind(int fd) { return fd >= 0 && fd < FILES ? kinds[fd] : 0; }

static const char *fault(char *text, size_t size) {
    const char *path = getenv("FAULT");
    FILE *file = path ? fopen(path, "r") : NULL;
    text[0] = 0;
    if (file) {
        if (!fgets(text, (int)size, file)) text[0] = 0;
        fclose(file);
    }
    return text;
}

static void opened(int fd, const char *path) {
    if (fd < 0 || fd >= FILES) return;
    size_t length = strlen(path);
    pthread_mutex_lock(&lock);
    kinds[fd] = length >= 7 && !strcmp(path + length - 7, "test.db") ? 1
        : length >= 11 && !strcmp(path + length - 11, "test.db-wal") ? 2 : 0;
    pthread_mutex_unlock(&lock);
}

static void add(int log, off_t at, ssize_t length, const void *bytes) {
    struct pending *one = malloc(sizeof *one);
    *one = (struct pending){ log, at, length, NULL, NULL };
    if (length > 0) one->bytes = memcpy(malloc((size_t)length), bytes, (size_t)length);
    pthread_mutex_lock(&lock);
    *last = one;
    last = &one->next;
    pthread_mutex_unlock(&lock);
}

static int on_disk(int log) {
    static int (*real)(const char *, int, ...);
    char path[4096];
    if (!real) real = dlsym(RTLD_NEXT, "open");
    snprintf(path, sizeof path, "%s/test.db%s", getenv("DISK"), log ? "-wal" : "");
    return real(path, O_RDWR | O_CREAT, 0644);
}

/* Brings what is pending to the disk, or forgets it. */
static void settle(int log, int keep) {
    static ssize_t (*write_at)(int, const void *, size_t, off_t);
    static int (*cut)(int, off_t);
    if (!write_at) write_at = dlsym(RTLD_NEXT, "pwrite");
    if (!cut) cut = dlsym(RTLD_NEXT, "ftruncate");
    int fd = keep ? on_disk(log) : -1;
    pthread_mutex_lock(&lock);
    struct pending **at = &first;
    while (*at) {
        struct pending *one = *at;
        if (one->log != log) { at = &one->next; continue; }
        if (fd >= 0 && one->length < 0) { if (cut(fd, one->at)) abort(); }
        else if (fd >= 0 && write_at(fd, one->bytes, (size_t)one->length, one->at) != one->length) abort();
        *at = one->next;
        free(one->bytes);
        free(one);
    }
    last = at;
    pthread_mutex_unlock(&lock);
    if (fd >= 0) close(fd);
}

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        static int (*real)(const char *, int, ...);                       \
        if (!real) real = dlsym(RTLD_NEXT, #name);                        \
        va_list more;                                                     \
        va_start(more, flags);                                            \
        mode_t mode = flags & O_CREAT ? (mode_t)va_arg(more, int) : 0;    \
        va_end(more);                                                     \
        int fd = real(path, flags, mode);                                 \
        opened(fd, path);                                                 \
        return fd;                                                        \
    }
OPEN(open)
OPEN(open64)

static int full(int fd) {
    char text[64];
    if (!kind(fd) || strcmp(fault(text, sizeof text), "full")) return 0;
    errno = ENOSPC;
    return 1;
}

#define PWRITE(name)                                                       \
    ssize_t name(int fd, const void *bytes, size_t length, off_t at) {     \
        static ssize_t (*real)(int, const void *, size_t, off_t);          \
        if (!real) real = dlsym(RTLD_NEXT, #name);                         \
        if (full(fd)) return -1;                                           \
        ssize_t written = real(fd, bytes, length, at);                     \
        if (kind(fd) && written > 0) add(kind(fd) == 2, at, written, bytes); \
        return written;                                                    \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *bytes, size_t length) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    off_t at = kind(fd) ? lseek(fd, 0, SEEK_CUR) : 0;
    if (full(fd)) return -1;
    ssize_t written = real(fd, bytes, length);
    if (kind(fd) && written > 0) add(kind(fd) == 2, at, written, bytes);
    return written;
}

#define CUT(name)                                                  \
    int name(int fd, off_t length) {                               \
        static int (*real)(int, off_t);                            \
        if (!real) real = dlsym(RTLD_NEXT, #name);                 \
        int cut = real(fd, length);                                \
        if (kind(fd) && !cut) add(kind(fd) == 2, length, -1, NULL); \
        return cut;                                                \
    }
CUT(ftruncate)
CUT(ftruncate64)

/* A disk that is mended at this very moment does not fail: whoever mended it counts on that. */
#define SYNC(name)                                                                        \
    int name(int fd) {                                                                    \
        static int (*real)(int);                                                          \
        char text[64];                                                                    \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                        \
        if (!kind(fd)) return real(fd);                                                   \
        int log = kind(fd) == 2;                                                          \
        if (!strcmp(fault(text, sizeof text), log ? "sync log" : "sync base")             \
            && !unlink(getenv("FAULT"))) {                                                \
            settle(log, 0);                                                               \
            errno = EIO;                                                                  \
            return -1;                                                                    \
        }                                                                                 \
        settle(log, 1);                                                                   \
        return 0;                                                                         \
    }
SYNC(fsync)
SYNC(fdatasync)

int close(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "close");
    if (fd >= 0 && fd < FILES) {
        pthread_mutex_lock(&lock);
        kinds[fd] = 0;
        pthread_mutex_unlock(&lock);
    }
    return real(fd);
}
