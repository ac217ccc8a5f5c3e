/*
 * Preloaded into a process under test: lets I/O calls on files below one directory fail.
 *
 * FAULTS_BELOW names the directory. The process under test controls the rest through `readlink`, which needs no unsafe code:
 *
 *   /faults/arm/KIND/AT/LENGTH/DEATH/FILES   the calls AT .. AT + LENGTH - 1 from now on fail; if DEATH is not 0 the process is
 *                                            killed that many changing calls after the first failure; only calls on files with
 *                                            FILES in their path count
 *   /faults/disarm                           no call fails any more; the answer is the number of calls counted since the last arm
 *
 * KIND: `full` (ENOSPC, counts only calls that may need space), `short` (the same, and the first write is cut in half instead),
 * `io` (EIO, counts all calls), `kill` (SIGKILL before the call, counts calls that change something), `count` (no call fails).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, FULL, SHORT, IO, KILL, COUNT };
/* The effects of a call: each kind of fault counts calls by them. */
enum effect { READS = 1, CHANGES = 2, NEEDS_SPACE = 4 };
enum verdict { GO_ON, FAIL, HALF };

#define FILES 65536
static _Atomic int kind, fault_errno;
static _Atomic long first, length, calls, death, since;
/* The state of each open file: 0 if it is not below the directory. */
enum file { OURS = 1, DIRTY = 2, FOLDER = 4 };
static _Atomic char watched[FILES];
static char only[64];

static const char *below(void) {
    static const char *directory;
    if (!directory) {
        const char *set = getenv("FAULTS_BELOW");
        directory = set ? set : "/nowhere";
    }
    return directory;
}

static int is_below(const char *path) {
    size_t size = strlen(below());
    return path && strncmp(path, below(), size) == 0 && (path[size] == '/' || path[size] == 0) && strstr(path, only);
}

static int is_watched(int fd) { return fd >= 0 && fd < FILES && watched[fd]; }

static enum verdict judge(const char *call, int effect) {
    int now = kind;
    if (now != NONE && now != COUNT && death && calls >= first && (effect & CHANGES) && ++since > death) kill(getpid(), SIGKILL);
    switch (now) {
    case NONE: return GO_ON;
    case FULL: case SHORT: if (!(effect & NEEDS_SPACE)) return GO_ON; break;
    case KILL: if (!(effect & CHANGES)) return GO_ON; break;
    }
    long number = ++calls;
    if (now == COUNT || number < first || number - first >= length) return GO_ON;
    if (now == KILL) kill(getpid(), SIGKILL);
    if (getenv("FAULTS_TRACE")) dprintf(2, "call %ld fails: %s\n", number, call);
    if (now == SHORT && number == first) return HALF;
    errno = fault_errno;
    return FAIL;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int opened(int fd, int is_ours, int flags) {
    struct stat found;
    int folder = is_ours && fd >= 0 && fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
    if (fd >= 0 && fd < FILES) watched[fd] = !is_ours ? 0 : folder ? OURS | FOLDER : flags & O_CREAT ? OURS | DIRTY : OURS;
    return fd;
}

static void dirty(int fd) {
    if (is_watched(fd)) watched[fd] |= DIRTY;
}

/* On a full disk an fsync fails if there is something to write, and reports it once, as Linux does. */
static int sync_effect(int fd) {
    int found = watched[fd];
    watched[fd] = found & ~DIRTY;
    return CHANGES | (found & (DIRTY | FOLDER) ? NEEDS_SPACE : 0);
}

/* Only a file that grows needs room. */
static int truncate_effect(int fd, off_t size) {
    struct stat found;
    int grows = fstat(fd, &found) != 0 || found.st_size < size;
    return CHANGES | (grows ? NEEDS_SPACE : 0);
}

#define OPEN_EFFECT(flags) (((flags) & (O_CREAT | O_TRUNC)) ? CHANGES | NEEDS_SPACE : READS)
#define MODE(flags) va_list list; va_start(list, flags); \
    mode_t mode = ((flags) & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; va_end(list)

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE(flags);
    int ours = is_below(path);
    if (ours && judge("open", OPEN_EFFECT(flags)) != GO_ON) { errno = fault_errno; return -1; }
    return opened(real(path, flags, mode), ours, flags);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    MODE(flags);
    int ours = is_below(path);
    if (ours && judge("open64", OPEN_EFFECT(flags)) != GO_ON) { errno = fault_errno; return -1; }
    return opened(real(path, flags, mode), ours, flags);
}

int openat64(int at, const char *path, int flags, ...) {
    REAL(openat64);
    MODE(flags);
    int ours = is_below(path) || is_watched(at);
    if (ours && judge("openat64", OPEN_EFFECT(flags)) != GO_ON) { errno = fault_errno; return -1; }
    return opened(real(at, path, flags, mode), ours, flags);
}

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < FILES) watched[fd] = 0;
    return real(fd);
}

#define FAILS(condition, effect) \
    if (condition) { if (judge(__func__, effect) != GO_ON) { errno = fault_errno; return -1; } }

ssize_t write(int fd, const void *bytes, size_t size) {
    REAL(write);
    if (is_watched(fd)) switch (judge("write", CHANGES | NEEDS_SPACE)) {
    case FAIL: return -1;
    case HALF: size = size > 1 ? size / 2 : size;
    case GO_ON: break;
    }
    dirty(fd);
    return real(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    FAILS(is_watched(fd), CHANGES | NEEDS_SPACE)
    dirty(fd);
    return real(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    REAL(pwrite64);
    FAILS(is_watched(fd), CHANGES | NEEDS_SPACE)
    dirty(fd);
    return real(fd, bytes, size, at);
}

ssize_t read(int fd, void *bytes, size_t size) { REAL(read); FAILS(is_watched(fd), READS) return real(fd, bytes, size); }
ssize_t readv(int fd, const struct iovec *parts, int count) { REAL(readv); FAILS(is_watched(fd), READS) return real(fd, parts, count); }
ssize_t pread64(int fd, void *bytes, size_t size, off64_t at) { REAL(pread64); FAILS(is_watched(fd), READS) return real(fd, bytes, size, at); }
int fsync(int fd) { REAL(fsync); FAILS(is_watched(fd), sync_effect(fd)) return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); FAILS(is_watched(fd), sync_effect(fd)) return real(fd); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); FAILS(is_watched(fd), truncate_effect(fd, size)) return real(fd, size); }
int flock(int fd, int how) { REAL(flock); FAILS(is_watched(fd) && !(how & LOCK_UN), READS) return real(fd, how); }
int fchmod(int fd, mode_t mode) { REAL(fchmod); FAILS(is_watched(fd), CHANGES) return real(fd, mode); }
int chmod(const char *path, mode_t mode) { REAL(chmod); FAILS(is_below(path), CHANGES) return real(path, mode); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); FAILS(is_below(path), CHANGES | NEEDS_SPACE) return real(path, mode); }
int unlink(const char *path) { REAL(unlink); FAILS(is_below(path), CHANGES) return real(path); }
int unlinkat(int at, const char *path, int flags) { REAL(unlinkat); FAILS(is_below(path) || is_watched(at), CHANGES) return real(at, path, flags); }
int rename(const char *from, const char *to) { REAL(rename); FAILS(is_below(from), CHANGES | NEEDS_SPACE) return real(from, to); }
int linkat(int at, const char *from, int to_at, const char *to, int flags) { REAL(linkat); FAILS(is_below(from), CHANGES | NEEDS_SPACE) return real(at, from, to_at, to, flags); }

int statx(int at, const char *path, int flags, unsigned mask, struct statx *found) {
    REAL(statx);
    /* Rust's standard library probes for this call without a path. */
    const char *volatile given = path;
    const char *name = given;
    FAILS(is_below(name) || (name && *name == 0 && is_watched(at)), READS)
    return real(at, path, flags, mask, found);
}

DIR *opendir(const char *path) {
    REAL(opendir);
    if (is_below(path) && judge("opendir", READS) != GO_ON) { errno = fault_errno; return NULL; }
    return real(path);
}

static void arm(const char *command) {
    char name[16];
    long at, count, dies;
    char files[64] = "";
    if (sscanf(command, "%15[a-z]/%ld/%ld/%ld/%63s", name, &at, &count, &dies, files) < 4) abort();
    strcpy(only, files);
    const char *names[] = {"none", "full", "short", "io", "kill", "count"};
    int wanted = NONE;
    for (int number = 0; number < 6; number++) if (strcmp(name, names[number]) == 0) wanted = number;
    fault_errno = wanted == IO ? EIO : ENOSPC;
    first = at;
    length = count;
    calls = 0;
    death = dies;
    since = 0;
    kind = wanted;
}

ssize_t readlink(const char *path, char *answer, size_t size) {
    REAL(readlink);
    if (strncmp(path, "/faults/", 8) != 0) return real(path, answer, size);
    if (strncmp(path + 8, "arm/", 4) == 0) {
        arm(path + 12);
        return snprintf(answer, size, "armed");
    }
    kind = NONE;
    return snprintf(answer, size, "%ld", (long)calls);
}
